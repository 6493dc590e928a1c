"""Findings as rows: what one that is open says of others, notes, hints that fit the source; no Spark."""

from pathlib import Path

import pytest

from txloom.quality import findings as f
from txloom.quality.findings import Finding
from txloom.storage.checks import findings
from txloom.storage.dead_letters.hints import hints_for
from txloom.storage.paths import TablePaths
from txloom.transactions import completeness


@pytest.fixture
def paths(tmp_path: Path) -> TablePaths:
    return TablePaths(str(tmp_path), "shop")


def of(code: str, csn: int, xid: str, table: str = "lines") -> Finding:
    return Finding(code, table, None, csn, xid, f"rows of {xid}")


def open_now(paths: TablePaths) -> list[tuple[str, int]]:
    return [(row["xid"], row["since_csn"]) for row in findings.open_findings(paths)]


def test_an_open_finding_about_one_transaction_hides_no_other_one(paths: TablePaths) -> None:
    for csn, xid in ((10, "x1"), (20, "x2"), (10, "x1"), (30, "x1")):
        findings.record(paths, [of(f.TWO_RUNS, csn, xid)], "r")
    assert open_now(paths) == [("x1", 10), ("x2", 20), ("x1", 30)]
    findings.close(paths, findings.open_findings(paths)[:1], "r", "a snapshot was loaded")
    assert open_now(paths) == [("x2", 20), ("x1", 30)]
    assert findings.repaired(paths, f.TWO_RUNS) == {("x1", 10)}


def test_an_open_finding_about_a_table_is_one_however_many_transactions_show_it(paths: TablePaths) -> None:
    for csn, xid in ((10, "x1"), (20, "x2")):
        findings.record(paths, [of(f.CHANGED, csn, xid)], "r")
    assert open_now(paths) == [("x1", 10)]


def test_a_transaction_is_repaired_once_none_of_its_tables_needs_a_snapshot(paths: TablePaths) -> None:
    findings.record(paths, [of(f.TWO_RUNS, 10, "x1"), of(f.TWO_RUNS, 10, "x1", "orders")], "r")
    first, second = findings.open_findings(paths)
    findings.close(paths, [first], "r", "a snapshot was loaded")
    assert findings.repaired(paths, f.TWO_RUNS) == set()
    findings.close(paths, [second], "r", "a snapshot was loaded")
    assert findings.repaired(paths, f.TWO_RUNS) == {("x1", 10)}


def test_a_note_is_written_down_once_and_never_open(paths: TablePaths, capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(2):
        findings.note(paths, [of(f.RUNS_OVERLAP, 10, "x1")], "r")
    assert findings.open_findings(paths) == []
    assert capsys.readouterr().out.count("note: two producer runs overlap, lines, since csn 10 (x1)") == 1


@pytest.mark.parametrize("source_format", ["debezium", "wal2json", "change_sets", None])
def test_who_has_no_goldengate_reads_none_of_its_settings(paths: TablePaths, source_format: str | None) -> None:
    settings = ("GROUPTRANSOPS", "IGNORE", "GETUPDATE", "omitNullValues", "GoldenGate", "replicat")
    hints = hints_for(source_format)
    hints_shown = [
        hints[cause]
        for cause in (
            completeness.NO_METADATA,
            completeness.EXCESS,
            completeness.SHORT,
            completeness.CONFLICT,
            completeness.SUSPECT,
        )
    ]
    hints_shown += [
        of(code, 1, "x").hint(source_format) for code in (f.TWO_RUNS, f.NULLS_OMITTED, f.CHANGED, f.COUNTS_CHANGED)
    ]
    assert not [hint for hint in hints_shown if any(setting in hint for setting in settings)]
    assert "GROUPTRANSOPS" in hints_for("goldengate")[completeness.EXCESS]
    assert "omitNullValues" in of(f.NULLS_OMITTED, 1, "x").hint("goldengate")
