"""Rows that are written as whole columns are landed exactly as the messages of each row alone would be."""

from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drawn import examples
from txloom.config import load
from txloom.config.models.column_types import parse
from txloom.config.models.pipeline import Table
from txloom.events.images import typed_rows
from txloom.events.values.scalars import arrow_type
from txloom.steps.landing.internal_transaction import InternalTransaction
from txloom.steps.snapshots.load_snapshot import _decoded
from txloom.storage.snapshots.snapshot_files import SnapshotFile
from txloom.storage.sources.splits import LandingPlan

VALUES: dict[str, Any] = {
    "long": st.integers(-(2**63), 2**63 - 1),
    "int": st.integers(-(2**31), 2**31 - 1),
    "boolean": st.booleans(),
    "string": st.text(max_size=6) | st.sampled_from(['"', "\\", "a\nb", "\x00", "\x7f", "ü\U0001f600", "</script>"]),
    "decimal(20,4)": st.decimals(-(10**15), 10**15, places=4),
    "decimal(38,38)": st.decimals(-1, 1, places=38).filter(lambda number: abs(number) < 1),
    "date": st.dates(),
    "timestamp": st.datetimes(),
    "timestamptz": st.datetimes(timezones=st.just(UTC)),
}
DECLARED = """
name: p
source: {{format: change_sets, files: {{path: {folder}}}}}
completeness: {{rule: single}}
tables:
- {{name: t, source: S.T, key: [k], columns: {{k: long, {columns}}}}}
targets: {{mirrors: ["*"]}}
"""


def landed(folder: Path, kinds: list[str], rows: list[tuple[Any, ...]], time: str | None) -> list[dict[str, Any]]:
    """Write rows into a Parquet file and return what is landed of it, without where it was decoded."""
    columns = ", ".join(f"c{number}: '{kind}'" for number, kind in enumerate(kinds))
    declaration = folder / "p.yaml"
    declaration.write_text(DECLARED.format(folder=folder, columns=columns))
    types = [pa.int64(), *(arrow_type(parse(kind)) for kind in kinds)]
    arrays = [pa.array([row[place] for row in rows], kind) for place, kind in enumerate(types)]
    file = folder / "t.parquet"
    pq.write_table(pa.Table.from_arrays(arrays, names=["k", *(f"C{number}" for number in range(len(kinds)))]), file)
    at = LandingPlan(3, datetime(2026, 1, 1, tzinfo=UTC), ())
    transaction = InternalTransaction(load(declaration), at, "load:3", 77, time)
    parts = _decoded(transaction, 2, SnapshotFile("t", str(file), file.stat().st_size))
    return [row for part in parts for row in part.to_pylist()]


@settings(deadline=None, max_examples=examples(60))
@given(st.data())
def test_whole_columns_are_landed_as_row_by_row(tmp_path_factory: Any, data: st.DataObject) -> None:
    kinds = data.draw(st.lists(st.sampled_from(sorted(VALUES)), max_size=4))
    row = st.tuples(st.integers(-(2**63), 2**63 - 1), *(st.none() | VALUES[kind] for kind in kinds))
    rows, time = data.draw(st.lists(row, max_size=6)), data.draw(st.sampled_from([None, "2026-01-01 00:00:00.5"]))
    folder = tmp_path_factory.mktemp("typed")
    with pytest.MonkeyPatch.context() as alone:
        alone.setattr(typed_rows, "fits", lambda *_: False)
        expected = landed(folder, kinds, rows, time)
    assert landed(folder, kinds, rows, time) == expected
    assert len(expected) == len(rows)


def test_columns_of_types_with_one_exact_text_are_written_whole(tmp_path: Path) -> None:
    table = load_table(
        tmp_path, "a: long, b: string, c: 'decimal(20,4)', d: date, e: timestamp, f: timestamptz, g: boolean"
    )
    types = [arrow_type(column.type) for column in table.columns]
    schema = pa.schema([(name.upper(), kind) for name, kind in zip("kabcdefg", types, strict=True)])
    assert typed_rows.fits(table, schema)
    assert not typed_rows.fits(table, schema.remove(3)), "a column is missing"
    assert not typed_rows.fits(table, schema.append(pa.field("more", pa.int64()))), "one is not declared"
    assert not typed_rows.fits(table, schema.set(1, pa.field("A", pa.int32()))), "one has another type"


def load_table(folder: Path, columns: str) -> Table:
    """Return a declared table with a key and these columns."""
    file = folder / "p.yaml"
    file.write_text(DECLARED.format(folder=folder, columns=columns))
    return load(file).tables[0]


def test_a_null_in_a_key_is_read_row_by_row(tmp_path: Path) -> None:
    table = load_table(tmp_path, "a: long")
    rows = pa.record_batch({"K": pa.array([1, None], pa.int64()), "A": pa.array([1, 2], pa.int64())})
    assert typed_rows.images(table, rows) is None
    assert typed_rows.images(table, rows.slice(0, 1)).to_pylist() == ['{"K":"1","A":"1"}']


FAR = [
    ("date", pa.array([2**31 - 1], pa.int32()).cast(pa.date32())),
    ("timestamp", pa.array([2**62], pa.int64()).cast(pa.timestamp("us"))),
    ("decimal(38,38)", pa.array([Decimal("1E-38")], pa.decimal128(38, 38))),
]


@pytest.mark.parametrize(("kind", "strange"), FAR, ids=[kind for kind, _ in FAR])
def test_a_column_with_a_value_that_has_no_exact_text_is_read_row_by_row(
    tmp_path: Path, kind: str, strange: pa.Array
) -> None:
    table = load_table(tmp_path, f"a: '{kind}'")
    keys = pa.array([1], pa.int64())
    assert typed_rows.images(table, pa.record_batch({"K": keys, "A": strange})) is None
    nothing = pa.nulls(1, strange.type)
    assert typed_rows.images(table, pa.record_batch({"K": keys, "A": nothing})).to_pylist() == ['{"K":"1","A":null}']


def test_booleans_and_texts_that_json_escapes_are_written_as_json_has_them(tmp_path: Path) -> None:
    table = load_table(tmp_path, "a: boolean, b: string")
    columns = {"K": pa.array([1, 2], pa.int64()), "A": pa.array([True, None]), "B": pa.array(['"\x00', "x"])}
    images = [msgspec.json.decode(image) for image in typed_rows.images(table, pa.record_batch(columns)).to_pylist()]
    assert images == [{"K": "1", "A": True, "B": '"\x00'}, {"K": "2", "A": None, "B": "x"}]
