"""Metadata that counts otherwise after its transaction was released: the release stays, and a finding names it."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pyspark.sql import Row

from txloom.quality import findings as f
from txloom.quality.findings import Finding
from txloom.steps.buffer.micro_batch import Batch
from txloom.storage.delta import arrow_tables, small_tables
from txloom.storage.delta.sql import int_list
from txloom.storage.landing import landing_plan
from txloom.transactions import metadata


def contradictions(batch: Batch, late: Sequence[Row]) -> list[Finding]:
    """Return a finding for each table of which late metadata has a count that no earlier metadata had.

    Metadata that is only delivered again has no new count. For a table that an edit of the declaration concerns,
    metadata that was landed before the edit is not compared. Nothing is written.

    Args:
        batch: the batch.
        late: decisions of kind `late` that are metadata of released transactions.
    """
    if not late:
        return []
    coordinates = {(row["landing"], row["row"]) for row in late}
    counting = "kind = 'metadata' and csn is not null"
    landings = int_list([landing for landing, _ in coordinates])
    bounds = f"select min(csn) as lowest, max(csn) as highest from t where {counting} and landing in ({landings})"
    csns = small_tables.query(batch.paths.change_events, bounds)[0]
    if csns["lowest"] is None:
        return []
    columns = 'tx, xid, csn, landing, "row", expected'
    sql = f"select {columns} from t where {counting} and csn between {csns['lowest']} and {csns['highest']}"
    _, since = landing_plan.decoded_since(batch.paths) if batch.declared.number > 1 else (0, {})
    watched = {table.name: since.get(table.name, 0) for table in batch.pipeline.tables}
    by_transaction: dict[tuple[int, int], list[dict[str, Any]]] = {}
    rows = arrow_tables.matching(batch.paths.change_events, sql, "tx", [row["tx"] for row in late])
    for row in rows.sort_by([("landing", "ascending"), ("row", "ascending")]).to_pylist():
        by_transaction.setdefault((row["tx"], row["csn"]), []).append(row)
    return [each for messages in by_transaction.values() for each in _contradicted(messages, coordinates, watched)]


def _contradicted(
    rows: Sequence[dict[str, Any]], late: set[tuple[int, int]], watched: Mapping[str, int]
) -> Iterator[Finding]:
    """Yield findings for late metadata of one transaction with new counts.

    Args:
        rows: all metadata of the transaction, in the order of landing.
        late: (landing, row) of late metadata.
        watched: by table, the first landing that decoded its messages as they are declared now; 0: all did.
    """
    before, known = dict[str, int](), dict[str, set[int]]()
    for row in rows:
        counts = dict(metadata.counts_of(row))
        for table in sorted(each for each, first in watched.items() if first <= row["landing"]):
            count, seen = counts.get(table, 0), known.setdefault(table, set())
            if count not in seen and seen and (row["landing"], row["row"]) in late:
                yield _differing(row, table, before[table], count)
            elif count not in seen:
                before[table] = count
            seen.add(count)


def _differing(row: dict[str, Any], table: str, was: int, now: int) -> Finding:
    evidence = f"{row['xid']} was released with {was} rows of {table}; metadata that came later counts {now}"
    return Finding(f.COUNTS_CHANGED, table, None, row["csn"], row["xid"], evidence)
