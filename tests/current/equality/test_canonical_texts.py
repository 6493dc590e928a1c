"""PostgreSQL and this process write every value as the same text; different values have different ones."""

import json
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, time
from decimal import Context, Decimal
from typing import Any
from uuid import UUID

import psycopg2
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from drawn import examples
from services.postgres import Postgres
from txloom.config.models.column_types import parse
from txloom.current.equality import canonical_texts, postgresql_texts
from txloom.events.values.scalars import arrow_type

EXACT = Context(prec=60)
TEXT = st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\0"), max_size=8)


def decimals(digits: int, scale: int) -> st.SearchStrategy[Decimal]:
    """Draw decimals of so many digits, some of them behind the point."""
    return st.integers(-(10**digits) + 1, 10**digits - 1).map(lambda number: Decimal(number).scaleb(-scale, EXACT))


def listed(values: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Any]]:
    return st.lists(st.none() | values, max_size=3)


VALUES: dict[str, tuple[str, st.SearchStrategy[Any]]] = {
    "long": ("bigint", st.integers(-(2**63), 2**63 - 1)),
    "int": ("int", st.integers(-(2**31), 2**31 - 1)),
    "decimal(20,4)": ("numeric(20,4)", decimals(20, 4)),
    "decimal(38,10)": ("numeric", decimals(38, 10)),
    "decimal(10,0)": ("numeric(10,0)", decimals(10, 0)),
    "double": ("float8", st.floats()),
    "float": ("float4", st.floats(width=32)),
    "boolean": ("boolean", st.booleans()),
    "string": ("text", TEXT),
    "date": ("date", st.dates()),
    "timestamp": ("timestamp", st.datetimes()),
    "timestamptz": (
        "timestamptz",
        st.datetimes(datetime(2, 1, 1), datetime(9998, 1, 1)).map(lambda t: t.replace(tzinfo=UTC)),
    ),
    "binary": ("bytea", st.binary(max_size=6)),
    "array<string>": ("text[]", listed(TEXT)),
    "array<int>": ("int[]", listed(st.integers(-9, 9))),
    "array<decimal(20,4)>": ("numeric[]", listed(decimals(9, 4))),
    "array<timestamptz>": ("timestamptz[]", listed(st.just(datetime(1969, 12, 31, 23, tzinfo=UTC)))),
}
PRINTED: dict[str, tuple[str, st.SearchStrategy[Any]]] = {
    "time": ("time", st.times()),
    "uuid": ("uuid", st.uuids()),
    "json": ("jsonb", st.dictionaries(TEXT, st.integers() | TEXT, max_size=2)),
}
"""What lands as PostgreSQL prints it."""
ROW = st.fixed_dictionaries({name: st.none() | values for name, (_, values) in (VALUES | PRINTED).items()})


@pytest.fixture(scope="module")
def connection(postgres: Postgres) -> Iterator[Any]:
    columns = ", ".join(f'"{name}" {kind}' for name, (kind, _) in (VALUES | PRINTED).items())
    postgres.fresh_database("equality", f"CREATE TABLE t (n int, {columns})")
    host, port = postgres.address.split(":")
    with closing(psycopg2.connect(host=host, port=port, user="postgres", dbname="equality")) as made:
        made.autocommit = True
        yield made


def sent(value: Any) -> Any:
    if isinstance(value, dict):
        return json.dumps(value)
    return str(value) if isinstance(value, UUID | time | float) else value


@settings(max_examples=examples(40), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(ROW, min_size=1, max_size=12))
def test_the_database_writes_the_same_texts(connection: Any, rows: list[dict[str, Any]]) -> None:
    names = [*VALUES, *PRINTED]
    with connection.cursor() as cursor:
        cursor.execute("TRUNCATE t")
        columns = ", ".join(f'"{name}"' for name in names)
        casts = ", ".join(f"cast(%s as {(VALUES | PRINTED)[name][0]})" for name in names)
        for number, row in enumerate(rows):
            cursor.execute(
                f"INSERT INTO t (n, {columns}) VALUES ({number}, {casts})", [sent(row[name]) for name in names]
            )
        printed = ", ".join(f'"{name}"::text' for name in PRINTED)
        cursor.execute(f"SELECT {printed} FROM t ORDER BY n")
        lands = [dict(zip(PRINTED, each, strict=True)) for each in cursor.fetchall()]
        texts = [postgresql_texts.canonical(f'"{name}"', parse(name)) for name in names]
        inner = ", ".join(f"{text} AS c{number}" for number, text in enumerate(texts))
        named = [f"c{number}" for number in range(len(names))]
        digest = postgresql_texts.row_digest(named)
        cursor.execute(f"SELECT {', '.join(named)}, {digest} FROM (SELECT n, {inner} FROM t) r ORDER BY n")
        theirs = cursor.fetchall()
    landed = [row | there for row, there in zip(rows, lands, strict=True)]
    ours = [
        canonical_texts.canonical(pa.array([row[name] for row in landed], arrow_type(parse(name))), parse(name))
        for name in names
    ]
    for number, row in enumerate(theirs):
        assert {name: column[number].as_py() for name, column in zip(names, ours, strict=True)} == dict(
            zip(names, row, strict=False)
        )
    assert canonical_texts.digests(canonical_texts.row_texts(ours)).tolist() == [row[-1] for row in theirs]


@given(st.lists(st.lists(st.none() | TEXT, min_size=3, max_size=3), min_size=2, max_size=2, unique_by=tuple))
def test_different_rows_have_different_texts(rows: list[list[str | None]]) -> None:
    columns = [pa.array([row[number] for row in rows], pa.string()) for number in range(3)]
    first, second = canonical_texts.row_texts(columns).to_pylist()
    assert first != second


def test_blanks_that_pad_a_text_say_nothing() -> None:
    padded = pa.array(["ab  ", " c", None])
    assert canonical_texts.canonical(padded, parse("string"), "padded").to_pylist() == ["ab", " c", None]
    assert canonical_texts.canonical(padded, parse("string")).to_pylist() == ["ab  ", " c", None]


def test_the_last_digit_of_a_number_is_seen() -> None:
    near = pa.array([0.1, 0.1 + 2**-56, -0.0, 0.0])
    assert len(set(canonical_texts.canonical(near, parse("double")).to_pylist())) == 4
