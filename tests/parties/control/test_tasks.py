"""The steward's tasks: what a done one leaves in the file."""

import threading
from pathlib import Path

from parties.control.tasks import TaskQueue

PASSWORD = "correct-horse-battery-staple-" * 8


def test_a_password_is_gone_from_the_file_once_the_account_is_open(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    queue = TaskQueue(path)
    queue.put("add_user", {"name": "ana", "email": "ana@lab.example", "password": PASSWORD})
    task = queue.next(0.0, threading.Event())
    assert task is not None
    assert PASSWORD.encode() in path.read_bytes()
    assert queue.done(task.id, True, "").details["password"] == PASSWORD
    assert PASSWORD[:29].encode() not in path.read_bytes()
