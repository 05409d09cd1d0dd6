"""An owner's commands on trained models: from a model to its data and back, export, and forgetting.

The dummy worker ends runs; what a real one would have left is computed here, by the request's own programs.
"""

import csv
import html
import json
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch

from parties import catalog
from parties.blocks.store import Store
from parties.computation import Arrays, Inputs
from parties.home.documents import Documents
from parties.home.people import create_person
from parties.home.state import State, open_state
from parties.running.runspec import ARTIFACTS_FILE
from protocols.audit import AuditEvent, AuditLog
from protocols.program import Outcome, simulate
from protocols.request import party
from protocols.seeds import injected
from protocols.wire import pack_arrays, unpack_arrays
from tests.parties.commands.town import COMMON, Town, bad, fedaccord, good
from tests.parties.console.browsing import with_ticket

USE = """
purpose = "churn"
computation = "{computation}"
minimum_overlap = 20
[parties.bank]
role = "active"
block = "customers"
[parties.shop]
role = "passive"
block = "visitors"
[parameters]
model = "{model}"
{more}
"""


@dataclass(frozen=True)
class Trained:
    """A town in which one model was trained."""

    town: Town
    digest: str

    def path(self, digest: str, name: str) -> Path:
        return state_of(self.town, name).runs / f"{digest}-1" / ARTIFACTS_FILE

    def use(self, what: str, more: str = "") -> str:
        """The digest of a finished use of the model."""
        plan = self.town.folder / "use.toml"
        plan.write_text(USE.format(computation=f"vertical.fedcvt.{what}", model=self.digest[:10], more=more))
        return finish(self.town, self.town.approved(plan), self.digest)


def state_of(town: Town, name: str) -> State:
    return open_state(getattr(town, name), test_mode=True)


def finish(town: Town, digest: str, model: str = "") -> str:
    """Runs an approved request to its end, and leaves what its programs leave; gives back its digest."""
    good("request", "start", digest, "--watch", "-s", town.ana)
    for name, outcome in outcomes(town, digest, model).items():
        (state_of(town, name).runs / f"{digest}-1" / ARTIFACTS_FILE).write_bytes(
            pack_arrays(outcome.artifacts)
        )
    return digest


def outcomes(town: Town, digest: str, model: str) -> Mapping[str, Outcome]:
    """What the request's programs give, by party."""
    request = Documents(state_of(town, "bank").folder).request(digest).request
    computation = catalog.CATALOG[request.computation]
    programs, names = {}, {}
    for block in request.blocks:
        name = party(request, block.role).name
        state = state_of(town, name)
        used: Arrays | None = None
        if model:
            used = unpack_arrays((state.runs / f"{model}-1" / ARTIFACTS_FILE).read_bytes())
        names[block.role] = name
        programs[block.role] = computation.program(
            Inputs(
                role=block.role,
                settings=request,
                data=Store(state.blocks).open(block.commitment, block.columns, block.label),
                seed=injected(0, block.role),
                observe=lambda progress: None,
                model=used,
            )
        )
    return {names[role]: left for role, left in simulate(programs).items() if isinstance(left, Outcome)}


@pytest.fixture(scope="module")
def trained(town: Town) -> Trained:
    return Trained(town, finish(town, town.approved()))


def events(state: State) -> list[str]:
    return [
        f"{entry.event} {entry.result} {entry.object}"
        for entry in AuditLog(state.audit_path, state.name).entries()
    ]


def test_the_console_shows_a_model_and_where_it_comes_from(trained: Trained) -> None:
    bank = state_of(trained.town, "bank")
    visitor = with_ticket(bank, "owner")
    assert f'href="/models/{trained.digest}"' in visitor.get("/models").text
    shown = visitor.get(f"/models/{trained.digest}").text
    for fact in good("model", "show", trained.digest, "-s", trained.town.bank).out.splitlines():
        assert html.escape(fact.split(None, 1)[1]) in shown, fact
    assert "Not tested" in shown
    traced = visitor.get(f"/trace?what={trained.digest}").text
    assert catalog.code_digest() in traced


