"""What people are told about a pipeline, from its tables."""

import os
from datetime import UTC, datetime
from pathlib import Path

from txloom.quality.findings import CSN_BACK, Finding
from txloom.storage import system_tables
from txloom.storage.checks.findings import record
from txloom.storage.delta import small_tables
from txloom.storage.paths import TablePaths
from txloom.storage.runs.lease import held
from txloom.storage.runs.ledger import Entry, write_ledger
from txloom.storage.views.status import status

NOON, ONE = datetime(2026, 1, 1, 12, tzinfo=UTC), datetime(2026, 1, 1, 13, tzinfo=UTC)


def test_a_pipeline_that_never_ran_says_so(tmp_path: Path) -> None:
    nobody = {"transactions": 0, "longest_seconds": None, "as_of": None}
    nothing = {"cut": None, "waiting": nobody, "dead_letters": [], "ledger": []}
    nothing |= {"complete_now": [], "findings": [], "needs_snapshot": [], "lease": None, "partitions": []}
    assert status(str(tmp_path), "orders") == {"pipeline": "orders", **nothing}


def test_who_holds_the_lease_is_told_while_it_is_held(tmp_path: Path) -> None:
    with held(TablePaths(str(tmp_path), "orders"), "r3", "merge_current"):
        shown = status(str(tmp_path), "orders")["lease"]
        assert (shown["run_id"], shown["step"], shown["epoch"], shown["pid"]) == ("r3", "merge_current", 1, os.getpid())
    assert status(str(tmp_path), "orders")["lease"] is None


def test_the_newest_of_everything_is_told(tmp_path: Path) -> None:
    paths = TablePaths(str(tmp_path), "orders")
    for at, run in ((NOON, "r1"), (ONE, "r2")):
        write_ledger(str(tmp_path), "orders", Entry(run, "publish", at, {"cut_id": 1}))
    letters = [{"cause": "excess", "dead_at": NOON}, {"cause": "excess", "dead_at": ONE}, {"cause": "table short"}]
    small_tables.append(paths.dead_letters, letters, system_tables.DEAD_LETTERS)
    small_tables.append(
        paths.table("pending_transactions"), [{"age_seconds": 5, "as_of": ONE}], system_tables.PENDING_TRANSACTIONS
    )
    restored = Finding(CSN_BACK, None, None, 7, "x7", "x7 has csn 7, though csn 9 was before")
    record(paths, [restored, restored], "r2")
    cuts = [{"cut_id": n, "valid_through": n * 10, "versions": [("orders", n)]} for n in (1, 2)]
    small_tables.append(paths.table("cuts"), cuts, system_tables.CUTS)
    shown = status(str(tmp_path), "orders")
    assert (shown["cut"]["cut_id"], shown["cut"]["versions"]) == (2, {"orders": 2})
    assert shown["waiting"] == {"transactions": 1, "longest_seconds": 5, "as_of": ONE}
    assert [(each["cause"], each["events"]) for each in shown["dead_letters"]] == [("excess", 2), ("table short", 1)]
    assert [(each["code"], each["since_csn"]) for each in shown["findings"]] == [(CSN_BACK, 7)]
    assert shown["needs_snapshot"] == ["*"]
    assert [(each["step"], each["run_id"]) for each in shown["ledger"]] == [("publish", "r2")]
