"""Writes the demo's table into README.md, from the result.json of a demo:

fedaccord demo --seeds 5 --out out/demo && python -m docs.readme_figures out/demo/result.json
"""

import json
import sys
from pathlib import Path

from benchmarks.documents import between_marks

README = Path(__file__).resolve().parent.parent / "README.md"
NAMES = {
    "fedcvt": "**FedCVT, both parties**",
    "aligned_only": "aligned people only",
    "active_alone": "bank alone",
    "oracle": "pooled oracle (all data in one place)",
}


def table(result: dict[str, object]) -> str:
    """The Markdown between the marks."""
    auc, accuracy = result["auc_by_seed"], result["accuracy_by_seed"]
    assert isinstance(auc, dict)
    assert isinstance(accuracy, dict)
    lines = [
        f"`fedaccord demo --seeds {result['seeds']}`: {result['aligned']} aligned training people, the same "
        "9,768 test people for every seed, mean and standard deviation over the seeds (a seed deals out the training "
        "people):",
        "",
        "| method | test AUC | accuracy |",
        "|---|---|---|",
    ]
    for method, name in NAMES.items():
        lines.append(f"| {name} | {_spread(auc[method])} | {_spread(accuracy[method])} |")
    pseudo, sent = result["pseudo_labels"], result["bytes_sent"]
    assert isinstance(pseudo, dict)
    assert isinstance(sent, dict)
    traffic = ", ".join(f"{sent[party] / 1e6:.1f} MB from the {party}" for party in sorted(sent))
    lines += [
        "",
        f"In the governed run, {pseudo['accepted']:,} of {pseudo['candidates']:,} retailer-only people got "
        f"a pseudo label, {pseudo['accuracy']:.1%} of them the right one; {traffic} crossed the link.",
    ]
    return "\n".join(lines)


def _spread(values: list[float]) -> str:
    mean = sum(values) / len(values)
    if len(values) < 2:
        return f"{mean:.3f}"
    deviation = (sum((value - mean) ** 2 for value in values) / (len(values) - 1)) ** 0.5
    return f"{mean:.3f} ± {deviation:.3f}"


def main(path: str) -> None:
    """Replaces what is between the marks."""
    content = table(json.loads(Path(path).read_text(encoding="utf-8")))
    README.write_text(
        between_marks(README.read_text(encoding="utf-8"), "demo figures", content), encoding="utf-8"
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
