"""The scores of a report as a table for people, with a line on what each method is.

A report may come from another party: whatever isn't of the expected form is passed over, and texts are made printable.
"""

from collections.abc import Iterator, Mapping

from parties.roles.showing import printable

HIDDEN = "hidden"
"""In place of a number that the disclosure rules hold back."""
NOTHING = "-"
_NUMBERS = ("auc", "accuracy", "people")


def scores_of(report: Mapping[str, object]) -> Iterator[tuple[str, str, Mapping[str, object]]]:
    """Method, situation and scores of each line of a report's table; none without methods."""
    for method, situations in _group(report.get("methods")).items():
        for situation, scores in _group(situations).items():
            if isinstance(scores, Mapping):
                yield method, situation, scores


def score_table(report: Mapping[str, object], meanings: Mapping[str, str]) -> list[str]:
    """The lines of the table, then those that say what its words mean and why numbers are hidden; [] without scores.

    `meanings` are those of methods and situations, by name; names without one get no line.
    """
    rows = [
        (printable(method, 40), printable(views, 40), scores) for method, views, scores in scores_of(report)
    ]
    if not rows:
        return []
    width = max(14, *(len(method) + 2 for method, _, _ in rows))
    lines = [f"{'method':<{width}}{'views':<14}{'AUC':>8}{'accuracy':>10}{'people':>8}"]
    lines += [
        f"{method:<{width}}{views:<14}{shown['auc']:>8}{shown['accuracy']:>10}{shown['people']:>8}"
        for method, views, scores in rows
        for shown in [{name: _shown(scores.get(name)) for name in _NUMBERS}]
    ]
    words = dict.fromkeys(word for method, views, _ in rows for word in (method, views))
    words |= dict.fromkeys(printable(name, 40) for _, weights in _weights_of(report) for name in weights)
    explained = [f"    {word:<{width}}{meanings[word]}" for word in words if word in meanings]
    reasons = {_reason(scores.get(name)) for _, _, scores in rows for name in _NUMBERS} - {""}
    return [*lines, "", *explained, *(f"    {HIDDEN:<{width}}{reason}" for reason in sorted(reasons))]


def weight_lines(report: Mapping[str, object]) -> list[str]:
    """A line for each situation on how much each expert weighs in its prediction, the heaviest first; [] without."""
    lines = []
    for situation, weights in _weights_of(report):
        shown = {name: _shown(weight) for name, weight in sorted(weights.items(), key=_heaviest_first)}
        heavy = ", ".join(f"{printable(name, 40)} {told}" for name, told in shown.items() if told != "0.000")
        lines.append(f"    {printable(situation, 40):<14}{heavy or NOTHING}")
    return ["weights of the experts in the prediction, by views:", *lines] if lines else []


def _weights_of(report: Mapping[str, object]) -> Iterator[tuple[str, Mapping[str, object]]]:
    """Each situation of a pool of experts with their weights: fitted ones, or those stated in advance."""
    for situation, told in _group(report.get("experts")).items():
        found = _group(told)
        weights = {
            name: _group(scores).get("weight") for name, scores in _group(found.get("experts")).items()
        }
        if fitted_or_stated := weights or _group(_group(found.get("settings")).get("weights")):
            yield situation, fitted_or_stated


def _heaviest_first(named: tuple[str, object]) -> float:
    return -named[1] if isinstance(named[1], int | float) else 0.0


def people_lines(report: Mapping[str, object]) -> list[str]:
    """A line on the sizes of a report's groups and one on its pseudo labels, as far as it has them."""
    groups, pseudo = _group(report.get("groups")), _group(report.get("pseudo_labels"))
    lines = []
    if groups:
        sizes = ", ".join(f"{printable(name, 40)} {_shown(size)}" for name, size in groups.items())
        lines.append(f"people: {sizes}")
    if "accepted" in pseudo:
        lines.append(
            f"pseudo labels: {_shown(pseudo['accepted'])} of {_shown(pseudo.get('people'))} people got one"
        )
    return lines


def _group(value: object) -> Mapping[str, object]:
    return {str(name): inner for name, inner in value.items()} if isinstance(value, Mapping) else {}


def _shown(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.3f}"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, Mapping) and "suppressed" in value:
        short = printable(str(value["suppressed"]), 8)
        return short if short.startswith("<") else HIDDEN
    return NOTHING


def _reason(value: object) -> str:
    return printable(str(value.get("reason", ""))) if isinstance(value, Mapping) else ""
