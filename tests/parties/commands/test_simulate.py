"""`fedaccord simulate` as typed: what can't be written is said before anything is trained."""

from pathlib import Path

import pytest

from parties.commands.simulate import simulate
from protocols.errors import ConfigError


@pytest.mark.parametrize("option", ["out", "plot"])
@pytest.mark.parametrize(
    ("place", "said"),
    [("missing/scores.svg", "missing does not exist"), ("a-folder.svg", "a-folder.svg can't be written")],
)
def test_a_file_that_cannot_be_made_is_refused_before_any_file_is_read(
    option: str, place: str, said: str, tmp_path: Path
) -> None:
    (tmp_path / "a-folder.svg").mkdir()
    absent = tmp_path / "absent.csv"
    with pytest.raises(ConfigError, match=said):
        simulate(
            active=absent,
            passive=absent,
            key="customer",
            label="income",
            out=tmp_path / place if option == "out" else None,
            plot=tmp_path / place if option == "plot" else None,
        )
