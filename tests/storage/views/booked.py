"""A pipeline's tables as a test writes them, without Spark."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from txloom.config import load
from txloom.storage import system_tables
from txloom.storage.delta import small_tables
from txloom.storage.landing import landing_tables
from txloom.storage.paths import TablePaths
from txloom.storage.targets import schemas
from txloom.transactions.hashes import hash64

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
DECLARED = """
name: shop
source: {format: goldengate, files: {path: inbox}, transaction_topic: metadata}
completeness: {rule: counts, patience: 2h}
tables:
- {name: items, source: APP.ITEMS, key: [id], columns: {id: long, note: string}}
- {name: parts, source: APP.PARTS, key: [id], columns: {id: long, item_id: long}}
targets: {mirrors: ["*"]}
expectations:
- {kind: orphans, id: orphans, child: parts, parent: items, parent_key: [item_id], severity: block,
   sentence: Parts belong to items., hint: Look.}
- {kind: stuck_transactions, id: stuck, older_than: 10m, severity: warn, sentence: Nothing waits long., hint: Ask.}
"""
ALERTS = "alerts: {valid_through_age: 30m, source_quiet: 2h, stuck_after: 10m, dead_letters: 0}\n"
SCHEMAS = {
    "transactions": system_tables.TRANSACTIONS,
    "pending_transactions": system_tables.PENDING_TRANSACTIONS,
    "dead_letters": system_tables.DEAD_LETTERS,
    "ledger": system_tables.LEDGER,
    "cuts": system_tables.CUTS,
    "landed_files": system_tables.LANDED_FILES,
    "expectation_results": system_tables.EXPECTATION_RESULTS,
    "backfills": system_tables.BACKFILLS,
    "readers": system_tables.READERS,
    "source_partitions": system_tables.SOURCE_PARTITIONS,
    "source_snapshots": system_tables.SOURCE_SNAPSHOTS,
    "rows_ahead": system_tables.ROWS_AHEAD,
    "change_events": system_tables.CHANGE_EVENTS,
}


def at(minutes: float) -> datetime:
    """Return a moment so many minutes after noon."""
    return NOON + timedelta(minutes=minutes)


class Shop:
    """A declared pipeline and its folder."""

    def __init__(self, folder: Path, *, alerts: str = "", declared: str = DECLARED) -> None:
        file = folder / "shop.yaml"
        file.write_text(declared + alerts)
        self.file, self.pipeline, self.warehouse = file, load(file), str(folder / "lake")
        self.paths = TablePaths(self.warehouse, "shop")

    def write(self, table: str, *rows: Mapping[str, Any]) -> None:
        """Append rows to one of the tables that every pipeline has; what a cut names is there."""
        for name in [name for row in rows for name in dict(row.get("versions") or ()) if table == "cuts"]:
            small_tables.ensure(self.paths.table(name), schemas.current_schema(self.pipeline.table(name)))
        small_tables.append(self.paths.table(table), [dict(row) for row in rows], SCHEMAS[table])

    def wait(self, *rows: Mapping[str, Any], release: int = 1, landing: int = 1) -> None:
        """Replace what waits, as the buffer does."""
        about = {"release": release, "landing": landing}
        small_tables.replace(
            self.paths.table("pending_transactions"),
            [dict(row) for row in rows],
            system_tables.PENDING_TRANSACTIONS,
            about,
        )

    def land(self, *rows: Mapping[str, Any]) -> None:
        """Append events: what is not said of them is what a row of `items` has."""
        landing_tables.create_tables(self.paths)
        self.write("change_events", *(event(**row) for row in rows))

    def step(self, step: str, minutes: float, run: str = "r1", **more: Any) -> None:
        """Append a line of the ledger."""
        counts = list(more.pop("counts", {}).items())
        self.write("ledger", {"run_id": run, "step": step, "at": at(minutes), "counts": counts, **more})


def event(**columns: Any) -> dict[str, Any]:
    """Return a row of change_events."""
    row = {"landing": 1, "kind": "row", "table": "items", "source_table": "APP.ITEMS", "op": "I", "payload": 1}
    row |= {"topic": "rows", "file": "rows/1.jsonl", "landed_at": NOON, "xid": "x1", "csn": 1, **columns}
    row.setdefault("transaction_id", f"{row['xid']}:{row['csn']}")
    row["tx"] = hash64(row["transaction_id"]) if row["transaction_id"] else None
    row.setdefault("line", row["row"])
    row.setdefault("identity", str(row["row"]) if row["kind"] == "row" else None)
    if isinstance(row.get("expected"), dict):
        row["expected"] = list(row["expected"].items())
    return row
