"""Tables get the declared types: inexact bounds are removed, and the text of a taken-up column is read."""

import json
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from hypothesis import given
from hypothesis import strategies as st

from txloom.config.models.column_types import parse
from txloom.config.models.pipeline import Column, Table
from txloom.errors import ConfigurationError
from txloom.events.images.reader import ImageReader
from txloom.storage.delta import arrow_tables, schema_evolution, small_tables
from txloom.storage.delta.sql import among
from txloom.storage.delta.table_metadata import newest_metadata

SCHEMA = pa.schema([("id", pa.int64()), ("price", pa.decimal128(38, 10))])
BOUNDED = "delta.dataSkippingStatsColumns"
SCALARS = st.one_of(
    st.sampled_from(["1.10", "-0", "-0.0", "1E+3", "1e400", "12345678901234567890", "true", "null", '"\\u00e9"']),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=3).map(json.dumps),
)
ELEMENTS = st.recursive(
    SCALARS,
    lambda inside: st.one_of(
        st.lists(inside, max_size=3).map(lambda elements: "[" + " , ".join(elements) + "]"),
        st.lists(inside, max_size=3).map(lambda values: "{" + ", ".join(f'"a" : {value}' for value in values) + "}"),
    ),
    max_leaves=6,
)
"""Values as JSON texts, with numbers in several notations and with spaces."""


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


@pytest.mark.parametrize(
    ("texts", "kind", "values"),
    [
        (['["a,b","\\u00e9",null]', "[]", None], pa.string(), [["a,b", "é", None], [], None]),
        (['{"a,b",é,NULL}', "{}", '{"[1]"}'], pa.string(), [["a,b", "é", None], [], ["[1]"]]),
        (["[9007199254740993, null]", "{1}"], pa.int64(), [[9007199254740993, None], [1]]),
        (["[0.10000000000000001]"], pa.decimal128(20, 17), [[Decimal("0.10000000000000001")]]),
        (["[true,false]", "{t,f}"], pa.bool_(), [[True, False], [True, False]]),
        (['["2024-02-29"]'], pa.date32(), [[date(2024, 2, 29)]]),
        (['[{"a": 1.10}, [1, 1E+3], 1.10]'], pa.string(), [['{"a": 1.10}', "[1, 1E+3]", "1.10"]]),
    ],
)
def test_the_text_of_an_array_that_was_taken_up_is_read_as_the_declared_type(
    tmp_path: Path, texts: list[str | None], kind: pa.DataType, values: list[list[object]]
) -> None:
    path, declared = str(tmp_path / "t"), pa.list_(kind)
    small_tables.replace(path, [{"v": text} for text in texts], pa.schema([("v", pa.string())]), {})
    assert schema_evolution.can_become(pa.string(), declared)
    schema_evolution.ensure(path, pa.schema([("v", declared)]))
    assert small_tables.query(path, "select v from t") == [{"v": value} for value in values]


@pytest.mark.parametrize("text", ["1,2", "[1,", "[[1]]", "{1", '["a"]', "[1.5]", ""])
def test_a_text_that_is_no_array_of_the_declared_type_is_refused(tmp_path: Path, text: str) -> None:
    path = str(tmp_path / "t")
    small_tables.replace(path, [{"v": text}], pa.schema([("v", pa.string())]), {})
    with pytest.raises(ConfigurationError, match="which cannot be read as array<long>"):
        schema_evolution.ensure(path, pa.schema([("v", pa.list_(pa.int64()))]))
    assert small_tables.query(path, "select v from t") == [{"v": text}]


@given(st.lists(st.lists(ELEMENTS, max_size=3), min_size=1, max_size=8))
def test_an_array_that_was_taken_up_has_the_values_of_one_that_was_always_declared(arrays: list[list[str]]) -> None:
    messages = [f'{{"op_type": "I", "after": {{"K": 1, "V": [ {", ".join(each)} ]}}}}' for each in arrays]
    taken_up, declared = (
        [row["after"]["v"] for row in ImageReader(declaration(kind)).read(messages).to_pylist()]
        for kind in ("string", "array<string>")
    )
    assert None not in declared
    with TemporaryDirectory() as path:
        small_tables.replace(path, [{"v": text} for text in taken_up], pa.schema([("v", pa.string())]), {})
        schema_evolution.ensure(path, pa.schema([("v", pa.list_(pa.string()))]))
        assert small_tables.query(path, "select v from t") == [{"v": elements} for elements in declared]


def declaration(kind: str) -> Table:
    columns = (Column(name="k", type=parse("long"), source="K"), Column(name="v", type=parse(kind), source="V"))
    return Table(name="t", source="S.T", columns=columns, key=("k",))
