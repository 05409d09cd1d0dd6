"""The owner's account on the party's own syft server: the desk at which the steward works. Imports no syft itself."""

from parties.datasite import Client, Dataset, as_datasite_error, dataset_of, examine, translated, uid_of
from parties.syft_side.publication import Publication, description, is_of
from parties.syft_side.steward import CodeRequest, Examination
from protocols.errors import DatasiteError

UNREADABLE = "syft can't show this request"


class SyftDesk:
    """The owner's account on the party's own server: the `Desk` that the steward works at."""

    def __init__(self, client: Client) -> None:
        self._client = client

    @translated
    def requests(self) -> tuple[CodeRequest, ...]:
        """All requests, newest first; one call, since syft's own status would cost several per request."""
        return tuple(
            CodeRequest(
                uid=request.id.to_string(),
                caller=str(request.requesting_user_verify_key),
                email=str(request.requesting_user_email),
                pending=not request.history,
            )
            for request in self._client.api.services.request.get_all()
        )

    def examine(self, uid: str) -> Examination:
        """The request compared with the shim; what can't be read is foreign, and never stops the steward."""
        try:
            with as_datasite_error():
                return examine(self._client.api.services.request.get_by_uid(uid_of(uid)), self._client)
        except (AttributeError, TypeError, ValueError, KeyError, SyntaxError) as error:
            problem = f"{UNREADABLE}: {type(error).__name__}"
            return Examination(name="", signed="", digest="", problems=(problem,))

    @translated
    def approve(self, uid: str) -> None:
        """Approves the request."""
        self._client.api.services.request.apply(uid_of(uid))

    @translated
    def deny(self, uid: str, reason: str) -> None:
        """Denies the request, before or after an approval."""
        self._client.api.services.request.undo(uid=uid_of(uid), reason=reason)

    @translated
    def publish(self, publication: Publication) -> None:
        """Makes the dataset of this version of the block, then takes the others away; each is there whole or not."""
        services = self._client.api.services
        here = [each for each in services.dataset.get_all() if is_of(each.name, publication.name)]
        same = [each for each in here if each.name == publication.title]
        as_wanted = [each for each in same if _says(each, description(publication))]
        for each in same:
            if not as_wanted:  # the party's card has changed: the one name can't be there twice
                self._take_away(each)
        if not as_wanted:
            self._client.upload_dataset(dataset_of(publication))
        for each in here:
            if each not in same:
                self._take_away(each)

    def _take_away(self, dataset: Dataset) -> None:
        """The dataset first, which nobody finds any more then, and after that its mock."""
        services = self._client.api.services
        services.dataset.delete(uid=dataset.id, delete_assets=False)
        for asset in dataset.asset_list:
            services.action.delete(uid=asset.action_id, soft_delete=True)

    @translated
    def add_user(self, email: str, name: str, password: str) -> None:
        """Makes an analyst's account that can't run anything on mocks; DatasiteError when another has the address."""
        for user in self._client.api.services.user.get_all():
            if user.email == email and user.name == name:
                return
            if user.email == email:
                raise DatasiteError(
                    f"the address {email[:80]!r} belongs to another account", remedy="choose another"
                )
        self._client.register(name=name, email=email, password=password, password_verify=password)

    @translated
    def reset_user(self, email: str, password: str) -> None:
        """Gives the account another password; DatasiteError when there is no such account."""
        for user in self._client.api.services.user.get_all():
            if user.email == email:
                self._client.api.services.user.update(uid=user.id, password=password)
                return
        raise DatasiteError(f"there is no account {email[:80]!r}", remedy="fedaccord user list")

    @translated
    def remove_user(self, email: str) -> None:
        """Deletes the account; nothing when there is none (any more)."""
        for user in self._client.api.services.user.get_all():
            if user.email == email:
                self._client.api.services.user.delete(uid=user.id)


def _says(dataset: Dataset, text: str) -> bool:
    return dataset.description is not None and dataset.description.text == text
