"""Read numbers as sources write them: one grammar, for single values and for the columns that Arrow casts at once.

A number is ASCII digits with an optional minus in front, a point in front of, among or after them (Oracle writes `.5`)
and an exponent after that. A value that its type cannot hold exactly is refused: nothing is rounded to a whole number,
to zero or to infinity. A double is the nearest one, as its type says. The cost is bounded by the length of the text,
because an exponent has at most four digits.
"""

import re
from decimal import Decimal
from struct import pack, unpack

NUMBER = re.compile(r"(-?)(?:([0-9]+)(?:\.([0-9]*))?|\.([0-9]+))(?:[eE]([+-]?[0-9]{1,4}))?")
UNNUMBERED = ("nan", "inf", "-inf", "infinity", "-infinity")
"""The texts of doubles that are no numbers, in any case."""
EXACT_DOUBLE = 2**53
"""Up to here every whole number is exact as a double."""
_ZERO = re.compile(r"-?[0.]+(?:[eE].*)?")


def read_scaled(text: str, digits: int, scale: int) -> int:
    """Return a number in units of 10**-scale, exactly; raises ValueError for other texts and for too many digits.

    >>> read_scaled("-1.50", 5, 2), read_scaled("15e-1", 5, 2), read_scaled("0E-10", 5, 2)
    (-150, 150, 0)
    """
    match = NUMBER.fullmatch(text)
    if match is None:
        raise ValueError(text)
    sign, whole, part, bare, exponent = match.groups(default="")
    written, moved = whole + part + bare, scale + int(exponent or 0) - len(part + bare)
    if moved < 0 and written[moved:].strip("0"):
        raise ValueError(text)
    counted = (written[:moved] if moved < 0 else written + "0" * moved).lstrip("0")
    if len(counted) > digits:
        raise ValueError(text)
    return int(sign + (counted or "0"))


def read_integer(bits: int, text: str) -> int:
    """Read a whole number of so many bits without the sign; raises ValueError for anything else.

    A number with a point or an exponent was a double at the source, so it is exact, and taken, only up to 2**53.
    """
    number = read_scaled(text, 19, 0)
    is_plain = text.lstrip("-").isdigit()
    if not -(2**bits) <= number < 2**bits or not (is_plain or abs(number) <= EXACT_DOUBLE):
        raise ValueError(text)
    return number


def read_decimal(precision: int, scale: int, text: str) -> Decimal:
    """Read a decimal exactly; raises ValueError for more digits than declared, before or after the point."""
    return Decimal(f"{read_scaled(text, precision, scale)}E-{scale}")


def read_double(text: str) -> float:
    """Read the double nearest to a number; raises ValueError if that is infinite, or zero for another number."""
    if text.lower() in UNNUMBERED:
        return float(text)
    if NUMBER.fullmatch(text) is None:
        raise ValueError(text)
    return _refuse_lost(float(text), text)


def read_single(text: str) -> float:
    """Read the single-precision float nearest to a number, by the rules of `read_double`."""
    return _refuse_lost(unpack("<f", pack("<f", read_double(text)))[0], text)


def _refuse_lost(number: float, text: str) -> float:
    if (number in (float("inf"), -float("inf")) and text.lower() not in UNNUMBERED) or (
        number == 0 and _ZERO.fullmatch(text) is None
    ):
        raise ValueError(text)
    return number
