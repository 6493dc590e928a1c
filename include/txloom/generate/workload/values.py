"""Values of order entry, and values that break careless readers, all drawn from one seeded random stream."""

from collections.abc import Sequence
from random import Random
from typing import TypeVar

T = TypeVar("T")

ODD_TEXTS = (
    *(
        "",
        "",
        "",
        "",
        " ",
        "null",
        "NULL",
        "\\N",
        "None",
        "NaN",
        "{}",
        "[]",
        '{"id":2}{"id":3}',
        "0x1",
        "1e5",
        "\\",
        "a\\b",
    ),
    *("O'Brien; DROP TABLE x", '"', 'gift "wrap"', "a,b;c|d\te", "line1\nline2\ttab", "carriage\r\nreturn", "\x01\x1f"),
    *("<script>alert(1)</script>", "=cmd|' /C calc'!A0", "../../etc/passwd", "${HOME} {{ ds }} %s", "'''", "`x`"),
    *(
        "\u202eRTL",
        "žluťoučký kůň",
        "日本語 🧨",
        "e\u0301 \u00e9",
        "\u2028\u2029\u0085",
        "\ufeffbom",
        "__debezium_unavailable",
    ),
)
PLAIN_TEXTS = ("gift", "call before delivery", "back door", "fragile", "second floor", "left at the neighbour's")
STATUSES = ("NEW", "PENDING", "CONFIRMED", "PICKED", "SHIPPED", "DELIVERED", "CANCELLED", "RETURNED")
ORDER_TYPES = ("WEB", "STORE", "PHONE", "MIXED", None)
CURRENCIES = ("USD", "USD", "USD", "EUR", "JPY", "Kč ")
METHODS = ("STD", "EXPRESS", "PICKUP", None)
CARRIERS = ("FEDEX", "DHL", "UPS", None)
DELIVERIES = ("NEW", "MOVING", "SENT", "DELIVERED", None)
ODD_DATES = (
    "1969-12-31",
    "1970-01-01",
    "1899-12-31",
    "1900-02-28",
    "2000-02-29",
    "2100-01-01",
    "2199-12-31",
    "9999-12-31",
)
ODD_TIMESTAMPS = (
    *("1969-12-31 23:59:59.999999", "1970-01-01 00:00:00", "1899-12-31 23:59:59.5", "2026-03-29 02:30:00"),
    *("2026-10-25 02:30:00", "2100-01-01 00:00:00.000001", "2262-04-12 00:00:00", "9999-12-31 23:59:59.999999"),
)
ODD_INSTANTS = (None, *(f"{text}+00" for text in ODD_TIMESTAMPS[:-1]), "2026-03-29 00:59:59.999999+00")
DAYTIMES = (None, "00:00:00", "08:15:30.123456", "12:00:00.5", "23:59:59.999999")
DOUBLES = {
    None: None,
    "-0": "-0.0",
    "0.1": "0.1",
    "1e+300": "1.0E300",
    "5e-324": "4.9E-324",
    "-12345.6789": "-12345.6789",
}
"""Doubles as PostgreSQL writes them, with the text that Java writes."""
DOCUMENTS = (
    *(None, "null", "[]", "{}", '"text"', "1152921504606846977"),
    '{"a": [1.5, null, {"x": "日本"}], "b": 1152921504606846977, "q": "\\"\'\\\\"}',
)
ARRAYS: dict[str, dict[str, list[str | int | None]]] = {
    "tags": {"{}": [], '{a,"b,c",NULL,"q\\"uote",""}': ["a", "b,c", None, 'q"uote', ""], '{"NULL"}': ["NULL"]},
    "codes": {"{}": [], "{1,NULL,-2147483648}": [1, None, -(2**31)], "{2147483647}": [2**31 - 1]},
    "amounts": {"{}": [], "{1.5000,2.0000,NULL}": ["1.5000", "2.0000", None], "{-0.0001}": ["-0.0001"]},
}
"""PostgreSQL's texts of arrays, and their elements."""
PAYLOADS = (None, "", "00", "00ff8062696e", "0a0d225c")
INTEGERS = (None, 0, 2**53 + 1, 2**63 - 1, -(2**63), -(2**53) - 1)
ODD_RATES = (
    "0.0000000000",
    "-0.0000000001",
    "1000.5000000000",
    f"{'1234567890' * 3}"[:28] + ".0123456789",
    f"-{'9' * 28}.{'9' * 10}",
)
BEYOND_DOUBLES = 2**53
"""Above this number a double cannot hold every whole number."""


