"""A draft of the impact assessment of a request: the four parts of Art. 35(7) GDPR, filled from the run's own facts.

It decides nothing and judges nothing: what only the controller can say stands in the controller's words, or is left
visibly open. The draft is Markdown.
"""

from collections.abc import Iterable

from parties.home.policy import Policy
from parties.home.processing import OPEN
from parties.home.state import State
from parties.roles.controller_facts import outputs
from parties.roles.facts import Section, content_lines
from parties.roles.reviewing import Page
from protocols.request import ComputationRequest

UNMEASURED = (
    "Whether messages, numbers or model of this run tell who is in the data (membership), what their features are, or "
    "their labels: **not tested**."
)
RISKS = (
    "Representations, gradients and blinded keys are derived from people's rows and remain personal data.",
    UNMEASURED,
    "A party that sends false data, and a compromised host of a party, are not detected; THREATS.md lists what is not "
    "protected.",
)
MEASURES = (
    "The run is identified by one digest over data versions, columns, code, settings, recipients and limits; it starts "
    "only with the approvals of every party's own people.",
    "Both gates stop every message that the release manifest doesn't list, or that is larger or more frequent.",
    "Mutual TLS between pinned certificates; private rows stay at their party.",
    "Numbers for the analyst stand on at least {k} people each, with complement rule and rounding.",
    "Every start, message reserve, release, denial and revocation is in a hash-chained log, whose head the other party "
    "holds.",
    "Temporary material is deleted at the run's end; a revocation stops a running run and ends every use of its model.",
)


def impact_text(state: State, request: ComputationRequest, policy: Policy, page: Page) -> str:
    """The draft for the request of this page, as the party of the state folder would begin it."""
    said = policy.processing
    parts = [
        f"# Impact assessment (draft), request {page.digest}",
        f"For {state.organisation}. Filled from the request's facts; _{OPEN}_ marks what only the controller can say.",
        "## 1. Description of the processing, and its purposes",
        _plain(f"Purpose: {request.purpose}. {request.purpose_text}"),
        *(_facts(each) for each in page.sections if not each.title.startswith(("Difference", "Decisions"))),
        "## 2. Necessity and proportionality",
        _listed(
            [
                f"Why less would not do: {said.necessity or _open()}",
                f"Legal basis: {said.legal_basis or _open()}",
                f"Columns used: {_columns(request)}",
                f"Recipients: {'; '.join(outputs(request))}",
                f"Retention of results: {said.retention or _open()}",
                f"Runs: {request.runs}, until {request.expires}",
            ]
        ),
        "## 3. Risks to the rights and freedoms of the people concerned",
        _listed([*RISKS, f"Likelihood and severity, in the controller's view: {_open()}"]),
        "## 4. Measures against these risks",
        _listed(
            [
                *(text.format(k=max(request.minimum_group, policy.minimum_group)) for text in MEASURES),
                f"Further measures of this controller: {said.security or _open()}",
                f"Advice of the data protection officer: {_open()}",
            ]
        ),
    ]
    return "\n\n".join(parts) + "\n"


def _open() -> str:
    return f"**{OPEN}**"


def _columns(request: ComputationRequest) -> str:
    return "; ".join(
        f"{block.role}/{block.block}: {', '.join(block.columns) or 'keys only'}" for block in request.blocks
    )


def _facts(each: Section) -> str:
    lines = [line for content in each.contents for line in content_lines(content)]
    return f"### {each.title}\n\n{_listed(lines)}"


def _listed(lines: Iterable[str]) -> str:
    return "\n".join(f"- {_plain(line)}" for line in lines)


def _plain(line: str) -> str:
    """The line without what Markdown would take for markup of the analyst's; what we mark ourselves stays."""
    text = " ".join(line.removeprefix("    - ").split()).replace("<", "&lt;")
    return text.replace("`", "'").replace(OPEN, _open()) if _open() not in text else text
