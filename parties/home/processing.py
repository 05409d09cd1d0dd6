"""What a controller says about the processing itself, for its record under Art. 30(1) GDPR and the review page.

Nobody can derive these from a request: they are the controller's own words in policy.toml, shown as given. One that is
empty is shown as open; that refuses nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields

from protocols.errors import ConfigError
from protocols.records import check_text

OPEN = "to be filled by controller"
LONGEST = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class Processing:
    """A controller's words on its processing; "" for what it hasn't said.

    `contact` names the controller's contact and data protection officer, `people` and `data` the categories of persons
    and of data, `retention` how long results are kept, `transfer` whether anything leaves the region and to where,
    `security` the measures, `necessity` why less would not do.
    """

    contact: str = ""
    legal_basis: str = ""
    people: str = ""
    data: str = ""
    retention: str = ""
    transfer: str = ""
    security: str = ""
    necessity: str = ""

    def __post_init__(self) -> None:
        for field in fields(self):
            text = getattr(self, field.name)
            if not isinstance(text, str):
                raise ConfigError(f"policy: processing.{field.name} must be text")
            if text:
                check_text(text, f"policy: processing.{field.name}", ConfigError, limit=LONGEST)


def read_processing(table: object, where: str) -> Processing:
    """The controller's words from a policy's table; ConfigError naming file and field for one that is unknown."""
    if not isinstance(table, Mapping):
        raise ConfigError(f"{where}: processing must be a table", remedy="[processing]")
    known = [field.name for field in fields(Processing)]
    for name in table:
        if name not in known:
            raise ConfigError(
                f"{where}: processing.{name} is unknown", remedy=f"there are {', '.join(known)}"
            )
    return Processing(**table)
