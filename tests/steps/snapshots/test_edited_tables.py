"""Extracts that are compared right after an edit of the declaration, before a merge followed the edit."""

import json
import shutil
from collections import Counter
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from txloom.config import load
from txloom.errors import BeyondValidThrough
from txloom.steps.merge import merge_current
from txloom.steps.snapshots import diff_snapshot as step
from txloom.steps.snapshots import extract_diff_tasks
from txloom.steps.snapshots.diff_snapshot import diff_snapshot
from txloom.steps.snapshots.edited_tables import EditPending
from txloom.storage.landing import decoding
from workloads.small_lake import SmallLake

HEAD = """
name: club
source: {{format: snapshots, files: {{path: {inbox}, settle: 0s}}, snapshots: {{extracts: full}}}}
completeness: {{rule: single}}
tables:
  - {{name: {name}, source: {source}, key: [{key}], columns: {{{columns}}}}}{more}
targets: {{mirrors: [{mirror}]}}
"""
COLUMNS = {"key": "KEY", "city": "CITY", "area": "AREA"}
FIRST = [(1, "a", "x"), (2, "b", "x"), (3, "c", "x")]
SECOND = [(2, "b2", "x"), (3, "c", "x"), (4, "d", "x")]
AS_EVER = {"inserts": 1, "updates": 1, "deletes": 1, "unchanged": 1}


