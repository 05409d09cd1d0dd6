"""FedOUI: Fernandez-Hernandez et al., 2026, arXiv 2605.11571. Aggregation by how typical a client's activations are.

A client, after its local training, runs a probe of B rows through its model in evaluation mode and looks at the
penultimate layer before its activation function, (B, d). Unit j is on in s_j of the rows; u_j = min(s_j, B - s_j), and

    o_k = mean_j u_j / floor(B/2)    in [0, 1]: 1 if every unit splits the probe in half, 0 if all are always on or off

is its overfitting-underfitting indicator. The server fits a Beta distribution F to the values of the round, and

    s_k = 2 min(F(o_k), 1 - F(o_k)),    w_k proportional to n_k (s_k + 1e-3)

so that a client far in either tail weighs less. The paper's own gains are within the noise of three seeds or negative:
measure before using it. The probe is by default rows of the client's own, the same ones in each round.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import optimize, special
from torch import Tensor, nn

from horizontal.average import Contribution, UpdateError
from protocols.errors import ConfigError

OUI = "oui"
"""The name of the indicator among a client's extras: float64 without dimensions."""
_FLOOR = 1e-3
_MAPS = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)
_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.LayerNorm, nn.GroupNorm)


def indicator(preactivations: Tensor) -> float:
    """o_k of one layer's values (B, d) before the activation function; 0 for fewer than 2 rows."""
    rows = len(preactivations)
    if rows < 2:
        return 0.0
    on = (preactivations > 0).sum(dim=0)
    balance = torch.minimum(on, rows - on).double().mean() / (rows // 2)
    return float(balance.clamp(0.0, 1.0))


def check_model(model: nn.Module) -> None:
    """ConfigError for a model without a hidden layer."""
    if sum(isinstance(module, _MAPS) for module in model.modules()) < 2:
        raise ConfigError("FedOUI looks at a layer before the last one: the model has only one layer")


@torch.no_grad()
def model_indicator(model: nn.Module, probe: Tensor, *, all_layers: bool = False) -> float:
    """o_k of the penultimate layer, or the mean over all hidden layers, with a probe (B, ...).

    Layers are those linear maps and convolutions that run, each with the normalisation that takes its output, if
    there is one; the last is the output. For a model that `check_model` accepts.
    """
    found: list[Tensor] = []

    def notice(module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        if isinstance(module, _MAPS):
            found.append(output)
        elif found and inputs[0] is found[-1]:
            found[-1] = output

    hooks = [m.register_forward_hook(notice) for m in model.modules() if isinstance(m, _MAPS + _NORMS)]
    try:
        model.eval()
        model(probe)
    finally:
        for hook in hooks:
            hook.remove()
    hidden = found[:-1] if all_layers else found[-2:-1]
    return float(np.mean([indicator(layer.flatten(1)) for layer in hidden]))


def beta_fit(values: NDArray[np.float64]) -> tuple[float, float] | None:
    """(a, b) of a Beta distribution for values (n,) in [0, 1]: by moments, else by maximum likelihood, else None."""
    x = np.clip(values, 1e-3, 1 - 1e-3)
    if len(x) >= 2:
        mean, variance = x.mean(), x.var(ddof=1)
        c = mean * (1 - mean) / variance - 1 if variance > 0 else 0.0
        if c > 0:
            return float(mean * c), float((1 - mean) * c)
    return _most_likely(x) if len(np.unique(x)) > 1 else None  # equal values: the likelihood has no maximum


def _most_likely(x: NDArray[np.float64]) -> tuple[float, float] | None:
    """The maximum of the likelihood on the fixed support [0, 1]; None if it isn't found."""
    logs, others = np.log(x).mean(), np.log1p(-x).mean()

    def loss(exponents: NDArray[np.float64]) -> float:
        a, b = np.exp(exponents)
        return float(special.betaln(a, b) - (a - 1) * logs - (b - 1) * others)

    found = optimize.minimize(loss, np.zeros(2), method="L-BFGS-B", bounds=[(-15.0, 15.0)] * 2)
    a, b = np.exp(found.x)
    return (float(a), float(b)) if found.success else None


def typicality(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """s_k in [0, 1] of indicators (n,); where no Beta fits, F is the rank r/(n + 1), equal values sharing theirs."""
    fit = beta_fit(values)
    if fit is None:
        ordered = np.sort(values)
        ranks = (np.searchsorted(ordered, values) + np.searchsorted(ordered, values, side="right") + 1) / 2
        below = ranks / (len(values) + 1)
    else:
        below = special.betainc(*fit, np.clip(values, 1e-4, 1 - 1e-4))
    return np.asarray(2 * np.minimum(below, 1 - below))


def weights(scores: NDArray[np.float64], examples: Sequence[int]) -> NDArray[np.float64]:
    """w_k proportional to n_k (s_k + 1e-3), of sum 1; all 0 if nobody has rows."""
    raw = np.array(examples, np.float64) * (scores + _FLOOR)
    return raw / raw.sum() if raw.sum() > 0 else raw


def check_indicator(contribution: Contribution) -> None:
    """UpdateError naming a client whose indicator isn't in [0, 1]."""
    value = float(contribution.extras[OUI])
    if not 0 <= value <= 1:
        raise UpdateError(f"{contribution.client}: expected an indicator in [0, 1], came {value!r}")


def smoothed(before: NDArray[np.float64], now: NDArray[np.float64], share: float) -> NDArray[np.float64]:
    """The moving average `share * before + (1 - share) * now`; NaN before stands for a client's first value."""
    return np.where(np.isnan(before), now, share * before + (1 - share) * now)
