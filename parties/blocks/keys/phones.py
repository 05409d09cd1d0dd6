"""The rule for telephone numbers."""

import re
from dataclasses import dataclass
from typing import ClassVar, Self

import pyarrow as pa

from parties.blocks.keys.folding import each, flat


@dataclass(frozen=True, slots=True)
class PhoneRule:
    """Telephone numbers in international form (E.164, by the phonenumbers package): +49 30 901820 is +4930901820.

    Numbers without a country are read as numbers of `region` (two letters, as in phone:DE), which each party gives for
    its own cells; without a region they can't be used. Neither can numbers of an impossible length, without an area
    code that is needed, or with an extension, which E.164 would drop. Some 40,000 different numbers a second.
    """

    region: str = ""
    kind: ClassVar[str] = "phone"
    version: ClassVar[int] = 1
    local: ClassVar[bool] = True
    takes_dates: ClassVar[bool] = False

    @classmethod
    def parse(cls, argument: str) -> Self:
        """The rule of a region that phonenumbers knows, or of none."""
        from phonenumbers import SUPPORTED_REGIONS

        if argument and not (re.fullmatch("[A-Z]{2}", argument) and argument in SUPPORTED_REGIONS):
            raise ValueError("a region of two capital letters, as in phone:DE")
        return cls(argument)

    @property
    def argument(self) -> str:
        """The region."""
        return self.region

    def normalise(self, cells: pa.ChunkedArray) -> pa.ChunkedArray:
        """+ and digits; null for a cell that isn't one possible number."""
        return pa.chunked_array([each(flat(cells), lambda text: _e164(text, self.region))])


def _e164(text: str, region: str) -> str | None:
    import phonenumbers

    try:
        number = phonenumbers.parse(text, region or None)
    except phonenumbers.NumberParseException:
        return None
    possible = phonenumbers.is_possible_number_with_reason(number)
    if number.extension or possible != phonenumbers.ValidationResult.IS_POSSIBLE:
        return None
    return str(phonenumbers.format_number(number, phonenumbers.PhoneNumberFormat.E164))
