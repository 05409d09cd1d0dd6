"""The command `align` as it is typed; what it then does between real datasites is in `tests/full_path`."""

import re
from unittest.mock import patch

from protocols.psi.messages import PsiMatches
from tests.parties.commands.town import Town, bad, fedaccord, good

BLOCKS = ("bank/customers", "shop/visitors")


def test_a_dry_run_shows_and_rehearses_the_request_and_submits_nothing(town: Town) -> None:
    before = len(town.sites["bank"].submitted())
    said = good("align", *BLOCKS, "--bucket", "50", "--dry-run", "-s", town.ana).out
    assert "align.size, version 1" in said
    assert "columns none: only keys are read" in said
    assert "MOCK" in said
    full = good("align", *BLOCKS, "--full", "--dry-run", "--json", "-s", town.ana)
    assert full.document["mock"] is True
    assert f"{PsiMatches.__name__} active -> passive" in str(full.document["manifest_fill"])
    assert len(town.sites["bank"].submitted()) == before


def test_it_waits_for_both_approvals_and_says_how_to_go_on_later(town: Town) -> None:
    before = len(town.sites["bank"].submitted())
    said = fedaccord("align", *BLOCKS, "--wait", "0", "-s", town.ana)
    assert said.status == 1
    assert "fedaccord review approve" in said.out
    assert "waits for the approval of bank and shop" in said.err
    assert "fedaccord request start" in said.err
    assert len(town.sites["bank"].submitted()) == before + 1


def test_what_cannot_be_asked_is_refused_before_anybody_is_asked(town: Town) -> None:
    before = len(town.sites["bank"].submitted())
    assert "expected PARTY/BLOCK" in bad("align", "bank", "shop/visitors", "-s", town.ana)
    assert "a size pairs nobody" in bad("align", *BLOCKS, "--max-common", "9", "-s", town.ana)
    assert "publishes no block 'nothing'" in bad("align", "bank/nothing", "shop/visitors", "-s", town.ana)
    assert "no login for the datasite of mill" in bad("align", "bank/customers", "mill/x", "-s", town.ana)
    assert len(town.sites["bank"].submitted()) == before


def test_ctrl_c_leaves_the_request_and_says_how_to_go_on_or_to_end_it(town: Town) -> None:
    with patch("parties.roles.aligning.await_approvals", side_effect=KeyboardInterrupt):
        said = fedaccord("align", *BLOCKS, "-s", town.ana)
    assert said.status == 130
    assert "the request stays" in said.out
    for what in ("status", "cancel"):
        (digest,) = re.findall(rf"fedaccord request {what} ([0-9a-f]{{12}})", said.out)
        assert town.states(digest) == {"bank": "PENDING", "shop": "PENDING"}
