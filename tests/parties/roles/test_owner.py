"""What an owner does outside a run stands in the audit log."""

from pathlib import Path

import pytest

from parties.home.people import find_person
from parties.home.state import init_party
from parties.roles.owner import add_person
from protocols.audit import AuditEvent, read
from protocols.errors import ConfigError


def test_who_may_approve_is_in_the_log(tmp_path: Path) -> None:
    bank = init_party(tmp_path / "bank", name="bank", organisation="Bank", port=1)
    added = add_person(bank, name="rev1", role="reviewer", organisation="", passphrase=None)
    assert added == find_person(bank.folder, "rev1")
    (entry,) = read(bank.audit_path)
    assert (entry.event, entry.object) == (AuditEvent.CONFIG_CHANGED, "person rev1")
    assert dict(entry.detail) == {"role": "reviewer", "organisation": "Bank", "key": added.key}


def test_a_person_who_is_refused_leaves_no_entry(tmp_path: Path) -> None:
    bank = init_party(tmp_path / "bank", name="bank", organisation="Bank", port=1)
    with pytest.raises(ConfigError, match="already one of our people"):
        add_person(bank, name="owner", role="reviewer", organisation="", passphrase=None)
    assert not bank.audit_path.exists()
