"""The whole page as Markdown, without a port, a path or a long value of the run that made it."""

from pathlib import Path

from docs.example_run import after, before
from docs.example_run.markdown import fill, short_values
from docs.example_run.people import BANK
from docs.example_run.story import Story

TEMPLATE = Path(__file__).parent / "example-run.template.md"


def render(story: Story) -> str:
    """The template, filled with what happened."""
    parts = before.parts(story) | after.parts(story)
    digest = parts["digest"]  # stands in full, everything else is shortened
    parts = {name: _without_machine(story, short_values(text)) for name, text in parts.items()}
    return fill(TEMPLATE.read_text(encoding="utf-8"), parts | {"digest": digest})


def _without_machine(story: Story, text: str) -> str:
    (address,) = (entry.address for entry in story.request.parties if entry.name == BANK)
    host, _ = address.rsplit(":", 1)
    return text.replace(address, f"{host}:PORTS").replace(str(story.folder), "FOLDER")
