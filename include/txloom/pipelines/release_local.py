"""Release whole transactions of a small batch in this process: the same rule as `release`, without Spark jobs."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Row

from txloom.config import names
from txloom.events.images import ImageReader
from txloom.history import arrow
from txloom.pipelines.batch import Batch
from txloom.pipelines.release import WRITERS, Released
from txloom.storage import local
from txloom.storage.own import TRANSACTIONS

EVENT = 'transaction_id, xid, csn, pos, op, committed_at, landing, "row", kind, "table", value'


def release_locally(
    batch: Batch, released: Sequence[Row], places: Sequence[Row], duplicates: Sequence[Row]
) -> Released:
    """Append the whole transactions of a small batch to history; see `release.release_whole`."""
    if not places:
        return Released()
    chosen = {row["tx"]: row for row in released}
    for tx in _earlier(batch, released):
        chosen.pop(tx, None)
    landings = sorted({place["landing"] for place in places})
    events = _events(batch, landings, list(chosen), duplicates)
    typed = _typed(batch, events)
    unreadable = _problems(typed)
    sizes = {tx: (chosen[tx]["rows"], chosen[tx]["first_at"]) for tx in unreadable}
    if unreadable:
        bad = pa.array(sorted(unreadable), pa.int64())
        typed = {name: found.filter(pc.invert(pc.is_in(found.column("tx"), bad))) for name, found in typed.items()}
        chosen = {tx: row for tx, row in chosen.items() if tx not in unreadable}
    _write(batch, {name: found for name, found in typed.items() if found.num_rows})
    transactions = _transactions(batch, events, chosen)
    return Released(None, unreadable, sizes, set(landings), local=transactions if transactions.num_rows else None)


def _earlier(batch: Batch, released: Sequence[Row]) -> list[int]:
    """Return those that another batch finished: the history is the last judge (design.md 2.2)."""
    csns = [row["csn"] for row in released]
    sql = f"select transaction_id from t where csn between {min(csns)} and {max(csns)} and release <> {batch.release}"
    found = local.select(batch.place.table(names.TRANSACTIONS), sql)
    return [local.hash64(text) for text in found.column("transaction_id").to_pylist()] if found.num_rows else []


def _events(batch: Batch, landings: Sequence[int], wanted: Sequence[int], duplicates: Sequence[Row]) -> pa.Table:
    where = (
        f"landing in ({local.numbers(landings)}) and (kind = 'metadata' or (kind = 'row' and \"table\" is not null))"
    )
    events = local.keep(
        local.select(batch.place.change_events, f"select {EVENT} from t where {where}"), "transaction_id", wanted
    )
    if not duplicates:
        return events
    again = {(row["landing"], row["row"]) for row in duplicates}
    places = zip(events.column("landing").to_pylist(), events.column("row").to_pylist(), strict=True)
    return events.filter(pa.array([place not in again for place in places], pa.bool_()))


def _typed(batch: Batch, events: pa.Table) -> dict[str, pa.Table]:
    """Read the images of every table's row events."""
    rows = events.filter(pc.equal(events.column("kind"), "row"))
    found = {}
    for table in batch.pipeline.tables:
        own = rows.filter(pc.equal(rows.column("table"), table.name))
        if own.num_rows:
            images = ImageReader(table).read(own.column("value").to_pylist())
            for name in images.column_names:
                own = own.append_column(name, images.column(name))
            found[table.name] = own
    return found


def _problems(typed: dict[str, pa.Table]) -> dict[int, str]:
    problems: dict[int, str] = {}
    for found in typed.values():
        bad = found.filter(pc.is_valid(found.column("problem")))
        problems |= dict(zip(bad.column("tx").to_pylist(), bad.column("problem").to_pylist(), strict=True))
    return problems


def _write(batch: Batch, typed: dict[str, pa.Table]) -> None:
    pipeline, release = batch.pipeline, batch.release
    declared = {table.name: table for table in pipeline.tables}
    writes = [
        partial(batch.append_local, arrow.changes(typed[mirror.table], declared[mirror.table], release), mirror.history)
        for mirror in pipeline.targets.mirrors
        if mirror.table in typed
    ]
    for aggregate in pipeline.targets.aggregates:
        members = {aggregate.root, *(child.table for child in aggregate.children)}
        present = {name: found for name, found in typed.items() if name in members}
        if present:
            rows = arrow.stream(present, aggregate, declared, release)
            writes.append(partial(batch.append_local, rows, aggregate.history))
    with ThreadPoolExecutor(WRITERS) as pool:
        list(pool.map(lambda write: write(), writes))


def _transactions(batch: Batch, events: pa.Table, chosen: dict[int, Row]) -> pa.Table:
    """Return the rows of `transactions`; their metadata names them."""
    metadata = events.filter(pc.equal(events.column("kind"), "metadata")).select(
        ["tx", "transaction_id", "xid", "committed_at"]
    )
    named = {row["tx"]: row for row in metadata.to_pylist()}
    rows = [
        {
            **{name: named[tx][name] for name in ("transaction_id", "xid", "committed_at")},
            "csn": row["csn"],
            "status": "released",
            "cause": None,
            "rows": row["rows"],
            "first_landed_at": datetime.fromtimestamp(row["first_at"] / 1e6, UTC),
            "finished_at": datetime.fromtimestamp(row["finished_at"] / 1e6, UTC),
            "release": batch.release,
        }
        for tx, row in chosen.items()
    ]
    return pa.Table.from_pylist(rows, TRANSACTIONS)
