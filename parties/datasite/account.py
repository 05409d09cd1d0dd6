"""A client of a syft server: logging in, and its errors as ours; what an owner's and an analyst's account share."""

import contextlib
import io
import warnings
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeAlias, TypeVar

from parties.syft_side.publication import Publication, description
from protocols.errors import DatasiteError

if TYPE_CHECKING:
    from syft.client.datasite_client import DatasiteClient
    from syft.service.dataset.dataset import CreateDataset
    from syft.service.dataset.dataset import Dataset as SyftDataset
    from syft.types.uid import UID

Client: TypeAlias = "DatasiteClient"
"""A logged-in syft client, for those who only hand it on."""
Dataset: TypeAlias = "SyftDataset"
"""A dataset as a server lists it, for those who only hand it on."""

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S")


def log_in(url: str, email: str, password: str) -> "DatasiteClient":
    """A logged-in syft client; DatasiteError when the server can't be reached or refuses the account."""
    address, port = _address(url)
    with quiet():
        import syft as sy
    with as_datasite_error(), quiet():
        return sy.login(url=address, port=port, email=email, password=password)


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


def _address(url: str) -> tuple[str, int]:
    address, _, port = url.rpartition(":")
    if not port.isdigit() or "://" not in address:
        raise DatasiteError(f"{url[:100]!r} is no address like http://127.0.0.1:8081")
    return address, int(port)


@contextlib.contextmanager
def quiet() -> Iterator[None]:
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
    """Turns what syft and the network raise within it into DatasiteError."""
    import requests
    from syft.types.errors import SyftException

    try:
        yield
    except SyftException as error:
        raise DatasiteError(f"syft refused: {public_text(error)}") from error
    except (requests.RequestException, ConnectionError) as error:
        raise DatasiteError(
            "the datasite can't be reached", remedy="ask its owner whether it runs"
        ) from error


def public_text(error: Exception) -> str:
    """What syft says of its exception to a client, at most 500 characters."""
    return str(getattr(error, "public_message", None) or "no reason given")[:500]


def uid_of(text: str) -> "UID":
    """syft's id of its text form; ValueError when it is none."""
    from syft.types.uid import UID

    return UID.from_string(text)


def dataset_of(publication: Publication) -> "CreateDataset":
    """The syft dataset of a publication: its one asset's data is the commitment alone, the mock the mock rows."""
    import pandas as pd
    import syft as sy

    handle = pd.DataFrame({"commitment": [publication.schema.commitment]})
    asset = sy.Asset(name=publication.title, data=handle, mock=publication.mock, mock_is_real=False)
    return sy.Dataset(name=publication.title, description=description(publication), asset_list=[asset])
