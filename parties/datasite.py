"""PySyft behind one module: nothing else imports syft, and no safety property rests on it.

`application` is the server's side, `SyftDatasite` an analyst's account on it; the owner's account,
`parties.syft_side.syft_desk`, is built on the functions here. `check` reads a code request in every field that syft
lets an analyst choose, and compares it with the shim. syft is imported inside functions: that takes 4 seconds, and
syft reads its environment meanwhile.
"""

import contextlib
import inspect
import io
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeAlias, TypeVar

from parties.shim import ARGUMENTS, EXECUTION_LIMIT, digest_of, function_name, source
from parties.syft_side.access import Datasite, Decision, Standing, not_approved
from parties.syft_side.launcher import launch
from parties.syft_side.publication import Publication, description, parse_description
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
from protocols.errors import DatasiteError, FedaccordError

if TYPE_CHECKING:
    from fastapi import FastAPI
    from syft.client.datasite_client import DatasiteClient
    from syft.server.server import Server
    from syft.service.code.user_code import SubmitUserCode, UserCode
    from syft.service.context import AuthedServiceContext, UnauthedServiceContext
    from syft.service.dataset.dataset import CreateDataset
    from syft.service.policy.policy import InputPolicy, OutputPolicy, PolicyRule
    from syft.service.request.request import Request
    from syft.service.response import SyftSuccess
    from syft.service.user.user_service import UserService
    from syft.types.uid import UID

__all__ = [
    "Client",
    "Datasite",
    "SyftDatasite",
    "application",
    "as_datasite_error",
    "build",
    "check",
    "check_closed",
    "connect",
    "dataset_of",
    "examine",
    "launch",
    "log_in",
    "translated",
    "uid_of",
]

FOREIGN = "no single approval of a code"
NOT_APPROVED = "Code status on server"
"""In syft's text of a refused call of a code that is pending or denied."""

Client: TypeAlias = "DatasiteClient"
"""A logged-in syft client, for those who only hand it on."""

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S")


Told = Callable[[str, bool], None]
"""Takes the e-mail of an attempt to log in, and whether it succeeded; what it raises refuses the login."""
RefusedStart = Callable[[str, str], None]
"""Takes the name of a function and the caller's key in hex, when syft refuses a start by itself."""


def application(told: Told, refused_start: RefusedStart) -> "FastAPI":
    """The syft server as an ASGI application; its environment must be set, and syft not imported yet.

    It tells of every login before it answers, and of every start that syft refuses by itself. It takes no guests and
    no sign-ups from its first connection on, and the module's own copies of private key and root password are gone.
    """
    from syft.server.uvicorn import app_factory

    app: FastAPI = app_factory()
    import syft.server.server as module

    module.signing_key_env = module.default_root_password = None
    (server,) = module.ServerRegistry.get_all_servers()
    _close_to_strangers(server)
    _tell_of_logins(told)
    _tell_of_refused_starts(refused_start)
    return app


def _tell_of_logins(told: Told) -> None:
    """In the service and not at the route: syft answers HTTP 200 to a wrong password too."""
    from syft.service.user.user_service import UserService
    from syft.types.errors import SyftException

    exchange = UserService.exchange_credentials

    def watched(self: "UserService", context: "UnauthedServiceContext") -> "SyftSuccess":
        email = str(context.login_credentials.email) if context.login_credentials else ""
        try:
            result = exchange(self, context)
        except SyftException:
            _told_of(told, email, False)
            raise
        if not _told_of(told, email, True):
            raise SyftException(public_message="the login could not be logged, so it is refused")
        return result

    UserService.exchange_credentials = watched


def _told_of(told: Told, email: str, success: bool) -> bool:
    """Whether the attempt is in the log; why it isn't stands in the server's own log."""
    try:
        told(email, success)
    except FedaccordError as error:
        print(f"datasite: a login could not be logged: {error}", file=sys.stderr)
        return False
    return True


