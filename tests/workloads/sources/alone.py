"""Change events and change sets: each change stands alone, known by its time and its place."""

import io
import json
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from oracle.capture import Image
from oracle.declarations import Table
from workloads.sources.database import Change, Sent
from workloads.sources.json_text import Bare, written
from workloads.sources.kinds import printed
from workloads.sources.shapes import Shape
from workloads.sources.wal2json import BARE

KINDS = {"I": "insert", "U": "update", "D": "delete", "T": "truncate"}
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class ChangeEvents:
    """Writes change events: lists of names and values, with the old key of updates and deletes."""

    source, rule, layout = "format: change_events", "single", ""
    truncates, alters, rotates, special = "any", False, False, False
    moves_serials = True

    def __init__(self, shape: Shape, chance: Random) -> None:
        self._chance, self._tables = chance, tuple(shape.tables.values())
        self._number = chance.random() < 0.5 or shape.dimensions.far

    def write(self, sent: Sent) -> None:
        """Give each change its event, each with a moment of its own."""
        size = len(sent.changes)
        sent.rows = [
            (change.table.source.split(".")[-1], written(self._event(change, sent.csn - size + 1 + number)))
            for number, change in enumerate(sent.changes)
        ]

    def history(self, changes: Sequence[Change]) -> int:
        """Return how many rows of history changes are."""
        return len(changes)

    def _event(self, change: Change, at: int) -> dict[str, Any]:
        style = self._chance.choice((str, str.upper, str.title))
        event: dict[str, Any] = {"changeType": style(KINDS[change.op]), "timestamp": self._time(at)}
        event["table"] = change.table.source
        if change.after is not None:
            event |= self._lists(change.table, self._new(change), "column")
        if change.before is not None:
            whole = self._chance.random() < 0.3
            old = change.image(change.before) if whole else change.key(change.before)
            event |= self._lists(change.table, old, "oldKey")
        return event

    def _new(self, change: Change) -> Image:
        assert change.after is not None
        image, before = change.image(change.after), change.before
        if before is None or self._chance.random() < 0.5:
            return image
        return {name: value for name, value in image.items() if name in change.table.key or value != before[name]}

    def _time(self, at: int) -> Any:
        return Bare(at) if self._number else moment(at)

    def _lists(self, table: Table, image: Image, what: str) -> dict[str, Any]:
        values = [json_value(table.columns[column], value) for column, value in image.items()]
        return {f"{what}Names": list(image), f"{what}Values": values}


class ChangeSets(ChangeEvents):
    """Writes change sets as JSON lines: a flag, a moment and the row; a key that changes is a delete and an insert."""

    source = "format: change_sets"
    truncates = "none"

    def write(self, sent: Sent) -> None:
        """Give each change its row, or its two rows at one moment."""
        size = len(sent.changes)
        sent.rows = [
            (change.table.source.split(".")[-1], written(row))
            for number, change in enumerate(sent.changes)
            for row in self._rows(change, sent.csn - size + 1 + number)
        ]

    def packed(self, topic: str, lines: Sequence[str], form: str) -> bytes:
        """Return rows as a file of CSV or Parquet; a column that a row has not is null there."""
        (kinds,) = (table.columns for table in self._tables if table.source.split(".")[-1] == topic)
        return packed(kinds, lines, form, self._chance)

    def history(self, changes: Sequence[Change]) -> int:
        """Return how many rows of history changes are: a key that changes is two."""
        return len(changes) + sum(change.moves for change in changes)

    def _rows(self, change: Change, at: int) -> list[dict[str, Any]]:
        table, rows = change.table, []
        if change.before is not None and (change.after is None or change.moves):
            whole = change.image(change.before) if self._chance.random() < 0.5 else change.key(change.before)
            rows.append({"FLAG": "D", "CDC_TIMESTAMP": self._time(at)} | self._values(table, whole))
        if change.after is not None:
            flag = "U" if change.before is not None and not change.moves else "I"
            row = self._values(table, change.image(change.after))
            rows.append({"FLAG": flag, "CDC_TIMESTAMP": self._time(at)} | row)
        return rows

    def _values(self, table: Table, image: Image) -> dict[str, Any]:
        return {column: json_value(table.columns[column], value) for column, value in image.items()}


def packed(kinds: Mapping[str, str], lines: Sequence[str], form: str, chance: Random) -> bytes:
    """Return JSON lines as a file of CSV or Parquet; kinds: of columns; some stay text in Parquet."""
    rows = [json.loads(line, parse_int=str, parse_float=str) for line in lines]
    names = list(dict.fromkeys(name for row in rows for name in row))
    columns = {name: [_plain_text(row.get(name)) for row in rows] for name in names}
    if form == "csv":
        return csv_of(columns, chance.choice(("\n", "\r\n"))).encode()
    typed = {
        name: pa.array(values, pa.string()) if chance.random() < 0.3 else arrow_of(kinds.get(name, "string"), values)
        for name, values in columns.items()
    }
    file = io.BytesIO()
    as_spark = chance.random() < 0.5
    size = chance.choice((1, 1000))
    pq.write_table(pa.table(typed), file, row_group_size=size, use_deprecated_int96_timestamps=as_spark)
    return file.getvalue()


def json_value(kind: str, value: str | None) -> str | None:
    """Write a value: numbers and booleans stand bare, but what is none is text."""
    is_bare = value is not None and kind.split("(", maxsplit=1)[0] in BARE and value[-1] not in "Ny"
    return Bare(value) if is_bare else None if value is None else printed(kind, value)


def moment(at: int) -> str:
    """Write microseconds since 1970 as a text."""
    return (EPOCH + timedelta(microseconds=at)).isoformat(" ")


def _plain_text(value: Any) -> str | None:
    return str(value).lower() if isinstance(value, bool) else value


def csv_of(columns: Mapping[str, Sequence[str | None]], end: str) -> str:
    """Write texts as CSV as PostgreSQL does: an empty field is null, a quoted one is a text."""
    rows = [list(columns), *map(list, zip(*columns.values(), strict=True))]
    return "".join(",".join(map(_field, row)) + end for row in rows)


def _field(value: str | None) -> str:
    return "" if value is None else '"' + value.replace('"', '""') + '"'


TYPED: dict[str, tuple[pa.DataType, Any]] = {
    "int": (pa.int32(), int),
    "long": (pa.int64(), int),
    "double": (pa.float64(), float),
    "float": (pa.float32(), float),
    "boolean": (pa.bool_(), "true".__eq__),
    "date": (pa.date32(), date.fromisoformat),
    "time": (pa.time64("us"), time.fromisoformat),
    "timestamp": (pa.timestamp("us"), datetime.fromisoformat),
    "timestamptz": (pa.timestamp("us", "UTC"), datetime.fromisoformat),
    "binary": (pa.binary(), bytes.fromhex),
}
"""What declared kinds are in Parquet, and how their texts are read; what is not among them stays text."""


def arrow_of(kind: str, values: Sequence[str | None]) -> pa.Array:
    """Return texts as typed values."""
    arrow, read = TYPED.get(kind, (pa.string(), str))
    if kind.startswith("decimal("):
        precision, scale = map(int, kind[8:-1].split(","))
        arrow, read = pa.decimal128(precision, scale), Decimal
    return pa.array([None if value is None else read(value) for value in values], arrow)
