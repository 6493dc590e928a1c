"""A pipeline's state in plain values, for people: read from its tables without Spark."""

from typing import Any

from txloom.config import names
from txloom.events import causes as poison
from txloom.events import debezium_messages, wal2json
from txloom.storage import books, dead, findings, lease, partitions
from txloom.storage.place import Place
from txloom.transactions import causes

HINTS = {**poison.HINTS, **wal2json.HINTS, **debezium_messages.HINTS, **causes.HINTS}
"""What can be done about each cause of dead letters; the list is closed."""


def status(warehouse: str, pipeline: str) -> dict[str, Any]:
    """Return the newest cut, what waits, dead letters, findings, the lease, and each step's newest line of the ledger.

    partitions: how far each partition of the source is, where transactions wait for all of them.
    A table that does not exist yet has nothing to tell: no cut is None, counts are 0.
    """
    place = Place(warehouse, pipeline)
    waiting = "select count(*) as transactions, max(age_seconds) as longest_seconds, max(as_of) as as_of from t"
    newest = (
        "select step, run_id, at, counts, valid_through, balanced from "
        "(select *, row_number() over (partition by step order by at desc) as n from t) where n = 1 order by step"
    )
    cuts = books.query(place.table(names.CUTS), "select * from t order by cut_id desc limit 1")
    found, holder = findings.open_findings(place), lease.newest(place)
    return {
        "pipeline": pipeline,
        "cut": cuts[0] if cuts else None,
        "waiting": next(iter(books.query(place.table(names.PENDING_TRANSACTIONS), waiting)), {"transactions": 0}),
        "dead_letters": _open_letters(place),
        "complete_now": dead.complete_now(place),
        "findings": found,
        "needs_snapshot": findings.needing_snapshot(found),
        "lease": vars(holder) if holder is not None and holder.released_at is None else None,
        "partitions": partitions.as_rows(place),
        "ledger": books.query(place.table(names.LEDGER), newest),
    }


def _open_letters(place: Place) -> list[dict[str, Any]]:
    """Return the open dead letters by cause, each with what to do about it."""
    columns = "cause, count(*) as events, max(dead_at) as newest"
    found: list[dict[str, Any]] = dead.open_letters(place, columns, "group by cause order by events desc").to_pylist()
    return [{**row, "hint": HINTS.get(row["cause"])} for row in found]
