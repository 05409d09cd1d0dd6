"""A code request as syft holds it, compared with the shim in every field that an analyst chooses."""

from typing import TYPE_CHECKING

from parties.shim import ARGUMENTS, digest_of, function_name, source
from parties.syft_side.steward import Examination
from parties.syft_side.submission import (
    CONSTANT,
    FREE,
    Policies,
    Rule,
    Submission,
    differences,
    expected,
    unique_name,
)
from protocols.errors import FedaccordError

if TYPE_CHECKING:
    from syft.client.datasite_client import DatasiteClient
    from syft.service.code.user_code import UserCode
    from syft.service.policy.policy import InputPolicy, OutputPolicy, PolicyRule
    from syft.service.request.request import Request

FOREIGN = "no single approval of a code"


def check(request: "Request", client: "DatasiteClient") -> tuple[str, ...]:
    """Every reason why this syft request isn't exactly a shim on the owner's server; empty when it is."""
    return examine(request, client).problems


def examine(request: "Request", client: "DatasiteClient") -> Examination:
    """The comparison behind `check`. The code is read from the server, never from what the request carries along."""
    from syft.client.api import ServerIdentity
    from syft.service.code.user_code import parse_user_code
    from syft.service.request.request import UserCodeStatusChange

    if [type(change) for change in request.changes] != [UserCodeStatusChange]:
        return Examination(name="", signed="", digest="", problems=(FOREIGN,))
    code = client.api.services.code.get_by_id(request.changes[0].linked_user_code.object_uid)
    name = str(code.service_func_name)
    found = _submission(request, code, client)
    signed = next((rule.value for rule in found.policies.rules if rule.kind == CONSTANT), "")
    try:
        digest = digest_of(signed)
    except FedaccordError as error:
        return Examination(
            name=name,
            signed="",
            digest="",
            problems=(f"no signed request is pinned: {error}",),
            code=str(code.raw_code),
        )
    wanted = expected(
        found,
        signed=signed,
        digest=digest,
        server=client.id.to_string(),
        identity=_identity(ServerIdentity.from_api(client.api)),
        executed=parse_user_code(
            raw_code=source(digest),
            func_name=unique_name(digest, found.requester),
            original_func_name=function_name(digest),
            function_input_kwargs=list(ARGUMENTS),
        ),
    )
    return Examination(
        name=name, signed=signed, digest=digest, problems=differences(found, wanted), code=str(code.raw_code)
    )


def _submission(request: "Request", code: "UserCode", client: "DatasiteClient") -> Submission:
    (change,) = request.changes
    status = client.api.services.code_status.get_by_uid(change.linked_obj.object_uid)
    servers = (request.server_uid, change.linked_user_code.server_uid, change.linked_obj.server_uid)
    submitted = _policies(
        code.input_policy_type,
        code.input_policy_init_kwargs,
        code.output_policy_type,
        code.output_policy_init_kwargs,
    )
    return Submission(
        changes=tuple(type(each).__name__ for each in request.changes),
        approves=str(change.value.value),
        nested_approval=change.nested_solved is not False,
        same_type=change.match_type is True,
        linked_types=(change.linked_user_code.object_type.__name__, change.linked_obj.object_type.__name__),
        servers=tuple(server.to_string() for server in servers),
        approved_status=change.linked_obj.object_uid.to_string(),
        code_status=code.status_link.object_uid.to_string(),
        status_owner=status.user_code_link.object_uid.to_string(),
        code=code.id.to_string(),
        requester=str(request.requesting_user_verify_key),
        author=str(code.user_verify_key),
        account=_account(request, client),
        email=str(request.requesting_user_email),
        text=code.raw_code,
        name=code.service_func_name,
        unique_name=code.unique_func_name,
        code_hash=code.code_hash,
        executed=code.parsed_code,
        arguments=tuple(code.input_kwargs),
        signature=str(code.signature),
        nested=bool(code.nested_codes),
        uses_datasite=code.uses_datasite is not False,
        worker_pool=code.worker_pool_name or "default-pool",
        side=str(code.origin_server_side_type.value),
        policies=submitted,
        policies_in_use=_in_use(code, submitted),
    )


def _account(request: "Request", client: "DatasiteClient") -> tuple[str, str, bool]:
    from syft.types.errors import SyftException

    try:
        user = client.api.services.user.get_by_verify_key(request.requesting_user_verify_key)
    except SyftException:
        return ("no account", "", True)
    return (user.role.name, str(user.email), user.mock_execution_permission is not False)


def _policies(input_type: object, rules: object, output_type: object, output: object) -> Policies:
    """Policies as plain values; a class counts as syft's own only when it is that very class."""
    from syft.service.policy.policy import MixedInputPolicy, OutputPolicyExecuteCount

    by_server = rules if isinstance(rules, dict) else {}
    plain = isinstance(output, dict) and set(output) == {"limit", "id"} and type(output["limit"]) is int
    return Policies(
        servers=tuple(_identity(server) for server in by_server),
        input_type=MixedInputPolicy.__name__ if input_type is MixedInputPolicy else "other",
        rules=tuple(_rule(name, rule) for each in by_server.values() for name, rule in each.items()),
        output_type=OutputPolicyExecuteCount.__name__ if output_type is OutputPolicyExecuteCount else "other",
        limit=output["limit"] if plain and isinstance(output, dict) else -1,
    )


def _in_use(code: "UserCode", submitted: Policies) -> Policies:
    """The policy objects that syft made and stored with the code: they run, and not what was submitted."""
    from syft.service.policy.policy import MixedInputPolicy

    if submitted.input_type == "other" or submitted.output_type == "other":
        return submitted  # refused anyway; never make an analyst's own class here
    inside: InputPolicy = code._get_input_policy()
    out: OutputPolicy = code._get_output_policy()
    rules = inside.kwarg_rules if type(inside) is MixedInputPolicy else {}
    return _policies(type(inside), rules, type(out), {"limit": getattr(out, "limit", None), "id": None})


def _identity(server: object) -> str:
    parts = (getattr(server, name, "") for name in ("server_name", "server_id", "verify_key"))
    return " ".join(part.to_string() if hasattr(part, "to_string") else str(part) for part in parts)


def _rule(name: str, rule: "PolicyRule") -> Rule:
    from syft.service.policy.policy import Constant, UserOwned

    given = rule.requires_input is not False
    if type(rule) is Constant and type(rule.val) is rule.klass is str:
        return Rule(argument=_argument(name, rule), kind=CONSTANT, type="str", value=rule.val, given=given)
    if type(rule) is UserOwned:
        kind = getattr(rule.type, "__name__", "other")
        return Rule(argument=_argument(name, rule), kind=FREE, type=kind, value="", given=given)
    return Rule(argument=_argument(name, rule), kind=type(rule).__name__, type="other", value="", given=given)


def _argument(name: str, rule: "PolicyRule") -> str:
    return name if rule.kw == name else f"{name} as {rule.kw}"