def test_from_a_model_to_data_people_and_code_and_back(trained: Trained) -> None:
    bank, digest = trained.town.bank, trained.digest
    assert digest[:12] in good("model", "list", "-s", bank).out
    one = good("model", "list", "--block", "customers", "--version", "1", "--json", "-s", bank).document[
        "models"
    ]
    assert isinstance(one, list)
    assert [row["model"] for row in one] == [digest]
    for other in (("--block", "visitors"), ("--block", "customers", "--version", "2")):
        assert good("model", "list", *other, "-s", bank).out == "no models\n"
    shown = good("model", "show", digest[:8], "--json", "-s", bank).document
    assert shown["code_digest"] == catalog.code_digest()
    assert shown["parties"] == {"active": "bank", "passive": "shop"}
    assert shown["purpose"] == "churn"
    people = shown["decisions"]
    assert isinstance(people, list)
    assert [(d["person"], d["decision"]) for d in people] == [("owner", "approve")]
    part = shown["part"]
    assert isinstance(part, dict)
    assert part["classes"] == ["0", "1"]
    assert part["memory"]["aligned"] == COMMON - 10
    said = good("model", "show", digest, "-s", bank).out
    assert "customers" in said
    assert "alignment_tag" not in said


def test_P12_a_trace_leads_from_a_model_to_its_data_approvals_code_and_agreement_and_back(
    trained: Trained,
) -> None:
    bank, digest = trained.town.bank, trained.digest
    found = good("audit", "trace", digest[:8], "--json", "-s", bank).document
    assert (found["kind"], found["request"]) == ("model", digest)
    data = records(found["data"])
    assert [(d["party"], d["block"], d["version"], d["standing"]) for d in data] == [
        ("bank", "customers", 1, "current"),
        ("shop", "visitors", 1, "at its party"),
    ]
    assert (
        data[0]["commitment"] == Store(state_of(trained.town, "bank").blocks).describe("customers").commitment
    )
    assert [(a["person"], a["decision"]) for a in records(found["approvals"])] == [("owner", "approve")]
    code, agreement = found["code"], found["agreement"]
    assert isinstance(code, dict)
    assert isinstance(agreement, dict)
    assert code["digest"] == catalog.code_digest()
    assert (agreement["purpose"], agreement["parties"]) == ("churn", {"active": "bank", "passive": "shop"})
    assert agreement["policy_then"] == agreement["policy_now"]
    assert agreement["countersigned"]
    assert {"submitted", "approved", "countersigned", "started"} <= {
        str(line["event"]) for line in records(found["log"])
    }
    back = good("audit", "trace", "customers:1", "--json", "-s", bank).document
    (version,) = records(back["versions"])
    assert [(m["model"], m["standing"]) for m in records(version["models"])] == [(digest, "usable")]
    assert digest in [r["request"] for r in records(version["requests"])]
    for what in (digest, "customers"):
        said = good("audit", "trace", what, "-s", bank).out
        assert digest in said
        assert str(data[0]["commitment"]) in said
    assert "blocks: customers" in bad("audit", "trace", "visitors", "-s", bank)
    assert "has no version '2'" in bad("audit", "trace", "customers:2", "-s", bank)


def records(value: object) -> list[dict[str, object]]:
    assert isinstance(value, list)
    assert all(isinstance(row, dict) for row in value)
    return value


def test_both_parties_hold_parts_of_the_same_training(trained: Trained) -> None:
    tags = []
    for state in (trained.town.bank, trained.town.shop):
        part = good("model", "show", trained.digest, "--json", "-s", state).document["part"]
        assert isinstance(part, dict)
        tags.append(part["alignment_tag"])
    assert tags[0] == tags[1]


@pytest.mark.parametrize("name", ["bank", "shop"])
def test_R19_an_export_is_a_plain_state_dict_with_a_description(
    trained: Trained, name: str, tmp_path: Path
) -> None:
    state, out = getattr(trained.town, name), tmp_path / "out"
    said = good(
        "model", "export", trained.digest, "--out", out, "--reason", "a branch scores with it", "-s", state
    ).out
    assert "NOT TESTED: membership inference, feature inference" in said
    assert {path.name: stat.S_IMODE(path.stat().st_mode) for path in out.iterdir()} == {
        "model.pt": 0o600,
        "model.json": 0o600,
    }
    tensors = torch.load(out / "model.pt", weights_only=True)
    arrays = unpack_arrays(trained.path(trained.digest, name).read_bytes())
    assert "fedcvt.encoder.unique.layers.0.weight" in tensors
    assert all(np.array_equal(tensor.numpy(), arrays[key]) for key, tensor in tensors.items())
    description = json.loads((out / "model.json").read_text())
    assert description["model"] == trained.digest
    assert description["leakage_tests"] == "not tested"
    assert set(description["tensors"]) == set(tensors)
    assert f"model_exported ok model {trained.digest}" in events(state_of(trained.town, name))
    assert "exists already" in bad(
        "model", "export", trained.digest, "--out", out, "--reason", "a branch scores with it", "-s", state
    )


