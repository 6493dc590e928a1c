"""Write wal2json, format-version 2: one stream in commit order, each transaction's rows between BEGIN and COMMIT.

Numbers are JSON numbers with all their digits. An update has the new row, without the large values that it did not
change, and the old key, or the whole old row where the source's log has it; a delete has only the old key or row.
"""

from collections.abc import Iterator

from txloom.generate.formats.messages import MARKER, METADATA, ROW, Message, Writer, encode, json_value, literals
from txloom.generate.workload.changes import Change, Transaction, short_moment
from txloom.generate.workload.tables import TABLES, Row, SourceTable

COMMIT_RECORD = 48
"""The bytes of a commit in the log."""


class _Layout:
    """The parts that all rows of a table have in common."""

    def __init__(self, table: SourceTable, schema: str) -> None:
        self.table = table
        self.name = b',"schema":%b,"table":%b' % (encode(schema), encode(table.name))
        self.literals = literals(table)
        columns = list(zip(table.columns, table.types, strict=True))
        self.begins = [b'{"name":%b,"type":%b,"value":' % (encode(name), encode(type_)) for name, type_ in columns]
        key = [{"name": name, "type": type_} for name, type_ in columns if name in table.key]
        self.key = b',"pk":%b' % encode(key)
        self.places = tuple(range(len(columns)))
        self.identity = self.places if table.whole_before else table.key_positions

    def columns(self, row: Row, places: tuple[int, ...]) -> bytes:
        """Return the cells of the columns at some positions of a row."""
        begins, literals = self.begins, self.literals
        return b",".join(
            [
                b"%b%b}" % (begins[position], json_value(row[position], literal=literals[position]))
                for position in places
            ]
        )

    def images(self, change: Change) -> bytes:
        """Return the images of a change."""
        before, after = change.before, change.after
        image = b""
        if after is not None:
            left_out = self.table.left_out(before, after) if before is not None else ()
            places = (
                tuple(position for position in self.places if position not in left_out) if left_out else self.places
            )
            image = b',"columns":[%b]' % self.columns(after, places)
        if before is not None:
            image += b',"identity":[%b]' % self.columns(before, self.identity)
        return image + self.key if image else image


class Wal2JsonWriter(Writer):
    """Writes transactions as wal2json does."""

    in_one_stream = True

    def __init__(self, topic: str, schema: str) -> None:
        """Name the one topic."""
        self._topic = topic
        self._layouts = {table: _Layout(table, schema) for table in TABLES.values()}

    def messages(self, transaction: Transaction) -> Iterator[Message]:
        """Yield a transaction's BEGIN, rows and COMMIT."""
        topic, csn = self._topic, transaction.csn
        common = b',"xid":%d,"timestamp":"%b+00","lsn":"' % (
            transaction.xid,
            short_moment(transaction.committed).encode(),
        )
        ends = b'%b%b","nextlsn":"%b"}' % (common, lsn_text(csn), lsn_text(csn + COMMIT_RECORD))
        yield Message(topic, b'{"action":"B"%b' % ends, MARKER, csn)
        for change, lsn in zip(transaction.changes, transaction.lsns(), strict=True):
            layout = self._layouts[change.table]
            begin = b'{"action":"%b"%b%b"' % (change.op.encode(), common, lsn_text(lsn))
            yield Message(topic, b"%b%b%b}" % (begin, layout.name, layout.images(change)), ROW, csn)
        yield Message(topic, b'{"action":"C"%b' % ends, METADATA, csn)


def lsn_text(lsn: int) -> bytes:
    """Return a position in PostgreSQL's log as PostgreSQL writes it.

    >>> lsn_text(2**32 + 255)
    b'1/FF'
    """
    return b"%X/%X" % (lsn >> 32, lsn & 0xFFFFFFFF)
