"""A worker's identity: what it signs with its link's key holds under the certificate that the roster has of it."""

from pathlib import Path

import pytest

from parties.running.link_identity import link_identity
from parties.running.runspec import RunSpec
from protocols.errors import ApprovalError, KeyFileError
from protocols.keys import certificate_key
from protocols.masking import Masks, check_key
from tests.parties.control.offices import Offices, make_offices


def spec(offices: Offices, role: str, link: Path) -> RunSpec:
    return RunSpec(
        digest="",
        run=1,
        request="",
        approvals="",
        role=role,
        state="",
        store="",
        audit="",
        link_key=str(link),
        link_certificate="",
    )


def test_keys_signed_with_the_link_key_hold_for_others_and_in_this_request_only(tmp_path: Path) -> None:
    offices = make_offices(tmp_path)
    bank_key, shop_key = (one.folder / "keys" / "link.pem" for one in (offices.bank, offices.shop))
    request, other = offices.request(), offices.request(nonce="1" * 32)
    bank, shop = (
        link_identity(spec(offices, role, key), request)
        for role, key in (("active", bank_key), ("passive", shop_key))
    )
    key = Masks(bank, 1, least=3).key
    check_key(key, 1, shop)
    for number, who in (
        (2, shop),
        (1, link_identity(spec(offices, "passive", shop_key), other)),
    ):
        with pytest.raises(ApprovalError, match="isn't signed by active"):
            check_key(key, number, who)
    pretender = link_identity(spec(offices, "active", shop_key), request)
    with pytest.raises(ApprovalError, match="isn't signed by active"):
        check_key(Masks(pretender, 1, least=3).key, 1, shop)


def test_what_is_no_certificate_has_no_key() -> None:
    with pytest.raises(KeyFileError):
        certificate_key("no certificate")
