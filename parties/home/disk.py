"""Whether something went wrong for want of room on a disk, and what we say then."""

import errno
import sqlite3
from typing import Final

from protocols.errors import DiskFullError

_NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_NO_ROOM_OF_SQLITE: Final = frozenset({sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_WRITE})
"""A write that was refused for a quota is the second."""


def for_want_of_room(problem: BaseException) -> bool:
    """Whether the problem, or what led to it, is that a file or SQLite's database found no room."""
    cause: BaseException | None = problem
    while cause is not None:
        if isinstance(cause, DiskFullError) or (isinstance(cause, OSError) and cause.errno in _NO_ROOM):
            return True
        if isinstance(cause, sqlite3.Error) and getattr(cause, "sqlite_errorcode", 0) in _NO_ROOM_OF_SQLITE:
            return True
        cause = cause.__cause__ or cause.__context__
    return False


def disk_full(what: str) -> DiskFullError:
    """The error for what found no room."""
    return DiskFullError(
        f"the disk has no room for {what}",
        remedy="make room on it; an interrupted run can then be started again",
    )
