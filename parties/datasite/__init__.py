"""PySyft behind one package: nothing else imports syft, and no safety property rests on it.

`server` is the server's side and `account` how a client logs in; `analyst` has the shim and an analyst's account, and
`examination` reads a code request in every field that syft lets an analyst choose. The owner's account,
`parties.syft_side.syft_desk`, is built on these. syft is imported inside functions: that takes 4 seconds, and syft
reads its environment meanwhile.
"""

from parties.datasite.account import (
    Client,
    Dataset,
    as_datasite_error,
    check_closed,
    dataset_of,
    log_in,
    translated,
    uid_of,
)
from parties.datasite.analyst import SyftDatasite, build, connect
from parties.datasite.examination import FOREIGN, check, examine
from parties.datasite.server import application

__all__ = [
    "FOREIGN",
    "Client",
    "Dataset",
    "SyftDatasite",
    "application",
    "as_datasite_error",
    "build",
    "check",
    "check_closed",
    "connect",
    "dataset_of",
    "examine",
    "log_in",
    "translated",
    "uid_of",
]
