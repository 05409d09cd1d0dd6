"""What a datasite publishes of a feature block, and its text form in a syft dataset's description.

Published are the block's public schema (names, types, coarse numbers, the salted commitment), the party's card, and
mock rows; never a value. The description travels through syft as text, so it is read as strictly as any other input.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from parties.blocks.schema import BlockSchema, parse_schema, schema_text
from parties.home.cards import PartyCard, card_text, parse_card
from protocols.errors import DatasiteError

if TYPE_CHECKING:
    import pandas as pd

FORMAT = 1
DESCRIPTION_LIMIT = 1 << 22  # characters; a block of 500 columns with their levels has some 100 KB


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Publication:
    """One version of a block as others see it; `mock` has the columns `schema.all_names`."""

    schema: BlockSchema
    card: PartyCard
    mock: "pd.DataFrame"

    @property
    def name(self) -> str:
        """The block's name."""
        return self.schema.block

    @property
    def title(self) -> str:
        """Name of the syft dataset, which syft wants unique: so a new version can be there before the old one goes."""
        return f"{self.schema.block}:{self.schema.version}"


def is_of(title: str, block: str) -> bool:
    """Whether a syft dataset of this name publishes a version of the block."""
    return title.partition(":")[0] == block


def newest(publications: Iterable[Publication]) -> tuple[Publication, ...]:
    """The newest version of each block, by name: while one is replaced, two are published."""
    found: dict[str, Publication] = {}
    for each in sorted(publications, key=lambda each: (each.name, each.schema.version)):
        found[each.name] = each
    return tuple(found.values())


def description(publication: Publication) -> str:
    """The publication without its mock rows, as one line of JSON."""
    value = {"format": FORMAT, "schema": schema_text(publication.schema), "card": card_text(publication.card)}
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def parse_description(text: str, mock: "pd.DataFrame") -> Publication:
    """The publication in a dataset's description; DatasiteError, BlockError or RosterError naming what is wrong."""
    if len(text) > DESCRIPTION_LIMIT:
        raise DatasiteError(f"a dataset's description has at most {DESCRIPTION_LIMIT} characters")
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DatasiteError("the dataset's description is not JSON") from error
    if not isinstance(value, dict) or set(value) != {"format", "schema", "card"} or value["format"] != FORMAT:
        raise DatasiteError(f"the dataset's description isn't of format {FORMAT}")
    schema, card = value["schema"], value["card"]
    if not isinstance(schema, str) or not isinstance(card, str):
        raise DatasiteError("the dataset's description: schema and card must be texts")
    return Publication(schema=parse_schema(schema), card=parse_card(card), mock=mock)
