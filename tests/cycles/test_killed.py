"""SIGKILL after a write, then the next run: the tables are what they would have been (docs/faults.md 28)."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from lake import Lake, arrivals, expected_state, new_lake, shown
from oracle import capture, comparison, declarations
from oracle.completeness import progress
from oracle.state import Source
from txloom.config import find

pytestmark = [pytest.mark.random_order(disabled=True), pytest.mark.stream, pytest.mark.long]
"""The tests are steps of one story."""
RUNNER = Path(__file__).with_name("killed_job.py")


def run(lake: Lake, step: str, deadly: int, *arguments: str) -> int:
    """Run a job in a process of its own, killed after its n-th write (0: never); return its exit code."""
    command = [sys.executable, str(RUNNER), step, str(deadly), "--pipeline", "orders", "--warehouse", lake.warehouse]
    command += arguments
    rooms = [str(Path(__file__).parents[2] / "include")]
    environment = {
        **os.environ,
        "TXLOOM_INBOX": str(lake.inbox),
        "PYTHONPATH": os.pathsep.join(rooms),
    }
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode in (0, -signal.SIGKILL), done.stderr[-3000:]
    return done.returncode


def killed_again_and_again(lake: Lake, step: str, deaths: tuple[int, ...], *arguments: str) -> None:
    """Kill a job after each of the given writes, one attempt after the other, then let it end."""
    for deadly in deaths:
        assert run(lake, step, deadly, *arguments) == -signal.SIGKILL, f"{step} made fewer than {deadly} writes"
    assert run(lake, step, 0, *arguments) == 0


@pytest.fixture(scope="module")
def lake(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Three arrivals, of which the first is through and the other two are delivered."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        made = new_lake(spark, tmp_path_factory.mktemp("killed"), monkeypatch)
        made.deliver(arrivals()[0])
        made.run()
        made.deliver(*arrivals()[1:3])
        yield made


def test_landing_killed_after_each_write_takes_every_file_once(lake: Lake) -> None:
    killed_again_and_again(lake, "land_events", (1, 1, 1, 1))
    heard = capture.read(arrivals()[:3])
    kinds = lake.query("change_events", "select kind, count(*) as n from t group by kind")
    counts = {row["kind"]: row["n"] for row in kinds}
    assert (counts["row"], counts["metadata"]) == (heard.rows, heard.metadata)


def test_buffering_killed_between_writes_releases_every_transaction_once(lake: Lake) -> None:
    killed_again_and_again(lake, "buffer_transactions", (1, 4, 4))
    third = list(progress(arrivals()))[2]
    released = lake.query("transactions", "select count(*) as n, count(distinct csn) as different from t")
    assert released == [{"n": len(third.released), "different": len(third.released)}]
    heard = capture.read(arrivals()[:3])
    for table in declarations.TABLES:
        whole = sorted((t.csn, e.pos) for t in heard.transactions if t.whole for e in t.events if e.table == table)
        assert sorted((r["_txloom_csn"], r["_txloom_pos"]) for r in lake.rows(f"{table}_changes")) == whole, table


def test_merging_killed_between_writes_ends_exact(lake: Lake) -> None:
    killed_again_and_again(lake, "merge_current", (1, 2, 3))
    source = Source(capture.read(capture.arrivals()))
    csn = list(progress(arrivals()))[2].valid_through
    assert csn is not None
    differences = comparison.differences(expected_state(source, csn), shown(lake))
    assert not differences, comparison.report(differences)


def test_checking_killed_after_each_result_enters_them_once(lake: Lake) -> None:
    killed_again_and_again(lake, "check_expectations", (1, 1, 1), "--run-id", "checked")
    judged = lake.query(
        "expectation_results", "select expectation from t where run_id = 'checked' order by expectation"
    )
    assert [row["expectation"] for row in judged] == sorted(each.id for each in find("orders").expectations)
    report = Path(lake.path("_reports"), "checked", "report.md").read_text()
    assert report.startswith("**orders** run checked: ") and "not checked yet" not in report


def test_publishing_killed_after_its_checks_and_its_cut_publishes_it_once(lake: Lake) -> None:
    before = len(lake.query("cuts", "select cut_id from t"))
    killed_again_and_again(lake, "publish", (1, 2, 3))
    assert [row["cut_id"] for row in lake.query("cuts", "select cut_id from t order by cut_id")] == list(
        range(1, before + 2)
    )


def test_maintaining_killed_between_writes_keeps_every_row_and_enters_figures_once(lake: Lake) -> None:
    tables = [*declarations.TABLES, "orders_current", "change_events", "order_stream"]
    before = {table: sorted(map(repr, lake.rows(table))) for table in tables}
    killed_again_and_again(lake, "maintain_tables", (1, 1), "--task", "optimize")
    orphans = [Path(lake.path(table), "part-of-a-task-that-failed.parquet") for table in ("orders", "change_events")]
    for orphan in orphans:
        orphan.write_bytes(b"never committed")
        os.utime(orphan, (0, 0))
    killed_again_and_again(lake, "maintain_tables", (1,), "--task", "vacuum")
    assert not any(orphan.exists() for orphan in orphans)
    killed_again_and_again(lake, "maintain_tables", (1,), "--task", "statistics", "--run-id", "measured")
    assert {table: sorted(map(repr, lake.rows(table))) for table in tables} == before
    figures = lake.query("table_statistics", "select \"table\" from t where run_id = 'measured'")
    assert len(figures) == len({row["table"] for row in figures}) > len(tables)
