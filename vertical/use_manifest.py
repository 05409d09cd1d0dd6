"""The release manifests of the computations that use a trained model: upper bounds from the settings and the published
row counts. No torch: a request is made and reviewed without it."""

from __future__ import annotations

from protocols.psi import PsiTerms, psi_manifest
from protocols.releases import floats, parts, release
from protocols.request import Release
from vertical.manifest import BlockRows
from vertical.roles import ACTIVE, PASSIVE
from vertical.use_config import PredictConfig, Receiver, UseConfig, VoteConfig
from vertical.use_messages import (
    EXPERTS,
    AloneShown,
    CommonShown,
    ExpertWeights,
    Probabilities,
    SameModel,
)

_TAG = "0" * 64


def use_terms(config: UseConfig, rows: BlockRows, least: int = 1) -> PsiTerms:
    """The terms of a use's alignment between such blocks, the same for its programs and its manifest."""
    active, passive = rows
    return PsiTerms(
        client_rows=active,
        server_rows=passive,
        bucket=config.size_bucket,
        least=least,
        most=config.max_common,
    )


def fill_manifest(config: UseConfig, active_rows: int, passive_rows: int) -> tuple[Release, ...]:
    """All releases of a fill between blocks of at most these many rows."""
    return (*_beginning(config, active_rows, passive_rows), _alone(config, passive_rows))


def vote_manifest(config: VoteConfig, active_rows: int, passive_rows: int) -> tuple[Release, ...]:
    """All releases of a vote between blocks of at most these many rows."""
    common = [_common(config, active_rows, passive_rows)] if config.unlabelled else []
    return (*_beginning(config, active_rows, passive_rows), *common, _alone(config, passive_rows))


def predict_manifest(config: PredictConfig, active_rows: int, passive_rows: int) -> tuple[Release, ...]:
    """All releases of a prediction between blocks of at most these many rows."""
    lines = [*_beginning(config, active_rows, passive_rows), _common(config, active_rows, passive_rows)]
    if config.receiver == Receiver.PASSIVE:
        if not config.only_common:
            lines.append(_alone(config, passive_rows))
        lines += _answers(config, active_rows, passive_rows)
    return tuple(lines)


def _beginning(config: UseConfig, active_rows: int, passive_rows: int) -> list[Release]:
    tag, learns = SameModel(_TAG), "which of its trained models the sender's part belongs to"
    return [
        release(tag, ACTIVE, PASSIVE, 1, learns),
        release(tag, PASSIVE, ACTIVE, 1, learns),
        *psi_manifest(ACTIVE, PASSIVE, use_terms(config, (active_rows, passive_rows))),
    ]


def _common(config: UseConfig, active_rows: int, passive_rows: int) -> Release:
    people = min(config.max_common, active_rows, passive_rows)
    length, messages = parts(people, config.max_common, config.evaluation_batch)
    largest = CommonShown(length * (messages - 1), floats(length, config.width))
    learns = f"{_shown(config)} of the common people; features can partly be inferred from them"
    return release(largest, PASSIVE, ACTIVE, messages, learns)


def _shown(config: UseConfig) -> str:
    components = " and principal components" if config.width > config.view_width else ""
    return f"representations{components}"


def _alone(config: UseConfig, passive_rows: int) -> Release:
    people = min(config.max_passive_only, passive_rows)
    length, messages = parts(people, config.max_passive_only, config.evaluation_batch)
    largest = AloneShown(length * (messages - 1), people, floats(length, config.width))
    learns = (
        f"how many people the sender has that aren't common, and {_shown(config)} of them; "
        "features can partly be inferred from them"
    )
    return release(largest, PASSIVE, ACTIVE, messages, learns)


def _answers(config: PredictConfig, active_rows: int, passive_rows: int) -> list[Release]:
    common = min(config.max_common, active_rows, passive_rows)
    people = common if config.only_common else min(common + config.max_passive_only, passive_rows)
    length, messages = parts(people, config.most_shown, config.evaluation_batch)
    probabilities = Probabilities(length * (messages - 1), floats(length, config.classes))
    weights = ExpertWeights(floats(1 if config.only_common else 2, len(EXPERTS)))
    learns = (
        "probabilities of the classes for its own people; labels and the sender's features can partly be"
        " inferred from them"
    )
    return [
        release(probabilities, ACTIVE, PASSIVE, messages, learns),
        release(weights, ACTIVE, PASSIVE, 1, "how much each of the model's experts weighs in them"),
    ]
