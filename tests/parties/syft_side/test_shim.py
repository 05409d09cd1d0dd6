"""The shim's text and what it calls, without syft: its frame is played by a module of the same name."""

import ast
import dataclasses
import json
import sys
import types
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parties import shim
from parties.control.socket import SocketServer
from parties.syft_side.submission import (
    APPROVAL,
    Policies,
    Rule,
    Submission,
    code_hash,
    differences,
    expected,
)
from protocols.errors import DatasiteError, RequestError, RunsUsedError
from tests.parties.syft_side.syft_lab import signed_request

SIGNED, DIGEST = signed_request(1)
CALLER = "1f" * 32


def execute_byte_code_as_syft_does(code: object, context: object, body: Callable[[], object]) -> object:
    """Calls `body` below a frame that looks like syft's."""
    module = types.ModuleType(shim.SYFT_FRAME[0])
    text = f"def {shim.SYFT_FRAME[1]}(code_item, kwargs, context, body):\n    return body()\n"
    exec(compile(text, "syft", "exec"), module.__dict__)  # noqa: S102
    return module.__dict__[shim.SYFT_FRAME[1]](code, {}, context, body)


def frame_objects(digest: str = DIGEST, author: str = CALLER, caller: str = CALLER) -> tuple[object, object]:
    code = types.SimpleNamespace(
        raw_code=shim.source(digest), service_func_name=shim.function_name(digest), user_verify_key=author
    )
    return code, types.SimpleNamespace(credentials=caller)


def called(
    action: object = "status", argument: object = "", signed: object = SIGNED, **frame: str
) -> dict[str, object]:
    """The answer of one call of the shim in its frame."""
    code, context = frame_objects(**frame)
    answer = execute_byte_code_as_syft_does(
        code,
        context,
        lambda: shim.dispatch(signed, action, argument),  # type: ignore[arg-type]
    )
    assert isinstance(answer, dict)
    return answer


class Supervisor:
    """Answers on the state folder's socket; `handler` may be replaced."""

    def __init__(self) -> None:
        self.asked: list[dict[str, object]] = []
        self.handler: Callable[[Mapping[str, object]], dict[str, object]] = lambda question: {
            "state": "RUNNING"
        }

    def __call__(self, question: Mapping[str, object]) -> dict[str, object]:
        self.asked.append(dict(question))
        return self.handler(question)


@pytest.fixture
def supervisor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Supervisor]:
    answering = Supervisor()
    server = SocketServer(tmp_path, answering)
    server.start()
    monkeypatch.setenv(shim.STATE_VARIABLE, str(tmp_path))
    yield answering
    server.stop()


def test_the_text_is_one_function_that_calls_dispatch_and_nothing_else() -> None:
    (function,) = ast.parse(shim.source(DIGEST)).body
    assert isinstance(function, ast.FunctionDef)
    assert (function.name, [a.arg for a in function.args.args]) == (f"run_{DIGEST}", list(shim.ARGUMENTS))
    assert [ast.unparse(line) for line in function.body] == [
        "import parties.shim",
        "return parties.shim.dispatch(request, action, argument)",
    ]


@pytest.mark.parametrize(
    "wrong", ["", "A" * 64, "a" * 63, "a" * 64 + "\n", "a" * 64 + "(x=1)", "../" + "a" * 61]
)
def test_only_a_digest_becomes_part_of_the_text(wrong: str) -> None:
    with pytest.raises(RequestError):
        shim.source(wrong)


def test_a_call_reaches_the_supervisor_with_digest_and_caller(supervisor: Supervisor) -> None:
    assert called("start", "[]") == {"ok": True, "state": "RUNNING"}
    assert supervisor.asked == [
        {"action": "call", "request": DIGEST, "call": "start", "argument": "[]", "caller": CALLER}
    ]


def test_a_refusal_keeps_its_code_and_facts_but_no_message(supervisor: Supervisor) -> None:
    def refuse(question: Mapping[str, object]) -> dict[str, object]:
        raise RunsUsedError("secret: used 1 of 1", remedy="secret too")

    supervisor.handler = refuse
    assert called("start") == {"ok": False, "error": "runs_used"}
    supervisor.handler = lambda question: {
        "ok": False,
        "error": "not_approved",
        "state": "PENDING",
        "used": 0,
        "allowed": 1,
        "path": "/x",
    }
    assert called("start") == {
        "ok": False,
        "error": "not_approved",
        "state": "PENDING",
        "used": 0,
        "allowed": 1,
    }


@pytest.mark.parametrize(
    ("frame", "signed", "action", "code"),
    [
        ({"author": "2e" * 32}, SIGNED, "status", "datasite"),
        ({"caller": "2e" * 32}, SIGNED, "status", "datasite"),
        ({"author": "x", "caller": "x"}, SIGNED, "status", "datasite"),
        ({"digest": signed_request(2)[1]}, SIGNED, "status", "datasite"),
        ({}, SIGNED, "erase", "action"),
        ({}, SIGNED, None, "request"),
        ({}, SIGNED.replace('"runs":1', '"runs":9'), "status", "request"),
        ({}, SIGNED + "\n", "status", "request"),
        ({}, DIGEST, "status", "request"),
        ({}, 7, "status", "request"),
    ],
    ids=range(10),
)
def test_whatever_is_wrong_never_reaches_the_supervisor(
    supervisor: Supervisor, frame: dict[str, str], signed: object, action: object, code: str
) -> None:
    assert called(action, signed=signed, **frame) == {"ok": False, "error": code}
    assert supervisor.asked == []


