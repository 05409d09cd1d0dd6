"""The bounds of an alignment hold for every smaller one, and a full one fills them."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocols.errors import ConfigError
from protocols.gate import Trace
from protocols.program import simulate
from protocols.psi import PsiTerms, psi_manifest, size_client, size_manifest, size_server
from protocols.psi.messages import PsiRequest
from tests.protocols.psi.sets import OTHER_SEED, SEED, align, people


def trace_of(bank: int, shop: int, common: int, terms: PsiTerms, *, size: bool = False) -> Trace:
    trace = Trace()
    sets = people(bank), people(shop, start=bank - common)
    if size:
        programs = {
            "bank": size_client(sets[0], "shop", SEED, terms, group=10),
            "shop": size_server(sets[1], "bank", OTHER_SEED, terms, group=10),
        }
        simulate(programs, observe=trace.observe)
    else:
        align(*sets, terms=terms, observe=trace.observe)
    return trace


@pytest.mark.parametrize("bucket", [0, 64])
@pytest.mark.parametrize(("bank", "shop", "common"), [(1, 1, 1), (40, 700, 3), (300, 300, 300), (700, 5, 5)])
def test_the_manifest_fits_and_is_tight(bank, shop, common, bucket):
    terms = PsiTerms(client_rows=bank, server_rows=shop, most=common, bucket=bucket)
    manifest = psi_manifest("bank", "shop", terms)
    trace = trace_of(bank, shop, common, terms)
    trace.fits(manifest)
    assert min(trace.fill(manifest).values()) == 1.0
    manifest = size_manifest("bank", "shop", terms)
    trace = trace_of(bank, shop, common, terms, size=True)
    trace.fits(manifest)
    assert min(trace.fill(manifest).values()) > 0.9


@settings(max_examples=12, deadline=None)
@given(data=st.data(), length=st.integers(1, 9), bucket=st.sampled_from([0, 0, 5, 16]))
def test_every_smaller_set_fits_in_parts_of_any_length(data, length, bucket):
    bank, shop = data.draw(st.integers(1, 30)), data.draw(st.integers(1, 30))
    terms = PsiTerms(client_rows=bank, server_rows=shop, bucket=bucket)
    with pytest.MonkeyPatch.context() as patch:
        for module in ("terms", "blinding", "pairing", "manifest"):
            patch.setattr(f"protocols.psi.{module}.PART", length)
        manifest = psi_manifest("bank", "shop", terms)
        full = trace_of(bank, shop, min(bank, shop), terms)
        full.fits(manifest)
        lists = {line.kind: share for line, share in _by_line(full, manifest)}
        assert min(lists.values()) > 0.5
        some, other = data.draw(st.integers(1, bank)), data.draw(st.integers(1, shop))
        trace_of(some, other, data.draw(st.integers(1, min(some, other))), terms).fits(manifest)


def _by_line(trace: Trace, manifest):
    fill = trace.fill(manifest)
    return [(release, fill[release.kind, release.sender, release.receiver]) for release in manifest]


def test_long_lists_fill_nine_tenths_in_equal_parts():
    """4097 keys don't go as 4096 and 1: the second of two messages would fill next to nothing of its bound."""
    terms = PsiTerms(client_rows=4097, server_rows=10)
    (request, *_) = psi_manifest("bank", "shop", terms)
    assert request.kind == PsiRequest.__name__
    assert dict(request.shapes)["items"] == (2049, 33)
    assert request.repetitions == 2
    assert 4097 / (2 * 2049) > 0.99


def test_a_bucket_shows_its_multiple_and_bounds_what_a_set_may_hold():
    terms = PsiTerms(bucket=50)
    assert [terms.padded(rows) for rows in (0, 1, 50, 51)] == [50, 50, 50, 100]
    assert [terms.least_rows(shown) for shown in (50, 100)] == [1, 51]
    assert (PsiTerms().padded(7), PsiTerms().least_rows(7)) == (7, 7)


@pytest.mark.parametrize(
    "wrong", [{"bucket": -1}, {"least": 0}, {"most": 0}, {"client_rows": -1}, {"bucket": 1 << 40}]
)
def test_terms_out_of_range_are_named(wrong):
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        PsiTerms(**wrong)
