"""Declared types and values of them at their edges, as text that PostgreSQL prints and `oracle.values` reads."""

from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal
from random import Random

NARROW_KEYS = ("long", "string", "int", "date")
WIDE_KEYS = (
    *NARROW_KEYS,
    "decimal(38,0)",
    "decimal(38,10)",
    "decimal(38,38)",
    "decimal(20,4)",
    "decimal(10,2)",
    "decimal(1,0)",
    "timestamp",
    "timestamptz",
    "time",
    "uuid",
    "binary",
    "boolean",
)
"""Every kind of type that may be a key."""
NARROW = ("long", "int", "decimal(20,4)", "string", "uuid", "date", "timestamp", "double", "decimal(38,10)")
WIDE = (
    *NARROW,
    "boolean",
    "decimal(38,0)",
    "decimal(38,38)",
    "decimal(3,3)",
    "float",
    "timestamptz",
    "time",
    "binary",
    "json",
    "array<string>",
    "array<long>",
    "array<decimal(20,4)>",
    "array<date>",
)
TEXTS = ("", "a", "NULL", "null", "x'y", '"q"', "é", "\u202eabc", "{}", "0x1", " b ", "line\nbreak", "\\", "1e5")
ODD_TEXTS = (
    *TEXTS,
    "😀",
    "\\u0000",
    "a,b",
    "tab\t",
    "\u2028",
    "שלום",
    "%_",
    "true",
    "2026-01-01",
    "x" * 3_000,
    "ﬀ",
    "İ",
)
KEY_TEXTS = ("k0", "it's", '"q"', "\u202e😀", "a\\b", "NULL", "%", "K0", "é", "e\u0301")
FAR_DAYS = ("0001-01-01", "1677-09-20", "1969-12-31", "2026-02-28", "2262-04-12", "9999-12-31")
FAR_TIMES = (
    "0001-01-01 00:00:00",
    "1677-09-21 00:12:43.145224",
    "1969-12-31 23:59:59.999999",
    "2026-01-01 00:00:00.5",
    "2262-04-11 23:47:16.854776",
    "9999-12-31 23:59:59.999999",
)
CLOCKS = ("00:00:00", "08:15:30", "12:34:56.5", "23:59:59", "23:59:59.999999", "00:00:00.000001")
UUIDS = tuple(f"{n:08x}-0000-4000-8000-{n:012x}" for n in (0, 1, 2**31, 2**32 - 1, 10, 11))
BYTES = ("00", "ff", "deadbeef", "0001", "c3a9", "5c")
DOCUMENTS = ('{"a": 1.10}', "[]", '"text"', "null", '{"a": {"b": ["\\u00e9", 12345678901234567890]}}', "1e400")
DOUBLES = (
    "1.5",
    "-0.0",
    "1e-300",
    "0.1",
    "9007199254740993",
    "1.7976931348623157e+308",
    "5e-324",
    "-2.5e-05",
    "12345678",
)
SINGLES = ("1.5", "-0.0", "0.1", "3.4028235e+38", "1e-45", "16777216", "-2.5e-05")
SPECIAL = ("NaN", "Infinity", "-Infinity")
ARRAYS = {
    "array<string>": ("{}", "{a,NULL}", '{"NULL","","a\\"b\\\\","x,y"}', '{" ",é}'),
    "array<long>": ("{}", "{9223372036854775807,NULL,-1}", "{0}"),
    "array<decimal(20,4)>": ("{}", "{1.5000,NULL,-9999999999999999.9999}"),
    "array<date>": ("{2026-01-01,NULL}", "{}"),
}
FIRST_DAY = date(1969, 12, 1)
_EXACT = Context(prec=60)