def test_without_syft_s_frame_nothing_is_passed_on(supervisor: Supervisor) -> None:
    assert shim.dispatch(SIGNED, "status", "") == {"ok": False, "error": "datasite"}
    with pytest.raises(DatasiteError, match="wasn't called by syft"):
        shim.calling_key(DIGEST)

    def execute_byte_code(code_item: object, context: object) -> dict[str, object]:
        return shim.dispatch(SIGNED, "status", "")

    assert execute_byte_code(*frame_objects()) == {"ok": False, "error": "datasite"}
    assert supervisor.asked == []


def test_no_supervisor_is_a_typed_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(shim.STATE_VARIABLE, str(tmp_path))
    assert called() == {"ok": False, "error": "state"}
    monkeypatch.delenv(shim.STATE_VARIABLE)
    assert called() == {"ok": False, "error": "datasite"}


@pytest.mark.parametrize(
    "error", [SystemExit("secret value 42"), KeyboardInterrupt(), ValueError("secret value 42")]
)
def test_dispatch_never_raises(
    supervisor: Supervisor,
    monkeypatch: pytest.MonkeyPatch,
    error: BaseException,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fail(*_: object) -> dict[str, object]:
        raise error

    monkeypatch.setattr(shim, "call_supervisor", fail)
    assert called() == {"ok": False, "error": "internal"}
    assert type(error).__name__ in capsys.readouterr().err


def test_an_answer_is_small_and_plain(supervisor: Supervisor) -> None:
    supervisor.handler = lambda question: {"result": "x" * shim.ANSWER_LIMIT}
    assert called("result") == {"ok": False, "error": "datasite"}
    supervisor.handler = lambda question: {"result": {"auc": 0.75, "curve": [1, 2]}}
    answer = called("result")
    assert answer == {"ok": True, "result": {"auc": 0.75, "curve": [1, 2]}}
    assert json.loads(json.dumps(answer)) == answer


@given(st.text(max_size=60), st.text(max_size=20), st.text(max_size=20))
def test_any_text_gets_a_typed_refusal(request: str, action: str, argument: str) -> None:
    answer = shim.dispatch(request, action, argument)
    assert answer["ok"] is False
    assert answer["error"] in ("action", "request")


def test_the_shim_is_light() -> None:
    heavy = {"syft", "torch", "pandas", "pyarrow"}
    import subprocess

    program = f"import sys, parties.shim; print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


# The comparison of a submission with the shim.


def _found() -> Submission:
    """A submission that is the shim, put together by hand."""
    policies = Policies(
        servers=("bank 51 5e",),
        input_type="MixedInputPolicy",
        rules=(
            Rule(argument="request", kind="constant", type="str", value=SIGNED, given=False),
            Rule(argument="action", kind="free", type="str", value="", given=True),
            Rule(argument="argument", kind="free", type="str", value="", given=True),
        ),
        output_type="OutputPolicyExecuteCount",
        limit=1_000_000,
    )
    name = f"run_{DIGEST}"
    return Submission(
        changes=(APPROVAL,),
        approves="approved",
        nested_approval=False,
        same_type=True,
        linked_types=("UserCode", "UserCodeStatusCollection"),
        servers=("51", "51", "51"),
        approved_status="57",
        code_status="57",
        status_owner="c0",
        code="c0",
        requester=CALLER,
        author=CALLER,
        account=("DATA_SCIENTIST", "ana@lab.example.org", False),
        email="ana@lab.example.org",
        text=shim.source(DIGEST),
        name=name,
        unique_name=f"user_func_{name}_{CALLER}_{code_hash(DIGEST, CALLER)}",
        code_hash=code_hash(DIGEST, CALLER),
        executed="executed",
        arguments=("request", "action", "argument"),
        signature="(request, action, argument)",
        nested=False,
        uses_datasite=False,
        worker_pool="default-pool",
        side="high",
        policies=policies,
        policies_in_use=policies,
    )


def _differences(found: Submission) -> tuple[str, ...]:
    wanted = expected(
        found, signed=SIGNED, digest=DIGEST, server="51", identity="bank 51 5e", executed="executed"
    )
    return differences(found, wanted)


def test_the_shim_has_no_differences() -> None:
    assert _differences(_found()) == ()


def _altered(value: object) -> object:
    if isinstance(value, bool):
        return not value
    if isinstance(value, str):
        return value + "0"
    if isinstance(value, Policies):
        return dataclasses.replace(value, limit=1)
    assert isinstance(value, tuple)
    return (*value[:-1], _altered(value[-1]))


@pytest.mark.parametrize("field", [field.name for field in dataclasses.fields(Submission)])
def test_every_field_counts(field: str) -> None:
    """Altering any single field is noticed: none is only carried along."""
    found = _found()
    altered = dataclasses.replace(found, **{field: _altered(getattr(found, field))})
    assert _differences(altered) != ()


@pytest.mark.parametrize("field", [field.name for field in dataclasses.fields(Policies)])
def test_every_part_of_the_policies_counts(field: str) -> None:
    found = _found()
    value = getattr(found.policies, field)
    other = value + 1 if isinstance(value, int) else value[:-1] if isinstance(value, tuple) else "other"
    policies = dataclasses.replace(found.policies, **{field: other})
    assert _differences(dataclasses.replace(found, policies=policies)) == (
        "policies differs from the shim's",
    )


@pytest.mark.parametrize("field", [field.name for field in dataclasses.fields(Rule)])
@pytest.mark.parametrize("position", [0, 1, 2])
def test_every_part_of_a_rule_counts(field: str, position: int) -> None:
    found = _found()
    rules = list(found.policies.rules)
    value = getattr(rules[position], field)
    rules[position] = dataclasses.replace(
        rules[position], **{field: not value if field == "given" else value + "x"}
    )
    policies = dataclasses.replace(found.policies, rules=tuple(rules))
    assert _differences(dataclasses.replace(found, policies_in_use=policies)) == (
        "policies in use differs from the shim's",
    )
