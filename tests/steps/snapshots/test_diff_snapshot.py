"""Extracts of a date against real Delta tables: what differs is one transaction, and nothing else ever is."""

import csv
import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import nullcontext
from datetime import date, time
from pathlib import Path
from random import Random
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from called import step_of
from cycles.test_killed import RUNNER
from lake import STEPS, Lake
from public.snapshots import keyed
from public.test_hash_diff import KEYS, ROWS, VALUES, next_day, row_of
from public.test_two_snapshots import HISTORY, snapshot
from txloom import read
from txloom.config import load
from txloom.errors import BeyondValidThrough, ConfigurationError, SourceUnavailable, TxloomError, WriteConflict
from txloom.quality import findings as f
from txloom.quality.dead_letters import Selection
from txloom.steps.dead_letters.redrive import redrive
from txloom.steps.snapshots import diff_snapshot as step
from txloom.steps.snapshots.diff_snapshot import diff_snapshot
from txloom.steps.snapshots.load_snapshot import Snapshot, load_snapshot
from txloom.steps.step import Step
from txloom.storage.checks.findings import open_findings
from txloom.storage.delta import arrow_tables
from txloom.storage.landing import decoding
from txloom.storage.paths import TablePaths
from txloom.storage.runs import lease
from txloom.storage.spark import tasks

HEAD = """
name: club
source: {{format: snapshots, files: {{path: {inbox}, settle: 0s}}, snapshots: {{extracts: {extracts}}}}}
completeness: {{rule: single}}
"""
TRIPS = """
tables:
  - {name: trips, source: CLUB.TRIPS, key: [key], columns: {key: long, city: string}}
targets: {mirrors: ["*"]}
"""
SHOP = """
tables:
  - {name: orders, source: APP.ORDERS, key: [id], columns: {id: long, note: string}, undeclared_columns: evolve}
  - {name: lines, source: APP.LINES, key: [id], columns: {id: long, order_id: long, thing: string}}
targets:
  aggregates:
    - {name: doc, root: orders, children: [{table: lines, relation: many, parent_key: [order_id]}]}
"""
Rows = list[dict[str, Any]]


class Club(Lake):
    """A lake that is fed with extracts."""

    def __init__(self, spark: Any, folder: Path, tables: str, extracts: str = "full") -> None:
        self.head = HEAD.format(inbox=folder / "inbox", extracts=extracts)
        (folder / "inbox").mkdir()
        super().__init__(spark, folder, self.declared(folder, tables))

    def declared(self, folder: Path, tables: str) -> Any:
        (folder / "club.yaml").write_text(self.head + tables)
        return load(folder / "club.yaml")

    def day(self, day: int) -> Path:
        return self.inbox / f"2026-11-{day:02}"

    def put(self, day: int, table: str, rows: Rows, name: str = "1.jsonl") -> Path:
        """Write a table's extract."""
        path = self.day(day) / table / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if name.endswith(".csv"):
            with path.open("w", newline="") as stream:
                writer = csv.DictWriter(stream, list(rows[0]))
                writer.writeheader()
                writer.writerows(rows)
        else:
            path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
        return path

    def diff(self, day: int, **more: Any) -> dict[str, Any]:
        step = step_of(self.pipeline, self.warehouse, f"day-{day}", lambda: self.spark)
        return diff_snapshot(step, date(2026, 11, day), **more)

    def cycle(self, day: int, **more: Any) -> dict[str, Any]:
        """Compare a date and bring the tables up to it; return what differed, where something did."""
        counts = self.diff(day, **more)
        self.run(STEPS[1:])
        return {name: counts[name] for name in (*step.KINDS, "skipped") if counts.get(name)}

    def shown(self, table: str, *columns: str) -> list[tuple[Any, ...]]:
        return sorted((tuple(row[name] for name in columns) for row in self.rows(table)), key=repr)

    def intervals(self, table: str) -> Rows:
        intervals: Rows = read.intervals(self.pipeline, table, warehouse=self.warehouse).to_pylist()
        return intervals

    def findings(self) -> list[tuple[Any, ...]]:
        rows = open_findings(TablePaths(self.warehouse, "club"))
        return [tuple(row[name] for name in ("code", "table", "column", "since_csn")) for row in rows]


