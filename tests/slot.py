"""A wal2json slot that is written into files, landed in this process, and what became of its transactions."""

import json
import os
import time
from pathlib import Path
from typing import Any

from called import step_of
from txloom.config import load
from txloom.steps.landing.land_events import land_events
from txloom.storage.delta import small_tables
from txloom.storage.paths import TablePaths

DECLARED = """
name: slot
source: {{format: wal2json, files: {{path: {inbox}, settle: 1s}}, max_message_bytes: {limit}}}
completeness: {{rule: markers, patience: 30m}}
tables:
  - {{name: orders, source: public.orders, key: [id], columns: {{id: long}}}}
targets: {{mirrors: [orders]}}
"""
Transaction = list[str]


def marker(action: str, xid: int) -> str:
    """Return a BEGIN or a COMMIT; the commit position follows from the id."""
    marker_fields = {"action": action, "xid": xid, "timestamp": "2026-01-01 00:00:00+00", "lsn": f"0/{xid * 0x1000:X}"}
    return json.dumps(marker_fields, separators=(",", ":"))


def row(xid: int, key: int) -> str:
    """Return an insert; the keys of a transaction grow with its log."""
    cells = [{"name": "id", "type": "bigint", "value": key}]
    source_fields = {"action": "I", "xid": xid, "lsn": f"0/{xid * 0x1000 - 0x800 + key:X}", "schema": "public"}
    return json.dumps({**source_fields, "table": "orders", "columns": cells}, separators=(",", ":"))


def transaction(xid: int, *keys: int) -> Transaction:
    """Return the messages of a transaction that inserts rows."""
    return [marker("B", xid), *(row(xid, key) for key in keys), marker("C", xid)]


def text(lines: list[str]) -> str:
    """Return messages as lines."""
    return "".join(f"{line}\n" for line in lines)


class Slot:
    """A pipeline that reads one topic of files; files that it is given are old enough to be whole."""

    def __init__(self, folder: Path, limit: int = 32 << 20) -> None:
        """Declare it in a folder."""
        self.folder, self.topic, self.runs = folder, folder / "inbox" / "slot", 0
        self.topic.mkdir(parents=True)
        file = folder / "slot.yaml"
        file.write_text(DECLARED.format(inbox=folder / "inbox", limit=limit))
        self.pipeline = load(file)
        self.warehouse = str(folder / "lake")
        self.paths = TablePaths(self.warehouse, "slot")

    def put(self, name: str, content: str | bytes, *, append: bool = False) -> Path:
        """Write a file, or append to one, a while ago."""
        path = self.topic / name
        raw = content.encode() if isinstance(content, str) else content
        with path.open("ab" if append else "wb") as stream:
            stream.write(raw)
        self.settle(path)
        return path

    def settle(self, path: Path) -> None:
        """Make a file look unchanged for longer than `settle` and `patience`."""
        self.runs += 1
        moment = time.time() - 10000 + self.runs / 10
        os.utime(path, (moment, moment))

    def land(self, spark: Any = None) -> dict[str, int]:
        """Land what is there."""
        self.runs += 1
        return land_events(step_of(self.pipeline, self.warehouse, f"run-{self.runs}", spark or _no_session))

    def events(self, kinds: str = "'marker', 'row', 'metadata', 'poison'") -> list[tuple[Any, ...]]:
        """Return what was landed: kind, transaction, position, file and line."""
        sql = f'select kind, transaction_id, pos, file, line from t where kind in ({kinds}) order by landing, "row"'
        rows = small_tables.query(self.paths.change_events, sql)
        return [(r["kind"], r["transaction_id"], r["pos"], r["file"].split("/")[1], r["line"]) for r in rows]

    def whole(self) -> dict[int, set[int]]:
        """Return the rows of each transaction whose COMMIT was understood, by xid.

        Each row has been landed under one identity alone, and as many as the COMMIT counts.
        """
        sql = "select xid, kind, identity, value, event_count from t where transaction_id is not null order by landing"
        by_xid: dict[int, dict[str, str]] = {}
        counts: dict[int, set[int]] = {}
        for each in small_tables.query(self.paths.change_events, sql):
            xid = int(each["xid"])
            if each["kind"] == "row":
                rows = by_xid.setdefault(xid, {})
                assert rows.setdefault(each["identity"], each["value"]) == each["value"], "one identity, two rows"
            elif each["kind"] == "metadata":
                counts.setdefault(xid, set()).add(each["event_count"])
        shown = {}
        for xid, counted in counts.items():
            rows = by_xid.get(xid, {})
            if counted == {len(rows)}:
                keys = [json.loads(value)["columns"][0]["value"] for value in rows.values()]
                assert len(set(keys)) == len(keys), "a row twice"
                shown[xid] = set(keys)
        return shown

    def query(self, table: str, sql: str) -> list[dict[str, Any]]:
        """Ask one of its tables."""
        return small_tables.query(self.paths.table(table), sql)

    def findings(self) -> list[tuple[str, str]]:
        """Return open findings: code and file."""
        from txloom.storage.checks import findings

        return [(row["code"], row["column"]) for row in findings.open_findings(self.paths)]


def _no_session() -> Any:
    raise AssertionError("so little needs no Spark")
