"""Write change events: one JSON object per change, in a topic for each table, ordered by timestamp alone.

Columns and old key are lists of names and of values, as text. An update leaves out the large values that it did not
change. A TRUNCATE, which the format does not have, comes as deletes.
"""

from collections.abc import Iterator

from txloom.generate.formats.messages import ROW, Message, Writer, encode
from txloom.generate.workload.changes import Change, Cut, Transaction, moment
from txloom.generate.workload.tables import TABLES, Row, SourceTable

TYPES = {"I": ("insert", "INSERT"), "U": ("update", "Update"), "D": ("delete", "DELETE")}
"""By operation, two spellings of the type of a change, because producers differ in that."""

Given = dict[str, str | tuple[str, ...] | list[str] | Row | None]


class ChangeEventWriter(Writer):
    """Writes each change as one message."""

    def __init__(self, topic: str, schema: str) -> None:
        """Name the topics; `topic` has {schema} and {table} in it."""
        self._topics = {table: topic.format(schema=schema, table=table.name) for table in TABLES.values()}
        self._names = {table: f"{schema}.{table.name}" for table in TABLES.values()}

    def csn_of(self, cut: Cut) -> int:
        """Return the last microsecond of a state, since changes are ordered by their time."""
        return cut.until

    def messages(self, transaction: Transaction) -> Iterator[Message]:
        """Yield a message for each row that the transaction changed, each one microsecond later than the one before."""
        micros, spelling = transaction.committed, transaction.number % 2
        for change in single_rows(transaction.changes):
            content: Given = {"table": self._names[change.table], "changeType": TYPES[change.op][spelling]}
            content |= {"timestamp": moment(micros), **_columns(change), **_old_key(change)}
            yield Message(self._topics[change.table], encode(content), ROW, transaction.csn)
            micros += 1


def single_rows(changes: list[Change]) -> Iterator[Change]:
    """Yield changes of single rows: for a TRUNCATE, a delete of each row that it removed."""
    for change in changes:
        if change.op != "T":
            yield change
        for row in change.removed:
            yield Change(change.table, "D", row, None)


def _columns(change: Change) -> Given:
    table, before, after = change.table, change.before, change.after
    if after is None:
        return {"columnNames": None, "columnTypes": None, "columnValues": None}
    left_out = table.left_out(before, after) if before is not None else ()
    places = [position for position in range(len(after)) if position not in left_out]
    return {
        "columnNames": [table.columns[position] for position in places],
        "columnTypes": [table.types[position] for position in places],
        "columnValues": tuple([after[position] for position in places]),
    }


def _old_key(change: Change) -> Given:
    table: SourceTable = change.table
    if change.before is None:
        return {"oldKeyNames": None, "oldKeyTypes": None, "oldKeyValues": None}
    types = [table.types[position] for position in table.key_positions]
    return {"oldKeyNames": table.key, "oldKeyTypes": types, "oldKeyValues": table.key_of(change.before)}
