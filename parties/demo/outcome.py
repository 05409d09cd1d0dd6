"""From a finished demo to its table, its result.json and its page."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from parties.demo.data import People
from parties.demo.page import METHOD_NAMES, KindUse, MethodScore, Report, mean_and_spread, render
from parties.demo.setup import BANK, RETAILER, ROLES
from parties.demo.twin import METHODS, Twin, method_scores, released_score
from protocols.program import Json
from protocols.request import ComputationRequest
from protocols.request import digest as request_digest

SITUATIONS = {
    "both": "both views known",
    "active_only": "only the bank's view (the retailer's filled in)",
    "passive_only": "only the retailer's view (the bank's filled in)",
}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Finished:
    """What a demo leaves; `reports` by party as released, `traffic` by party with messages and bytes by kind."""

    request: ComputationRequest
    who: People
    reports: Mapping[str, Mapping[str, object]]
    twins: tuple[Twin, ...]
    traffic: Mapping[str, list[dict[str, object]]]
    audit: Mapping[str, str]
    same_as_twin: bool
    seconds: float


def scores(finished: Finished) -> tuple[MethodScore, ...]:
    """One value per seed for every method; the first seed's are those that the datasites released."""
    released: list[Mapping[str, Json]] = [finished.reports[BANK]]  # type: ignore[list-item]
    released += [twin.report for twin in finished.twins[1:]]
    by_seed = [method_scores(report, twin) for report, twin in zip(released, finished.twins, strict=True)]
    return tuple(
        MethodScore(
            method=method,
            auc=tuple(scores[method].auc for scores in by_seed),
            accuracy=tuple(scores[method].accuracy for scores in by_seed),
        )
        for method in METHODS
    )


def uses(traffic: Mapping[str, list[dict[str, object]]], roles: Mapping[str, str]) -> tuple[KindUse, ...]:
    """What left each party, by kind of message, from that party's own count; `roles` by party."""
    names = {role: name for name, role in roles.items()}
    return tuple(
        KindUse(
            party=name,
            kind=str(line["kind"]),
            receiver=names[str(line["receiver"])],
            messages=int(str(line["messages"])),
            bytes=int(str(line["bytes"])),
        )
        for name, lines in traffic.items()
        for line in lines
        if names[str(line["sender"])] == name
    )


def pseudo_labels(finished: Finished) -> dict[str, float | int | str | None]:
    """Candidates and accepted ones as released, and the accepted ones' accuracy, which the script computes."""
    found = finished.reports[BANK]["pseudo_labels"]
    assert isinstance(found, Mapping)
    counts = {"candidates": _number(found["people"]), "accepted": _number(found["accepted"])}
    return {**counts, "accuracy": finished.twins[0].pseudo_accuracy}


def experts(finished: Finished) -> tuple[tuple[str, str, str], ...]:
    """By situation: its name, the best expert on held-out people, and the weight of each, as released."""
    found = finished.reports[BANK]["experts"]
    assert isinstance(found, Mapping)
    return tuple((SITUATIONS[name], str(entry["best"]), _weights(entry)) for name, entry in found.items())


def _weights(entry: Mapping[str, Mapping[str, Mapping[str, Json]]]) -> str:
    """The experts with a weight that shows, the heaviest first."""
    weights = {name: expert["weight"] for name, expert in entry["experts"].items()}
    shown = {
        name: weight for name, weight in weights.items() if isinstance(weight, float) and weight >= 0.005
    }
    return ", ".join(f"{name} {shown[name]:.2f}" for name in sorted(shown, key=lambda name: -shown[name]))


def result_document(finished: Finished) -> dict[str, object]:
    """The content of result.json."""
    table = scores(finished)
    sent = {
        name: sum(use.bytes for use in uses(finished.traffic, ROLES) if use.party == name) for name in ROLES
    }
    return {
        "request": request_digest(finished.request),
        "seeds": len(finished.twins),
        "aligned": len(finished.who.aligned),
        "auc": {score.method: mean_and_spread(score.auc)[0] for score in table},
        "accuracy": {score.method: mean_and_spread(score.accuracy)[0] for score in table},
        "auc_by_seed": {score.method: list(score.auc) for score in table},
        "accuracy_by_seed": {score.method: list(score.accuracy) for score in table},
        "experts": {name: {"best": best, "weights": weights} for name, best, weights in experts(finished)},
        "pseudo_labels": pseudo_labels(finished),
        "bytes_sent": sent,
        "audit": dict(finished.audit),
        "same_bits_as_one_process": finished.same_as_twin,
        "seconds": round(finished.seconds, 1),
    }


