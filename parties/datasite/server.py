"""The syft server of a party, closed to strangers, that tells of logins, new requests and starts which it refuses."""

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from protocols.errors import FedaccordError

if TYPE_CHECKING:
    from fastapi import FastAPI
    from syft.server.server import Server
    from syft.service.context import AuthedServiceContext, UnauthedServiceContext
    from syft.service.response import SyftSuccess
    from syft.service.user.user_service import UserService
    from syft.types.uid import UID

Told = Callable[[str, bool], None]
"""Takes the e-mail of an attempt to log in, and whether it succeeded; what it raises refuses the login."""
RefusedStart = Callable[[str, str], None]
"""Takes the name of a function and the caller's key in hex, when syft refuses a start by itself."""
News = Callable[[], None]
"""Called when the server has got another request; which one it says not."""


def application(told: Told, refused_start: RefusedStart, news: News) -> "FastAPI":
    """The syft server as an ASGI application; its environment must be set, and syft not imported yet.

    It tells of every login before it answers, of every start that syft refuses by itself, and when there is another
    request. It takes no guests and no sign-ups from its first connection on, and the module's own copies of private key
    and root password are gone.
    """
    from syft.server.uvicorn import app_factory

    app: FastAPI = app_factory()
    import syft.server.server as module

    module.signing_key_env = module.default_root_password = None
    (server,) = module.ServerRegistry.get_all_servers()
    _close_to_strangers(server)
    _tell_of_logins(told)
    _tell_of_refused_starts(refused_start)
    _tell_of_requests(news)
    return app


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


def _tell_of_requests(news: News) -> None:
    """Where requests are kept, since there are several ways to make one; the last steps of keeping it may follow."""
    from syft.service.request.request_stash import RequestStash

    keep = RequestStash.set

    def watched(self: "RequestStash", *given: object, **named: object) -> object:
        try:
            return keep(self, *given, **named)
        finally:
            news()

    RequestStash.set = watched


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