def _tell_of_refused_starts(tell: RefusedStart) -> None:
    """Code that is pending, denied or another analyst's: the shim doesn't run then, and nobody else would know."""
    from syft.service.code.user_code_service import UserCodeService

    within = UserCodeService._call

    def call(
        service: UserCodeService,
        context: "AuthedServiceContext",
        uid: "UID",
        *more: object,
        **arguments: object,
    ) -> object:
        answer = within(service, context, uid, *more, **arguments)
        if answer.is_err() and _is_start(context, arguments.get("action")):
            code = service.stash.get_by_uid(context.server.verify_key, uid=uid)
            tell(code.unwrap().service_func_name if code.is_ok() else "", str(context.credentials))
        return answer

    UserCodeService._call = call


def _is_start(context: "AuthedServiceContext", action: object) -> bool:
    """Whether a call's argument is the text "start", or can't be read."""
    from syft.types.errors import SyftException

    if action is None:
        return True
    try:
        found = context.server.services.action.get(context, getattr(action, "id", action))
    except SyftException:
        return True
    return getattr(found, "syft_action_data", found) in ("start", None)


def _close_to_strangers(server: "Server") -> None:
    """Not through the API: the server keeps a copy of its settings, which an update there doesn't reach."""
    from syft.service.context import AuthedServiceContext
    from syft.service.settings.settings import ServerSettingsUpdate
    from syft.service.user.user_roles import ServiceRole
    from syft.util.experimental_flags import flags

    flags.CAN_REGISTER = False
    context = AuthedServiceContext(server=server, credentials=server.verify_key, role=ServiceRole.ADMIN)
    update = ServerSettingsUpdate(allow_guest_sessions=False, signup_enabled=False)
    server.services.settings._update(context, update).unwrap()
    server._settings = None


def check_closed(url: str) -> None:
    """DatasiteError when somebody without an account gets an answer from the server."""
    import requests
    from syft.client.client import login_as_guest
    from syft.types.errors import SyftException

    address, port = _address(url)
    guest = login_as_guest(url=address, port=port, verbose=False)
    try:
        guest.api.services.dataset.get_all()
    except (SyftException, requests.ConnectionError):  # syft answers HTTP 500, its client says no connection
        return
    raise DatasiteError(
        "the syft server answers guests", remedy="don't use it; this version of syft is not supported"
    )


def build(signed: str, client: "DatasiteClient") -> "SubmitUserCode":
    """The shim for a signed request's text, made for the client's server; RequestError when the text is none.

    Made directly: syft's decorator needs a source file and puts its own text into the code.
    """
    import syft as sy
    from syft.service.code.user_code import SubmitUserCode
    from syft.service.policy.policy import OutputPolicyExecuteCount

    digest = digest_of(signed)
    policy = sy.MixedInputPolicy(request=sy.Constant(val=signed), action=str, argument=str, client=client)
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    return SubmitUserCode(
        code=source(digest),
        func_name=function_name(digest),
        signature=inspect.Signature([inspect.Parameter(name, kind) for name in ARGUMENTS]),
        input_kwargs=list(ARGUMENTS),
        input_policy_type=type(policy),
        input_policy_init_kwargs=policy.init_kwargs,
        output_policy_type=OutputPolicyExecuteCount,
        output_policy_init_kwargs={"limit": EXECUTION_LIMIT},
    )


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


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Drops what syft prints and warns of while it is imported, at log-in and at submission."""
    nowhere = io.StringIO()
    with contextlib.redirect_stdout(nowhere), contextlib.redirect_stderr(nowhere), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def translated(method: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[S, P], R]:
    """The method, with syft's and the network's exceptions turned into DatasiteError."""

    def wrapper(self: S, /, *args: P.args, **kwargs: P.kwargs) -> R:
        with as_datasite_error():
            return method(self, *args, **kwargs)

    return wrapper


@contextlib.contextmanager
def as_datasite_error() -> Iterator[None]:
    import requests
    from syft.types.errors import SyftException

    try:
        yield
    except SyftException as error:
        raise DatasiteError(f"syft refused: {_public(error)}") from error
    except (requests.RequestException, ConnectionError) as error:
        raise DatasiteError(
            "the datasite can't be reached", remedy="ask its owner whether it runs"
        ) from error


def _public(error: Exception) -> str:
    return str(getattr(error, "public_message", None) or "no reason given")[:500]


def log_in(url: str, email: str, password: str) -> "DatasiteClient":
    """A logged-in syft client; DatasiteError when the server can't be reached or refuses the account."""
    address, port = _address(url)
    with _quiet():
        import syft as sy
    with as_datasite_error(), _quiet():
        return sy.login(url=address, port=port, email=email, password=password)


