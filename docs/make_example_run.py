"""Makes docs/example-run.md anew, or checks with --check that a new run would give a page of the same structure."""

import argparse
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # so that a checkout works without being installed

from docs.example_run.page import render  # noqa: E402
from docs.example_run.story import tell  # noqa: E402
from docs.example_run.structure import differences  # noqa: E402

PAGE = ROOT / "docs" / "example-run.md"


def main() -> int:
    """0, or 1 when the committed page has another structure than the run of today."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--check", action="store_true", help="write nothing; compare titles, log entries and messages"
    )
    check = parser.parse_args().check
    made = render(tell())
    if not check:
        PAGE.write_text(made, encoding="utf-8")
        print(f"{PAGE.relative_to(ROOT)}: {len(made.splitlines())} lines")
        return 0
    found = differences(PAGE.read_text(encoding="utf-8"), made)
    for line in found:
        print(line, file=sys.stderr)
    if found:
        print("make the page anew: python docs/make_example_run.py", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
