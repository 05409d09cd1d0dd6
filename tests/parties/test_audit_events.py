"""Every kind of entry that a log can hold is written somewhere."""

import ast
from pathlib import Path

from protocols.audit import AuditEvent

ROOT = Path(__file__).resolve().parents[2]


def test_every_kind_of_entry_is_written_by_some_module() -> None:
    written = {
        node.attr
        for package in ("parties", "protocols")
        for path in (ROOT / package).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == "AuditEvent"
    }
    assert {event.name for event in AuditEvent} - written == set()
