"""What an analyst wants, as a small TOML file, and the complete request that it becomes.

The plan says purpose, parties, blocks, columns and the settings that differ from the defaults. Everything else
comes from the datasites (cards, schemas) and from the catalog (manifest, what the analyst receives), so that nobody
writes a manifest by hand.
"""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path

from parties import catalog
from parties.blocks.keys.agreement import aligns, check_agreement
from parties.blocks.schema import only
from parties.computation import Computation
from parties.home.cards import PartyCard
from parties.syft_side.publication import Publication
from protocols.errors import ConfigError, RequestError
from protocols.psi.messages import PsiMatches
from protocols.records import utc_text
from protocols.request import AnalystEntry, BlockEntry, ComputationRequest, PartyEntry

LONGEST_DAYS = 366
"""Until a request expires."""
_FIELDS: Mapping[str, type] = {
    "purpose": str,
    "purpose_text": str,
    "computation": str,
    "minimum_group": int,
    "minimum_overlap": int,
    "public_seed": int,
    "runs": int,
    "days": int,
}
_EXAMPLES: Mapping[str, str] = {
    "purpose": '"churn"',
    "purpose_text": '"Which customers leave within a year."',
    "computation": f'"{catalog.DEFAULT}"',
    "minimum_group": "10",
    "minimum_overlap": "50",
    "public_seed": "0",
    "runs": "1",
    "days": "7",
    "role": '"active"',
    "block": '"customers"',
    "columns": '["age", "town"]',
}
"""How each field is written."""
_PARTY_FIELDS: Mapping[str, type] = {"role": str, "block": str, "columns": list}


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanParty:
    """One party of a plan; without `columns`, or with `[]`, it is every feature column of the block.

    An alignment reads none. `block` is "" for a role without one.
    """

    name: str
    role: str
    block: str = ""
    columns: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What the analyst asks for. `days` until it expires; `parameters` only where they differ from defaults.

    `purpose_text` may be empty.
    """

    purpose: str
    purpose_text: str
    computation: str
    parties: tuple[PlanParty, ...]
    parameters: Mapping[str, object]
    minimum_group: int = 10
    minimum_overlap: int = 50
    public_seed: int = 0
    runs: int = 1
    days: int = 7

    def __post_init__(self) -> None:
        """Raises ConfigError for a number of days outside 1 to LONGEST_DAYS."""
        if not 1 <= self.days <= LONGEST_DAYS:
            raise ConfigError(f"plan: days must be between 1 and {LONGEST_DAYS}, got {self.days}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """What a datasite shows an analyst: the party's card and the newest publication of each of its blocks."""

    card: PartyCard
    blocks: Mapping[str, Publication]

    def publication(self, block: str) -> Publication:
        """The published block of that name; RequestError listing the blocks there are."""
        if block not in self.blocks:
            raise RequestError(
                f"{self.card.name} publishes no block {block!r}",
                remedy=f"it has {', '.join(sorted(self.blocks))}",
            )
        return self.blocks[block]


def read_offer(name: str, publications: tuple[Publication, ...], card: PartyCard | None = None) -> Offer:
    """What the datasite of party `name` publishes; RequestError when that is nothing, or is another party's.

    A party that publishes nothing can take a role without a block, when its card (from the login) is known.
    """
    shown = [publication.card for publication in publications] or ([] if card is None else [card])
    for each in shown:
        if each.name != name:
            raise RequestError(f"the datasite of {name} shows the card of {each.name}")
    if not shown:
        raise RequestError(f"{name} publishes no block", remedy="its owner has to run: fedaccord block add")
    return Offer(card=shown[0], blocks={each.name: each for each in publications})


def read_plan(path: Path) -> Plan:
    """The plan in the TOML file; ConfigError naming file and field."""
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"plan {path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"plan {path} is not TOML: {error}") from error
    parties = _table(table.pop("parties", None), f"plan {path}: parties")
    parameters = _table(table.pop("parameters", {}), f"plan {path}: parameters")
    values = _checked(table, _FIELDS, f"plan {path}")
    for name in ("purpose", "computation"):
        if name not in values:
            raise ConfigError(f"plan {path}: {name} is missing", remedy=_example(name))
    return Plan(
        parties=tuple(_read_party(name, value, path) for name, value in parties.items()),
        parameters=parameters,
        **{"purpose_text": "", **values},  # type: ignore[arg-type]  # each was just compared with its type
    )


