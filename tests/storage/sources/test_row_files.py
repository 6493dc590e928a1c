"""Files of rows, as other programs write them."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from txloom.storage.sources.row_files import rows_as_json

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
LOWEST, HIGHEST = -62_135_596_800_000_000, 253_402_300_799_999_999
MICROS = st.one_of(
    st.none(), st.integers(LOWEST, HIGHEST), st.sampled_from([LOWEST, HIGHEST, -1, 9_223_372_036_854_776])
)
NANOS = st.one_of(st.none(), st.integers(-(1 << 63), (1 << 63) - 1))


def text_of(nanos: int) -> str:
    """Write nanoseconds since 1970: the third group of a second's digits only where it is not zero."""
    micros, rest = divmod(nanos, 1000)
    text = (EPOCH.replace(tzinfo=None) + timedelta(microseconds=micros)).isoformat(" ", "microseconds")
    return f"{text}{rest:03}" if rest else text


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(micros=st.lists(MICROS, max_size=5), nanos=st.lists(NANOS, max_size=5))
def test_timestamps_of_96_bits_have_all_their_digits_in_every_year(
    tmp_path: Path, micros: list[int | None], nanos: list[int | None]
) -> None:
    """Spark writes them unless told otherwise, and Arrow reads them as nanoseconds: 9999-12-31 was 1816-03-30."""
    for values, unit, scale in ((micros, "us", 1000), (nanos, "ns", 1)):
        table = pa.table({"at": pa.array(values, pa.timestamp(unit)), "plain": pa.array(range(len(values)))})
        table = table.append_column("zoned", table.column("at").cast(pa.timestamp(unit, "UTC")))
        table = table.append_column("list", pa.array([[each] for each in values], pa.list_(pa.timestamp(unit))))
        table = table.append_column("none", pa.nulls(len(values), pa.list_(pa.timestamp(unit))))
        pq.write_table(table, tmp_path / "rows.parquet", use_deprecated_int96_timestamps=True)
        expected = [None if each is None else text_of(each * scale) for each in values]
        rows = [msgspec.json.decode(row) for _, batch in rows_as_json(tmp_path / "rows.parquet") for row in batch]
        assert [row["at"] for row in rows] == expected
        assert [row["zoned"] for row in rows] == expected
        assert [row["list"] for row in rows] == [[each] for each in expected]
        assert [row["none"] for row in rows] == [None] * len(values)


def test_timestamps_in_a_struct_stay_what_they_are(tmp_path: Path) -> None:
    table = pa.table({"struct": pa.array([{"at": 0}], pa.struct({"at": pa.timestamp("us")}))})
    pq.write_table(table, tmp_path / "rows.parquet", use_deprecated_int96_timestamps=True)
    ((_, (row,)),) = rows_as_json(tmp_path / "rows.parquet")
    assert msgspec.json.decode(row) == {"struct": '{"at":"1970-01-01 00:00:00"}'}


@pytest.mark.parametrize("rows", [0, 1])
def test_a_file_without_such_timestamps_is_read_once(tmp_path: Path, rows: int) -> None:
    pq.write_table(pa.table({"n": pa.array(range(rows), pa.int64())}), tmp_path / "rows.parquet")
    assert [row for _, batch in rows_as_json(tmp_path / "rows.parquet") for row in batch] == [b'{"n":"0"}'] * rows
