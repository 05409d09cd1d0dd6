"""Size only: the number, rounded and hidden by the rules, and nothing that says who."""

import numpy as np
import pytest

from protocols.disclosure import Hidden
from protocols.errors import OverlapError, ProtocolError, WireError
from protocols.program import Program, Send, silent, simulate
from protocols.psi import OverlapSize, PsiTerms, size_client, size_server
from protocols.psi.blinding import find
from protocols.psi.crew import ALONE
from protocols.psi.exchange import Asked, answer, ask
from protocols.psi.messages import PsiRequest, PsiResponse, PsiSize
from protocols.psi.terms import ANY
from protocols.wire import Message
from tests.protocols.psi.sets import OTHER_SEED, SEED, people


def sizes(
    bank: list[bytes], shop: list[bytes], *, group: int = 10, terms: PsiTerms = ANY, observe=None
) -> OverlapSize:
    programs = {
        "bank": size_client(bank, "shop", SEED, terms, group=group),
        "shop": size_server(shop, "bank", OTHER_SEED, terms, group=group),
    }
    results = simulate(programs, observe=observe)
    assert results["bank"] == results["shop"]
    found = results["bank"]
    assert isinstance(found, OverlapSize)
    return found


@pytest.mark.parametrize(
    ("common", "bank", "shop", "size", "hidden"),
    [
        (37, 60, 90, 30, Hidden.NOT),  # rounded down to a multiple of 10
        (10, 20, 20, 10, Hidden.NOT),  # 10 of each set are not common: just enough
        (9, 40, 40, 0, Hidden.SMALL),
        (0, 40, 40, 0, Hidden.SMALL),
        (40, 40, 40, 0, Hidden.COMPLEMENT),  # the same set: of everybody the number would say it
        (40, 40, 90, 0, Hidden.COMPLEMENT),  # the bank's set inside the shop's
        (40, 90, 40, 0, Hidden.COMPLEMENT),
        (31, 40, 90, 0, Hidden.COMPLEMENT),  # 9 of the bank's 40 are not common
        (30, 40, 90, 30, Hidden.NOT),
    ],
)
def test_the_number_that_both_are_told(common, bank, shop, size, hidden):
    """Both get the same, and so far less than m: 37 common people are told as 30."""
    found = sizes(people(bank), people(shop, start=bank - common))
    assert found == OverlapSize(size=size, hidden=hidden)


def test_padding_keeps_the_number_and_hides_near_the_edge_of_a_bucket():
    """A set that shows 100 may hold 51 (bucket 50): with 40 of 95 common it could be all but 11, so it's told."""
    terms = PsiTerms(bucket=50)
    sent: list[Message] = []
    found = sizes(people(60), people(95, start=20), terms=terms, observe=lambda *seen: sent.append(seen[2]))
    assert found == OverlapSize(size=40, hidden=Hidden.NOT)
    assert {m.of for m in sent if isinstance(m, PsiRequest | PsiResponse)} == {100}
    # 42 of a set that may hold 51: fewer than 10 might not be common, though 53 are not
    assert sizes(people(60), people(95, start=18), terms=terms).hidden is Hidden.COMPLEMENT


def test_the_client_cannot_tell_which_of_its_keys_an_answer_belongs_to():
    """The same request answered in both modes: in order it says who is common, sorted it doesn't.

    Its own point i is answered at place i only by chance.
    """
    bank, shop = people(40), people(40, start=25)
    expected = set(range(25, 40))

    def guessed(shuffled: bool) -> set[int]:
        programs = {
            "bank": ask(bank, "shop", SEED, PsiTerms(), crew=ALONE, observe=silent, shuffled=shuffled),
            "shop": answer(
                shop, "bank", OTHER_SEED, PsiTerms(), crew=ALONE, observe=silent, shuffled=shuffled
            ),
        }
        asked = simulate(programs)["bank"]
        assert isinstance(asked, Asked)
        found = find(asked.answered, asked.setup) >= 0
        assert np.count_nonzero(found) == 15
        return set(asked.own.rows[found].tolist())

    assert guessed(False) == expected
    assert all(guessed(True) != expected for _ in range(3))


def test_no_tag_and_no_secret_is_sent():
    sent: list[Message] = []
    sizes(people(60), people(60, start=30), observe=lambda *seen: sent.append(seen[2]))
    kinds = [type(message).__name__ for message in sent]
    assert kinds == ["PsiRequest", "PsiSetup", "PsiResponse", "PsiSize"]
    assert sent[-1] == PsiSize(30, 0)


def test_a_set_below_the_minimum_gets_no_answer():
    with pytest.raises(OverlapError, match="own set has 9 people"):
        sizes(people(9), people(50), terms=PsiTerms(least=10))


@pytest.mark.parametrize(("size", "hidden"), [(-1, 0), (5, 1), (5, 2), (0, 3), (0, -1)])
def test_a_size_that_contradicts_itself_is_no_message(size, hidden):
    with pytest.raises(WireError, match="PsiSize"):
        PsiSize(size, hidden)


@pytest.mark.parametrize("size", [35, 60, 1 << 40])
def test_a_number_that_cannot_be_or_is_not_rounded_is_refused(size: int) -> None:
    """The client lies: of 60 and 90 people at most 50 can be common and told, in tens."""

    def liar() -> Program[None]:
        yield from ask(people(60), "shop", SEED, ANY, crew=ALONE, observe=silent, shuffled=True)
        yield Send("shop", PsiSize(size, 0))

    server = size_server(people(90), "bank", OTHER_SEED, ANY, group=10)
    with pytest.raises(ProtocolError, match="bank told a number of common people"):
        simulate({"bank": liar(), "shop": server})
