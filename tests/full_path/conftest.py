"""The one lab of this folder, and what several of its modules look at."""

import os
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta

import pytest
import torch

from parties import catalog
from parties.roles.simulating import read_data, simulate_run
from protocols.program import Outcome, Progress
from protocols.records import utc_text
from protocols.request import ComputationRequest
from tests.full_path.lab import LONG, ROLES, SEARCHED, SEED, SHORT, Lab, running_lab, specs

LIFE = timedelta(seconds=60)


@pytest.fixture(scope="package")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A running lab; what its supervisors would put into the system's temporary folder goes to its own."""
    folder = tmp_path_factory.mktemp("full-path")
    (folder / "temporary").mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(os.environ, "TMPDIR", str(folder / "temporary"))
        with running_lab(folder) as running:
            yield running


@pytest.fixture(scope="package")
def finished(lab: Lab) -> ComputationRequest:
    """A request for one run that was run to its end, baselines and all."""
    request = lab.approved({**SHORT, "baselines": True, "baseline_steps": 4})
    lab.start(request)
    lab.done(request)
    return request


@pytest.fixture(scope="package")
def expiring(lab: Lab) -> ComputationRequest:
    """An approved request that soon expires; ask for it before whatever takes long."""
    expires = utc_text((datetime.now(UTC) + LIFE).replace(microsecond=0))
    return lab.approved(expires=expires)


@pytest.fixture(scope="package")
def finished_twin(lab: Lab, finished: ComputationRequest) -> Mapping[str, Outcome]:
    """What the same programs give in this process, by role."""
    return twin(lab, finished)


@pytest.fixture(scope="package")
def long_twin(lab: Lab) -> Mapping[str, Outcome]:
    """The outcomes of LONG without any interruption, by role: a request's nonce changes no number."""
    return twin(lab, lab.draft(LONG))


@pytest.fixture(scope="package")
def searched_twin(lab: Lab) -> Mapping[str, Outcome]:
    """The outcomes of SEARCHED without any interruption, by role."""
    return twin(lab, lab.draft(SEARCHED))


def twin(lab: Lab, request: ComputationRequest) -> Mapping[str, Outcome]:
    """The outcomes by role of the request's programs in this process, with one thread as in a worker."""
    torch.set_num_threads(1)
    data = {ROLES[name]: read_data(lab.files[name], spec) for name, spec in specs().items()}
    computation = catalog.CATALOG[request.computation]
    return simulate_run(computation, request, data, _silent, private_seed=SEED)


def _silent(progress: Progress) -> None:
    """Nobody looks."""