def _address(url: str) -> tuple[str, int]:
    address, _, port = url.rpartition(":")
    if not port.isdigit() or "://" not in address:
        raise DatasiteError(f"{url[:100]!r} is no address like http://127.0.0.1:8081")
    return address, int(port)


def uid_of(text: str) -> "UID":
    """syft's id of its text form; ValueError when it is none."""
    from syft.types.uid import UID

    return UID.from_string(text)


def dataset_of(publication: Publication) -> "CreateDataset":
    """The syft dataset of a publication: its one asset's data is the commitment alone, the mock the mock rows."""
    import pandas as pd
    import syft as sy

    handle = pd.DataFrame({"commitment": [publication.schema.commitment]})
    asset = sy.Asset(name=publication.name, data=handle, mock=publication.mock, mock_is_real=False)
    return sy.Dataset(name=publication.name, description=description(publication), asset_list=[asset])


def connect(url: str, email: str, password: str) -> "SyftDatasite":
    """The datasite at this URL (http://host:port), logged in as an analyst; DatasiteError when that isn't possible."""
    return SyftDatasite(log_in(url, email, password))


class SyftDatasite:
    """A `Datasite` over a syft client. Threads may share it; calls of one server run side by side."""

    def __init__(self, client: "DatasiteClient") -> None:
        self._client = client

    @property
    def name(self) -> str:
        """The datasite's own name."""
        return str(self._client.name)

    @translated
    def datasets(self) -> tuple[Publication, ...]:
        """The published blocks by name; DatasiteError when one isn't described as ours are."""
        found = []
        for dataset in self._client.api.services.dataset.get_all():
            (asset,) = dataset.asset_list
            found.append(parse_description(dataset.description.text, asset.mock))
        return tuple(sorted(found, key=lambda each: each.name))

    @translated
    def submit(self, signed: str) -> str:
        """Submits the shim, once; gives back the request's digest."""
        digest = digest_of(signed)
        if self._code(digest) is None:
            with _quiet():
                self._client.api.services.code.request_code_execution(code=build(signed, self._client))
                self._client.refresh()
        return digest

    @translated
    def decision(self, digest: str) -> Decision:
        """How the request stands here, from the status of its code."""
        code = self._code(digest)
        if code is None:
            return Decision(standing=Standing.ABSENT)
        status = self._client.api.services.code_status.get_by_uid(code.status_link.object_uid)
        for server, decided in status.status_dict.items():
            if server.server_id == self._client.id and decided.status.value in ("approved", "denied"):
                return Decision(standing=Standing(decided.status.value), reason=decided.reason or "")
        return Decision(standing=Standing.PENDING)

    @translated
    def call(self, digest: str, action: str, argument: str = "") -> dict[str, object]:
        """One blocking call of the approved shim."""
        from syft.types.errors import SyftException

        function = getattr(self._client.code, function_name(digest), None)
        if function is None:
            return not_approved(self.decision(digest))
        try:
            answer = function(action=action, argument=argument).get()
        except SyftException as error:
            if NOT_APPROVED in _public(error):
                return not_approved(self.decision(digest))
            raise
        if not isinstance(answer, dict):
            raise DatasiteError("the shim answered with something else than a dict")
        return answer

    def _code(self, digest: str) -> "UserCode | None":
        wanted = function_name(digest)
        codes = self._client.api.services.code.get_all_for_user()
        return next((code for code in codes if code.service_func_name == wanted), None)
