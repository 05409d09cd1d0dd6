"""The computations that a request can name. The only room of `parties` that knows the algorithms.

To add one: its programs and messages in `vertical` or `horizontal`, and one entry here. Nothing that arrives from
elsewhere is imported by name: a request's `computation` is looked up here or refused.
"""

import hashlib
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from parties.catalog import alignment, description, fedcvt, fedcvt_uses, horizontal_predict, horizontal_train
from parties.computation import Computation
from protocols.errors import CodeDigestError, RequestError
from protocols.request import ComputationRequest, digest

ROOT = Path(__file__).resolve().parents[2]
# All that a worker can import of ours, and so what decides what leaves: an edit of it voids approvals; one of the CLI
# doesn't.
DIGESTED_FOLDERS = (
    "protocols",
    "vertical",
    "horizontal",
    "parties/blocks",
    "parties/catalog",
    "parties/links",
    "parties/running",
)
DIGESTED_FILES = (
    "parties/__init__.py",
    "parties/computation.py",
    "parties/control/__init__.py",
    "parties/control/socket.py",
    "parties/home/__init__.py",
    "parties/home/cards.py",
    "parties/home/disk.py",
    "parties/home/private_files.py",
)


def find(name: str, version: str) -> Computation:
    """The computation of that name and version; RequestError that lists what there is."""
    computation = CATALOG.get(name)
    if computation is None:
        raise RequestError(
            f"computation {name[:80]!r} is not in the catalog", remedy=f"one of: {', '.join(sorted(CATALOG))}"
        )
    if computation.version != version:
        raise RequestError(
            f"computation {name}: asked for is version {version[:20]!r}, installed is {computation.version}",
            remedy="install the release that the request names, or ask with a new request",
        )
    return computation


@cache
def code_digest() -> str:
    """SHA-256 (hex) over the names and bytes of all files that decide what a run computes and what leaves.

    Read once per process: a worker computes it before it opens data.
    """
    files = [path for folder in DIGESTED_FOLDERS for path in (ROOT / folder).rglob("*.py")]
    files += [ROOT / name for name in DIGESTED_FILES]
    total = hashlib.sha256()
    for path in sorted(files):
        content = path.read_bytes()
        total.update(f"{path.relative_to(ROOT).as_posix()}\n{len(content)}\n".encode())
        total.update(content)
    return total.hexdigest()


def check_code(request: ComputationRequest) -> None:
    """CodeDigestError unless the installed code is the one that the request (and so every approval) names."""
    if request.code_digest != code_digest():
        raise CodeDigestError(
            f"the request was made for code {request.code_digest[:12]}, installed is {code_digest()[:12]}",
            remedy="install the same release of fedaccord at every party, or ask with a new request",
        )


def model_wanted(request: ComputationRequest) -> str:
    """Digest of the training request whose model the request uses; "" when its computation uses none."""
    computation = CATALOG.get(request.computation)
    if computation is None or computation.model_used is None:
        return ""
    return str(dict(request.parameters).get(MODEL, ""))


def used_alone(request: ComputationRequest) -> bool:
    """Whether one party of the training is enough for the request's use of the model."""
    computation = CATALOG.get(request.computation)
    return computation is not None and computation.model_used is not None and computation.model_used.alone


def check_trained(computation: str, trained: ComputationRequest) -> None:
    """RequestError unless runs of the request `trained` leave a model of the kind that the computation uses."""
    found = CATALOG.get(computation)
    if (
        found is not None
        and found.model_used is not None
        and trained.computation != found.model_used.trained_by
    ):
        raise RequestError(
            f"request {digest(trained)[:12]} is for {trained.computation}, "
            f"{computation} needs a model of {found.model_used.trained_by}",
            remedy="name the digest of a training: `fedaccord model list` shows a party's models",
        )


def check_seats(request: ComputationRequest, organisations: Mapping[str, str]) -> None:
    """RequestError when an organisation would learn in its role what it mustn't; `organisations` are by party name.

    A request for a computation that isn't here is refused at its start, by its code.
    """
    computation = CATALOG.get(request.computation)
    if computation is not None:
        by_role = {entry.role: organisations.get(entry.name, "") for entry in request.parties}
        computation.check_seats(request.parameters, by_role, request.analyst.organisation)


def one_thread() -> None:
    """Limits torch, if a program has loaded it, to one thread: then all ways of running it give the same bits."""
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)


MODEL = "model"
"""The parameter that names a trained model."""
DEFAULT = fedcvt.TRAIN.name
"""What `simulate` runs unless told otherwise."""
ALIGN_SIZE, ALIGN_PAIRS = alignment.SIZE.name, alignment.PAIRS.name
CATALOG: Mapping[str, Computation] = {
    computation.name: computation
    for computation in (
        fedcvt.TRAIN,
        fedcvt_uses.FILL,
        fedcvt_uses.VOTE,
        fedcvt_uses.PREDICT,
        alignment.SIZE,
        alignment.PAIRS,
        horizontal_train.TRAIN,
        horizontal_predict.PREDICT,
        description.DESCRIBE,
    )
}
