"""An analyst's account on a datasite, and the shim that it submits."""

import inspect
from typing import TYPE_CHECKING

from parties.datasite.account import log_in, public_text, quiet, translated
from parties.shim import ARGUMENTS, EXECUTION_LIMIT, digest_of, function_name, source
from parties.syft_side.access import Decision, Standing, not_approved
from parties.syft_side.publication import Publication, newest, parse_description
from protocols.errors import DatasiteError

if TYPE_CHECKING:
    from syft.client.datasite_client import DatasiteClient
    from syft.service.code.user_code import SubmitUserCode, UserCode
    from syft.service.dataset.dataset import Dataset

NOT_APPROVED = "Code status on server"
"""In syft's text of a refused call of a code that is pending or denied."""


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
        """The newest version of each published block, by name; DatasiteError when one isn't described as ours are."""
        from syft.types.errors import SyftException

        listed = self._client.api.services.dataset.get_all()
        while True:
            try:
                return newest(_publication(dataset) for dataset in listed)
            except SyftException:
                before, listed = listed, self._client.api.services.dataset.get_all()
                if [each.id for each in listed] == [each.id for each in before]:
                    raise  # else a version was taken away between the list and its mock

    @translated
    def submit(self, signed: str) -> str:
        """Submits the shim, once; gives back the request's digest."""
        digest = digest_of(signed)
        if self._code(digest) is None:
            with quiet():
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
            if NOT_APPROVED in public_text(error):
                return not_approved(self.decision(digest))
            raise
        if not isinstance(answer, dict):
            raise DatasiteError("the shim answered with something else than a dict")
        return answer

    def _code(self, digest: str) -> "UserCode | None":
        wanted = function_name(digest)
        codes = self._client.api.services.code.get_all_for_user()
        return next((code for code in codes if code.service_func_name == wanted), None)


def _publication(dataset: "Dataset") -> Publication:
    (asset,) = dataset.asset_list
    return parse_description(dataset.description.text, asset.mock)


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
