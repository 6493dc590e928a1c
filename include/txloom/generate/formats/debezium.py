"""Write Debezium JSON as its PostgreSQL connector does, with transaction metadata and decimals as text.

A transaction's id is its number and the position of the respective message, so BEGIN, rows and END differ in it. A key
change is a delete, a tombstone and an insert; a delete's image is made up outside the key unless the source's log has
the whole old row; a large value that did not change is a placeholder. Times are integers since the epoch.
"""

from collections import Counter
from collections.abc import Iterator

from txloom.generate.formats.debezium_values import UNAVAILABLE, json_values
from txloom.generate.formats.messages import MARKER, METADATA, ROW, Headers, Message, Writer, encode, json_object
from txloom.generate.workload.changes import Change, Transaction
from txloom.generate.workload.tables import TABLES, Row, SourceTable

OPERATIONS = {"I": "c", "U": "u", "D": "d", "T": "t"}
LAG = 31_000
"""Microseconds between a commit and the connector's reading of it."""
VERSION = "3.6.1.Final"
Part = tuple[str, bytes | None, bytes, bytes, Headers]
"""One of a change's messages: operation (nothing for a tombstone), key, images before and after, headers."""


class _Layout:
    """The parts that all rows of a table have in common."""

    def __init__(self, table: SourceTable, name: str, schema: str, topic: str) -> None:
        self.table, self.name, self.topic = table, name, topic
        self.source = b'"schema":%b,"table":%b' % (encode(schema), encode(table.name))
        self._values = json_values(table)
        invented = [table.invented.get(column) for column in table.columns]
        self._invented = [write(text) for write, text in zip(self._values, invented, strict=True)]

    def image(self, row: Row, left_out: tuple[int, ...] = ()) -> bytes:
        """Return a row's image, with placeholders for the columns at the positions that are left out."""
        values = [write(text) for write, text in zip(self._values, row, strict=True)]
        for position in left_out:
            values[position] = UNAVAILABLE
        return json_object(self.table.columns, values)

    def old_image(self, row: Row) -> bytes:
        """Return a deleted row's image: the columns that the log has, and made-up values for the others."""
        if self.table.whole_before:
            return self.image(row)
        values = list(self._invented)
        for position in self.table.key_positions:
            values[position] = self._values[position](row[position])
        return json_object(self.table.columns, values)

    def key(self, row: Row) -> bytes:
        """Return a row's key as JSON."""
        values = [self._values[position](row[position]) for position in self.table.key_positions]
        return json_object(self.table.key, values)

    def parts(self, change: Change) -> Iterator[Part]:
        """Yield the parts of a change's messages."""
        before, after = change.before, change.after
        if before is None and after is None:
            yield "t", None, b"null", b"null", ()
        elif before is None and after is not None:
            yield "c", self.key(after), b"null", self.image(after), ()
        elif before is not None and after is None:
            key = self.key(before)
            yield "d", key, self.old_image(before), b"null", ()
            yield "", key, b"null", b"null", ()
        elif before is not None and after is not None:
            yield from self._updated(before, after)

    def _updated(self, before: Row, after: Row) -> Iterator[Part]:
        old, new = self.key(before), self.key(after)
        left_out = () if self.table.whole_before else self.table.left_out(before, after)
        image = self.image(after, left_out)
        if old == new:
            yield "u", new, self.image(before) if self.table.whole_before else b"null", image, ()
            return
        yield "d", old, self.old_image(before), b"null", (("__debezium.newkey", new.decode()),)
        yield "", old, b"null", b"null", ()
        yield "c", new, b"null", image, (("__debezium.oldkey", old.decode()),)


class DebeziumWriter(Writer):
    """Writes transactions as Debezium does."""

    def __init__(self, topic: str, schema: str, metadata_topic: str, seed: int) -> None:
        """Name the topics; `topic` has {schema} and {table} in it. seed: gives the id of the connector's run."""
        self.metadata_topic: str = metadata_topic
        self._server = metadata_topic.partition(".")[0]
        self._layouts = {
            table: _Layout(table, f"{schema}.{table.name}", schema, topic.format(schema=schema, table=table.name))
            for table in TABLES.values()
        }
        self._context: Headers = (
            ("__debezium.context.connectorLogicalName", self._server),
            ("__debezium.context.taskId", "0"),
            ("__debezium.context.connectorName", "postgresql"),
            ("__debezium.context.runId", f"01a1fc0f-5b22-7c42-924b-{seed % 2**48:012x}"),
        )

    def messages(self, transaction: Transaction) -> Iterator[Message]:
        """Yield a transaction's BEGIN, its rows with tombstones after deletes, and its END."""
        lsns = transaction.lsns()
        counts: Counter[str] = Counter()
        yield self._mark(transaction, "BEGIN", lsns[0] if lsns else transaction.csn, None)
        for change, lsn in zip(transaction.changes, lsns, strict=True):
            layout = self._layouts[change.table]
            for op, key, before, after, headers in layout.parts(change):
                value = None
                if op:
                    counts[layout.name] += 1
                    order = b'"total_order":%d,"data_collection_order":%d' % (counts.total(), counts[layout.name])
                    source = self._source(transaction, lsn, layout)
                    value = _row(transaction, lsn, source, order, (before, after), op)
                kind = ROW if op else MARKER
                yield Message(layout.topic, value, kind, transaction.csn, key, (*headers, *self._context))
        yield self._mark(transaction, "END", transaction.csn, counts)

    def _mark(self, transaction: Transaction, status: str, lsn: int, counts: Counter[str] | None) -> Message:
        transaction_id = f"{transaction.xid}:{lsn}"
        parts = None
        if counts is not None:
            parts = [{"data_collection": name, "event_count": count} for name, count in sorted(counts.items())]
        content = {
            "status": status,
            "id": transaction_id,
            "event_count": None if counts is None else counts.total(),
            "data_collections": parts,
            "ts_ms": transaction.committed // 1000,
        }
        kind = MARKER if counts is None else METADATA
        return Message(self.metadata_topic, encode(content), kind, transaction.csn, encode({"id": transaction_id}))

    def _source(self, transaction: Transaction, lsn: int, layout: _Layout) -> bytes:
        committed, server = transaction.committed, self._server.encode()
        return (
            b'{"version":"%b","connector":"postgresql","name":"%b","ts_ms":%d,"snapshot":"false","db":"shop",'
            b'"sequence":"[\\"%d\\",\\"%d\\"]","ts_us":%d,"ts_ns":%d,%b,"txId":%d,"lsn":%d,"xmin":null,'
            b'"origin":null,"origin_lsn":null}'
        ) % (
            *(VERSION.encode(), server, committed // 1000, transaction.lsn, lsn, committed, committed * 1000),
            *(layout.source, transaction.xid, lsn),
        )


def _row(
    transaction: Transaction, lsn: int, source: bytes, order: bytes, images: tuple[bytes, bytes], op: str
) -> bytes:
    read_at = transaction.committed + LAG
    return (
        b'{"before":%b,"after":%b,"source":%b,"transaction":{"id":"%d:%d",%b},"op":"%b",'
        b'"ts_ms":%d,"ts_us":%d,"ts_ns":%d}'
    ) % (*images, source, transaction.xid, lsn, order, op.encode(), read_at // 1000, read_at, read_at * 1000)
