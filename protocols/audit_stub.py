"""What stands for the entries that were deleted from the front of an audit log after their time.

The stub is the file's first line. It says which entries are gone, their number, one hash over their bytes, by whom and
when, and the hash of the last of them, so that the chain goes on from there. An entry of the log itself says the same:
a stub without it isn't one.
"""

import calendar
from dataclasses import dataclass
from datetime import datetime

from protocols.audit_entry import AuditEvent, Entry, Head, Result
from protocols.errors import AuditError
from protocols.records import Scalar, check_text, check_types, decode_record, parse_utc

LEAST_MONTHS = 6
"""No entry is deleted earlier, whatever a party sets."""
_BEGINNING = b'{"count":'
"""Of a stub's canonical line; an entry begins with its detail."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stub:
    """Entries 1 to `last` are gone: `count` of them, SHA-256 `digest` over their lines, `head` the hash of the last.

    `newest` is when the last of them was written, `time` when they were deleted, `who` by whom. Raises AuditError.
    """

    party: str
    last: int
    count: int
    digest: str
    head: str
    newest: str
    time: str
    who: str

    def __post_init__(self) -> None:
        check_types(self, AuditError)
        for field in ("party", "who"):
            check_text(getattr(self, field), field, AuditError)
        for field in ("newest", "time"):
            parse_utc(getattr(self, field), field, AuditError)
        if self.last < 1 or self.count != self.last:
            raise AuditError("the stub's count doesn't fit its range")

    @property
    def end(self) -> Head:
        """Where the chain goes on."""
        return Head(party=self.party, index=self.last, hash=self.head)

    def detail(self) -> dict[str, Scalar]:
        """What the entry about the deletion says of it."""
        return {
            "first": 1,
            "last": self.last,
            "count": self.count,
            "digest": self.digest,
            "head": self.head,
            "newest": self.newest,
        }

    def check(self, entry: Entry) -> bool:
        """Whether this entry is the one about this deletion; AuditError when what it tells of came too early."""
        told = dict(entry.detail)
        if (entry.event, entry.result) != (AuditEvent.LOG_PRUNED, Result.OK) or any(
            told.get(name) != value for name, value in self.detail().items()
        ):
            return False
        oldest_kept = months_before(parse_utc(entry.time, "time", AuditError), LEAST_MONTHS)
        if parse_utc(self.newest, "newest", AuditError) >= oldest_kept:
            raise AuditError(
                f"entries up to {self.last}, of {self.newest}, were deleted before {LEAST_MONTHS} months had passed"
            )
        return True


def parse_stub(line: bytes) -> Stub | None:
    """The stub in the first line of a log, None when that is an entry. Raises AuditError for one that was altered."""
    if not line.startswith(_BEGINNING):
        return None
    try:
        return decode_record(line, Stub, AuditError)
    except AuditError as failure:
        raise AuditError(f"the stub of deleted entries was altered: {failure}") from failure


def months_before(time: datetime, months: int) -> datetime:
    """The same day and hour so many months earlier; the last day of a shorter month."""
    year, month = divmod(time.year * 12 + time.month - 1 - months, 12)
    day = min(time.day, calendar.monthrange(year, month + 1)[1])
    return time.replace(year=year, month=month + 1, day=day)
