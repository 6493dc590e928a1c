"""Parts of files that hold a large transaction: together they hold all of its events, each once."""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from txloom.storage.delta import data_files
from txloom.storage.landing import event_files, landing_tables
from txloom.storage.paths import TablePaths
from txloom.storage.system_tables import CHANGE_EVENTS

COLUMNS = ("tx", "landing", "row")


def landed(paths: TablePaths, number: int, hashes: list[int]) -> None:
    """Write a landing whose rows are of some transactions, in files of row groups of three rows."""
    events = [
        {"tx": tx, "landing": number, "row": row, "kind": "row", "landed_at": datetime(2026, 1, 1, tzinfo=UTC)}
        for row, tx in enumerate(sorted(hashes))
    ]
    parts = [data_files.write_file(pa.Table.from_pylist(events, CHANGE_EVENTS), "change_events", paths.change_events)]
    data_files.append_files(parts, paths.change_events, "land", number)


@settings(deadline=None, max_examples=25)
@given(st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=14), min_size=1, max_size=3), st.integers(1, 9))
def test_every_event_of_a_transaction_lies_in_one_part(
    tmp_path_factory: Any, landings: list[list[int]], rows: int
) -> None:
    folder: Path = tmp_path_factory.mktemp("parts")
    paths = TablePaths(str(folder), "p")
    landing_tables.create_tables(paths)
    with pytest.MonkeyPatch.context() as small:
        small.setattr(data_files, "ROW_GROUP", 3)
        for number, hashes in enumerate(landings, 1):
            landed(paths, number, hashes)
    numbers = range(1, len(landings) + 1)
    for tx in range(4):
        parts = event_files.parts_of(paths, tx, numbers, rows)
        read = [event_files.events_in(paths, part, COLUMNS) for part in parts]
        assert all(each.num_rows <= max(rows, 3) for each in read)
        inside = [(e["landing"], e["row"]) for part in read for e in part.to_pylist() if e["tx"] == tx]
        assert len(inside) == len(set(inside)) == sum(hashes.count(tx) for hashes in landings)


def test_files_of_other_landings_are_left_out(tmp_path: Path) -> None:
    paths = TablePaths(str(tmp_path), "p")
    landing_tables.create_tables(paths)
    for number in (1, 2, 3):
        landed(paths, number, [7])
    (part,) = event_files.parts_of(paths, 7, [2], 10)
    assert event_files.events_in(paths, part, COLUMNS).to_pylist() == [{"tx": 7, "landing": 2, "row": 0}]


def test_rows_that_a_deletion_vector_removed_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = TablePaths(str(tmp_path), "p")
    landing_tables.create_tables(paths)
    monkeypatch.setattr(data_files, "ROW_GROUP", 3)
    landed(paths, 1, [7] * 8)
    kept = pa.array([row not in (1, 4) for row in range(8)])
    parts = [replace(each, file=replace(each.file, kept=kept)) for each in event_files.parts_of(paths, 7, [1], 3)]
    rows = [event_files.events_in(paths, part, COLUMNS).column("row").to_pylist() for part in parts]
    assert rows == [[0, 2], [3, 5], [6, 7]]
