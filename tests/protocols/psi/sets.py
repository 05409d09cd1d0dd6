"""Two sets of keys and both sides of an alignment of them, in one process."""

from collections.abc import Callable, Sequence
from contextlib import suppress

from protocols.errors import DeadlockError, ProtocolError
from protocols.program import Program, simulate
from protocols.psi import ALONE, Alignment, Crew, PsiTerms, psi_client, psi_server
from protocols.psi.terms import ANY
from protocols.seeds import injected
from protocols.wire import Message

SEED, OTHER_SEED = injected(1, "bank"), injected(1, "shop")
Observe = Callable[[str, str, Message], None]


def people(count: int, start: int = 0) -> list[bytes]:
    """Made-up keys start..start+count-1."""
    return [b"person-%06d" % number for number in range(start, start + count)]


def align(
    bank: Sequence[bytes],
    shop: Sequence[bytes],
    *,
    seed: bytes = SEED,
    terms: PsiTerms = ANY,
    crew: Crew = ALONE,
    observe: Observe | None = None,
) -> tuple[Alignment, Alignment]:
    """Client's (bank) and server's (shop) alignment."""
    results = simulate(
        {
            "bank": psi_client(bank, "shop", seed, terms, crew=crew),
            "shop": psi_server(shop, "bank", OTHER_SEED, terms, crew=crew),
        },
        observe=observe,
    )
    left, right = results["bank"], results["shop"]
    assert isinstance(left, Alignment)
    assert isinstance(right, Alignment)
    return left, right


def play(
    client: Sequence[bytes] | Program[object],
    shop: Sequence[bytes],
    terms: PsiTerms = ANY,
    *,
    observe: Callable[[Message], None] = lambda message: None,
) -> tuple[Exception | None, Exception | None]:
    """How client and server each ended: with an error of its own, or None; one's error doesn't end the other."""
    ends: dict[str, Exception | None] = {"bank": None, "shop": None}

    def caught(role: str, program: Program[object]) -> Program[None]:
        try:
            yield from program
        except Exception as problem:
            ends[role] = problem

    asking = psi_client(client, "shop", SEED, terms) if isinstance(client, Sequence) else client
    programs = {"bank": asking, "shop": psi_server(shop, "bank", OTHER_SEED, terms)}
    # When one ended early the other waits for ever, or its message has nobody to read it.
    with suppress(DeadlockError, ProtocolError):
        simulate(
            {role: caught(role, program) for role, program in programs.items()},
            observe=lambda sender, to, message: observe(message),
        )
    return ends["bank"], ends["shop"]
