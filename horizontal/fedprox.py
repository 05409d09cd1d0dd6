"""FedProx: Li et al., "Federated optimization in heterogeneous networks", arXiv 1812.06127.

A client minimises `h_k(w; w_t) = F_k(w) + mu/2 ||w - w_t||^2` (equation 2 and algorithm 2): the proximal term keeps it
near the global model w_t that it received, however much work it does. So the work of a straggler that finishes fewer
epochs is kept (`latency.finished_epochs`), where FedAvg would drop it.
"""

from __future__ import annotations

import torch

from horizontal.average import Arrays
from horizontal.local import Named, Penalty


def proximal(received: Arrays, mu: float) -> Penalty | None:
    """`mu/2 ||w - w_t||^2` over all trainable parameters; None for mu = 0, which is FedAvg bit for bit.

    The received weights are copied: what trains may be a view of them. Many clients' stacked weights (k, ...) give the
    sum of their penalties.
    """
    if mu == 0:
        return None
    origin = {name: torch.tensor(value) for name, value in received.items()}

    def penalty(parameters: Named) -> torch.Tensor:
        distances = [(value - origin[name]).square().sum() for name, value in parameters.items()]
        return mu / 2 * torch.stack(distances).sum()

    return penalty
