"""Write GoldenGate JSON: rows in a topic for each table, and the metadata of transactions in another topic.

Values are text. Names are in upper case. An update leaves out a large value that it did not change, and its image
before has only the key, unless the source's log has the whole old row.
"""

from collections import Counter
from collections.abc import Iterator

from txloom.generate.formats.messages import METADATA, ROW, Message, Writer, encode
from txloom.generate.workload.changes import Change, Transaction, moment
from txloom.generate.workload.tables import TABLES, Row, SourceTable

LAG = 1_700_000
"""Microseconds between a commit and the writing of its messages."""


class _Layout:
    """The parts that all rows of a table have in common."""

    def __init__(self, table: SourceTable, schema: str, topic: str) -> None:
        self.topic = topic
        self.columns = [name.upper() for name in table.columns]
        self.key_columns = [name.upper() for name in table.key]
        self.begin = b'{"table":"%b.%b","op_type":"' % (schema.upper().encode(), table.name.upper().encode())
        self.keys = b'","primary_keys":%b' % encode(self.key_columns)
        self.no_keys = b'","primary_keys":[]'

    def image(self, row: Row, left_out: tuple[int, ...] = ()) -> bytes:
        """Return a row's image, without the columns at the positions that are left out."""
        image = dict(zip(self.columns, row, strict=True))
        for position in left_out:
            del image[self.columns[position]]
        return encode(image)


class GoldenGateWriter(Writer):
    """Writes transactions as GoldenGate's handler does."""

    def __init__(self, topic: str, schema: str, metadata_topic: str) -> None:
        """Name the topics; `topic` has {schema} and {table} in it."""
        self.metadata_topic: str = metadata_topic
        self._layouts = {
            table: _Layout(table, schema, topic.format(schema=schema, table=table.name)) for table in TABLES.values()
        }

    def messages(self, transaction: Transaction) -> Iterator[Message]:
        """Yield a transaction's rows, then its metadata."""
        xid, csn = _xid(transaction), transaction.csn
        committed, written = moment(transaction.committed), moment(transaction.committed + LAG).replace(" ", "T")
        times = f'","op_ts":"{committed}","current_ts":"{written}","pos":"'.encode()
        names = f'","csn":"{csn}","xid":"{xid}'.encode()
        pos = transaction.pos
        for change in transaction.changes:
            layout = self._layouts[change.table]
            value = b"%b%b%b%020d%b%b" % (layout.begin, change.op.encode(), times, pos, names, _images(layout, change))
            yield Message(layout.topic, value, ROW, csn, _key(change))
            pos += 1
        counts = Counter(change.table.name.upper() for change in transaction.changes)
        content = {
            "xid": xid,
            "csn": str(csn),
            "tx_ts": moment(transaction.begun),
            "event_count": len(transaction.changes),
            "data_collections": [{"data_collection": name, "event_count": count} for name, count in counts.items()],
        }
        yield Message(self.metadata_topic, encode(content), METADATA, csn, xid.encode())


def _images(layout: _Layout, change: Change) -> bytes:
    """Return the rest of a row message: the key's columns and the images of its operation."""
    table, op, before, after = change[:4]
    if op == "I" and after is not None:
        return b'%b,"after":%b}' % (layout.keys, layout.image(after))
    if before is None:
        return b"%b}" % layout.no_keys
    old = layout.image(before) if table.whole_before else encode(_key_image(layout, table, before))
    if after is None:
        return b'%b,"before":%b}' % (layout.keys, old)
    return b'%b,"before":%b,"after":%b}' % (layout.keys, old, layout.image(after, table.left_out(before, after)))


def _key_image(layout: _Layout, table: SourceTable, row: Row) -> dict[str, str | None]:
    return dict(zip(layout.key_columns, table.key_of(row), strict=True))


def _key(change: Change) -> bytes:
    row = change.before or change.after
    return b"" if row is None else "|".join(map(str, change.table.key_of(row))).encode()


def _xid(transaction: Transaction) -> str:
    number = transaction.xid
    return f"1342848513.{number % 7}.{number % 24}.{number}"
