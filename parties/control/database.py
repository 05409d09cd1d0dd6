"""The supervisor's SQLite file: one durable transaction at a time, for the ledger and for the steward's tasks."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from parties.home.disk import disk_full, for_want_of_room
from protocols.errors import StateError


@contextmanager
def transaction(path: Path) -> Iterator[sqlite3.Connection]:
    """A connection inside one immediate transaction: committed and on the disk after the block, undone by an error.

    StateError naming the file when SQLite can't open, read or write it; DiskFullError when there is no room for that.

    What is overwritten or deleted is zeroed in the file too: a task holds an analyst's first password until it is done.
    """
    try:
        with _opened(path) as database:
            yield database
    except sqlite3.DatabaseError as error:
        if for_want_of_room(error):
            raise disk_full(str(path)) from error
        raise StateError(f"{path} can't be used: {error}", remedy=_remedy(path, error)) from error


@contextmanager
def _opened(path: Path) -> Iterator[sqlite3.Connection]:
    database = sqlite3.connect(path, timeout=30, isolation_level=None)
    try:
        database.row_factory = sqlite3.Row
        database.execute("PRAGMA synchronous=FULL")
        database.execute("PRAGMA foreign_keys=ON")
        database.execute("PRAGMA secure_delete=ON")
        database.execute("BEGIN IMMEDIATE")
        try:
            yield database
        except BaseException:
            if database.in_transaction:  # SQLite may have undone it by itself
                database.execute("ROLLBACK")
            raise
        database.execute("COMMIT")
    finally:
        database.close()


def _remedy(path: Path, error: sqlite3.DatabaseError) -> str:
    """What to do: another process or the disk for an operational error, a backup for a damaged file."""
    if isinstance(error, sqlite3.OperationalError):
        return f"see that the disk has room and that {path.name} is ours (mode 0600) and used by nobody else"
    return f"stop the server and restore {path.name} from a backup"
