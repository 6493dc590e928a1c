"""Data files: which columns get a dictionary; what is read is what was written."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable

from txloom.storage.delta import arrow_tables, data_files, small_tables

ROWS = 10_000
SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("kind", pa.string()),
        ("value", pa.string()),
        ("counts", pa.map_(pa.string(), pa.int64())),
        ("lines", pa.list_(pa.struct([("item", pa.string())]))),
    ]
)


def test_values_that_repeat_get_a_dictionary_and_others_none(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    small_tables.ensure(path, SCHEMA)
    rows = [
        {"id": n, "kind": f"k{n % 3}", "value": f"v{n}", "counts": [("orders", n)], "lines": [{"item": f"i{n % 5}"}]}
        for n in range(ROWS)
    ]
    part = data_files.write_file(pa.Table.from_pylist(rows, SCHEMA), "t", path)
    assert data_files.append_files([part], path, "w", 1)
    assert arrow_tables.select(path, "select * from t order by id").to_pylist() == rows
    (uri,) = DeltaTable(path).file_uris()
    group = pq.ParquetFile(uri.removeprefix("file://")).metadata.row_group(0)
    columns = [group.column(number) for number in range(group.num_columns)]
    with_dictionary = {column.path_in_schema for column in columns if column.has_dictionary_page}
    assert with_dictionary == {"kind", "counts.key_value.key", "counts.key_value.value", "lines.list.element.item"}
