"""The training of FedCVT as an entry of the catalog."""

from collections.abc import Mapping

from parties.computation import Arrays, Computation, Given, Inputs, MockPeople, ModelLeft, Parameters, Rows
from protocols.errors import ConfigError, RequestError
from protocols.program import Json, Outcome, Program
from protocols.psi import UNBOUNDED
from protocols.request import Release
from protocols.wire import Message


def _setting_names() -> tuple[str, ...]:
    from vertical.config import FedCVTConfig

    return tuple(name for name, _ in FedCVTConfig().to_parameters())


def _parameters(given: Mapping[str, object], minimum_overlap: int) -> Parameters:
    from vertical.config import FedCVTConfig

    known = [name for name in _setting_names() if name != "minimum_overlap"]
    unknown = sorted(given.keys() - set(known))
    if unknown:
        raise ConfigError(
            f"unknown parameters: {', '.join(unknown)}", remedy=f"there are: {', '.join(known)}"
        )
    values = {**given, "minimum_overlap": minimum_overlap}
    config = FedCVTConfig(**values)  # type: ignore[arg-type]  # the config checks every value
    config.check_effect()
    return config.to_parameters()


def _manifest(parameters: Parameters, rows: Rows) -> tuple[Release, ...]:
    from vertical.config import FedCVTConfig
    from vertical.manifest import manifest

    return manifest(FedCVTConfig.from_parameters(parameters), rows["active"], rows["passive"])


def _bounds(given: Given, rows: Rows, least: int) -> Mapping[str, int]:
    """The bounds that a plan leaves out, such that every one can be reached with blocks of these rows.

    All people of the smaller block may be common; as many train as usual, but at most half of them; the others may be
    tested, and the passive party's may be alone.
    """
    from vertical.config import FedCVTConfig

    usual = FedCVTConfig()
    common = min(whole(given, "max_common", usual.max_common), *rows.values())
    train = whole(given, "max_aligned_train", max(min(usual.max_aligned_train, common // 2), least))
    alone = rows["passive"] - train
    return {
        "max_common": common,
        "max_aligned_train": train,
        "max_aligned_test": max(0, min(usual.max_aligned_test, common - train)),
        "max_passive_only": max(0, min(usual.max_passive_only, alone)),
    }


def whole(given: Given, name: str, otherwise: int) -> int:
    """The setting if it is given as a whole number; what else was given is refused when the settings are checked."""
    value = given.get(name, otherwise)
    return value if type(value) is int else otherwise


def _mock_people(parameters: Parameters, rows: Rows, least: int) -> tuple[MockPeople, ...]:
    """As many common people as may be; and, where too few others are left then, no more than are trained on."""
    from vertical.config import FedCVTConfig

    config = FedCVTConfig.from_parameters(parameters)
    common = min(config.max_common, *rows.values())
    train = min(config.max_aligned_train, common)
    people = MockPeople(common=common, train=train, test=min(config.max_aligned_test, common - train))
    if common == train or rows["passive"] - common >= config.max_passive_only:
        return (people,)
    return people, MockPeople(common=train, train=train)


def _program(inputs: Inputs) -> Program[Outcome]:
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


def _kinds() -> tuple[type[Message], ...]:
    from vertical.messages import KINDS

    return KINDS


def _describe(role: str, arrays: Arrays) -> Mapping[str, Json]:
    from vertical.model_facts import describe

    return describe(role, arrays)


def _preprocessing(role: str, arrays: Arrays) -> Mapping[str, Json]:
    from vertical.model_facts import preprocessing

    return preprocessing(role, arrays)


def _tensors(role: str, arrays: Arrays) -> tuple[str, ...]:
    from vertical.model_facts import tensor_names

    return tensor_names(role, arrays)


def _without_memory(arrays: Arrays) -> Arrays:
    from vertical.model_arrays import without_memory

    return without_memory(arrays)


TRAIN = Computation(
    name="vertical.fedcvt.train",
    version="1",
    summary="Aligns people, trains FedCVT on aligned and unaligned ones, evaluates it on test people",
    roles=("active", "passive"),
    analyst_receives=(
        "AUC, accuracy and related scores on test people, per method and situation, to three digits",
        "which configuration was chosen, and on held-out training people its loss, and each expert's weight and scores",
        "numbers of people per group and of pseudo labels, small ones suppressed",
        "the mean training loss per interval",
    ),
    parameters=_parameters,
    manifest=_manifest,
    mock_people=_mock_people,
    program=_program,
    kinds=_kinds,
    label_role="active",
    meanings={
        "fedcvt": "the whole model: all experts of the situation, weighed by what they said of held-out people",
        "joint": "one of its experts: the network on both views, a missing one filled by attention",
        "aligned_only": "logistic regression on both parties' features, from the common people alone",
        "stack": "active_alone, corrected by the passive party's features of the common people",
        "active_alone": "logistic regression on the active party's own features, from all its people",
        "passive_alone": "logistic regression on the passive party's features, from the common people's labels",
        "aligned_only_network": "the network on both views, trained on the common people alone",
        "active_alone_network": "the network of the active party alone",
        "active_network": "the same network, as an expert",
        "active_head": "the joint training's classifier on the active party's view alone",
        "passive_head": "the joint training's classifier on the passive party's view alone",
        "both": "both parties know the person",
        "active_only": "only the active party's features are used",
        "passive_only": "only the passive party's features are used",
    },
    model_left=ModelLeft(
        describe=_describe, preprocessing=_preprocessing, tensors=_tensors, without_memory=_without_memory
    ),
    setting_names=_setting_names,
    bounds=_bounds,
    row_bounds=("max_common", "max_aligned_train", "max_aligned_test", "max_passive_only"),
)