def trips(*pairs: tuple[int, str | None]) -> Rows:
    return [{"KEY": key, "CITY": city} for key, city in pairs]


@pytest.fixture(params=["in this process", "by processes", pytest.param("by Spark", marks=pytest.mark.long)])
def spread(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run a test as small runs do, and as large ones do, in several buckets."""
    if request.param != "in this process":
        monkeypatch.setattr(decoding, "LOCAL_BYTES", -1)
        monkeypatch.setattr(step, "BUCKET_BYTES", 1000)
    if request.param == "by processes":
        monkeypatch.setattr(tasks, "_is_session_open", lambda: False)


@pytest.fixture
def club(spark: Any, tmp_path: Path) -> Club:
    return Club(spark, tmp_path, TRIPS)


@pytest.mark.parametrize(
    "by_spark",
    [pytest.param(False, id="in this process"), pytest.param(True, id="by Spark", marks=pytest.mark.long)],
)
def test_10000_rows_of_which_a_fifth_is_replaced_and_two_fifths_are_updated(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by_spark: bool
) -> None:
    """The hash-diff seed: five uuids as key, ten numbers, as CSV and then as Parquet."""
    if by_spark:
        monkeypatch.setattr(decoding, "LOCAL_BYTES", -1)
        monkeypatch.setattr(step, "BUCKET_BYTES", 1 << 20)
    columns = ", ".join([*(f"{name}: string" for name in KEYS), *(f"{name}: long" for name in VALUES)])
    made = Club(
        spark,
        tmp_path,
        f"tables:\n  - {{name: synthetic, source: A.SYNTHETIC, key: [{', '.join(KEYS)}], columns: {{{columns}}}}}\n"
        'targets: {mirrors: ["*"]}\n',
    )
    chance = Random(20190618)
    rows = keyed([row_of(chance) for _ in range(ROWS)], *KEYS)
    made.put(18, "synthetic", list(rows.values()), "day.csv")
    assert made.cycle(18) == {"inserts": 10_000}
    rows = next_day(rows, chance)
    (made.day(19) / "synthetic").mkdir(parents=True)
    pq.write_table(pa.Table.from_pylist(list(rows.values())), made.day(19) / "synthetic" / "day.parquet")
    assert made.cycle(19) == {"inserts": 2_000, "updates": 4_000, "deletes": 2_000, "unchanged": 4_000}

    shown = made.rows("synthetic")
    assert keyed([{name: row[name] for name in (*KEYS, *VALUES)} for row in shown], *KEYS) == rows
    assert Counter(row["_txloom_csn"] for row in shown) == {20261119: 6_000, 20261118: 4_000}
    history = Counter((row["_txloom_csn"], row["_txloom_op"]) for row in made.rows("synthetic_changes"))
    assert history == {
        (20261118, "I"): 10_000, (20261119, "I"): 2_000, (20261119, "D"): 2_000, (20261119, "U"): 4_000
    }  # fmt: skip
    spans = Counter((row["_txloom_valid_from"], row["_txloom_valid_to"]) for row in made.intervals("synthetic"))
    assert spans == {(20261118, None): 4_000, (20261118, 20261119): 6_000, (20261119, None): 6_000}
    (entry,) = made.query("ledger", "select counts, detail from t where step = 'diff_snapshot' and batch = 2")
    counts = {"inserts": 2_000, "updates": 4_000, "deletes": 2_000, "missing": 0, "unchanged": 4_000}
    assert entry["counts"] == {"tables": 1, **counts}
    assert json.loads(entry["detail"]) == {"extract": "snapshot:2026-11-19", "tables": {"synthetic": counts}}
    assert all(row["balanced"] for row in made.query("ledger", "select balanced from t where step = 'balance'"))


@pytest.mark.usefixtures("spread")
def test_the_same_key_is_the_same_in_whatever_form_its_extract_is_written(spark: Any, tmp_path: Path) -> None:
    """Parquet has times of six digits and uuids of 16 bytes, text has whatever its writer likes."""
    made = Club(
        spark,
        tmp_path,
        "tables:\n  - {name: plans, source: A.PLANS, key: [at, id], columns: {at: time, id: uuid, gate: time}}\n"
        'targets: {mirrors: ["*"]}\n',
    )
    known = UUID("123e4567-e89b-12d3-a456-426614174000")
    (made.day(1) / "plans").mkdir(parents=True)
    typed = {
        "at": pa.array([time(8, 15, 30)], pa.time64("us")),
        "id": pa.array([known.bytes], pa.binary(16)),
        "gate": pa.array([time(8, 15, 30, 500_000)], pa.time64("us")),
    }
    pq.write_table(pa.table(typed), made.day(1) / "plans" / "day.parquet")
    assert made.cycle(1) == {"inserts": 1}
    made.put(2, "plans", [{"at": "08:15:30", "id": str(known).upper(), "gate": "08:15:30.50"}])
    assert made.cycle(2) == {"unchanged": 1}
    assert made.shown("plans", "at", "id", "gate") == [("08:15:30", str(known), "08:15:30.5")]


def test_the_history_of_two_snapshots_and_a_late_one_that_is_skipped(
    club: Club, capsys: pytest.CaptureFixture[str]
) -> None:
    """AUTO CDC from snapshots; intervals are [date, next date) in csn and in commit time."""
    for number in (0, 1):
        club.put(2 + number, "trips", list(snapshot(number).values()))
        club.cycle(2 + number)
    club.put(1, "trips", trips((9, "too late")))
    capsys.readouterr()
    assert club.cycle(1) == {"skipped": 1}
    said = "skipped: snapshot:2026-11-01 is not newer than snapshot:2026-11-03 (csn 20261103), which was landed already"
    assert capsys.readouterr().out.splitlines()[0] == said
    assert keyed([{"key": key, "city": city} for key, city in club.shown("trips", "key", "city")], "key") == snapshot(1)
    intervals = club.intervals("trips")
    spans = {f"{row['key']} {row['city']} {span(row)}" for row in intervals}
    assert spans == set(HISTORY.strip().splitlines())
    times = {str(row[f"_txloom_valid_{end}_time"]) for row in intervals for end in ("from", "to")}
    assert times == {"2026-11-02 00:00:00+00:00", "2026-11-03 00:00:00+00:00", "None"}
    assert read.as_of(club.pipeline, "trips", csn=20261102, warehouse=club.warehouse).num_rows == 3
    (entry,) = club.query("ledger", "select detail from t where step = 'diff_snapshot' and counts['skipped'] = 1")
    assert entry["detail"] == said


def span(row: dict[str, Any]) -> str:
    end = row["_txloom_valid_to"]
    return f"{row['_txloom_valid_from'] - 20261102}-{'' if end is None else end - 20261102}"


@pytest.mark.usefixtures("spread")
def test_a_partial_extract_leaves_alone_what_it_does_not_have(spark: Any, tmp_path: Path) -> None:
    made = Club(spark, tmp_path, TRIPS, extracts="partial")
    made.put(1, "trips", trips((1, "Oaxaca"), (2, None), (3, "")))
    assert made.cycle(1) == {"inserts": 3}
    made.put(2, "trips", trips((2, ""), (4, "null")))
    made.put(2, "trips", trips((3, "")), "2.jsonl")
    assert made.cycle(2) == {"inserts": 1, "updates": 1, "missing": 1, "unchanged": 1}
    assert made.shown("trips", "key", "city") == [(1, "Oaxaca"), (2, ""), (3, ""), (4, "null")]
    made.put(3, "trips", [])
    assert made.cycle(3) == {"missing": 4}, "a partial extract without rows says nothing of any"


def test_a_date_without_differences_is_a_transaction_too(club: Club) -> None:
    """The same rows from another kind of file, in another order and with decimals of another scale, are the same."""
    club.put(1, "trips", trips((1, "Oaxaca"), (2, None)))
    club.cycle(1)
    club.put(2, "trips", [{"CITY": None, "KEY": "2"}, {"CITY": "Oaxaca", "KEY": "1"}])
    assert club.cycle(2) == {"unchanged": 2}
    assert club.query("cuts", "select max(valid_through) as csn from t") == [{"csn": 20261102}]
    assert club.query("transactions", "select rows, status from t where csn = 20261102") == [
        {"rows": 0, "status": "released"}
    ]
    assert club.diff(2)["skipped"] == 1


def test_the_same_date_twice_is_skipped_and_said_also_where_it_has_changed(
    club: Club, capsys: pytest.CaptureFixture[str]
) -> None:
    club.put(1, "trips", trips((1, "Oaxaca")))
    club.cycle(1)
    capsys.readouterr()
    assert club.diff(1) == {"date": "2026-11-01", "csn": 20261101, "skipped": 1}
    assert capsys.readouterr().out == "skipped: snapshot:2026-11-01 was landed already\n"
    club.put(1, "trips", trips((1, "Monterrey")))
    assert club.cycle(1) == {"skipped": 1}
    assert capsys.readouterr().out.splitlines()[0] == (
        "skipped: snapshot:2026-11-01 was landed already; its extracts were changed since, which is left out: put them "
        "under a later date, or, if they are full, run jobs/load_snapshot.py --pipeline club "
        f"--path {club.day(1)} --csn 20261101"
    )
    assert club.shown("trips", "city") == [("Oaxaca",)]
    load_snapshot(redriving(club), Snapshot(str(club.day(1)), 20261101))
    club.put(2, "trips", trips((1, "Monterrey")))
    assert refused(club, 2).startswith("landing 2 is not released yet: ")
    club.run(STEPS[1:])
    assert club.shown("trips", "city") == [("Monterrey",)]
    assert club.cycle(2) == {"unchanged": 1}


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ('{"KEY": 1}\n{"KEY": "x"}\n', "1.jsonl: row 2: key: 'x' is not a long; nothing was landed"),
        ('{"KEY": 1}\n{"CITY": "x"}\n', "1.jsonl: row 2: key: a key without a value; nothing was landed"),
        ('{"KEY": null}\n', "1.jsonl: row 1: key: a key without a value; nothing was landed"),
        (
            '{"KEY": 7, "CITY": "a"}\n{"KEY": 8}\n{"KEY": "7"}\n',
            "1.jsonl: row 1: its key (key 7) stands again in {path}/1.jsonl: row 3; nothing was landed",
        ),
        (
            "",
            "no rows, so that all 2 rows of trips would be deleted; nothing was landed. If the table is empty at the "
            "source, put a file _SUCCESS into the folder",
        ),
    ],
)
@pytest.mark.usefixtures("spread")
def test_what_cannot_be_compared_is_named_and_nothing_is_landed(refusing: Club, lines: str, message: str) -> None:
    path = refusing.put(2, "trips", []).parent
    (path / "1.jsonl").write_text(lines)
    before = refusing.version("change_events")
    with pytest.raises(ConfigurationError) as error:
        refusing.diff(2)
    sep = "/" if lines else ": "
    assert str(error.value) == f"{path}{sep}{message.format(path=path)}"
    assert refusing.version("change_events") == before
    assert refusing.query("landed_files", "select max(landing) as n from t") == [{"n": 1}]


@pytest.fixture(scope="module")
def refusing(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Club:
    """A club whose first date is through."""
    made = Club(spark, tmp_path_factory.mktemp("refusing"), TRIPS)
    made.put(1, "trips", trips((1, "Oaxaca"), (2, "Monterrey")))
    assert made.cycle(1) == {"inserts": 2}
    return made


def test_an_extract_without_rows_empties_its_table_only_where_it_is_meant(club: Club) -> None:
    club.put(1, "trips", trips((1, "Oaxaca"), (2, "Monterrey")))
    club.cycle(1)
    club.put(2, "trips", [], "_SUCCESS")
    assert club.cycle(2) == {"deletes": 2}
    assert club.shown("trips", "key") == []


@pytest.mark.parametrize(
    "rows",
    [
        pytest.param(arrow_tables.LOCAL_ROWS, id="merged in this process"),
        pytest.param(-1, id="merged by Spark", marks=pytest.mark.long),
    ],
)
@pytest.mark.parametrize("leased", [False, True], ids=["", "with a lease"])
@pytest.mark.usefixtures("spread")
def test_a_table_of_which_nothing_changed_is_not_behind(
    club: Club, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: int, *, leased: bool
) -> None:
    """A load of nothing into nothing is a change of the table that no row shows."""
    monkeypatch.setattr(arrow_tables, "LOCAL_ROWS", rows)
    club.put(1, "trips", [])
    club.cycle(1)
    (tmp_path / "load" / "trips").mkdir(parents=True)
    step = step_of(club.pipeline, club.warehouse, "load", lambda: club.spark)
    load_snapshot(step, Snapshot(str(tmp_path / "load"), 20261101, ahead=True))
    with lease.held(TablePaths(club.warehouse, "club"), "run", "all") if leased else nullcontext():
        club.run(STEPS[1:])
    club.put(2, "trips", trips((1, "Linz")))
    assert club.cycle(2) == {"inserts": 1}


def test_nothing_is_compared_with_tables_that_are_behind(club: Club) -> None:
    club.put(1, "trips", trips((1, "Oaxaca")))
    club.put(2, "trips", trips((2, "Monterrey")))
    club.diff(1)
    again = "run buffer_transactions and merge_current, then diff_snapshot again"
    assert refused(club, 2) == f"landing 1 is not released yet: {again}"
    club.run(STEPS[1:2])
    assert refused(club, 2) == f"trips does not hold everything that was released yet: {again}"
    club.run(STEPS[2:])
    assert club.cycle(2) == {"inserts": 1, "deletes": 1}
    assert club.shown("trips", "key") == [(2,)]


def refused(club: Club, day: int, kind: type[TxloomError] = BeyondValidThrough) -> str:
    with pytest.raises(kind) as error:
        club.diff(day)
    return str(error.value)


def test_an_extract_that_changes_while_it_is_read_is_not_landed(club: Club, monkeypatch: pytest.MonkeyPatch) -> None:
    path = club.put(1, "trips", trips((1, "Oaxaca")))
    summary = step._summary

    def growing(*given: Any) -> Any:
        path.write_text(path.read_text() + '{"KEY": 2}\n')
        return summary(*given)

    monkeypatch.setattr(step, "_summary", growing)
    message = f"{club.day(1)}: it changed while it was read; nothing was landed"
    assert refused(club, 1, SourceUnavailable) == message
    assert club.query("landed_files", "select * from t") == []


def test_a_date_that_another_run_overtook_says_so(club: Club, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both runs see no landing; the second one's writes are not taken, because number 1 is written."""
    club.put(1, "trips", trips((1, "Oaxaca")))
    club.put(2, "trips", trips((2, "Monterrey")))
    summary = step._summary

    def overtaken(*given: Any) -> Any:
        monkeypatch.setattr(step, "_summary", summary)
        club.diff(2)
        return summary(*given)

    monkeypatch.setattr(step, "_summary", overtaken)
    message = "another run landed something else as landing 1; nothing was landed: run it again"
    assert refused(club, 1, WriteConflict) == message
    assert [row["xid"] for row in club.query("change_events", "select xid from t where kind = 'metadata'")] == [
        "snapshot:2026-11-02"
    ]


def test_a_full_date_that_lacks_a_table_is_refused_and_a_partial_one_is_not(spark: Any, tmp_path: Path) -> None:
    for extracts in ("full", "partial"):
        (tmp_path / extracts).mkdir()
        made = Club(spark, tmp_path / extracts, SHOP, extracts)
        made.put(1, "orders", [{"id": 1, "note": "a"}])
        (made.day(1) / "_SUCCESS").touch()
        if extracts == "partial":
            assert made.diff(1)["inserts"] == 1
            continue
        refusal = refused(made, 1, SourceUnavailable)
        assert refusal.startswith(f"{made.day(1)}: no extract of lines, although extracts are full: a cut would show")
        assert f"Deliver the folder {made.day(1)}/lines" in refusal
        assert "--without lines" in refusal
        for named, message in (("orders", "is there"), ("linse", "expected a watched table: orders, lines")):
            with pytest.raises(ConfigurationError, match=message):
                made.diff(1, without=[named])
        assert not made.query("change_events", "select 1 from t where landing > 0")
        (made.day(1) / "lines").mkdir()
        assert made.diff(1)["inserts"] == 1, "a table that has no rows yet needs no marker"
        assert made.findings() == []


def test_documents_columns_that_come_and_go_and_tables_without_an_extract(spark: Any, tmp_path: Path) -> None:
    made = Club(spark, tmp_path, SHOP)
    made.put(1, "orders", [{"id": 1, "note": "a"}, {"id": 2, "note": "b"}])
    made.put(1, "lines", [{"id": 7, "order_id": 1, "thing": "x"}, {"id": 8, "order_id": 2, "thing": "y", "extra": 1}])
    assert made.cycle(1) == {"inserts": 4}
    assert made.findings() == [(f.ADDED, "lines", "extra", 20261101)]
    made.put(2, "orders", [{"id": 1, "note": "a", "GIFT": "yes"}, {"id": 2, "note": "b", "GIFT": None}])
    assert made.cycle(2, without=["lines"]) == {"updates": 1, "unchanged": 1}
    stale = (f.TABLE_NOT_EXTRACTED, "lines", None, 20261102)
    assert stale in made.findings()
    documents = {row["id"]: row for row in made.rows("doc_current")}
    assert {key: row["gift"] for key, row in documents.items()} == {1: "yes", 2: None}
    assert {key: [line["thing"] for line in row["lines"]] for key, row in documents.items()} == {1: ["x"], 2: ["y"]}
    made.put(3, "orders", [{"id": 1, "GIFT": "yes"}, {"id": 2, "GIFT": None}, {"id": 3, "GIFT": None}])
    made.put(3, "lines", [{"id": 7, "order_id": 3, "thing": "x"}])
    assert made.cycle(3) == {"inserts": 1, "updates": 3, "deletes": 1}
    assert made.shown("doc_current", "id", "note", "gift") == [(1, None, "yes"), (2, None, None), (3, None, None)]
    assert {row["id"]: len(row["lines"]) for row in made.rows("doc_current")} == {1: 0, 2: 0, 3: 1}
    gone = (f.NOT_EXTRACTED, "orders", "note", 20261103)
    assert gone in made.findings()
    assert stale not in made.findings()
    made.put(4, "orders", [{"id": 1, "note": "c", "GIFT": "yes"}])
    assert made.cycle(4, without=["lines"]) == {"updates": 1, "deletes": 2}
    assert gone not in made.findings()


def test_a_date_that_became_dead_letters_is_made_good_by_the_next_full_one(
    spark: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A type that was declared anew between landing and release; redriven later it would go backwards."""
    made = dead(spark, tmp_path, "full")
    made.put(2, "trips", [{"KEY": 1, "CITY": 5}, {"KEY": 2, "CITY": 6}])
    capsys.readouterr()
    assert made.cycle(2) == {"inserts": 2}
    note = "note: snapshot:2026-11-01 is in the dead letters (value cannot be read): 2026-11-02 is compared"
    assert capsys.readouterr().out.startswith(note)
    assert made.shown("trips", "key", "city") == [(1, 5), (2, 6)]
    with pytest.raises(ConfigurationError) as error:
        redrive(redriving(made), Selection(transactions=["snapshot:2026-11-01:20261101"]))
    assert str(error.value) == (
        "snapshot:2026-11-01:20261101: a newer date was compared without it, so that it cannot be redriven"
    )
    assert redrive(redriving(made), Selection(everything=True)) == {"transactions": 0, "events": 0}
    made.put(3, "trips", [{"KEY": 1, "CITY": 5}])
    assert made.cycle(3) == {"deletes": 1, "unchanged": 1}, "nothing is said of it any more"


def test_a_date_that_became_dead_letters_holds_partial_ones_up_until_somebody_decides(
    spark: Any, tmp_path: Path
) -> None:
    made = dead(spark, tmp_path, "partial")
    made.put(2, "trips", [{"KEY": 2, "CITY": 6}])
    assert refused(made, 2) == (
        "snapshot:2026-11-01 is in the dead letters (value cannot be read), and partial extracts do not "
        "make good for it: repair what it names, then jobs/redrive.py --transaction snapshot:2026-11-01:20261101, "
        "buffer_transactions and merge_current; or leave it out for good with --leave-out-dead"
    )
    assert made.cycle(2, leave_out_dead=True) == {"inserts": 1}
    assert made.shown("trips", "key", "city") == [(2, 6)]


def dead(spark: Any, folder: Path, extracts: str) -> Club:
    """Return a club whose first date was landed and then could not be read as it is declared now."""
    made = Club(spark, folder, TRIPS.replace("city: string", "city: long"), extracts)
    made.put(1, "trips", [{"KEY": 1, "CITY": 2**40}])
    made.diff(1)
    made.pipeline = made.declared(folder, TRIPS.replace("city: string", "city: int"))
    made.run(STEPS[1:])
    assert [row["status"] for row in made.query("transactions", "select status from t")] == ["dead"]
    return made


def redriving(club: Club) -> Step:
    return step_of(club.pipeline, club.warehouse, "redrive", lambda: club.spark)


def job(club: Club, day: int, deadly: int = 0) -> Iterator[str]:
    """Run the executable in a process of its own, killed after its n-th write; yield what it says."""
    command = [sys.executable, str(RUNNER), "diff_snapshot", str(deadly), "--pipeline", str(club.folder / "club.yaml")]
    command += ["--warehouse", club.warehouse, "--date", f"2026-11-{day:02}", "--run-id", f"job-{day}"]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3] / "include")}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == (-signal.SIGKILL if deadly else 0), done.stderr[-3000:]
    yield from done.stdout.splitlines()


@pytest.mark.long
def test_the_job_killed_after_each_write_lands_a_date_once(club: Club) -> None:
    """It dies after its plan, after the events of the next attempt, and in closing that one's landing."""
    club.put(1, "trips", trips((1, "Oaxaca"), (2, "Monterrey")))
    for deadly in (1, 4, 1, 1):
        assert not [line for line in job(club, 1, deadly) if line.startswith("txloom")]
    last = list(job(club, 1))
    assert last == [
        "skipped: snapshot:2026-11-01 was landed already",
        "txloom diff_snapshot: pipeline=club run_id=job-1 date=2026-11-01 csn=20261101 skipped=1",
    ]
    club.run(STEPS[1:])
    assert club.shown("trips", "key", "city") == [(1, "Oaxaca"), (2, "Monterrey")]
    club.put(2, "trips", trips((1, "Carmel")))
    assert list(job(club, 2)) == [
        "txloom diff_snapshot: pipeline=club run_id=job-2 date=2026-11-02 csn=20261102 tables=1 inserts=0 updates=1 "
        "deletes=1 missing=0 unchanged=0 landing=3"
    ]
    club.run(STEPS[1:])
    assert club.shown("trips", "key", "city") == [(1, "Carmel")]
    ledger = club.query("ledger", "select batch, counts from t where step = 'diff_snapshot' and batch > 0 order by 1")
    assert [(row["batch"], row["counts"]["inserts"], row["counts"]["deletes"]) for row in ledger] == [
        (2, 2, 0),
        (3, 0, 1),
    ]
    assert all(row["balanced"] for row in club.query("ledger", "select balanced from t where step = 'balance'"))
