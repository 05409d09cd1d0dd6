"""The computations that a request can name. The only module of `parties` that knows the algorithms.

To add one: its programs and messages in `vertical` or `horizontal`, and one entry in `CATALOG`. Nothing that
arrives from elsewhere is imported by name: a request's `computation` is looked up here or refused.
"""

import hashlib
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from parties.computation import Computation, Inputs, MockPeople, Parameters
from protocols.errors import CodeDigestError, ConfigError, RequestError
from protocols.program import Outcome, Program
from protocols.psi import PSI_KINDS, PSI_SIZE_KINDS, UNBOUNDED, psi_manifest, size_manifest
from protocols.request import ComputationRequest, Release
from protocols.wire import Message
from vertical import align

ROOT = Path(__file__).resolve().parent.parent
# All that a worker can import of ours, and so what decides what leaves: an edit of it voids approvals; one of the CLI
# doesn't.
DIGESTED_FOLDERS = (
    "protocols",
    "vertical",
    "horizontal",
    "parties/blocks",
    "parties/links",
    "parties/running",
)
DIGESTED_FILES = (
    "parties/__init__.py",
    "parties/catalog.py",
    "parties/computation.py",
    "parties/control/__init__.py",
    "parties/control/socket.py",
    "parties/home/__init__.py",
    "parties/home/cards.py",
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


def one_thread() -> None:
    """Limits torch, if a program has loaded it, to one thread: then all ways of running it give the same bits."""
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)


def _fedcvt_parameters(given: Mapping[str, object], minimum_overlap: int) -> Parameters:
    from vertical.config import FedCVTConfig

    known = [name for name, _ in FedCVTConfig().to_parameters() if name != "minimum_overlap"]
    unknown = sorted(given.keys() - set(known))
    if unknown:
        raise ConfigError(
            f"unknown parameters: {', '.join(unknown)}", remedy=f"there are: {', '.join(known)}"
        )
    values = {**given, "minimum_overlap": minimum_overlap}
    return FedCVTConfig(**values).to_parameters()  # type: ignore[arg-type]  # the config checks every value


def _fedcvt_manifest(parameters: Parameters, rows: Mapping[str, int]) -> tuple[Release, ...]:
    from vertical.config import FedCVTConfig
    from vertical.manifest import manifest

    return manifest(FedCVTConfig.from_parameters(parameters), rows["active"], rows["passive"])


def _fedcvt_mock_people(parameters: Parameters, rows: Mapping[str, int]) -> MockPeople:
    from vertical.config import FedCVTConfig

    config = FedCVTConfig.from_parameters(parameters)
    common = min(config.max_common, *rows.values())
    train = min(config.max_aligned_train, common)
    return MockPeople(common=common, train=train, test=min(config.max_aligned_test, common - train))


def _fedcvt_program(inputs: Inputs) -> Program[Outcome]:
    from vertical.active import active_program
    from vertical.config import FedCVTConfig
    from vertical.passive import passive_program

    settings = inputs.settings
    config = FedCVTConfig.from_parameters(settings.parameters)
    if config.minimum_overlap != settings.minimum_overlap:
        raise RequestError(
            f"the request says minimum_overlap {settings.minimum_overlap}, its parameters {config.minimum_overlap}"
        )
    program = {"active": active_program, "passive": passive_program}[inputs.role]
    return program(
        inputs.data,
        config,
        settings.public_seed,
        inputs.seed,
        inputs.observe,
        resume=inputs.resume,
        rows=(settings.rows.get("active", UNBOUNDED), settings.rows.get("passive", UNBOUNDED)),
        crew=inputs.crew,
    )


def _fedcvt_kinds() -> tuple[type[Message], ...]:
    from vertical.messages import KINDS

    return KINDS


def _size_people(parameters: Parameters, rows: Mapping[str, int]) -> MockPeople:
    return MockPeople(common=min(rows.values()) // 2)  # were all common, the rules would hide the size


def _pairs_people(parameters: Parameters, rows: Mapping[str, int]) -> MockPeople:
    return MockPeople(common=align.align_terms(parameters, rows).most_common)


def _size_program(inputs: Inputs) -> Program[Outcome]:
    settings = inputs.settings
    return align.size_program(
        inputs.role,
        inputs.data.keys,
        inputs.seed,
        align.align_terms(settings.parameters, settings.rows),
        group=settings.minimum_group,
        crew=inputs.crew,
        observe=inputs.observe,
    )


def _pairs_program(inputs: Inputs) -> Program[Outcome]:
    settings = inputs.settings
    return align.pairs_program(
        inputs.role,
        inputs.data.keys,
        inputs.seed,
        align.align_terms(settings.parameters, settings.rows),
        group=settings.minimum_group,
        least=settings.minimum_overlap,
        crew=inputs.crew,
        observe=inputs.observe,
    )


DEFAULT = "vertical.fedcvt.train"
"""What `simulate` runs unless told otherwise."""
ALIGN_SIZE, ALIGN_PAIRS = "align.size", "align.pairs"
CATALOG: Mapping[str, Computation] = {
    computation.name: computation
    for computation in (
        Computation(
            name=DEFAULT,
            version="1",
            summary="Aligns people, trains FedCVT on aligned and unaligned ones, evaluates it on test people",
            roles=("active", "passive"),
            analyst_receives=(
                "AUC, accuracy and related scores on test people, per method and situation, to three digits",
                "numbers of people per group and of pseudo labels, small ones suppressed",
                "the mean training loss per interval",
            ),
            parameters=_fedcvt_parameters,
            manifest=_fedcvt_manifest,
            mock_people=_fedcvt_mock_people,
            program=_fedcvt_program,
            kinds=_fedcvt_kinds,
            label_role="active",
            row_bounds=("max_common", "max_aligned_train", "max_aligned_test", "max_passive_only"),
        ),
        Computation(
            name=ALIGN_SIZE,
            version="1",
            summary="Counts the people that two parties have in common; neither learns who they are",
            roles=("active", "passive"),
            analyst_receives=(
                "how many people are common, rounded down to a multiple of the smallest group, or that it is hidden: "
                "too few are common, or too few of one party's people are not",
            ),
            parameters=lambda given, least: align.complete(align.SIZE_SETTINGS, given),
            manifest=lambda given, rows: size_manifest(
                align.ACTIVE, align.PASSIVE, align.align_terms(given, rows)
            ),
            mock_people=_size_people,
            program=_size_program,
            kinds=lambda: PSI_SIZE_KINDS,
            reads_columns=False,
        ),
        Computation(
            name=ALIGN_PAIRS,
            version="1",
            summary="Finds the people that two parties have in common; both learn which of their own they are",
            roles=("active", "passive"),
            analyst_receives=(
                "how many people are common, rounded down to a multiple of the smallest group, or that it is hidden: "
                "too few of one party's people are not",
            ),
            parameters=lambda given, least: align.complete(align.PAIRS_SETTINGS, given),
            manifest=lambda given, rows: psi_manifest(
                align.ACTIVE, align.PASSIVE, align.align_terms(given, rows)
            ),
            mock_people=_pairs_people,
            program=_pairs_program,
            kinds=lambda: PSI_KINDS,
            reads_columns=False,
            row_bounds=("max_common",),
        ),
    )
}
