"""A connector that restarts inside a COPY, through real Spark and Delta: what is named, and what closes it."""

import json
import time
from pathlib import Path
from typing import Any

import pytest

import manual
from debezium_shop import DebeziumShop, copied, ended, snapshot, updated
from steps.snapshots.test_load_snapshot import load
from txloom.quality import findings as f
from txloom.storage.views.pipeline.dead_letters import causes
from txloom.storage.views.status import status

pytestmark = pytest.mark.session


def hole(shop: DebeziumShop, xid: int, lsn: int, keys: range, counted: int = 8) -> None:
    """Send a COPY of ten rows from two runs that lost two of them between them."""
    first = copied(xid, lsn, keys[:5], "one")
    second = copied(xid, lsn, keys[7:], "two", first=6)
    shop.send(*first, *second, *ended(xid, lsn + 8, lines=counted))


def overlap(shop: DebeziumShop, xid: int, lsn: int, keys: range, counted: int = 10) -> None:
    """Send a COPY of ten rows of which two runs sent some both, under shifted places."""
    shop.send(*copied(xid, lsn, keys[:7], "one"), *copied(xid, lsn, keys[4:], "two", first=3))
    shop.send(*ended(xid, lsn + 8, lines=counted))


def counted_causes(shop: DebeziumShop) -> dict[str, int]:
    return {row["cause"]: row["events"] for row in status(shop.warehouse, "shop")["dead_letters"]}


def give_up(shop: DebeziumShop) -> None:
    shop.run()
    time.sleep(1.1)
    shop.run()


def gaps(shop: DebeziumShop) -> list[int]:
    (cut,) = shop.query("cuts", "select gaps from t order by cut_id desc limit 1")
    return [gap["csn"] for gap in cut["gaps"]]


def export(shop: DebeziumShop, table: str, *ranges: range) -> Path:
    """Write the source's rows of a table as an export does."""
    folder = shop.folder / "export"
    (folder / table).mkdir(parents=True)
    rows = [{"id": key, "note": f"note {key}"} for keys in ranges for key in keys]
    (folder / table / "rows.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return folder


def test_each_transaction_with_a_hole_is_named_and_a_load_of_its_table_closes_them(spark: Any, tmp_path: Path) -> None:
    """Counts agree, as they did in real captures: only the runs tell. One that lacks nothing is a note."""
    shop = DebeziumShop(spark, tmp_path)
    hole(shop, 700, 1000, range(10))
    hole(shop, 701, 2000, range(10, 20))
    overlap(shop, 702, 3000, range(20, 30))
    shop.send(*copied(703, 4000, [1], "two", table="orders"))
    shop.send(*[record for n in range(6) for record in updated(703, 4001 + n, 20, f"n{n}", "two")])
    shop.send(*ended(703, 4010, orders=1, lines=6))
    shop.run()
    assert shop.shown("lines") == [*range(5), *range(7, 15), *range(17, 30)], "whole as far as anybody counts"
    named = [(f.TWO_RUNS, "lines", "700", 1008, True), (f.TWO_RUNS, "lines", "701", 2008, True)]
    assert shop.findings() == named, "and no update without an image before is held against the connector"
    (finding, *_, note) = shop.query("findings", "select evidence, code, status from t order by since_csn")
    assert finding["evidence"] == (
        "rows of 700 in lines come from 2 runs: run 1 sent 5 at 1000 to 1000, run 2 sent 3 at 1000 to 1000, "
        "0 rows came from both"
    )
    assert (note["code"], note["status"]) == (f.RUNS_OVERLAP, "closed")
    load(shop, export(shop, "lines", range(30)), 4010)
    shop.run()
    assert (shop.shown("lines"), shop.findings()) == ([*range(30)], [])
    hole(shop, 704, 5000, range(30, 40))
    shop.run()
    assert shop.findings() == [(f.TWO_RUNS, "lines", "704", 5008, True)]


def test_a_held_suspect_and_an_excess_name_their_tables_and_are_gaps_until_the_tables_are_loaded(
    spark: Any, tmp_path: Path
) -> None:
    shop = DebeziumShop(spark, tmp_path, suspects="hold")
    hole(shop, 700, 1000, range(10))
    overlap(shop, 701, 2000, range(10, 20), counted=9)
    overlap(shop, 702, 3000, range(20, 30))
    give_up(shop)
    assert (shop.shown("lines"), counted_causes(shop)) == ([*range(20, 30)], {"two producer runs": 9, "excess": 11})
    named = [(f.TWO_RUNS, "lines", "700", 1008, True), (f.TWO_RUNS, "lines", "701", 2008, True)]
    assert (shop.findings(), gaps(shop)) == (named, [1008, 2008])
    hints = {each.cause: each.hint for each in causes(shop.pipeline, shop.warehouse).listing.groups}
    assert "load a snapshot" in hints["excess"].lower() and "GROUPTRANSOPS" not in "".join(hints.values())
    load(shop, export(shop, "lines", range(30)), 3008)
    shop.send(*copied(703, 4000, [1], "two", table="orders"), *ended(703, 4008, orders=1))
    shop.run()
    assert (shop.shown("lines"), shop.findings(), gaps(shop)) == ([*range(30)], [], [])


def test_a_connectors_snapshot_closes_what_it_repairs_and_nothing_that_it_cannot(spark: Any, tmp_path: Path) -> None:
    """It sends the rows that there are: a row that it does not send is still shown, and the finding stays."""
    shop = DebeziumShop(spark, tmp_path)
    shop.send(*snapshot(500, [90], last=False))
    assert shop.run()["publish"] == {"published": 0}, "tables are empty, as no source ever was"
    assert shop.query("cuts", "select * from t") == []
    shop.send(*snapshot(500, [91]))
    shop.run()
    shop.run()
    hole(shop, 700, 1000, range(10))
    shop.run()
    assert [row[:3] for row in shop.findings()] == [(f.TWO_RUNS, "lines", "700")]
    for lsn, keys in ((2000, [91, *range(10)]), (3000, [90, 91, *range(10)])):
        shop.send(*snapshot(lsn, keys))
        shop.run()
        shop.send(*copied(lsn, lsn + 50, [lsn], "two", table="orders"), *ended(lsn, lsn + 58, orders=1))
        shop.run()
        shop.run()
        assert shop.shown("lines") == [*range(10), 90, 91]
        suspects = [row[:3] for row in shop.findings() if row[0] == f.TWO_RUNS]
        assert suspects == ([(f.TWO_RUNS, "lines", "700")] if lsn == 2000 else [])


@pytest.mark.usefixtures("spark")
def test_the_documented_commands_repair_a_suspect(spark: Any, tmp_path: Path) -> None:
    shop = DebeziumShop(spark, tmp_path, suspects="hold")
    hole(shop, 700, 1000, range(10))
    give_up(shop)
    assert [row["needs_snapshot"] for row in [status(shop.warehouse, "shop")]] == [["lines"]]
    shop.send(*copied(703, 4000, [1], "two", table="orders"), *ended(703, 4008, orders=1))
    export(shop, "lines", range(10))
    replaced = {"NAME": str(shop.file), "/exports/lines": f"{tmp_path}/export", "24023128": "4000", "1389": "700"}
    commands = manual.commands("### A transaction from two runs of its producer")
    assert len(commands) == 6
    for command in commands:
        manual.run(command, shop.warehouse, replaced)
    shown = status(shop.warehouse, "shop")
    assert (shop.shown("lines"), shown["needs_snapshot"], shown["dead_letters"]) == ([*range(10)], [], [])
    assert (gaps(shop), shop.findings()) == ([], [])
