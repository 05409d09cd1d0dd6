"""The same FedAvg task in Flower's simulation engine. `benchmarks.horizontal.flower` runs it by Flower's own Python:

    PYTHONPATH=benchmarks/horizontal FLOWER_TASK=FOLDER python -c "import flower_run; flower_run.run()"

so that Flower's workers can import it too. FOLDER holds task.npz (x_0, y_0, ... of the clients, first weights w_0, ...
of 784-128-10) and task.json (clients, per_round, rounds, epochs, batch, learning_rate); it gets result.json (times at
the end of each round, in seconds) and result.npz (final weights). Nothing of this project is imported: Flower's
dependencies don't fit beside ours.
"""

from __future__ import annotations

import json
import os
import time
from functools import cache
from pathlib import Path

os.environ["FLWR_TELEMETRY_ENABLED"] = "0"

import numpy as np
import torch
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation
from torch import nn

FOLDER = Path(os.environ["FLOWER_TASK"])
SETTINGS = json.loads((FOLDER / "task.json").read_text())


def network() -> nn.Module:
    """784-128-10."""
    return nn.Sequential(nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10))


@cache
def rows(number: int) -> tuple[torch.Tensor, torch.Tensor]:
    """A client's rows, read once per process."""
    with np.load(FOLDER / "task.npz") as stored:
        return torch.from_numpy(stored[f"x_{number}"]), torch.from_numpy(stored[f"y_{number}"])


client = ClientApp()


@client.train()
def train(message: Message, context: Context) -> Message:
    """Plain local SGD over shuffled batches."""
    torch.set_num_threads(1)
    x, y = rows(int(context.node_config["partition-id"]))
    model = network()
    model.load_state_dict(message.content["arrays"].to_torch_state_dict())
    sgd = torch.optim.SGD(model.parameters(), lr=SETTINGS["learning_rate"])
    for _ in range(SETTINGS["epochs"]):
        for part in torch.randperm(len(x)).split(SETTINGS["batch"]):
            sgd.zero_grad()
            nn.functional.cross_entropy(model(x[part]), y[part]).backward()
            sgd.step()
    metrics = MetricRecord({"num-examples": len(x)})
    content = RecordDict({"arrays": ArrayRecord(model.state_dict()), "metrics": metrics})
    return Message(content=content, reply_to=message)


server = ServerApp()


@server.main()
def main(grid: Grid, context: Context) -> None:
    """FedAvg over a fraction of the clients; the time is noted after each round."""
    times: list[float] = []

    def note(number: int, arrays: ArrayRecord) -> None:
        times.append(time.perf_counter())

    model = network()
    with np.load(FOLDER / "task.npz") as stored:
        state = {name: torch.from_numpy(stored[f"w_{i}"]) for i, name in enumerate(model.state_dict())}
    strategy = FedAvg(
        fraction_train=SETTINGS["per_round"] / SETTINGS["clients"],
        fraction_evaluate=0.0,
        min_train_nodes=SETTINGS["per_round"],
        min_available_nodes=SETTINGS["clients"],
    )
    result = strategy.start(grid, ArrayRecord(state), num_rounds=SETTINGS["rounds"], evaluate_fn=note)
    final = {name: value.numpy() for name, value in result.arrays.to_torch_state_dict().items()}
    np.savez(FOLDER / "result.npz", **{f"w_{i}": value for i, value in enumerate(final.values())})
    (FOLDER / "result.json").write_text(json.dumps({"times": times}))


def run() -> None:
    """The whole run, one processor per client at work."""
    run_simulation(
        server_app=server,
        client_app=client,
        num_supernodes=SETTINGS["clients"],
        backend_config={"client_resources": {"num_cpus": 1, "num_gpus": 0.0}},
    )
