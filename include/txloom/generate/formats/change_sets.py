"""Write change sets: rows with a FLAG (I, U, D), all columns and a CDC_TIMESTAMP, in a folder for each table.

There are no transactions. Rows are ordered by their timestamp; a change of a key is a delete and an insert, a TRUNCATE
is deletes, and every row is whole. In CSV, null is an empty field without quotes and an empty text one with them; in
JSON lines, numbers are JSON numbers with all their digits.
"""

from collections.abc import Iterator
from typing import Literal

from txloom.generate.formats.change_events import single_rows
from txloom.generate.formats.messages import ROW, Message, Writer, json_object, json_value, literals
from txloom.generate.workload.changes import Change, Cut, Transaction, moment
from txloom.generate.workload.tables import TABLES, Row, SourceTable, Text

FLAG, TIMESTAMP = "FLAG", "CDC_TIMESTAMP"
QUOTED = frozenset('",\r\n')
"""Characters that require quotes around a field of CSV."""


class ChangeSetWriter(Writer):
    """Writes rows of change sets."""

    def __init__(self, topic: str, schema: str, layout: Literal["csv", "values"]) -> None:
        """Name the folders; `topic` has {schema} and {table} in it. layout: csv, or JSON lines."""
        self._topics = {table: topic.format(schema=schema, table=table.name) for table in TABLES.values()}
        self._headings = {name: _names(table) for table, name in self._topics.items()}
        self._literals = {table: (False, *literals(table), False) for table in TABLES.values()}
        self._is_csv = layout == "csv"

    def heading(self, topic: str) -> bytes | None:
        """Return the header line of a folder's CSV files; None for JSON lines."""
        return csv_line(self._headings[topic]) if self._is_csv else None

    def csn_of(self, cut: Cut) -> int:
        """Return the last microsecond of a state, since changes are ordered by their time."""
        return cut.until

    def garbled(self, value: bytes) -> list[bytes]:
        """Return damaged variants of a row that leave the rows after it readable."""
        if not self._is_csv:
            return super().garbled(value)
        flagged = value.partition(b",")[2]
        return [b"X," + flagged, b"," + flagged, value[:-4] + b"noon"]

    def messages(self, transaction: Transaction) -> Iterator[Message]:
        """Yield the rows that a transaction changed, each one microsecond later than the one before."""
        micros = transaction.committed
        for change in single_rows(transaction.changes):
            for flag, row in _flagged(change):
                fields = (flag, *row, moment(micros))
                topic = self._topics[change.table]
                yield Message(topic, self._line(change.table, topic, fields), ROW, transaction.csn)
                micros += 1

    def _line(self, table: SourceTable, topic: str, fields: Row) -> bytes:
        if self._is_csv:
            return csv_line(fields)
        values = [
            json_value(text, literal=literal) for text, literal in zip(fields, self._literals[table], strict=True)
        ]
        return json_object(self._headings[topic], values)


def _flagged(change: Change) -> Iterator[tuple[str, Row]]:
    before, after = change.before, change.after
    moved = before is not None and after is not None and change.table.key_of(before) != change.table.key_of(after)
    if before is not None and (after is None or moved):
        yield "D", before
    if after is not None:
        yield "I" if before is None or moved else "U", after


def csv_line(fields: Row) -> bytes:
    r"""Return a row of CSV.

    >>> csv_line(("I", None, "", 'a "b", c'))
    b'I,,"","a ""b"", c"'
    """
    return ",".join([_field(text) for text in fields]).encode()


def _field(text: Text) -> str:
    if text is None:
        return ""
    if text and QUOTED.isdisjoint(text):
        return text
    return '"' + text.replace('"', '""') + '"'


def _names(table: SourceTable) -> tuple[str, ...]:
    return (FLAG, *table.columns, TIMESTAMP)
