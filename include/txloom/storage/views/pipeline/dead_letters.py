"""Open dead letters by cause, and one by one; never with their payload."""

from dataclasses import dataclass

from txloom.config import names
from txloom.config.models.pipeline import Pipeline
from txloom.quality.dead_letters import Listing
from txloom.storage.dead_letters import dismissals, open_letters
from txloom.storage.dead_letters.listing import listing
from txloom.storage.delta.sql import text_literal
from txloom.storage.paths import TablePaths
from txloom.storage.views.paging import SIZE, Page, Row, last_step, limits, open_tables

COLUMNS = (
    'transaction_id, xid, csn, pos, kind, "table", source_table, op, cause, detail, topic, partition, "offset", file,'
    ' line, landing, "row", landed_at, dead_at'
)


@dataclass(frozen=True)
class DeadLetterCauses:
    """Open dead letters by cause, with hints.

    complete: ids of transactions that need nothing but a redrive. dag_id: the DAG that redrives. dismissed: dismissals,
    the newest first: at, person, reason, cause, events, transactions.
    """

    listing: Listing
    complete: list[str]
    dag_id: str
    dismissed: list[Row]


@open_tables
def causes(pipeline: Pipeline, warehouse: str) -> DeadLetterCauses:
    """Return the open dead letters by cause."""
    paths = TablePaths(warehouse, pipeline.name)
    dag_id = names.dead_letters_dag_id(pipeline.name)
    causes = listing(paths, source_format=pipeline.source.format)
    return DeadLetterCauses(causes, open_letters.complete_now(paths), dag_id, dismissals.newest(paths))


@open_tables
def dead_letters(
    pipeline: Pipeline,
    warehouse: str,
    *,
    number: int = 1,
    size: int = SIZE,
    cause: str | None = None,
    transaction: str | None = None,
) -> Page:
    """Return open dead letters, the newest first, with COLUMNS; cause, transaction: only those of one."""
    paths, bounds = TablePaths(warehouse, pipeline.name), limits(number, size)
    where = "where true" if cause is None else f"where cause = {text_literal(cause)}"
    where += "" if transaction is None else f" and transaction_id = {text_literal(transaction)}"
    total = open_letters.open_dead_letters(paths, "count(*) as n", where).to_pylist()
    order = 'order by coalesce(dead_at, landed_at) desc, csn, pos, landing, "row"'
    rows = open_letters.open_dead_letters(paths, COLUMNS, f"{where} {order} {bounds}").to_pylist()
    return Page(rows, total[0]["n"] if total else 0, number, size, last_step(paths))
