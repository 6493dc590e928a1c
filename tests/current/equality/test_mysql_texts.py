"""MariaDB, MySQL and this process write every value as the same text: of the value that Debezium sends of it."""

import json
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, time, timedelta
from decimal import Context, Decimal
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from drawn import examples
from services.mariadb import Mariadb
from txloom.config.models.column_types import parse
from txloom.current.equality import canonical_texts, mysql_texts
from txloom.current.equality.mysql_texts import Held
from txloom.events.values.scalars import arrow_type

EXACT = Context(prec=60)
TEXT = st.text(st.characters(blacklist_categories=["Cs"]), max_size=8)
LATIN = st.text(st.characters(max_codepoint=255, min_codepoint=160), max_size=4)


class Kind(NamedTuple):
    """A column: its type, what it holds, and values; sent: what Debezium makes of a value."""

    kind: str
    held: Held
    values: st.SearchStrategy[Any]
    sent: Any = None


def decimals(digits: int, scale: int) -> st.SearchStrategy[Decimal]:
    return st.integers(-(10**digits) + 1, 10**digits - 1).map(lambda number: Decimal(number).scaleb(-scale, EXACT))


def clock(value: timedelta) -> str:
    """Return a time as it lands, without zeros at its end."""
    micros = abs(value) // timedelta(microseconds=1)
    seconds, part = divmod(micros, 1_000_000)
    fraction = f".{part:06}".rstrip("0").rstrip(".")
    sign = "-" if value < timedelta(0) else ""
    return f"{sign}{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}{fraction}"


