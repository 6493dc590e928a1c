"""A pipeline's state as one JSON, for machines: the read model's own answers (`txloom.storage.views`), in short."""

from dataclasses import asdict
from typing import Any

from txloom.config import names
from txloom.storage import books, dead, findings, lease, partitions
from txloom.storage.listing import listing
from txloom.storage.newest import newest_cut
from txloom.storage.opened import looking
from txloom.storage.place import Place
from txloom.storage.views.waiting import counted


def status(warehouse: str, pipeline: str) -> dict[str, Any]:
    """Return the newest cut, what waits, dead letters, findings, the lease, and each step's newest line of the ledger.

    partitions: how far each partition of the source is, where transactions wait for all of them.
    A table that does not exist yet has nothing to tell: no cut is None, counts are 0.
    """
    place = Place(warehouse, pipeline)
    with looking():
        newest = (
            "select step, run_id, at, counts, valid_through, balanced from (select *, row_number() over (partition by"
            f" step order by {books.latest(place.table(names.LEDGER))}) as n from t) where n = 1 order by step"
        )
        found, holder = findings.open_findings(place), lease.newest(place)
        return {
            "pipeline": pipeline,
            "cut": newest_cut(place),
            "waiting": asdict(counted(place)),
            "dead_letters": [_group(each) for each in listing(place).groups],
            "complete_now": dead.complete_now(place),
            "findings": found,
            "needs_snapshot": findings.needing_snapshot(found),
            "lease": vars(holder) if holder is not None and holder.released_at is None else None,
            "partitions": partitions.as_rows(place),
            "ledger": books.query(place.table(names.LEDGER), newest),
        }


def _group(group: Any) -> dict[str, Any]:
    return {name: getattr(group, name) for name in ("cause", "events", "transactions", "since", "hint")}
