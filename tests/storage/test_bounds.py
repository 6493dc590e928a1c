"""Tables of a version before that keep bounds of columns for which they are not exact."""

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from txloom.storage import books, evolution
from txloom.storage.progress import newest_metadata

SCHEMA = pa.schema([("id", pa.int64()), ("price", pa.decimal128(38, 10))])
BOUNDED = "delta.dataSkippingStatsColumns"


@pytest.mark.parametrize("kept", ["id,price", "`id`,`price`"])
def test_a_table_forgets_bounds_that_are_not_exact_and_stays_what_it_was_about(tmp_path: Path, kept: str) -> None:
    path = str(tmp_path / "t")
    books.ensure(path, SCHEMA, {BOUNDED: kept}, metadata={"valid_through": 7})
    evolution.ensure(path, SCHEMA)
    assert DeltaTable(path).metadata().configuration[BOUNDED] == kept.split(",", maxsplit=1)[0]
    assert newest_metadata(path) == {"valid_through": 7}
    version = DeltaTable(path).version()
    evolution.ensure(path, SCHEMA)
    assert DeltaTable(path).version() == version
