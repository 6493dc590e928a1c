"""The ledger: what each step of each run counted, one line for each; and their sums."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from txloom.config import names
from txloom.storage.delta import small_tables
from txloom.storage.system_tables import LEDGER

CARRIED = "carried forward"
"""The run id of a row that stands for older ones, which were removed."""


@dataclass(frozen=True)
class Entry:
    """One line of the ledger."""

    run_id: str
    step: str
    at: datetime
    counts: dict[str, int]
    batch: int = 0
    generation: int = 0
    valid_through: int | None = None
    balanced: bool | None = None
    detail: str | None = None


def write_ledger(warehouse: str, pipeline: str, entry: Entry) -> None:
    """Write one line of the ledger; a line with the same step, generation and batch is not written twice.

    Steps without batches of their own pass batch 0 and are keyed by their run id.
    """
    path = names.table_path(warehouse, pipeline, names.LEDGER)
    once = (names.write_id(pipeline, entry.step, entry.generation), entry.batch) if entry.batch else None
    small_tables.append(path, [vars(entry)], LEDGER, once=once)


def balance(warehouse: str, pipeline: str, step: str) -> dict[str, int]:
    """Return the sums of all counts that a step entered in its newest generation."""
    path = names.table_path(warehouse, pipeline, names.LEDGER)
    counts = f"select generation, unnest(map_entries(counts)) as count from t where step = '{step}'"
    sql = f"select generation, count['key'] as name, sum(count['value']) as total from ({counts}) c group by 1, 2"
    rows = small_tables.query(path, sql)
    newest = max((row["generation"] for row in rows), default=0)
    return {row["name"]: int(row["total"]) for row in rows if row["generation"] == newest}


def summed(rows: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """Add the counts of the ledger's rows up.

    >>> summed([{"counts": {"rows": 2}}, {"counts": {"rows": 3, "files": 1}}])
    {'rows': 5, 'files': 1}
    """
    sums: dict[str, int] = {}
    for row in rows:
        for name, count in row["counts"].items():
            sums[name] = sums.get(name, 0) + count
    return sums