def test_R19_a_model_leaves_by_an_owners_recorded_decision_only(trained: Trained, tmp_path: Path) -> None:
    bank, out = trained.town.bank, tmp_path / "out"
    words = ("model", "export", trained.digest, "--out", out, "-s", bank)
    assert fedaccord(*words).status == 2, "a reason must be given"
    assert "reason" in bad(*words, "--reason", "")
    create_person(bank, name="rev9", role="reviewer", organisation="Example Bank", passphrase=None)
    assert "rev9 is no owner" in bad(*words, "--reason", "x", "--as", "rev9")
    assert not out.exists()
    good(*words, "--reason", "a branch scores with it")
    description = json.loads((out / "model.json").read_text())
    assert description["decision"] == {"person": "owner", "reason": "a branch scores with it"}
    entries = AuditLog(bank / "audit.jsonl", "bank").entries()
    exports = [entry for entry in entries if entry.event is AuditEvent.MODEL_EXPORTED]
    assert [entry.result for entry in exports][-3:] == ["refused", "refused", "ok"]
    detail = dict(exports[-1].detail)
    assert (detail["reason"], detail["leakage"]) == ("a branch scores with it", "not tested")


def test_a_use_is_listed_with_its_model(trained: Trained) -> None:
    digest = trained.use("fill")
    used = good("model", "show", trained.digest, "--json", "-s", trained.town.bank).document["used_by"]
    assert {"request": digest, "computation": "vertical.fedcvt.fill", "state": "DONE"} in used


@pytest.mark.parametrize(
    ("receiver", "state", "key"), [("active", "bank", "PERSON-B"), ("passive", "shop", "PERSON-S")]
)
def test_predictions_are_joined_with_the_receiver_s_own_keys(
    trained: Trained, receiver: str, state: str, key: str, tmp_path: Path
) -> None:
    digest, out = trained.use("predict", f'receiver = "{receiver}"'), tmp_path / "scores.csv"
    here = getattr(trained.town, state)
    assert "60 people" in good("model", "predictions", digest[:9], "--out", out, "-s", here).out
    assert stat.S_IMODE(out.stat().st_mode) == 0o600
    with out.open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 60
    both = [row for row in rows if row["situation"] == "both"]
    assert {row["person"] for row in both} == {f"PERSON-C{n:02d}" for n in range(COMMON)}
    alone = [row for row in rows if row["situation"] != "both"]
    assert all(row["person"].startswith(key) for row in alone)
    filled = {"active": "passive_view", "passive": "active_view"}[receiver]
    assert {row[filled] for row in alone} == {"filled"}
    assert {row[filled] for row in both} == {"real"}
    assert all(abs(float(row["p(0)"]) + float(row["p(1)"]) - 1) < 1e-5 for row in rows)
    assert {row["prediction"] for row in rows} <= {"0", "1"}
    assert f"rows_exported ok request {digest}" in events(state_of(trained.town, state))
    other = {"bank": trained.town.shop, "shop": trained.town.bank}[state]
    assert "left nothing about people of" in bad(
        "model", "predictions", digest, "--out", tmp_path / "x", "-s", other
    )
    assert "exists already" in bad("model", "predictions", digest, "--out", out, "-s", here)


def test_predictions_of_a_revoked_request_are_not_exported(trained: Trained, tmp_path: Path) -> None:
    digest, out = trained.use("predict", "only_common = true"), tmp_path / "scores.csv"
    good("review", "revoke", digest, "--reason", "enough", "-s", trained.town.bank)
    assert "was revoked" in bad("model", "predictions", digest, "--out", out, "-s", trained.town.bank)
    assert not out.exists()


def test_predictions_of_something_else_are_refused(trained: Trained, tmp_path: Path) -> None:
    plan = trained.town.folder / "unfinished.toml"
    plan.write_text(USE.format(computation="vertical.fedcvt.predict", model=trained.digest[:10], more=""))
    wanted = {
        trained.digest: "is of vertical.fedcvt.train, which leaves nothing about single people",
        trained.use("fill"): "is of vertical.fedcvt.fill, which leaves nothing about single people",
        trained.town.approved(plan): "has no finished run",
        "f" * 64: "no request of bank begins with",
    }
    for digest, said in wanted.items():
        assert said in bad("model", "predictions", digest, "--out", tmp_path / "x", "-s", trained.town.bank)
    assert not (tmp_path / "x").exists()


