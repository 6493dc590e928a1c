"""The ledger: what each step of each run counted, one line for each; and their sums."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from txloom.config import names
from txloom.storage.delta import small_tables
from txloom.storage.delta.sql import text_list
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
    declared: str | None = None


def write_ledger(warehouse: str, pipeline: str, entry: Entry) -> None:
    """Write one line of the ledger; a line with the same step, generation and batch is not written twice.

    Steps without batches of their own pass batch 0 and are keyed by their run id.
    """
    path = names.table_path(warehouse, pipeline, names.LEDGER)
    once = (names.write_id(pipeline, entry.step, entry.generation), entry.batch) if entry.batch else None
    small_tables.append(path, [vars(entry)], LEDGER, once=once)


def balance(warehouse: str, pipeline: str, steps: Sequence[str]) -> list[dict[str, int]]:
    """Return, for each of some steps, the sums of all counts that it entered in its newest generation."""
    path = names.table_path(warehouse, pipeline, names.LEDGER)
    of_steps = f"step in ({text_list(steps)})"
    counts = f"select step, generation, unnest(map_entries(counts)) as count from t where {of_steps}"
    sums = "select step, generation, count['key'] as name, sum(count['value']) as total"
    rows = small_tables.query(path, f"{sums} from ({counts}) c group by 1, 2, 3")
    newest: dict[str, int] = {}
    for row in rows:
        newest[row["step"]] = max(newest.get(row["step"], 0), row["generation"])
    return [
        {row["name"]: int(row["total"]) for row in rows if row["step"] == step and row["generation"] == newest[step]}
        for step in steps
    ]


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
