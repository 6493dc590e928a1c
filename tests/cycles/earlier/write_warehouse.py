"""Write the warehouse that tests/cycles/test_earlier_version.py opens: run it in a checkout of the version before.

    PYTHONPATH=include:tests python write_warehouse.py FOLDER && tar czf warehouse.tar.gz -C FOLDER .

    PYTHONPATH=include:tests python write_warehouse.py FOLDER; tar czf warehouse.tar.gz -C FOLDER .
that was given up and completed, poison, a redrive, a failed expectation, a compared backfill, cuts, and a checkpoint.
"""

import sys
import time
from contextlib import suppress
from pathlib import Path

from shop import Shop, delete, insert, truncate, update
from txloom.errors import ExpectationFailed
from txloom.steps.alerts.alert import alert
from txloom.steps.backfill.backfill import backfill
from txloom.steps.dead_letters.redrive import redrive
from txloom.steps.publish.check_expectations import check_expectations
from txloom.storage.spark.session import open_session

TABLES = """
tables:
  - name: orders
    source: APP.ORDERS
    columns: {id: long, note: string, total: "decimal(10,2)", seen: timestamp}
    key: [id]
  - {name: lines, source: APP.LINES, columns: {no: long, order_id: long, part: string}, key: [no]}
targets:
  aggregates: [{name: whole, root: orders, children: [{table: lines, relation: many, parent_key: [order_id]}]}]
  mirrors: [orders, lines]
expectations:
  - kind: orphans
    id: orphan_lines
    child: lines
    parent: orders
    parent_key: [order_id]
    severity: warn
    sentence: Lines have orders.
    hint: Look.
  - {kind: stuck_transactions, id: stuck, older_than: 1s, severity: warn, sentence: Nobody waits., hint: Look.}
"""


SEEN = "2026-01-01 10:00:00"


def write(folder: Path) -> None:
    """Write inbox and warehouse of the pipeline `shop` below a folder."""
    spark = open_session("earlier", "tests")
    shop = Shop(spark, folder, TABLES, patience="3s")
    shop.commit(
        10,
        *[
            insert("orders", id=number, note=f"note {number}", total=f"{number}.50", seen="2026-01-01 10:00:00")
            for number in range(1, 8)
        ],
    )
    shop.commit(20, *[insert("lines", no=number, order_id=number % 4 + 1, part="bolt") for number in range(1, 12)])
    shop.run()
    shop.commit(
        30,
        update("orders", {"id": 1}, id=1, note="changed"),
        update("orders", {"id": 2, "note": "note 2"}, id=20, note="moved"),
    )
    shop.send(*shop.rows_of(40, insert("lines", no=50, order_id=3, part="nut")), shop.metadata_of(40, lines=2))
    shop.send('{"op_type": broken', *shop.rows_of(45, delete("orders", id=7)), shop.metadata_of(45, orders=1))
    shop.run()
    time.sleep(3.5)
    shop.run()
    shop.commit(
        60,
        truncate("lines"),
        insert("lines", no=60, order_id=77, part="orphan"),
        insert("lines", no=61, order_id=3, part="nut"),
    )
    shop.send(*shop.rows_of(70, insert("orders", id=70, note="waits")), shop.metadata_of(70, orders=1, lines=1))
    shop.run()
    given = {"warehouse": shop.warehouse, "run_id": "redrive"}
    shop.send(*shop.rows_of(40, insert("lines", no=51, order_id=3, part="late")))
    shop.run()
    redrive(None, shop.pipeline, transactions=["x70:70"], **given)
    shop.run()
    with suppress(ExpectationFailed):
        check_expectations(None, shop.pipeline, warehouse=shop.warehouse, run_id="checked")
    alert(None, shop.pipeline, warehouse=shop.warehouse, run_id="alerts")
    for task in ("rebuild", "compare", "drop"):
        backfill(lambda: spark, shop.pipeline, warehouse=shop.warehouse, run_id="fill", task=task, csns=(0, 45))
    shop.run()


if __name__ == "__main__":
    write(Path(sys.argv[1]))
