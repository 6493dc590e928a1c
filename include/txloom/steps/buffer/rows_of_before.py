"""Rows that come for transactions which were released before their table was declared as it is now.

Such a release did not count them, so that they are not late: a merge takes them into the histories of their table
(`txloom.steps.settling`). It takes redriven rows too that came before their table was declared, and were dead letters.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import pyarrow as pa

from txloom.config import names
from txloom.steps.buffer.micro_batch import Batch
from txloom.steps.declarations.declare import declare_rows_of_before
from txloom.storage.buffer.newest_batch import Declared
from txloom.storage.declarations.source_samples import redriven_rows
from txloom.storage.delta import arrow_tables, small_tables
from txloom.storage.delta.sql import int_list, text_list
from txloom.storage.landing import landing_plan
from txloom.storage.paths import TablePaths

L = TypeVar("L")
COLUMNS = 'landing, "row", kind, tx, transaction_id, source_table, "table", payload, digest'


@dataclass(frozen=True)
class RowsOfBefore:
    """The rows of a batch that histories take.

    Args:
        places: landing and row of each, also of those that were delivered again.
        new: how many of them no earlier delivery has.
        tables: the tables of the new ones.
        declared: the declaration, with the record by which a merge takes the rows; None if no record was entered.
    """

    places: frozenset[tuple[int, int]] = frozenset()
    new: int = 0
    tables: frozenset[str] = frozenset()
    declared: Declared | None = None

    @property
    def again(self) -> int:
        """Return how many were delivered again."""
        return len(self.places) - self.new

    def record_in(self, batch: Batch) -> Batch:
        """Return a batch whose state names the record, so that the next merge compares the tables with it."""
        return batch if self.declared is None else replace(batch, declared=self.declared)

    def without(self, late: Sequence[L]) -> list[L]:
        """Return late events without these rows."""
        return [row for row in late if _place(row) not in self.places]


def take_rows_of_before(batch: Batch, late: Sequence[Any]) -> RowsOfBefore:
    """Find the rows among late events that histories take, and record that their tables wait for a merge.

    Args:
        batch: the batch.
        late: decisions of the kind `late`: landing and row of events.
    """
    if not late or batch.declared.number <= 1:
        return RowsOfBefore()
    border, since = landing_plan.decoded_since(batch.paths)
    if not border:
        return RowsOfBefore()
    taken = _taken(batch.paths, set(map(_place, late)), since)
    if not taken.tables or batch.is_known:
        return taken
    number = declare_rows_of_before(batch.pipeline, batch.paths, batch.run_id, taken.tables)
    return replace(taken, declared=replace(batch.declared, number=number))


def _taken(paths: TablePaths, places: set[tuple[int, int]], since: Mapping[str, int]) -> RowsOfBefore:
    landings = int_list(sorted({landing for landing, _ in places}))
    sql = f"select {COLUMNS} from t where landing in ({landings}) and kind = 'row' and \"table\" is not null"
    events = [
        row
        for row in arrow_tables.select(paths.change_events, sql).to_pylist()
        if (row["landing"], row["row"]) in places and row["table"] in since
    ]
    if not events:
        return RowsOfBefore()
    decided = _decided(paths, sorted({row["transaction_id"] for row in events}))
    redriven = {_place(row) for row in redriven_rows(paths, since)}
    events = [
        row
        for row in events
        if (landing := decided.get(row["transaction_id"])) is not None
        and (landing < since[row["table"]] or _place(row) in redriven)
    ]
    earlier = _earlier(paths, [row["tx"] for row in events])
    new = [row for row in events if not any(_is_before(other, row) for other in earlier.get(_content(row), ()))]
    taken = frozenset((row["landing"], row["row"]) for row in events)
    return RowsOfBefore(taken, len(new), frozenset(row["table"] for row in new))


def _decided(paths: TablePaths, transactions: Sequence[str]) -> dict[str, int]:
    """Return, by id of a released transaction, the last landing that has its events."""
    of_ids = f"status = 'released' and transaction_id in ({text_list(transactions)}) group by transaction_id"
    sql = f"select transaction_id, max(coalesce(landing, 0)) as landing from t where {of_ids}"
    return {row["transaction_id"]: row["landing"] for row in small_tables.query(paths.table(names.TRANSACTIONS), sql)}


def _earlier(paths: TablePaths, transactions: Sequence[int]) -> dict[tuple[Any, ...], list[Mapping[str, Any]]]:
    """Return every landed row of some transactions, by its content."""
    if not transactions:
        return {}
    hashes = pa.array(sorted(set(transactions)), pa.int64())
    rows = arrow_tables.matching(paths.change_events, f"select {COLUMNS} from t where kind = 'row'", "tx", hashes)
    by_content: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for row in rows.to_pylist():
        by_content.setdefault(_content(row), []).append(row)
    return by_content


def _content(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return row["tx"], row["source_table"], row["payload"], row["digest"]


def _place(row: Any) -> tuple[int, int]:
    """Return landing and row of an event: of a row of Spark, or of a mapping."""
    return row["landing"], row["row"]


def _is_before(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    return (one["landing"], one["row"]) < (other["landing"], other["row"])
