"""wal2json, format-versions 2 and 1: one ordered stream, as PostgreSQL's slot hands it out."""

from collections.abc import Sequence
from random import Random
from typing import Any

from oracle.capture import Image
from oracle.declarations import Table
from workloads.sources.database import Change, Sent, positions
from workloads.sources.json_text import Bare, written
from workloads.sources.shapes import Shape

TOPIC = "wal"
COMMIT_RECORD = 48
BARE = ("long", "int", "decimal", "double", "float", "boolean")
LARGE = ("string", "json", "binary", "array<string>")
"""What PostgreSQL stores aside, so that an update that leaves it alone does not show it."""
TYPES = {"long": "bigint", "int": "integer", "double": "double precision", "string": "text", "binary": "bytea"}
KINDS = {"I": "insert", "U": "update", "D": "delete"}


class Wal2Json:
    """Writes transactions as wal2json does in format-version 2."""

    source, rule, layout = "format: wal2json", "markers", ""
    truncates, alters, rotates, special = "any", True, True, False
    moves_serials = True

    def __init__(self, shape: Shape, chance: Random) -> None:
        self._chance = chance
        self._copies = shape.dimensions.copies
        self._whole = {name for name in shape.tables if chance.random() < 0.4}
        self._xid = 700

    def write(self, sent: Sent) -> None:
        """Give a transaction its BEGIN, its rows and its COMMIT; numbers of transactions are not in commit order."""
        xid = self._xid + self._chance.randint(0, 5)
        self._xid += self._chance.randint(1, 2) if xid == self._xid else 0
        about = {"xid": xid, "timestamp": "2026-01-01 10:00:00.5+01"}
        ends = about | {"lsn": lsn(sent.csn), "nextlsn": lsn(sent.csn + COMMIT_RECORD)}
        lines = [{"action": "B"} | ends]
        for change, position in zip(sent.changes, positions(sent, copies=self._copies), strict=True):
            lines.append({"action": change.op} | about | {"lsn": lsn(position)} | self._row(change))
        lines.append({"action": "C"} | ends)
        sent.rows = [(TOPIC, written(line)) for line in lines]

    def history(self, changes: Sequence[Change]) -> int:
        """Return how many rows of history changes are."""
        return len(changes)

    def _row(self, change: Change) -> dict[str, Any]:
        schema, name = change.table.source.split(".")
        row: dict[str, Any] = {"schema": schema, "table": name}
        if change.after is not None:
            row["columns"] = self._cells(change.table, self.new(change))
        if change.before is not None:
            row["identity"] = self._cells(change.table, self.old(change))
        return row

    def new(self, change: Change) -> Image:
        """Return the new row, now and then without large values that did not change."""
        assert change.after is not None
        image = change.image(change.after)
        if change.before is None:
            return image
        kept = self._chance.random() < 0.5
        return {
            column: value
            for column, value in image.items()
            if kept
            or column in change.table.key
            or change.table.columns[column] not in LARGE
            or value is None
            or value != change.before[column]
        }

    def old(self, change: Change) -> Image:
        """Return the old key, or the whole old row of a table whose log has it."""
        assert change.before is not None
        whole = change.table.name in self._whole
        return change.image(change.before) if whole else change.key(change.before)

    def _cells(self, table: Table, image: Image) -> list[dict[str, Any]]:
        return [
            {"name": column, "type": type_of(table.columns[column]), "value": json_value(table.columns[column], value)}
            for column, value in image.items()
        ]


class Wal2JsonOne(Wal2Json):
    """Writes transactions as wal2json does in format-version 1: one object each, whose truncates are lost."""

    truncates = "none"

    def write(self, sent: Sent) -> None:
        """Give a transaction its one message; its place is that behind its COMMIT."""
        self._xid += 1
        changes = [self._change(change) for change in sent.changes]
        message = {"xid": self._xid, "nextlsn": lsn(sent.csn), "timestamp": "2026-01-01 10:00:00+00", "change": changes}
        sent.rows = [(TOPIC, written(message))]

    def _change(self, change: Change) -> dict[str, Any]:
        schema, name = change.table.source.split(".")
        made: dict[str, Any] = {"kind": KINDS[change.op], "schema": schema, "table": name}
        if change.after is not None:
            made |= self._lists(change.table, self.new(change), "column")
        if change.before is not None:
            made["oldkeys"] = self._lists(change.table, self.old(change), "key")
        return made

    def _lists(self, table: Table, image: Image, what: str) -> dict[str, Any]:
        cells = self._cells(table, image)
        return {f"{what}{part}s": [cell[part] for cell in cells] for part in ("name", "type", "value")}


def lsn(number: int) -> str:
    """Write a position in PostgreSQL's log as it does."""
    return f"{number >> 32:X}/{number & 0xFFFFFFFF:X}"


def type_of(kind: str) -> str:
    """Return PostgreSQL's name of a type."""
    return TYPES.get(kind, kind.replace("decimal", "numeric"))


def json_value(kind: str, value: str | None) -> str | None:
    """Write a value: numbers and booleans stand bare with all their digits, all else is text."""
    if value is None or kind.split("(", maxsplit=1)[0] not in BARE:
        return value
    return Bare("-0" if value == "-0.0" else value)