DOUBLES = st.floats(allow_nan=False, allow_infinity=False).map(lambda number: number or 0.0)
"""The server reads the literal -0e0 as zero, so that a negative zero cannot be written."""
SINGLES = st.floats(allow_nan=False, allow_infinity=False, width=32).map(lambda number: number or 0.0)
LONGEST = timedelta(hours=838, minutes=59, seconds=59)
COLUMNS: dict[str, tuple[str, Kind]] = {
    "small": ("long", Kind("tinyint", Held("tinyint"), st.integers(-128, 127))),
    "filled": ("int", Kind("int(9) zerofill", Held("int"), st.integers(0, 10**9 - 1))),
    "large": ("long", Kind("bigint", Held("bigint"), st.integers(-(2**63), 2**63 - 1))),
    "huge": ("decimal(20,0)", Kind("bigint unsigned", Held("bigint"), st.integers(0, 2**64 - 1), Decimal)),
    "money": ("decimal(20,4)", Kind("decimal(20,4)", Held("decimal"), decimals(20, 4))),
    "exact": ("decimal(38,10)", Kind("decimal(38,10)", Held("decimal"), decimals(38, 10))),
    "wider": ("decimal(38,10)", Kind("decimal(20,4)", Held("decimal"), decimals(20, 4))),
    "deep": ("decimal(38,38)", Kind("decimal(38,30)", Held("decimal"), decimals(30, 30))),
    "whole": ("decimal(10,0)", Kind("decimal(10,0)", Held("decimal"), decimals(10, 0))),
    "counted": ("double", Kind("double", Held("double"), DOUBLES)),
    "single": ("float", Kind("float", Held("float"), SINGLES)),
    "numeral": ("double", Kind("decimal(20,4)", Held("decimal"), decimals(20, 4), float)),
    "flag": ("boolean", Kind("tinyint(1)", Held("tinyint"), st.booleans())),
    "bit": ("boolean", Kind("bit(1)", Held("bit", True, 1), st.booleans())),
    "bits": ("binary", Kind("bit(11)", Held("bit", True, 11), st.integers(0, 2047), lambda n: n.to_bytes(2, "little"))),
    "digits": ("string", Kind("bit(11)", Held("bit", True, 11), st.integers(0, 2047), lambda n: f"{n:011b}")),
    "number": ("long", Kind("bit(63)", Held("bit", True, 63), st.integers(0, 2**63 - 1))),
    "words": ("string", Kind("varchar(40)", Held("varchar"), TEXT)),
    "many": ("string", Kind("longtext", Held("longtext"), TEXT)),
    "latin": ("string", Kind("varchar(9) character set latin1", Held("varchar"), LATIN)),
    "padded": ("string", Kind("char(9)", Held("char"), TEXT.map(lambda text: text.rstrip(" ")))),
    "choice": ("string", Kind("enum('a','ü')", Held("enum"), st.sampled_from(["a", "ü"]))),
    "choices": ("string", Kind("set('x','y')", Held("set"), st.sampled_from(["", "x", "x,y"]))),
    "day": ("date", Kind("date", Held("date"), st.dates())),
    "at": ("timestamp", Kind("datetime(6)", Held("datetime"), st.datetimes())),
    "second": ("timestamp", Kind("datetime", Held("datetime"), st.datetimes().map(lambda t: t.replace(microsecond=0)))),
    "instant": (
        "timestamptz",
        Kind(
            "timestamp(6) null",
            Held("timestamp"),
            st.datetimes(datetime(1970, 1, 1, 0, 0, 1), datetime(2038, 1, 19)),
            lambda value: value.replace(tzinfo=UTC),
        ),
    ),
    "span": ("time", Kind("time(6)", Held("time"), st.timedeltas(-LONGEST, LONGEST), clock)),
    "clock": (
        "time",
        Kind("time", Held("time"), st.times().map(lambda t: timedelta(hours=t.hour, seconds=t.second)), clock),
    ),
    "length": (
        "long",
        Kind("time(6)", Held("time"), st.timedeltas(-LONGEST, LONGEST), lambda span: span // timedelta(microseconds=1)),
    ),
    "year": ("int", Kind("year", Held("year"), st.integers(1901, 2155))),
    "raw": ("binary", Kind("varbinary(9)", Held("varbinary"), st.binary(max_size=9))),
    "fixed": ("binary", Kind("binary(4)", Held("binary"), st.binary(max_size=4), lambda raw: raw.ljust(4, b"\0"))),
    "blob": ("binary", Kind("longblob", Held("longblob"), st.binary(max_size=9))),
    "doc": ("json", Kind("json", Held("longtext"), st.dictionaries(TEXT, st.integers(), max_size=2), json.dumps)),
    "uuid": ("uuid", Kind("uuid", Held("uuid"), st.uuids(version=4).map(str))),
}
ROW = st.fixed_dictionaries({name: st.none() | each.values for name, (_, each) in COLUMNS.items()})
OF_MARIADB = {"doc", "uuid"}
"""Columns of types that MySQL has not, or has otherwise: its JSON is no text, and parsed where it is read."""


def columns_of(server: Mariadb) -> list[str]:
    return [name for name in COLUMNS if server.name == "mariadb" or name not in OF_MARIADB]


@pytest.fixture(scope="module")
def connection(server: Mariadb) -> Iterator[Any]:
    columns = ", ".join(f"`{name}` {COLUMNS[name][1].kind}" for name in columns_of(server))
    zero = "n int, d date, a datetime(6), i timestamp null, nd date not null, na datetime not null"
    server.fresh_database("equality", f"create table t (n int, {columns}); create table z ({zero})")
    with closing(server.connection("equality")) as made:
        with made.cursor() as cursor:
            cursor.execute("set time_zone = '+00:00', sql_mode = ''")
        yield made


def texts_of(cursor: Any, names: list[str], table: str = "t") -> list[tuple[Any, ...]]:
    """Return the texts and the digest of each row as the database writes them."""
    texts = [mysql_texts.canonical(f"`{name}`", COLUMNS[name][1].held, parse(COLUMNS[name][0])) for name in names]
    inner = ", ".join(f"{text} as c{number}" for number, text in enumerate(texts))
    named = [f"c{number}" for number in range(len(names))]
    digest = mysql_texts.row_digest(named)
    cursor.execute(f"select {', '.join(named)}, {digest} from (select n, {inner} from {table}) r order by n")
    return list(cursor.fetchall())


def landed(name: str, value: Any) -> Any:
    sent = COLUMNS[name][1].sent
    return value if value is None or sent is None else sent(value)


@settings(max_examples=examples(25), deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(ROW, min_size=1, max_size=12))
def test_the_database_writes_the_same_texts(connection: Any, server: Mariadb, rows: list[dict[str, Any]]) -> None:
    names = columns_of(server)
    with connection.cursor() as cursor:
        cursor.execute("truncate t")
        for number, row in enumerate(rows):
            values = [json.dumps(each) if isinstance(each, dict) else each for each in map(row.get, names)]
            places = ", ".join(["%s"] * (len(values) + 1))
            cursor.execute(f"insert into t values ({places})", [number, *values])
        theirs = texts_of(cursor, names)
    ours = [
        canonical_texts.canonical(
            pa.array([landed(name, row[name]) for row in rows], arrow_type(parse(COLUMNS[name][0]))),
            parse(COLUMNS[name][0]),
        )
        for name in names
    ]
    for number, row in enumerate(theirs):
        assert {name: column[number].as_py() for name, column in zip(names, ours, strict=True)} == dict(
            zip(names, row, strict=False)
        )
    assert canonical_texts.digests(canonical_texts.row_texts(ours)).tolist() == [row[-1] for row in theirs]


@settings(max_examples=examples(40), deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(DOUBLES | st.integers(-1074, 1023).map(lambda e: 2.0**e), min_size=50, max_size=200))
@example([2.0**e for e in range(-1074, 1024)])
@example([float(np.nextafter(2.0**e, 0.0)) for e in range(-1073, 1024)] + [1.7976931348623157e308])
@example([float(np.nextafter(2.0**e, 1e308)) for e in range(-1074, 1023)] + [-(2.0**e) for e in range(-1074, 1024)])
def test_every_bit_of_a_number_is_seen(connection: Any, numbers: list[float]) -> None:
    with connection.cursor() as cursor:
        cursor.execute("truncate t")
        cursor.executemany("insert into t (n, counted) values (%s, %s)", list(enumerate(numbers)))
        theirs = [row[0] for row in texts_of(cursor, ["counted"])]
    assert theirs == canonical_texts.canonical(pa.array(numbers, pa.float64()), parse("double")).to_pylist()


@settings(max_examples=examples(40), deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(SINGLES, min_size=50, max_size=200))
@example([float(np.float32(2.0) ** np.float32(e)) for e in range(-149, 128)])
@example([float(np.nextafter(np.float32(2.0**e), np.float32(0.0))) for e in range(-148, 128)])
def test_every_bit_of_a_single_is_seen(connection: Any, numbers: list[float]) -> None:
    with connection.cursor() as cursor:
        cursor.execute("truncate t")
        cursor.executemany("insert into t (n, single) values (%s, %s)", list(enumerate(numbers)))
        theirs = [row[0] for row in texts_of(cursor, ["single"])]
    assert theirs == canonical_texts.canonical(pa.array(numbers, pa.float32()), parse("float")).to_pylist()


def test_a_date_that_is_zero_is_what_debezium_makes_of_it(connection: Any) -> None:
    """Null where the column takes null, else the first day of 1970; an instant is always that."""
    kinds = {"d": ("date", "date"), "a": ("datetime", "timestamp"), "i": ("timestamp", "timestamptz")}
    texts = [mysql_texts.canonical(name, Held(base), parse(kind)) for name, (base, kind) in kinds.items()]
    texts += [mysql_texts.canonical("nd", Held("date", False), parse("date"))]
    texts += [mysql_texts.canonical("na", Held("datetime", False), parse("timestamp"))]
    with connection.cursor() as cursor:
        cursor.execute("insert into z values (1, '0000-00-00', '2024-00-15', '0000-00-00', '0000-00-00', '0000-00-00')")
        cursor.execute(f"select {', '.join(texts)} from z")
        assert cursor.fetchall() == ((None, None, "0", "0", "0"),)


def test_a_decimal_with_more_digits_than_the_lake_has_another_text(connection: Any) -> None:
    with connection.cursor() as cursor:
        cursor.execute("truncate t")
        cursor.execute("insert into t (n, money) values (1, 1.2345), (2, -0.0001), (3, 0), (4, 100)")
        text = mysql_texts.canonical("money", Held("decimal"), parse("decimal(20,2)"))
        cursor.execute(f"select {text} from t order by n")
        assert [row[0] for row in cursor.fetchall()] == ["123.45", "-0.01", "0", "10000"]


@given(st.times())
def test_a_time_lands_without_zeros_at_its_end(at: time) -> None:
    span = timedelta(hours=at.hour, minutes=at.minute, seconds=at.second, microseconds=at.microsecond)
    assert clock(span) == (
        f"{at:%H:%M:%S}.{at.microsecond:06}".rstrip("0").rstrip(".") if at.microsecond else f"{at:%H:%M:%S}"
    )
