"""The messages of an alignment; `protocols.psi` says in which order and what each teaches whom.

Shapes: c items in one part of a longer list. `of` says how long the whole list is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from protocols.disclosure import Hidden
from protocols.errors import WireError
from protocols.psi.curve import POINT_BYTES
from protocols.wire import Message, array

TAG_BYTES = 32
"""HMAC-SHA256, and the session secret."""


@dataclass(frozen=True, slots=True, eq=False)
class Part(Message):
    """A part of a list of items of equal width (c, WIDTH); it is empty only of an empty list."""

    WIDTH: ClassVar[int] = POINT_BYTES

    of: int
    items: NDArray[np.uint8] = array(np.uint8, 2)

    def check(self) -> None:
        """Refuses items of another width, and a part that isn't one of a list of `of`."""
        count, width = self.items.shape
        if width != self.WIDTH or self.of < count or (count == 0) != (self.of == 0):
            raise WireError(f"{type(self).__name__}: no part of a list of items of {self.WIDTH} bytes")


@dataclass(frozen=True, slots=True, eq=False)
class PsiRequest(Part):
    """The client's keys, blinded by it: points of P-256, in ascending order over all parts."""


@dataclass(frozen=True, slots=True, eq=False)
class PsiSetup(Part):
    """The server's keys, blinded by it, in ascending order over all parts."""


@dataclass(frozen=True, slots=True, eq=False)
class PsiResponse(Part):
    """The client's points, blinded by both: in the order of the request, or for a size alone in ascending order."""


@dataclass(frozen=True, slots=True, eq=False)
class PsiMatches(Part):
    """The tags of the common keys in ascending order over all parts, made with the secret of `PsiSecret`.

    An empty list says that fewer people are common than the request asks for, and not how many; no secret follows.
    """

    WIDTH: ClassVar[int] = TAG_BYTES


@dataclass(frozen=True, slots=True)
class PsiSecret(Message):
    """The session secret (32 bytes) that orders and names the common rows."""

    secret: bytes

    def check(self) -> None:
        """Refuses a secret of another size."""
        if len(self.secret) != TAG_BYTES:
            raise WireError(f"PsiSecret: {len(self.secret)} bytes, expected {TAG_BYTES}")


@dataclass(frozen=True, slots=True, eq=False)
class PsiSize(Message):
    """The rounded number of common people, or 0 and why it is hidden (a number of `Hidden`)."""

    size: int
    hidden: int

    def check(self) -> None:
        """Refuses an unknown reason, and a number beside a reason."""
        if self.size < 0 or self.hidden not in set(Hidden) or (self.hidden and self.size):
            raise WireError("PsiSize: expected a number of people, or 0 and why it is hidden")


PSI_KINDS: tuple[type[Message], ...] = (PsiRequest, PsiSetup, PsiResponse, PsiMatches, PsiSecret)
"""What a worker accepts in an alignment in which both learn who is common."""
PSI_SIZE_KINDS: tuple[type[Message], ...] = (PsiRequest, PsiSetup, PsiResponse, PsiSize)
"""What a worker accepts in an alignment in which both learn a number."""