def build_request(
    plan: Plan, offers: Mapping[str, Offer], analyst: AnalystEntry, *, now: datetime, nonce: str
) -> ComputationRequest:
    """The complete request. Raises RequestError or ConfigError naming what is wrong in the plan or is missing."""
    computation = catalog.CATALOG.get(plan.computation)
    if computation is None:
        raise RequestError(
            f"computation {plan.computation!r} is not in the catalog",
            remedy=f"one of: {', '.join(catalog.CATALOG)}",
        )
    _check_roles(plan, computation)
    plan = _numbered(plan, computation)
    with_block = [party for party in plan.parties if computation.has_block(party.role)]
    blocks = tuple(_block(party, _offer(party, offers), computation) for party in with_block)
    if "minimum_overlap" in plan.parameters:
        raise ConfigError("plan: minimum_overlap belongs beside the parameters, not among them")
    given = plan.parameters
    if computation.from_schemas is not None:
        schemas = {p.role: _offer(p, offers).publication(p.block).schema for p in with_block}
        asked = {block.role: block.columns for block in blocks}
        given = computation.from_schemas(given, {role: only(schemas[role], asked[role]) for role in schemas})
    rows = {block.role: block.rows for block in blocks}
    bounds = computation.bounds(given, rows, plan.minimum_overlap)
    parameters = computation.parameters({**bounds, **given}, plan.minimum_overlap)
    computation.check_rows(parameters, rows, plan.minimum_group)
    organisations = {party.role: _offer(party, offers).card.organisation for party in plan.parties}
    computation.check_seats(parameters, organisations, analyst.organisation)
    manifest = computation.manifest(parameters, rows)
    if aligns(manifest):
        _check_keys(plan, offers)
    if any(line.kind == PsiMatches.__name__ for line in manifest):  # a mere size asks for no number of people
        _check_sizes(plan, blocks)
    return ComputationRequest(
        purpose=plan.purpose,
        purpose_text=plan.purpose_text,
        analyst=analyst,
        parties=tuple(_entry(party, _offer(party, offers).card) for party in plan.parties),
        blocks=blocks,
        computation=computation.name,
        computation_version=computation.version,
        code_digest=catalog.code_digest(),
        parameters=parameters,
        manifest=manifest,
        analyst_receives=computation.analyst_receives,
        minimum_group=plan.minimum_group,
        minimum_overlap=plan.minimum_overlap,
        public_seed=plan.public_seed,
        expires=utc_text(now + timedelta(days=plan.days)),
        runs=plan.runs,
        nonce=nonce,
    )


def _check_roles(plan: Plan, computation: Computation) -> None:
    roles, star = sorted(party.role for party in plan.parties), computation.star
    for party in plan.parties:
        wants = star is None or party.role != star.centre
        if wants is not bool(party.block):
            raise RequestError(
                f"plan: {party.name} is {party.role} and {'names no block' if wants else 'brings no block'}",
                remedy=f"{'add' if wants else 'leave out'} parties.{party.name}.block",
            )
    if star is not None:
        if roles.count(star.centre) != 1 or roles.count(star.spoke) != len(roles) - 1 or len(roles) < 3:
            raise RequestError(
                f"{computation.name} needs one party in the role {star.centre} and two or more in the role "
                f"{star.spoke}; the plan has {', '.join(roles) or 'none'}"
            )
    elif roles != sorted(computation.roles):
        raise RequestError(
            f"{computation.name} needs one party in each of the roles {', '.join(computation.roles)}; "
            f"the plan has {', '.join(roles) or 'none'}"
        )


def _numbered(plan: Plan, computation: Computation) -> Plan:
    """The plan with a role for each party: those of a star that are alike get numbers, in the plan's order."""
    star = computation.star
    if star is None:
        return plan
    spokes = [party.name for party in plan.parties if party.role == star.spoke]
    parties = tuple(
        replace(party, role=star.role(spokes.index(party.name) + 1)) if party.name in spokes else party
        for party in plan.parties
    )
    return replace(plan, parties=parties)


