"""Rules for what people write of themselves: names and e-mail addresses."""

import unicodedata
from dataclasses import dataclass
from typing import ClassVar, Self

import pyarrow as pa
import pyarrow.compute as pc

from parties.blocks.keys.folding import (
    ascii_letters_and_digits,
    folded,
    lower_without_accents,
    only_letters_and_digits,
    with_text,
)
from parties.blocks.keys.rule import WithoutArgument, only_where

_WORD = r'[^\s\pZ\pC@"(),:;<>\[\]\\]'
_EMAIL = rf"^{_WORD}+@[^\s\pZ\pC@.]+(\.[^\s\pZ\pC@.]+)+$"


@dataclass(frozen=True, slots=True)
class NameRule(WithoutArgument):
    """Names of people and places; case, accents, blanks and punctuation don't count.

    "Müller-Lüdenscheidt", "MULLER LUDENSCHEIDT" are one key, and so are "O'Brien" and "obrien". "Mueller" is another
    one than "Müller": spelling is not folded, nor are nicknames or the order of words.
    """

    kind: ClassVar[str] = "name"
    version: ClassVar[int] = 1
    local: ClassVar[bool] = False
    takes_dates: ClassVar[bool] = False

    def normalise(self, cells: pa.ChunkedArray) -> pa.ChunkedArray:
        """Lower-case letters and digits without accents; null for a cell without any."""
        return with_text(folded(cells, lambda ascii: ascii_letters_and_digits(pc.utf8_lower(ascii)), _name))


def _name(text: str) -> str:
    return unicodedata.normalize("NFC", only_letters_and_digits(lower_without_accents(text)))


@dataclass(frozen=True, slots=True)
class Provider:
    """What a provider's mailboxes have in common: what follows a plus sign never counts; dots count unless
    `dots_are_nothing`; `domain`, if any, stands for all of `domains` (a pattern)."""

    domains: str
    domain: str = ""
    dots_are_nothing: bool = False


PROVIDERS = {
    "gmail": Provider(r"@(gmail|googlemail)\.com$", domain="gmail.com", dots_are_nothing=True),
    "outlook": Provider(r"@(outlook|hotmail|live|msn)\.com$"),
}


@dataclass(frozen=True, slots=True)
class EmailRule:
    """E-mail addresses; case and blanks at the ends don't count, Unicode is brought to NFC.

    What only some provider treats as equal is made equal when that provider is named: `email:gmail`,
    `email:gmail,outlook`.
    """

    providers: tuple[str, ...] = ()
    kind: ClassVar[str] = "email"
    version: ClassVar[int] = 1
    local: ClassVar[bool] = False
    takes_dates: ClassVar[bool] = False

    @classmethod
    def parse(cls, argument: str) -> Self:
        """The rule with these providers, in the order of their names."""
        named = tuple(sorted(set(argument.split(",")))) if argument else ()
        if not set(named) <= set(PROVIDERS):
            raise ValueError(f"providers among {', '.join(PROVIDERS)}, as in email:gmail")
        return cls(named)

    @property
    def argument(self) -> str:
        """The providers."""
        return ",".join(self.providers)

    def normalise(self, cells: pa.ChunkedArray) -> pa.ChunkedArray:
        """The address in lower case; null for a cell that isn't one address with a domain of two words or more."""
        plain = folded(pc.utf8_trim_whitespace(cells), pc.utf8_lower, _mail)
        mails = only_where(pc.match_substring_regex(plain, _EMAIL), plain)
        for name in self.providers:
            mails = _one_mailbox(mails, PROVIDERS[name])
        return mails


def _mail(text: str) -> str:
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", text).lower())


def _one_mailbox(mails: pa.ChunkedArray, provider: Provider) -> pa.ChunkedArray:
    theirs = pc.match_substring_regex(mails, provider.domains)
    box = pc.replace_substring_regex(mails, pattern=r"(\+.*)?@.*$", replacement="")
    domain = pc.replace_substring_regex(mails, pattern=r"^.*@", replacement="")
    if provider.dots_are_nothing:
        box = pc.replace_substring(box, ".", "")
    if provider.domain:
        domain = pa.scalar(provider.domain, pa.large_string())
    one = pc.binary_join_element_wise(with_text(box), domain, pa.scalar("@", pa.large_string()))
    return pc.if_else(theirs, one, mails)
