"""The parts of the page up to the approvals: what the owners have, what the analyst sees and asks, what is signed."""

import json
from collections.abc import Iterator, Mapping

from docs.example_run.markdown import details, fence, table
from docs.example_run.people import BLOCK, PLAN, ROLES
from docs.example_run.story import REASON, Story
from parties.blocks.schema import PublicColumn
from parties.roles.plan import Offer
from protocols.approval import PartyApproval
from protocols.approval import to_text as approvals_text
from protocols.request import canonical
from protocols.request import digest as request_digest

HEAD_ROWS, MOCK_ROWS = 3, 2
UNFOLDED = "\n\nLIMITS\n"
"""Where the part of the review text begins that is folded away."""


def parts(story: Story) -> dict[str, str]:
    """Each part by its place in the template."""
    least, loosest = min((share, line) for line, share in story.rehearsal.fill.items())
    digest = request_digest(story.request)
    return {
        "files": fence("\n\n".join(_file(story, name) for name in ROLES)),
        "schema": table(
            ("party", "rows, at most", "column", "published of it"),
            (row for name in ROLES for row in _schema_rows(name, story.offers[name])),
        ),
        "mock": fence("\n".join(_mock(story.offers[name]) for name in ROLES)),
        "plan": fence(PLAN, "toml"),
        "rehearsed": str(story.rehearsal.messages),
        "loosest": f"`{loosest.split()[0]}`",
        "least": f"{least:.0%}".replace("%", " %"),
        "request_bytes": str(len(canonical(story.request))),
        "digest": fence(digest),
        "review": _review(story),
        "refused": _refused(story),
        "approved": _approved(story),
    }


def _file(story: Story, name: str) -> str:
    head = "\n".join(story.files[name].splitlines()[: HEAD_ROWS + 1])
    first, *_, last = story.registered[name].splitlines()
    return f"{name}.csv\n{head}\n...\n$ fedaccord block add ...\n{first}\n{last}"


def _schema_rows(name: str, offer: Offer) -> Iterator[tuple[str, str, str, str]]:
    schema = offer.publication(BLOCK).schema
    yield name, str(schema.rows), f"`{schema.subject_key}`", f"subject key, rule {schema.key_rule}"
    for column in schema.columns:
        yield "", "", f"`{column.name}`", _told(column)
    if schema.label:
        yield "", "", f"`{schema.label}`", f"label: {', '.join(schema.classes)}"


def _told(column: PublicColumn) -> str:
    if column.levels:
        return ", ".join(column.levels) + (", and others" if column.other_levels else "")
    points = ", ".join(f"{point.share:.0%} up to {point.value:g}" for point in column.quantiles)
    return points + (f"; about {column.missing_share:.0%} missing" if column.missing_share else "")


def _mock(offer: Offer) -> str:
    return str(offer.publication(BLOCK).mock.head(MOCK_ROWS).to_csv(index=False))


def _review(story: Story) -> str:
    shown, folded = story.review.split(UNFOLDED)
    return fence(shown) + "\n\n" + details("Its limits and settings", fence(UNFOLDED + folded))


def _refused(story: Story) -> str:
    return table(("when", "answer"), ((each.when, f"`{each.answer}`") for each in story.refused))


def _approved(story: Story) -> str:
    said = [
        f"$ fedaccord review approve DIGEST --as owner --reason '{REASON}'\n{line}" for line in story.decided
    ]
    records = "\n\n".join(map(_record, story.approvals))
    return fence("\n".join(said)) + "\n\n" + details("Both records", fence(records))


def _record(approval: PartyApproval) -> str:
    """The record, one line for each person's decision and one for the party."""
    (record,) = json.loads(approvals_text((approval,)))
    persons = [f"  person  {_fields(decision)}" for decision in record.pop("decisions")]
    return "\n".join([f"{approval.party}:", *persons, f"  party   {_fields(record)}"])


def _fields(record: Mapping[str, object]) -> str:
    return "  ".join(f"{name}={value}" for name, value in record.items())
