"""The same sample by Spark's own plans, as for batches too large for one process: same tables, row by row."""

from pathlib import Path
from typing import Any

import pytest

from lake import arrivals, new_lake
from oracle import capture, comparison, declarations, values
from oracle.state import Source
from txloom.storage import landing, local, merging

pytestmark = pytest.mark.usefixtures("partitioned")


def test_a_large_batch_gives_what_small_ones_give(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second half is large: it finds tables with rows, and transactions of which a part was landed before."""
    lake = new_lake(spark, tmp_path, monkeypatch)
    lake.deliver(*arrivals()[:3])
    lake.run()
    monkeypatch.setattr(local, "LOCAL_ROWS", -1)
    monkeypatch.setattr(landing, "LOCAL_BYTES", -1)
    monkeypatch.setattr(merging, "LOCAL_TABLE_BYTES", -1)
    lake.deliver(*arrivals()[3:])
    lake.run()
    heard = capture.read(capture.arrivals())
    source = Source(heard)
    last = source.csns[-1]
    expected = values.typed_state(source.state_as_of(last)) | {
        "documents": values.typed_documents(source.documents_as_of(last))
    }
    actual = {
        table: comparison.keyed(lake.rows(table), declarations.TABLES[table].key) for table in declarations.TABLES
    }
    actual["documents"] = comparison.keyed(lake.rows("orders_current"), ("order_id",))
    found = comparison.differences(expected, actual)
    assert not found, comparison.report(found)
    rows = lake.rows("order_stream")
    changes = sum(len(row[field]) for row in rows for field in ("orders", "order_details", "line_items", "attachments"))
    members = {"orders", "order_details", "order_line_items", "order_attachments"}
    assert changes == sum(1 for t in heard.transactions for e in t.events if e.table in members)
