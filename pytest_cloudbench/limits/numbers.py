"""Numbers in users' texts, in English notation.

Digits may be grouped in threes by commas or underscores ("80,000", "80_000"), and a point begins the decimals. Many
languages use them the other way round: "4,5 ms" is four and a half there. A text that is valid only there, such as
"4,5" or "1.000.000", is refused with a hint. "80.000" is 80, but `parse_count` refuses it: it may mean 80,000.
"""

from __future__ import annotations

import re
from decimal import Decimal

_PARTS = re.compile(
    r"\s*(?P<number>[+-]?[0-9.,_](?:[0-9.,_'\u2019\s]*[0-9.,_])?(?:[eE][+-]?[0-9]+)?)\s*(?P<unit>.*?)\s*\Z",
    re.DOTALL,
)
_NUMBER = re.compile(
    r"[+-]?(?:(?:[0-9]+|[1-9][0-9]{0,2}(?:,[0-9]{3})+|[1-9][0-9]{0,2}(?:_[0-9]{3})+)(?:\.[0-9]+)?|\.[0-9]+)"
    r"(?:[eE][+-]?[0-9]{1,3})?"
)
_DECIMAL_COMMA = re.compile(r"[+-]?(?:[0-9]+|[0-9]{1,3}(?:[.\s'\u2019][0-9]{3})+),[0-9]+")
_OTHER_GROUPS = re.compile(r"[+-]?[0-9]{1,3}(?:(?:\.[0-9]{3}){2,}|(?:[\s'\u2019][0-9]{3})+)")
_POINT_OR_GROUP = re.compile(r"[+-]?[1-9][0-9]{0,2}\.[0-9]{3}")


def split_quantity(text: str) -> tuple[str, str] | None:
    """Split "80,000 IOPS" into its number and its unit, as written; None if it does not begin with a number."""
    found = _PARTS.match(text)
    return (found["number"], found["unit"]) if found else None


def parse_number(text: str) -> Decimal:
    """Parse a number, which may be negative. Raises ValueError with a hint for anything but an English number."""
    if _NUMBER.fullmatch(text):
        return Decimal(text.replace(",", "").replace("_", ""))
    if _DECIMAL_COMMA.fullmatch(text):
        whole, _, decimals = text.rpartition(",")
        raise ValueError(f"use a decimal point: {re.sub('[^0-9+-]', '', whole)}.{decimals}")
    if _OTHER_GROUPS.fullmatch(text):
        raise ValueError(f"group digits by commas: {re.sub('[^0-9+-]', ',', text)}")
    raise ValueError(f"{text!r} is not a number: group digits in threes by commas, and use one decimal point")


def parse_count(text: str) -> Decimal:
    """Parse a number of things that are usually whole.

    Raises ValueError as `parse_number` does, and for a point before exactly three digits: "80.000" may mean 80,000.
    """
    if _POINT_OR_GROUP.fullmatch(text):
        raise ValueError(f"{text} is ambiguous: write {text.replace('.', ',')}, or {text}0 for decimals")
    return parse_number(text)