def summary(finished: Finished, out: Path) -> str:
    """The end of the demo on the terminal: the table, pseudo labels, bytes, who learned what, audit."""
    many = len(finished.twins) > 1
    lines = [
        "",
        f"{'method':<42}{'AUC':>8}{'     +-' if many else ''}{'accuracy':>12}{'     +-' if many else ''}",
    ]
    for score in scores(finished):
        auc, spread = mean_and_spread(score.auc)
        accuracy, varies = mean_and_spread(score.accuracy)
        spreads = (f"{spread:>7.3f}", f"{varies:>7.3f}") if many else ("", "")
        lines.append(f"{METHOD_NAMES[score.method]:<42}{auc:>8.3f}{spreads[0]}{accuracy:>12.3f}{spreads[1]}")
    pseudo = pseudo_labels(finished)
    right = pseudo["accuracy"]
    lines += ["", "experts (best on held-out training people; weights):"]
    lines += [f"    {name}: {best}; {weights}" for name, best, weights in experts(finished)]
    lines += [
        "",
        f"pseudo labels: {pseudo['accepted']} of {pseudo['candidates']} accepted"
        + (f", {right:.1%} of them right (script)" if isinstance(right, float) else ""),
        "bytes that left, by kind:",
    ]
    lines += [
        f"    {u.party:<10} {u.kind:<20} {u.messages:>6} messages {u.bytes:>12,} bytes"
        for u in uses(finished.traffic, ROLES)
    ]
    lines += ["who learned what:", *(f"    {who}: {what}" for who, what in learned(finished.request))]
    lines += [
        f"audit: {', '.join(f'{party} {state}' for party, state in finished.audit.items())}",
        f"model parts bit-equal to the same programs in one process: {'yes' if finished.same_as_twin else 'no'}",
        f"{finished.seconds:.0f} s; report in {out / 'report.html'}, numbers in {out / 'result.json'}",
    ]
    return "\n".join(lines)


def learned(request: ComputationRequest) -> tuple[tuple[str, str], ...]:
    """Who learned what, from the manifest's own words and the request."""
    lines: list[tuple[str, str]] = []
    for entry in request.parties:
        facts = dict.fromkeys(
            release.learns for release in request.manifest if release.receiver == entry.role
        )
        lines.append((entry.name, "; ".join(facts)))
    return (*lines, ("analyst", "; ".join(request.analyst_receives)))


def write_report(finished: Finished, path: Path) -> None:
    """Writes the page."""
    path.write_text(render(_page(finished)), encoding="utf-8")


def _page(finished: Finished) -> Report:
    report: Mapping[str, Json] = finished.reports[BANK]  # type: ignore[assignment]
    found = {name: released_score(report, "fedcvt", name) for name in SITUATIONS}
    return Report(
        title="A bank and a retailer train one model without showing each other their customers",
        digest=request_digest(finished.request),
        computation=f"{finished.request.computation} {finished.request.computation_version}",
        seconds=finished.seconds,
        scores=scores(finished),
        experts=experts(finished),
        situations=tuple((SITUATIONS[name], score.auc, score.accuracy) for name, score in found.items()),
        loss=_curve(report),
        overlap=_groups(finished),
        pseudo_labels=pseudo_labels(finished),
        uses=uses(finished.traffic, ROLES),
        learned=learned(finished.request),
        audit=finished.audit,
        notes=_notes(finished),
    )


def _curve(report: Mapping[str, Json]) -> tuple[tuple[int, float], ...]:
    curves = report["loss"]
    assert isinstance(curves, Mapping)
    curve = curves["fedcvt"]
    assert isinstance(curve, Mapping)
    points = curve.get("points", [])
    assert isinstance(points, list)
    return tuple(
        (int(point["last"]) + 1, float(point["mean"])) for point in points if point["mean"] is not None
    )


def _groups(finished: Finished) -> dict[str, int | str]:
    bank, retailer = finished.reports[BANK]["groups"], finished.reports[RETAILER]["groups"]
    assert isinstance(bank, Mapping)
    assert isinstance(retailer, Mapping)
    return {
        "aligned, training": _number(bank["aligned_train"]),
        "bank only, training": _number(bank["active_only"]),
        "retailer only, training": _number(retailer["passive_only"]),
        "aligned, test": _number(bank["aligned_test"]),
    }


def _number(value: object) -> int | str:
    """A released count, or what stands in its place when it is suppressed."""
    if isinstance(value, Mapping):
        return str(value["suppressed"])
    assert isinstance(value, int)
    return value


def _notes(finished: Finished) -> tuple[str, ...]:
    return (
        "FedCVT (the pool of its experts), the aligned-only models and the bank alone: computed at the bank in the "
        "approved run of the first seed, released to the analyst rounded to three digits.",
        "Aligned people only is the best of the parties' own network, the bank's logistic regression on the retailer's "
        "principal components, and a logistic regression with cross-validated C on the aligned people; that last one, "
        "the pooled oracle and the accuracy of the pseudo labels come from the demo script, which owns the public "
        "data, never from a party. The bank alone is the better of a network and a logistic regression.",
        "The oracle is the better, by test AUC, of a fixed logistic regression and a fixed boosting on all data in "
        "one place: a mark to aim at, not a rival.",
        "Seeds after the first run as twins in one process. The first seed's twin gave the same bits as the "
        "datasites: " + ("yes." if finished.same_as_twin else "NO."),
        "Settings were chosen on validation folds of the training people. Early trials of the library's defaults, "
        "input noise among them, looked at test rows of Adult, so these people aren't wholly unseen.",
        "The private seeds were injected to compare runs; a real run draws them from the operating system.",
        "Data: Adult (census income), which holds protected attributes such as sex, race and age.",
    )