def test_a_vote_leaves_nothing_about_people_with_labels(trained: Trained, tmp_path: Path) -> None:
    digest = trained.use("vote", "unlabelled = true")
    out = tmp_path / "labels.csv"
    assert "0 people" in good("model", "predictions", digest, "--out", out, "-s", trained.town.bank).out
    assert out.read_text() == "person,group,label,accepted\n"


@pytest.mark.slow
def test_forgetting_the_memory_leaves_a_model_for_both_views(town: Town) -> None:
    model = Trained(town, finish(town, town.approved()))
    bank = town.bank
    said = good("model", "forget-memory", model.digest, "-s", bank).out
    assert "both views only" in said
    assert f"memory_deleted ok model {model.digest}" in events(state_of(town, "bank"))
    kept = unpack_arrays(model.path(model.digest, "bank").read_bytes())
    assert not any(".memory." in name for name in kept)
    assert "deleted: no missing view can be filled" in good("model", "show", model.digest, "-s", bank).out
    assert "remembers nothing" in bad("model", "forget-memory", model.digest, "-s", bank)
    assert "remembers nothing" in bad("model", "forget-memory", model.digest, "-s", town.shop)
    digest = model.use("predict", "only_common = true")
    assert len(outcomes(town, digest, model.digest)["bank"].artifacts["rows.both"]) == COMMON


@pytest.mark.slow
def test_a_withdrawn_model_is_shown_as_such_and_not_exported(town: Town, tmp_path: Path) -> None:
    digest = finish(town, town.approved())
    good("review", "revoke", digest, "--reason", "enough", "-s", town.bank)
    assert "consent withdrawn by bank" in good("model", "list", "-s", town.bank).out
    said = bad("model", "export", digest, "--out", tmp_path / "out", "--reason", "x", "-s", town.bank)
    assert "was withdrawn" in said
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_a_damaged_part_is_refused(town: Town) -> None:
    model = Trained(town, finish(town, town.approved()))
    path = model.path(model.digest, "bank")
    arrays = dict(unpack_arrays(path.read_bytes()))
    path.write_bytes(
        pack_arrays({n: a for n, a in arrays.items() if n != "fedcvt.encoder.common.layers.0.bias"})
    )
    assert "expected fedcvt.encoder.common.layers.0.bias" in bad(
        "model", "show", model.digest, "-s", town.bank
    )
    path.write_bytes(b"torn")
    assert "can't be read" in bad("model", "show", model.digest, "-s", town.bank)


def test_an_unknown_model_is_refused(town: Town) -> None:
    assert "begins with 'ffff'" in bad("model", "show", "ffff", "-s", town.bank)
    assert AuditEvent.MODEL_EXPORTED.value == "model_exported"


def test_R16_erasure_lists_the_models_and_keeps_no_key(trained: Trained, tmp_path: Path) -> None:
    """The last of this file: afterwards the block has another version."""
    town, bank = trained.town, state_of(trained.town, "bank")
    keys = tmp_path / "keys.txt"
    keys.write_text("PERSON-C03\nPERSON-X99\n")
    said = good("block", "erase", "customers", "--key-file", keys, "--json", "-s", town.bank).document
    assert (said["before"], said["version"], said["people"], said["absent"]) == (1, 2, 1, 1)
    assert trained.digest in [model["model"] for model in records(said["models"])]
    entry = list(AuditLog(bank.audit_path, "bank").entries())[-1]
    assert (entry.event, entry.object) == (AuditEvent.PEOPLE_ERASED, "block customers")
    assert dict(entry.detail) == {"before": 1, "people": 1, "version": 2}
    assert b"PERSON-" not in bank.audit_path.read_bytes()
    left = [path for path in bank.blocks.rglob("*") if path.is_file() and b"PERSON-C03" in path.read_bytes()]
    assert left == []
    versions = records(good("audit", "trace", "customers", "--json", "-s", town.bank).document["versions"])
    assert [v["standing"] for v in versions] == ["withdrawn: replaced, version 2 is the newest", "current"]
    assert trained.digest in [m["model"] for m in records(versions[0]["models"])]
    assert versions[1]["models"] == []
    back = good("audit", "trace", trained.digest, "--json", "-s", town.bank).document
    assert "withdrawn" in str(records(back["data"])[0]["standing"])
    assert "none of the 2 keys" in bad("block", "erase", "customers", "--key-file", keys, "-s", town.bank)
