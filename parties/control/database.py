"""The supervisor's SQLite file: one durable transaction at a time, for the ledger and for the steward's tasks."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def transaction(path: Path) -> Iterator[sqlite3.Connection]:
    """A connection inside one immediate transaction: committed and on the disk after the block, undone by an error.

    What is overwritten or deleted is zeroed in the file too: a task holds an analyst's first password until it is done.
    """
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
            database.execute("ROLLBACK")
            raise
        database.execute("COMMIT")
    finally:
        database.close()
