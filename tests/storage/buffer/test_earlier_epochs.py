"""A rebuilt buffer enters no dead transaction that an earlier generation entered."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import write_deltalake

from txloom.config import names
from txloom.storage.buffer.checkpoints import first_release
from txloom.storage.buffer.earlier_epochs import without_written_deaths
from txloom.storage.paths import TablePaths
from txloom.storage.system_tables import TRANSACTIONS


def finished(*rows: tuple[str, str | None, int, int]) -> pa.Table:
    """Return rows of `transactions`: id, cause (None: released), second of the first landing, release."""
    entries = [
        {
            "transaction_id": name,
            "status": "released" if cause is None else "dead",
            "cause": cause,
            "first_landed_at": datetime.fromtimestamp(second, UTC),
            "release": release,
        }
        for name, cause, second, release in rows
    ]
    return pa.Table.from_pylist(entries, TRANSACTIONS)


def left(folder: Path, rows: pa.Table, generation: int) -> list[tuple[Any, ...]]:
    left_rows = without_written_deaths(TablePaths(str(folder), "shop"), rows, generation).to_pylist()
    return sorted((row["transaction_id"], row["cause"] or "") for row in left_rows)


def test_a_death_is_entered_once_over_all_generations(tmp_path: Path) -> None:
    path, table_path = TablePaths(str(tmp_path), "shop").table(names.TRANSACTIONS), first_release(2)
    before = [
        ("a", "short", 1, table_path - 1),
        ("b", None, 1, table_path - 1),
        ("c", "short", 1, table_path),
        ("d", "short", 1, table_path - 1),
    ]
    write_deltalake(path, finished(*before))
    again = ("a", "short", 1), ("b", None, 1), ("c", "short", 1), ("d", "excess", 1), ("d", "short", 2), ("e", "x", 1)
    rows = finished(*[(*each, table_path) for each in again])
    expected = [("b", ""), ("c", "short"), ("d", "excess"), ("d", "short"), ("e", "x")]
    assert left(tmp_path, rows, generation=2) == expected
    assert len(left(tmp_path, rows, generation=1)) == len(again)
