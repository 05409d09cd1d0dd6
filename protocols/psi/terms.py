"""What the two sides of an alignment agreed on, and the bounds that follow from it."""

from dataclasses import dataclass

from protocols.chunks import chunk_length
from protocols.errors import ConfigError

PART = 4096
"""Most keys in one message and in one job: some 140 kB, and a quarter of a second of work."""
UNBOUNDED = 1 << 40
"""For a run without a manifest, such as `simulate`."""
LARGEST_BUCKET = 10_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class PsiTerms:
    """The settings of one alignment; ConfigError names one that is out of its range.

    `client_rows` and `server_rows` are the published upper bounds of the two sets. With a `bucket` each set is filled
    up with dummies to a multiple of it, so that its size is known to the bucket only. With fewer than `least` common
    people no number is told and nobody is paired; with more than `most` it ends as an error.
    """

    client_rows: int = UNBOUNDED
    server_rows: int = UNBOUNDED
    bucket: int = 0
    least: int = 1
    most: int = UNBOUNDED

    def __post_init__(self) -> None:
        for name, low, high in (
            ("client_rows", 0, UNBOUNDED),
            ("server_rows", 0, UNBOUNDED),
            ("bucket", 0, LARGEST_BUCKET),
            ("least", 1, UNBOUNDED),
            ("most", 1, UNBOUNDED),
        ):
            if not low <= getattr(self, name) <= high:
                raise ConfigError(f"{name} must lie in [{low}, {high}], came {getattr(self, name)!r:.40}")

    def padded(self, rows: int) -> int:
        """The size that a set of so many rows shows: itself, or the next multiple of the bucket."""
        return rows if not self.bucket else max(1, -(-rows // self.bucket)) * self.bucket

    def expected(self, bound: int, shown: int) -> int:
        """Points of a set, for a progress that must not tell how many it is: of its bound, of `shown` without one."""
        return shown if bound == UNBOUNDED else self.padded(bound)

    def least_rows(self, shown: int) -> int:
        """The fewest real keys that a set which shows this size may hold."""
        return shown if not self.bucket else max(0, shown - self.bucket + 1)

    @property
    def client_part(self) -> int:
        """Points in one message of the client's set."""
        return chunk_length(self.padded(self.client_rows), PART)

    @property
    def server_part(self) -> int:
        """Points in one message of the server's set."""
        return chunk_length(self.padded(self.server_rows), PART)

    @property
    def most_common(self) -> int:
        """The largest possible number of common people."""
        return min(self.client_rows, self.server_rows, self.most)


ANY = PsiTerms()
"""No bounds, no padding, and one common person is enough."""