class Draw:
    """A random stream; only `random` and `getrandbits` are used, which give the same in every Python."""

    def __init__(self) -> None:
        """Begin with a fixed seed; `restart` sets another."""
        self._random = Random(0)
        self.unit = self._random.random

    def restart(self, seed: int) -> None:
        """Begin the stream of a seed."""
        self._random.seed(seed)

    def below(self, number: int) -> int:
        """Return a number from 0 up to, but not including, another."""
        return int(self.unit() * number)

    def pick(self, choices: Sequence[T]) -> T:
        """Return a random one of several."""
        return choices[int(self.unit() * len(choices))]

    def happens(self, share: float) -> bool:
        """Return True with a given probability."""
        return self.unit() < share

    def text(self) -> str | None:
        """Return a remark: often none, sometimes an odd one."""
        lot = self.unit()
        if lot < 0.4:
            return None
        return self.pick(ODD_TEXTS if lot < 0.6 else PLAIN_TEXTS)

    def long_text(self, large: float = 0.03) -> str | None:
        """Return a remark that now and then is large enough to be stored apart."""
        if self.unit() >= large:
            return self.text()
        word = f"{self._random.getrandbits(160):040x}"
        return (word if self.unit() < 0.8 else f"é\n{word}") * (60 + self.below(60))

    def day(self, today: str) -> str:
        """Return a day: most often today."""
        return today if self.unit() < 0.95 else self.pick(ODD_DATES)

    def large_integer(self) -> str | None:
        """Return a 64-bit integer, or none."""
        number = self.pick(INTEGERS)
        return None if number is None else str(number)

    def customer(self) -> str | None:
        """Return a customer's number, or none; the numbers begin where doubles are no longer exact."""
        return str(BEYOND_DOUBLES + 1 + self.below(10_000)) if self.unit() < 0.95 else None

    def address_number(self) -> str | None:
        """Return an address's number of 63 bits, or none."""
        return str(2**62 + self.below(2**61)) if self.unit() < 0.7 else None

    def rate(self) -> str | None:
        """Return a numeric(38,10) with all its digits."""
        lot = self.unit()
        if lot < 0.2:
            return None
        return self.pick(ODD_RATES) if lot < 0.6 else decimal(self._random.getrandbits(110), 10)

    def payload(self) -> str | None:
        """Return bytes, as hexadecimal digits."""
        return self.pick(PAYLOADS) if self.unit() < 0.6 else f"{self._random.getrandbits(192):048x}"

    def uid(self) -> str:
        """Return a UUID."""
        digits = f"{self._random.getrandbits(128):032x}"
        return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"

    def money(self, most: int) -> str:
        """Return an amount of money with four digits after the point."""
        return decimal(self.below(most * 10_000), 4)

    def priced(self) -> tuple[str, str | None, str | None]:
        """Return a quantity, a price and their product, rounded to four digits after the point; some have no price."""
        lot = self.unit()
        quantity, price = 1 + self.below(100_0000), self.below(6000_0000_0000)
        if lot < 0.04:
            return decimal(quantity, 4), None, None
        if lot < 0.05:
            quantity, price = 9999_9999 - self.below(1000), 10**18 - 1 - self.below(1000)
        elif lot < 0.06:
            quantity, price = 10**18 - 1 - self.below(1000), 1 + self.below(9)
        elif lot < 0.08:
            quantity = -quantity
        return decimal(quantity, 4), decimal(price, 8), decimal((quantity * price + 50_000_000) // 100_000_000, 4)


def decimal(units: int, scale: int) -> str:
    """Return the decimal text of a number of smallest units.

    >>> decimal(-5, 4), decimal(123456, 4)
    ('-0.0005', '12.3456')
    """
    whole, rest = divmod(abs(units), 10**scale)
    return f"{'-' if units < 0 else ''}{whole}.{rest:0{scale}}"


def units(amount: str | None) -> int:
    """Return an amount with four digits after the point in its smallest units; None is 0.

    >>> units("12.3456"), units("-0.0005"), units(None)
    (123456, -5, 0)
    """
    return 0 if amount is None else int(amount.replace(".", ""))


def identity(number: int, every: int) -> str:
    """Return the number of a row as its key; one in `every` is a key that a double cannot hold exactly."""
    return str(number if number % every else BEYOND_DOUBLES + 2 * number + 1)


def raised(version: str) -> str:
    """Return the version that the source's triggers give a row that is updated."""
    return str(int(version) + 1)
