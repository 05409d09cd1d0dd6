"""The benchmark's JSON file, written after each run, so that a killed benchmark goes on where it stood."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from protocols.errors import ConfigError


class RecordFile:
    """Numbers of one setting in a file; a reader sees the old file or the new one."""

    def __init__(self, path: Path) -> None:
        """Writes nothing yet."""
        self.path = path

    def read(self, setting: Mapping[str, object]) -> dict[str, Any]:
        """What is in the file, {} where there is none.

        Raises ConfigError if its numbers are of another setting; the number of seeds may differ.
        """
        if not self.path.exists():
            return {}
        found: dict[str, Any] = json.loads(self.path.read_text(encoding="utf-8"))
        if {**found.get("setting", {}), "seeds": setting["seeds"]} != dict(setting):
            raise ConfigError(
                f"{self.path} has numbers of another setting", remedy="give another file, or remove this one"
            )
        return found

    def write(self, found: Mapping[str, object]) -> None:
        """Replaces the file, and adds what machine it was."""
        machine = f"{platform.machine()}, Python {platform.python_version()}, torch {torch.__version__}"
        partial = self.path.with_suffix(".part")
        self.path.parent.mkdir(parents=True, exist_ok=True)
        partial.write_text(json.dumps({**found, "machine": machine}, indent=1) + "\n", encoding="utf-8")
        os.replace(partial, self.path)
