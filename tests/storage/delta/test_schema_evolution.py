"""Tables of a version before have bounds of columns for which they are not exact: they go, and nobody believes them."""

from datetime import datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from txloom.storage.delta import arrow_tables, schema_evolution, small_tables
from txloom.storage.delta.sql import among
from txloom.storage.delta.table_metadata import newest_metadata

SCHEMA = pa.schema([("id", pa.int64()), ("price", pa.decimal128(38, 10))])
BOUNDED = "delta.dataSkippingStatsColumns"


@pytest.mark.parametrize("kept", ["id,price", "`id`,`price`"])
def test_a_table_forgets_bounds_that_are_not_exact_and_stays_what_it_was_about(tmp_path: Path, kept: str) -> None:
    path = str(tmp_path / "t")
    small_tables.ensure(path, SCHEMA, {BOUNDED: kept}, metadata={"valid_through": 7})
    schema_evolution.ensure(path, SCHEMA)
    assert DeltaTable(path).metadata().configuration[BOUNDED] == kept.split(",", maxsplit=1)[0]
    assert newest_metadata(path) == {"valid_through": 7}
    version = DeltaTable(path).version()
    schema_evolution.ensure(path, SCHEMA)
    assert DeltaTable(path).version() == version


def test_a_wide_decimal_is_found_in_a_file_whose_bounds_are_not_exact(tmp_path: Path) -> None:
    price, kind = Decimal("2553883.6048621087"), SCHEMA.field("price").type
    write_deltalake(tmp_path, pa.table([[1], [price]], SCHEMA))
    (add,) = pa.table(DeltaTable(tmp_path).get_add_actions(flatten=True)).to_pylist()
    assert add["min.price"] != price, "delta-rs writes bounds of decimals as doubles"
    sql = f"select id from t where {among('price', [price], kind)}"
    assert arrow_tables.ask({"t": DeltaTable(tmp_path)}, sql).to_pylist() == [{"id": 1}]


@pytest.mark.parametrize("zone", [None, "UTC"])
def test_a_time_is_found_in_a_file_whose_bounds_end_at_the_millisecond(tmp_path: Path, zone: str | None) -> None:
    """DataFusion would leave the file out, or give the bound as the value, where a condition names the column."""
    kind, at = pa.timestamp("us", zone), datetime(5418, 10, 17, 2, 31, 34, 169_377)
    known, other = (pa.scalar(each, kind).as_py() for each in (at, datetime(1, 1, 1)))
    write_deltalake(tmp_path, pa.table({"id": [1], "at": pa.array([at], kind), "gone": [7]}))
    (add,) = pa.table(DeltaTable(tmp_path).get_add_actions(flatten=True)).to_pylist()
    assert add["max.at"] < known, "delta-rs cuts the bounds of times off"
    table = {"t": DeltaTable(tmp_path)}
    for condition in (among("at", [known, other], kind), f"{among('at', [other], kind)} or gone is not null"):
        assert arrow_tables.ask(table, f"select at from t where {condition}").to_pylist() == [{"at": known}]
    assert arrow_tables.ask(table, f"select at from t where {among('at', [other, None], kind)}").num_rows == 0
