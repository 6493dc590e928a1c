"""A condition may list any number of values: delta-rs overflowed its stack, and the process ended without a word."""

from collections.abc import Iterable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from txloom.storage.delta import arrow_tables
from txloom.storage.delta.sql import MOST_LISTED, among, int_list, text_list

ROWS = 60_000
START = datetime(2026, 1, 1, tzinfo=UTC)
KINDS: dict[str, tuple[pa.DataType, Any]] = {
    "long": (pa.int64(), lambda n: n),
    "text": (pa.string(), lambda n: f"it's {n}"),
    "decimal": (pa.decimal128(12, 2), lambda n: Decimal(n) / 100),
    "wide": (pa.decimal128(30, 2), lambda n: Decimal(n) / 100),
    "time": (pa.timestamp("us", "UTC"), lambda n: START + timedelta(microseconds=n)),
    "day": (pa.date32(), lambda n: date(1970, 1, 1) + timedelta(days=n)),
    "bytes": (pa.binary(), lambda n: n.to_bytes(3, "big")),
}


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return a table with a column of each kind, whose values follow from the row's number; every seventh is null."""
    path = str(tmp_path_factory.mktemp("many") / "t")
    columns = {
        name: pa.array([None if n % 7 == 0 else make(n) for n in range(ROWS)], kind)
        for name, (kind, make) in KINDS.items()
    }
    write_deltalake(path, pa.table({"n": pa.array(range(ROWS), pa.int64()), **columns}))
    return path


def numbers(path: str, condition: str) -> set[int]:
    return set(arrow_tables.select(path, f"select n from t where {condition}").column("n").to_pylist())


def even(until: int) -> Iterable[int]:
    return range(0, until, 2)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("until", [2 * MOST_LISTED, 2 * MOST_LISTED + 2, ROWS])
def test_any_number_of_values_is_matched(path: str, kind: str, until: int) -> None:
    arrow_type, make = KINDS[kind]
    condition = among(f'"{kind}"', [None, *map(make, even(until))], arrow_type)
    assert numbers(path, condition) == {n for n in even(until) if n % 7}


@pytest.mark.parametrize("until", [10, ROWS])
def test_lists_of_many_values_stand_in_every_condition_that_queries_have(path: str, until: int) -> None:
    texts, integers = text_list(f"it's {n}" for n in even(until)), int_list(list(even(until)))
    listed = {n for n in even(until) if n % 7}
    valued = {n for n in range(ROWS) if n % 7}
    assert numbers(path, f"long not in ({integers})") == valued - listed
    assert numbers(path, f"(n < 5 and long in ({integers})) or concat(text, '') in ({texts})") == listed
    assert numbers(path, f"n > 100 and (long in ({integers}) or n in (101, 103))") == {
        n for n in listed | {101, 103} if n > 100
    }
    sql = f"select n from t where n in (select s.n from t as s where s.text in ({texts}))"
    assert set(arrow_tables.select(path, sql).column("n").to_pylist()) == listed
    sql = f"select n from t as d where not exists (select 1 from t as c where c.long in ({integers}) and c.n = d.n)"
    assert set(arrow_tables.select(path, sql).column("n").to_pylist()) == set(range(ROWS)) - listed
