"""The same sample by Spark's own plans, as for batches too large for one process: same tables, row by row."""

from pathlib import Path
from typing import Any

import pytest

from lake import arrivals, expected_state, leave_to_spark, new_lake, shown
from oracle import capture, comparison
from oracle.state import Source
from shop import Shop, insert
from txloom.storage.targets import spark_fold

pytestmark = [pytest.mark.stream, pytest.mark.session]
TABLES = """
tables:
  - {name: orders, source: APP.ORDERS, key: [id], columns: {id: long, note: string}}
  - {name: lines, source: APP.LINES, key: [id], columns: {id: long, order_id: long}}
targets:
  aggregates:
    - {name: doc, root: orders, children: [{table: lines, relation: many, parent_key: [order_id]}]}
"""


@pytest.mark.long
def test_a_merge_is_given_rows_and_not_the_plan_that_they_came_from(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Delta would look for the files of every scan in such a plan again, at each of a merge's steps."""
    plans, merge = [], spark_fold.merge
    monkeypatch.setattr(
        spark_fold, "merge", lambda path, rows, *a, **k: (plans.append(rows), merge(path, rows, *a, **k))
    )
    leave_to_spark(monkeypatch)
    shop = Shop(spark, tmp_path, TABLES)
    shop.commit(10, insert("orders", id=1, note="a"), insert("lines", id=7, order_id=1))
    shop.run()
    assert len(plans) == 3
    assert [str(rows._jdf.queryExecution().logical()).split()[0] for rows in plans] == ["LogicalRDD"] * 3


@pytest.mark.long
@pytest.mark.usefixtures("partitioned")
def test_a_large_batch_gives_what_small_ones_give(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second half is large: it finds tables with rows, and transactions of which a part was landed before."""
    lake = new_lake(spark, tmp_path, monkeypatch)
    lake.deliver(*arrivals()[:3])
    lake.run()
    leave_to_spark(monkeypatch)
    lake.deliver(*arrivals()[3:])
    lake.run()
    heard = capture.read(capture.arrivals())
    source = Source(heard)
    last = source.csns[-1]
    differences = comparison.differences(expected_state(source, last), shown(lake))
    assert not differences, comparison.report(differences)
    rows = lake.rows("order_stream")
    changes = sum(len(row[field]) for row in rows for field in ("orders", "order_details", "line_items", "attachments"))
    members = {"orders", "order_details", "order_line_items", "order_attachments"}
    assert changes == sum(1 for t in heard.transactions for e in t.events if e.table in members)
