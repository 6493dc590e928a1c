"""A small pipeline for tests: tables as a test declares them, transactions as one-liners, rows as plain Python."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

from lake import Lake
from txloom.config import load
from txloom.storage.checks.findings import open_findings
from txloom.storage.paths import TablePaths

Change = tuple[str, str, dict[str, Any] | None, dict[str, Any] | None]
HEAD = """
name: shop
source: {{format: goldengate, files: {{path: {inbox}}}, transaction_topic: metadata{source}}}
completeness: {{rule: counts, patience: {patience}}}
"""


def insert(table: str, **row: Any) -> Change:
    return "I", table, None, row


def update(table: str, before: dict[str, Any] | None, **row: Any) -> Change:
    return "U", table, before, row


def delete(table: str, **row: Any) -> Change:
    return "D", table, row, None


def truncate(table: str) -> Change:
    return "T", table, None, None


class Shop(Lake):
    """A lake of its own declaration, fed transaction by transaction."""

    def __init__(self, spark: Any, folder: Path, tables: str, *, patience: str = "2h", source: str = "") -> None:
        inbox = folder / "inbox"
        inbox.mkdir()
        self.head = HEAD.format(inbox=inbox, patience=patience, source=source)
        self.files = 0
        self.pos = 0
        super().__init__(spark, folder, self.declared(folder, tables))

    def declared(self, folder: Path, tables: str) -> Any:
        file = folder / "shop.yaml"
        file.write_text(self.head + tables)
        return load(file)

    def declare(self, tables: str) -> None:
        """Change the declaration."""
        self.pipeline = self.declared(self.folder, tables)

    def rows_of(self, csn: int, *changes: Change, **more: Any) -> list[str]:
        """Return a transaction's row messages."""
        rows = []
        for op, table, before, after in changes:
            self.pos += 1
            message = {"table": f"APP.{table.upper()}", "op_type": op, "pos": f"{self.pos:020}"}
            message |= {"xid": f"x{csn}", "csn": str(csn), "op_ts": f"2026-01-01 00:00:{csn % 60:02}.000000", **more}
            message |= {name: image for name, image in (("before", before), ("after", after)) if image is not None}  # type: ignore[misc]
            rows.append(json.dumps(message))
        return rows

    def metadata_of(self, csn: int, **counts: int) -> str:
        """Return a transaction's metadata."""
        parts = [{"data_collection": table.upper(), "event_count": count} for table, count in counts.items()]
        metadata = {"xid": f"x{csn}", "csn": str(csn), "event_count": sum(counts.values()), "data_collections": parts}
        return json.dumps(metadata | {"tx_ts": f"2026-01-01 00:00:{csn % 60:02}.000000"})

    def send(self, *messages: str) -> None:
        """Put messages into the inbox: rows and metadata, each in its topic."""
        self.files += 1
        for topic, key in (("rows", '"op_type"'), ("metadata", '"data_collections"')):
            lines = [message for message in messages if key in message]
            if lines:
                (self.inbox / topic).mkdir(exist_ok=True)
                (self.inbox / topic / f"{self.files:03}.jsonl").write_text("".join(f"{line}\n" for line in lines))

    def commit(self, csn: int, *changes: Change) -> None:
        """Send a whole transaction."""
        counts = Counter(table for _, table, _, _ in changes)
        self.send(*self.rows_of(csn, *changes), self.metadata_of(csn, **counts))

    def shown(self, table: str, *columns: str) -> list[tuple[Any, ...]]:
        """Return a table's rows as tuples of some columns, in order."""
        return sorted((tuple(row[name] for name in columns) for row in self.rows(table)), key=repr)

    def findings(self) -> list[tuple[Any, ...]]:
        """Return what is open: code, table, column, since which csn, needs a snapshot."""
        names = ("code", "table", "column", "since_csn", "needs_snapshot")
        return [tuple(row[name] for name in names) for row in open_findings(TablePaths(self.warehouse, "shop"))]