def _check_keys(plan: Plan, offers: Mapping[str, Offer]) -> None:
    """SubjectKeyError when two parties' key rules or formats can't match: an empty overlap would be the only sign."""
    keys = [
        _offer(party, offers).publication(party.block).schema.key_offer(party.name) for party in plan.parties
    ]
    for one, other in pairwise(keys):
        check_agreement(one, other)


def _check_sizes(plan: Plan, blocks: Sequence[BlockEntry]) -> None:
    """RequestError when a block has fewer people than must be common: that can be said before anybody is asked."""
    smallest = min(blocks, key=lambda block: block.rows)
    if smallest.rows < plan.minimum_overlap:
        raise RequestError(
            f"block {smallest.block} of the {smallest.role} party has at most {smallest.rows} people, the plan wants"
            f" {plan.minimum_overlap} common ones",
            remedy="ask with a smaller minimum_overlap, or for another block",
        )


def _offer(party: PlanParty, offers: Mapping[str, Offer]) -> Offer:
    if party.name not in offers:
        raise RequestError(
            f"party {party.name!r}: no datasite of that name; known: {', '.join(sorted(offers)) or 'none'}",
            remedy="fedaccord datasite add LOGIN (the file that the party's owner gave you)",
        )
    return offers[party.name]


def _block(party: PlanParty, offer: Offer, computation: Computation) -> BlockEntry:
    schema = offer.publication(party.block).schema
    unknown = [column for column in party.columns if column not in schema.names]
    if unknown:
        raise RequestError(
            f"{party.name}/{party.block} has no column {', '.join(unknown)}",
            remedy=f"it has {', '.join(schema.names)}",
        )
    if party.columns and not computation.reads_columns:
        raise RequestError(
            f"{computation.name} reads keys only, the plan names columns of {party.name}/{party.block}",
            remedy="leave the columns out",
        )
    return BlockEntry(
        role=party.role,
        block=party.block,
        version=schema.version,
        commitment=schema.commitment,
        columns=(party.columns or schema.names) if computation.reads_columns else (),
        label=schema.label if computation.opens_label(party.role) else "",
        rows=schema.rows,
        subject_key=schema.subject_key,
        key_rule=schema.key_rule,
        key_missing=schema.key_missing,
        duplicates=schema.duplicates.value,
    )


def _entry(party: PlanParty, card: PartyCard) -> PartyEntry:
    return PartyEntry(
        name=card.name,
        role=party.role,
        signing_key=card.signing_key,
        link_certificate=card.link_certificate,
        address=card.address,
    )


def _read_party(name: str, value: object, path: Path) -> PlanParty:
    values = _checked(
        _table(value, f"plan {path}: parties.{name}"), _PARTY_FIELDS, f"plan {path}: parties.{name}"
    )
    if "role" not in values:
        raise ConfigError(f"plan {path}: parties.{name}.role is missing", remedy=_example("role"))
    columns = values.get("columns", [])
    if not isinstance(columns, list) or not all(isinstance(column, str) for column in columns):
        raise ConfigError(
            f"plan {path}: parties.{name}.columns must be a list of column names", remedy=_example("columns")
        )
    return PlanParty(
        name=name, role=str(values["role"]), block=str(values.get("block", "")), columns=tuple(columns)
    )


def _example(field: str) -> str:
    """How the field is written."""
    return f"such as {field} = {_EXAMPLES[field]}"


def _table(value: object, where: str) -> dict[str, object]:
    if not isinstance(value, dict):
        raise ConfigError(f"{where} must be a table")
    return value


def _checked(table: Mapping[str, object], known: Mapping[str, type], where: str) -> dict[str, object]:
    for name, value in table.items():
        if name not in known:
            raise ConfigError(f"{where}: unknown field {name!r}", remedy=f"known: {', '.join(known)}")
        if type(value) is not known[name]:
            raise ConfigError(
                f"{where}: {name} must be {known[name].__name__}, got {type(value).__name__}",
                remedy=_example(name),
            )
    return dict(table)