class Values:
    """Draws values of declared types.

    wide: at the edges of their types. special: also numbers that are none, where the source can tell them.
    """

    def __init__(self, chance: Random, *, wide: bool = False, special: bool = True) -> None:
        self._chance, self._wide, self._special = chance, wide, special

    def key(self, kind: str) -> str:
        """Return one of a few values of a kind that may be a key, so that keys are deleted and used again."""
        return self._chance.choice(key_values(kind, wide=self._wide))

    def free(self, kind: str) -> str:
        """Return any value of a kind."""
        chance = self._chance
        if kind in ARRAYS:
            return chance.choice(ARRAYS[kind])
        if kind.startswith("decimal("):
            return self._decimal(kind)
        if kind in ("long", "int"):
            bits = 63 if kind == "long" else 31
            return str(chance.choice((0, -1, 2**bits - 1, -(2**bits), chance.randint(-999, 999))))
        if kind in ("double", "float"):
            plain = DOUBLES if kind == "double" else SINGLES
            return chance.choice((*plain, *SPECIAL) if self._special else plain)
        if kind == "boolean":
            return chance.choice(("true", "false"))
        if kind in ("timestamp", "timestamptz"):
            return self._moment(kind)
        if kind == "date":
            days = FAR_DAYS if self._wide else ()
            return chance.choice((*days, str(FIRST_DAY + timedelta(days=chance.randint(0, 60_000)))))
        fixed = {"time": CLOCKS, "uuid": UUIDS, "binary": (*BYTES, ""), "json": DOCUMENTS}
        return chance.choice(fixed.get(kind, ODD_TEXTS if self._wide else TEXTS))

    def _decimal(self, kind: str) -> str:
        if self._chance.random() < 0.5:
            return self._chance.choice(decimal_edges(kind))
        precision, scale = digits_of(kind)
        number = self._chance.randint(0, 10 ** self._chance.randint(1, precision) - 1)
        return plain(Decimal(number).scaleb(-scale, _EXACT) * self._chance.choice((1, -1)), scale)

    def _moment(self, kind: str) -> str:
        near = str(datetime(1969, 12, 1) + timedelta(microseconds=self._chance.randint(0, 10**16)))
        chosen = self._chance.choice((*FAR_TIMES, near, near) if self._wide else (near,))
        return chosen if kind == "timestamp" else f"{chosen}+00:00"


def printed(kind: str, value: str) -> str:
    """Return a value as a source prints it that spells uuids and times otherwise than their types are read.

    >>> printed("uuid", "0000000a-0000-4000-8000-00000000000a"), printed("time", "12:34:56.5")
    ('0000000A-0000-4000-8000-00000000000A', '12:34:56.500000')
    """
    if kind == "uuid":
        return value.upper()
    if kind == "time":
        clock, _, part = value.partition(".")
        return f"{clock}.{part:0<6}"
    return value


def key_values(kind: str, *, wide: bool) -> tuple[str, ...]:
    """Return the few values that keys of a kind come from."""
    if kind.startswith("decimal("):
        return decimal_edges(kind)
    few = {
        "long": ("0", "1", "-1", str(2**53 + 1), str(2**63 - 1), str(-(2**63))),
        "int": ("0", "1", "-1", "7", str(2**31 - 1), str(-(2**31))),
        "string": KEY_TEXTS,
        "date": FAR_DAYS,
        "timestamp": FAR_TIMES,
        "timestamptz": tuple(f"{each}+00:00" for each in FAR_TIMES),
        "time": CLOCKS,
        "uuid": UUIDS,
        "binary": BYTES,
        "boolean": ("true", "false"),
    }
    narrow = {
        "long": tuple("012345"),
        "int": tuple("012345"),
        "string": tuple(f"k{n}" for n in range(6)),
        "date": tuple(f"2026-01-0{n}" for n in range(1, 7)),
    }
    return few[kind] if wide else narrow[kind]


def decimal_edges(kind: str) -> tuple[str, ...]:
    """Return the largest, the smallest and some odd numbers of a decimal type."""
    precision, scale = digits_of(kind)
    most = 10**precision - 1
    numbers = (0, 1, -1, most, -most, int("12345678901234567890123456789012345678"[:precision]), most // 9)
    return tuple(dict.fromkeys(plain(Decimal(number).scaleb(-scale, _EXACT), scale) for number in numbers))


def digits_of(kind: str) -> tuple[int, int]:
    """Return precision and scale of a decimal type."""
    precision, scale = kind[8:-1].split(",")
    return int(precision), int(scale)


def plain(number: Decimal, scale: int) -> str:
    """Write a number with all digits that its type has, as PostgreSQL does."""
    return f"{_EXACT.plus(number or Decimal(0)).quantize(Decimal(1).scaleb(-scale), context=_EXACT):f}"


def instant_of(text: str) -> datetime:
    """Return the moment that a text means; without a zone: of UTC."""
    time = datetime.fromisoformat(text)
    return time.replace(tzinfo=UTC) if time.tzinfo is None else time