class Club:
    """A small lake that is fed with extracts of one table."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.columns, self.more = folder, COLUMNS, ""
        (folder / "inbox").mkdir()
        self.lake = SmallLake(folder, self.declared())

    def declared(
        self,
        columns: dict[str, str] = COLUMNS,
        key: str = "key",
        source: str = "CLUB.TRIPS",
        mirror: str = "{table: trips}",
        kind: str = "int",
        name: str = "trips",
    ) -> Any:
        self.columns, self.name = columns, name
        kinds = {"KEY": kind}
        listed = [f"{name}: {{type: {kinds.get(of, 'string')}, source: {of}}}" for name, of in columns.items()]
        inbox, file = self.folder / "inbox", self.folder / "club.yaml"
        texts = {"inbox": inbox, "name": name, "source": source, "key": key, "mirror": mirror, "more": self.more}
        file.write_text(HEAD.format(columns=", ".join(listed), **texts))
        return load(file)

    def put(self, day: int, rows: list[tuple[Any, ...]]) -> None:
        """Write the extract of a date; a row has values of KEY, CITY, AREA and, where it has more, NOTE."""
        folder = self.folder / "inbox" / f"2026-11-{day:02}" / self.name
        folder.mkdir(parents=True)
        named = [dict(zip(("KEY", "CITY", "AREA", "NOTE"), row, strict=False)) for row in rows]
        (folder / "1.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in named))

    def compare(self, day: int) -> dict[str, int]:
        """Compare a date, and return what differed."""
        self.lake.runs += 1
        counts = self.lake.step(diff_snapshot, self.lake.session, day=date(2026, 11, day))
        return {name: counts[name] for name in step.KINDS if counts.get(name)}

    def shown(self, current: str = "trips") -> list[tuple[Any, ...]]:
        """Return the rows of the current table, with values in the order of the columns of an extract."""
        order = sorted(self.columns, key=lambda name: ("KEY", "CITY", "AREA", "NOTE").index(self.columns[name]))
        return sorted(tuple(row[name] for name in order) for row in self.lake.rows(current))


@pytest.fixture
def club(tmp_path: Path) -> Club:
    club = Club(tmp_path)
    club.put(1, FIRST)
    club.lake.run()
    assert club.shown() == FIRST
    return club


COMPARED = {
    "key renamed": ({"id": "KEY", "city": "CITY", "area": "AREA"}, "id"),
    "column renamed": ({"key": "KEY", "town": "CITY", "area": "AREA"}, "key"),
    "names swapped": ({"key": "KEY", "city": "AREA", "area": "CITY"}, "key"),
    "column removed": ({"key": "KEY", "city": "CITY"}, "key"),
    "column added": ({**COLUMNS, "note": "NOTE"}, "key"),
}


@pytest.mark.parametrize("edit", COMPARED)
def test_rows_are_compared_by_the_names_of_their_columns_in_the_source(club: Club, edit: str) -> None:
    columns, key = COMPARED[edit]
    club.lake.pipeline = club.declared(columns, key)
    club.put(2, SECOND)
    assert club.compare(2) == AS_EVER
    club.lake.run()
    of = [("KEY", "CITY", "AREA").index(source) for source in columns.values() if source != "NOTE"]
    width = ["NOTE"] * ("NOTE" in columns.values())
    assert club.shown() == [(*(row[at] for at in sorted(of)), *(None for _ in width)) for row in SECOND]


def test_a_value_of_an_added_column_is_an_update(club: Club) -> None:
    club.lake.pipeline = club.declared({**COLUMNS, "note": "NOTE"})
    club.put(2, [(1, "a", "x", "new"), *FIRST[1:]])
    assert club.compare(2) == {"updates": 1, "unchanged": 2}
    club.lake.run()
    assert club.shown() == [(1, "a", "x", "new"), (2, "b", "x", None), (3, "c", "x", None)]


REFUSED: dict[str, dict[str, Any]] = {
    "current table renamed": {"mirror": "{table: trips, current: trips_now}"},
    "history renamed": {"mirror": "{table: trips, history: trips_log}"},
    "other source": {"source": "CLUB.OTHERS"},
    "other key": {"key": "key, city"},
    "wider type": {"kind": "long"},
    "name of a removed column": {"columns": {"key": "KEY", "city": "CITY", "area": "NOTE"}},
}


@pytest.mark.parametrize("edit", REFUSED)
def test_a_table_that_is_computed_anew_is_compared_after_it(club: Club, edit: str) -> None:
    rows, day = SECOND, 2
    if edit == "name of a removed column":
        # An edit that gives the name to another column at once is refused.
        club.lake.pipeline = club.declared({"key": "KEY", "city": "CITY"})
        club.put(2, FIRST)
        club.lake.run()
        rows, day = [(*row[:2], None) for row in SECOND], 3
    club.lake.pipeline = club.declared(**REFUSED[edit])
    club.put(day, SECOND)
    for _ in range(2):
        with pytest.raises(BeyondValidThrough, match=r"edited, and the current rows of trips .*run buffer_transact"):
            club.compare(day)
    club.lake.run()
    assert club.shown("trips_now" if edit == "current table renamed" else "trips") == rows


def test_a_table_that_gets_a_column_back_is_compared_after_the_column_has_its_values(club: Club) -> None:
    club.lake.pipeline = club.declared({"key": "KEY", "city": "CITY"})
    club.put(2, FIRST)
    club.lake.run()
    club.lake.pipeline = club.declared()
    club.put(3, [(*row[:2], None) for row in FIRST])
    with pytest.raises(BeyondValidThrough, match="current rows of trips are still computed by the earlier one"):
        club.compare(3)
    club.lake.run()
    assert club.shown() == [(*row[:2], None) for row in FIRST]


def test_a_table_whose_merge_died_is_compared_after_the_next_one(club: Club, monkeypatch: pytest.MonkeyPatch) -> None:
    columns, key = COMPARED["key renamed"]
    club.put(2, FIRST)
    club.lake.pipeline = club.declared(columns, key)
    with monkeypatch.context() as killed:
        killed.setattr(merge_current, "planned", interrupt)
        with pytest.raises(KeyboardInterrupt):
            club.lake.run()
    club.put(3, SECOND)
    with pytest.raises(BeyondValidThrough, match="current rows of trips are still computed by the earlier one"):
        club.compare(3)
    club.lake.run()
    assert club.shown() == SECOND


def test_a_date_that_waits_while_its_table_gets_another_name_keeps_its_changes(club: Club) -> None:
    club.put(2, SECOND)
    club.compare(2)
    club.lake.pipeline = club.declared(name="rides", mirror="{table: rides, current: trips, history: trips_changes}")
    club.lake.buffer()
    club.put(3, SECOND)
    club.lake.run()
    assert club.shown() == SECOND
    assert Counter(row["_txloom_csn"] for row in club.lake.rows("trips_changes")) == {20261101: 3, 20261102: 3}


def test_a_date_that_waits_during_an_edit_is_taken_in_though_no_later_date_comes(club: Club) -> None:
    club.put(2, SECOND)
    club.compare(2)
    club.lake.pipeline = club.declared(name="rides", mirror="{table: rides, current: trips, history: trips_changes}")
    shutil.move(club.folder / "inbox/2026-11-02/trips", club.folder / "inbox/2026-11-02/rides")
    assert club.compare(2) == {}
    club.lake.buffer()
    club.lake.step(merge_current.merge_current, club.lake.session)
    assert club.shown() == SECOND


def test_a_date_that_waits_while_a_table_is_added_lets_the_job_run_the_steps_that_take_it_in(club: Club) -> None:
    club.put(2, SECOND)
    club.compare(2)
    club.more = "\n  - {name: rides, source: CLUB.RIDES, key: [key], columns: {key: int}}"
    club.lake.pipeline = club.declared(mirror="{table: trips}, {table: rides}")
    club.put(3, FIRST)
    rides = club.folder / "inbox/2026-11-03/rides"
    rides.mkdir()
    (rides / "_SUCCESS").touch()
    for _ in range(2):
        with pytest.raises(EditPending, match="landing 3 is not released yet"):
            club.compare(3)
    club.lake.run()
    assert club.shown() == FIRST


def test_a_date_whose_merge_an_edit_left_out_does_not_hold_later_dates_back(club: Club) -> None:
    club.put(2, SECOND)
    club.compare(2)
    club.lake.buffer()
    club.lake.pipeline = club.declared({"key": "KEY", "town": "CITY", "area": "AREA"})
    club.put(3, FIRST)
    for _ in range(2):
        with pytest.raises(EditPending, match="trips does not hold everything that was released"):
            club.compare(3)
    club.lake.run()
    assert club.shown() == FIRST


def interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def test_tasks_compare_rows_by_the_names_of_their_columns_in_the_source(
    club: Club, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decoding, "LOCAL_BYTES", 0)
    monkeypatch.setattr(extract_diff_tasks.tasks, "in_tasks", lambda _, items, work: [*work(items)])
    columns, key = COMPARED["key renamed"]
    club.lake.pipeline = club.declared(columns, key)
    club.put(2, SECOND)
    assert club.compare(2) == AS_EVER
