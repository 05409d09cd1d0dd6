"""The report is one file, holds every number as text, and escapes what it is given."""

import re
from html.parser import HTMLParser

import pytest

from parties.demo.page import KindUse, MethodScore, Report, mean_and_spread, render


def _report(**changes: object) -> Report:
    values: dict[str, object] = {
        "title": "Bank and retailer <train> together",
        "digest": "ab" * 32,
        "computation": "vertical.fedcvt.train 1",
        "seconds": 61.0,
        "scores": (
            MethodScore(method="fedcvt", auc=(0.88, 0.9), accuracy=(0.84, 0.86)),
            MethodScore(method="aligned_only", auc=(0.868, 0.87), accuracy=(0.83, 0.83)),
        ),
        "situations": (("both views", 0.88, 0.84), ("only the bank's view", 0.81, 0.79)),
        "experts": (("both views", "stack", "joint 0.40, stack 0.60"),),
        "loss": ((20, 1.9), (40, 1.2)),
        "overlap": {"aligned, train": 200, "bank only": 11296, "people left out": "<10"},
        "pseudo_labels": {"accepted": 40, "candidates": 100, "accuracy": 0.913},
        "uses": (
            KindUse(party="bank", kind="ViewGradients", receiver="retailer", messages=40, bytes=123456),
        ),
        "learned": (("retailer", "which of its keys are common"),),
        "audit": {"bank": "ok", "retailer": "ok"},
        "notes": ("oracle: pooled by the demo script",),
    }
    return Report(**{**values, **changes})  # type: ignore[arg-type]


class _Outline(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def test_the_page_holds_four_plots_and_every_number_as_text() -> None:
    outline = _Outline()
    outline.feed(render(_report()))
    text = " ".join(outline.text)
    assert outline.tags.count("svg") == 4
    for expected in (
        "0.890",
        "0.869",
        "0.913",
        "123,456",
        "11,296",
        "<10",
        "ok",
        "joint 0.40, stack 0.60",
        "ab" * 32,
    ):
        assert expected in text


def test_the_page_loads_nothing_from_elsewhere() -> None:
    page = render(_report())
    assert not re.search(r"""(src|href)\s*=\s*["'](https?:)?//""", page.replace("xlink:href", "xlink"))
    assert "<script" not in page
    assert "@import" not in page


def test_names_are_escaped() -> None:
    page = render(_report(title="<script>alert(1)</script>"))
    assert "<script>alert" not in page
    assert "&lt;script&gt;" in page


def test_mean_and_spread_by_hand() -> None:
    assert mean_and_spread([0.5]) == (0.5, 0.0)
    mean, spread = mean_and_spread([0.8, 0.9])  # deviations .05: sqrt((.0025 + .0025) / 1)
    assert mean == pytest.approx(0.85)
    assert spread == pytest.approx(0.0707107, abs=1e-6)
