"""The benchmark of the rules at a tiny size: every rule reads every row."""

import json
from pathlib import Path

from benchmarks.key_rules import CASES, main


def test_every_rule_is_timed(tmp_path: Path) -> None:
    main(["--rows", "50", "--json", str(tmp_path / "out.json")])
    told = json.loads((tmp_path / "out.json").read_text())
    assert told["rows"] == 50
    assert list(told["seconds"]) == [rule for _, rule in CASES]
    assert all(0 <= spent < 10 for spent in told["seconds"].values())
