"""A PostgreSQL source as Debezium writes it, whose connector restarts inside a COPY: structure as in real captures.

All rows of a COPY lie at one LSN; `total_order` of a second run is shifted; a header says which run sent a row; END
counts what the connector thinks it sent.
"""

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from lake import Lake
from txloom.config import load
from txloom.storage.checks.findings import open_findings
from txloom.storage.paths import TablePaths

DECLARED = """
name: shop
source: {{format: debezium, files: {{path: {inbox}, layout: records}}, transaction_topic: dev.transaction}}
completeness: {{rule: counts, patience: {patience}, suspects: {suspects}}}
tables:
- {{name: orders, source: public.orders, key: [id], columns: {{id: long, note: string}}}}
- {{name: lines, source: public.lines, key: [id], columns: {{id: long, note: string}}}}
targets: {{mirrors: ["*"]}}
"""
Record = tuple[str, dict[str, Any]]


class DebeziumShop(Lake):
    """A lake that is fed with records of topics."""

    declared = DECLARED

    def __init__(self, spark: Any, folder: Path, **options: str) -> None:
        (folder / "inbox").mkdir()
        self.file, self.files = folder / "shop.yaml", 0
        self.declare(**options)
        super().__init__(spark, folder, self.pipeline)

    def declare(self, *, suspects: str = "release", patience: str = "1s", **more: str) -> None:
        """Declare the pipeline, or declare it anew."""
        inbox = self.file.parent / "inbox"
        self.file.write_text(self.declared.format(inbox=inbox, suspects=suspects, patience=patience, **more))
        self.pipeline = load(self.file)

    def send(self, *records: Record) -> None:
        """Put records into the inbox, each into its topic."""
        self.files += 1
        for topic in {topic for topic, _ in records}:
            folder = self.inbox / topic
            folder.mkdir(exist_ok=True)
            lines = [json.dumps(record) for record_topic, record in records if record_topic == topic]
            (folder / f"{self.files:03}.jsonl").write_text("".join(f"{line}\n" for line in lines))

    def shown(self, table: str) -> list[int]:
        return sorted(row["id"] for row in self.rows(table))

    def findings(self) -> list[tuple[Any, ...]]:
        """Return what is open: code, table, xid, since which csn, needs a snapshot."""
        names = ("code", "table", "xid", "since_csn", "needs_snapshot")
        return [tuple(row[name] for name in names) for row in open_findings(TablePaths(self.warehouse, "shop"))]


def copied(xid: int, lsn: int, keys: Iterable[int], run: str, *, table: str = "lines", first: int = 1) -> list[Record]:
    """Return rows of one COPY that a run of the connector sent; first: its `total_order` of the first one."""
    source = {"connector": "postgresql", "db": "shop", "schema": "public", "table": table, "lsn": lsn, "txId": xid}
    return [
        _record(
            f"dev.public.{table}",
            {
                "before": None,
                "after": {"id": key, "note": f"note {key}"},
                "source": {**source, "snapshot": "false", "ts_ms": 1_767_225_600_000},
                "op": "c",
                "transaction": {"id": f"{xid}:{lsn}", "total_order": order, "data_collection_order": order},
            },
            run,
        )
        for order, key in enumerate(keys, first)
    ]


def updated(xid: int, lsn: int, key: int, note: str, run: str, *, table: str = "lines") -> list[Record]:
    """Return an update under REPLICA IDENTITY DEFAULT that leaves the key as it was."""
    (topic, record), *_ = copied(xid, lsn, [key], run, table=table)
    value = json.loads(record["value"])
    value |= {"op": "u", "after": {"id": key, "note": note}}
    return [(topic, record | {"value": json.dumps(value)})]


def snapshot(lsn: int, keys: Sequence[int], *, table: str = "lines", last: bool = True) -> list[Record]:
    """Return the rows of a table that a connector's snapshot sends; last: the snapshot ends with them."""
    records = []
    for position, key in enumerate(keys, 1):
        marked = "last" if last and position == len(keys) else "true"
        source = {"connector": "postgresql", "db": "shop", "schema": "public", "table": table, "lsn": lsn}
        value = {"before": None, "after": {"id": key, "note": f"note {key}"}, "op": "r", "transaction": None}
        records.append(_record(f"dev.public.{table}", value | {"source": {**source, "snapshot": marked}}, "again"))
    return records


def ended(xid: int, lsn: int, **counts: int) -> list[Record]:
    """Return a transaction's END; counts: by table."""
    parts = [{"data_collection": f"public.{table}", "event_count": count} for table, count in Counter(counts).items()]
    end = {"status": "END", "id": f"{xid}:{lsn}", "ts_ms": 1_767_225_600_000, "event_count": sum(counts.values())}
    return [_record("dev.transaction", end | {"data_collections": parts}, None)]


def _record(topic: str, value: dict[str, Any], run: str | None) -> Record:
    headers = [] if run is None else [["__debezium.context.runId", run]]
    return topic, {"value": json.dumps(value), "headers": headers}
