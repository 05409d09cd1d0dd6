"""What an alignment tells of its progress: steadily more, and never how many keys there are."""

import pytest

from parties.blocks.schema import published_rows
from protocols.program import Progress, simulate
from protocols.psi import PsiTerms, psi_client, psi_server
from tests.protocols.psi.sets import OTHER_SEED, SEED, people


def told(bank: int, shop: int, terms: PsiTerms) -> dict[str, list[Progress]]:
    seen: dict[str, list[Progress]] = {"bank": [], "shop": []}
    simulate(
        {
            "bank": psi_client(people(bank), "shop", SEED, terms, observe=seen["bank"].append),
            "shop": psi_server(people(shop), "bank", OTHER_SEED, terms, observe=seen["shop"].append),
        }
    )
    return seen


@pytest.mark.parametrize("bound", [True, False])
def test_it_goes_in_tenths_to_its_end(bound, monkeypatch):
    monkeypatch.setattr("protocols.psi.blinding.PART", 5)
    terms = PsiTerms(client_rows=70, server_rows=90) if bound else PsiTerms()
    for seen in told(57, 83, terms).values():
        steps = [(each.phase, each.step, each.of) for each in seen]
        assert {(phase, of) for phase, _, of in steps} == {("align", 10)}
        assert [step for _, step, _ in steps] == sorted(step for _, step, _ in steps)
        assert steps[0][1] == 0
        assert steps[-1][1] == 10
        assert len({step for _, step, _ in steps}) > 5


@pytest.mark.parametrize(("one", "other", "published"), [(11, 20, 20), (41, 49, 50), (101, 110, 110)])
def test_sets_that_are_published_alike_are_told_alike(one, other, published, monkeypatch):
    """Their messages have different sizes; an analyst sees the progress, and the published number only."""
    assert published_rows(one) == published_rows(other) == published
    monkeypatch.setattr("protocols.psi.blinding.PART", 10)
    terms = PsiTerms(client_rows=published, server_rows=published)
    steps = [
        {
            role: list(dict.fromkeys(each.step for each in seen))
            for role, seen in told(rows, rows, terms).items()
        }
        for rows in (one, other)
    ]
    assert steps[0] == steps[1]
