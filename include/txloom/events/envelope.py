"""The envelope: the one schema into which the decoders of all source formats decode messages."""

import pyarrow as pa

_COLUMNS: list[tuple[str, pa.DataType]] = [
    ("ordinal", pa.int32()),
    ("kind", pa.string()),
    ("transaction_id", pa.string()),
    ("xid", pa.string()),
    ("csn", pa.int64()),
    ("pos", pa.int64()),
    ("source_table", pa.string()),
    ("table", pa.string()),
    ("op", pa.string()),
    ("identity", pa.string()),
    ("payload", pa.int64()),
    ("digest", pa.binary()),
    ("committed_at", pa.timestamp("us", "UTC")),
    ("expected", pa.map_(pa.string(), pa.int64())),
    ("event_count", pa.int64()),
    ("cause", pa.string()),
    ("detail", pa.string()),
    ("value", pa.string()),
    ("producer_run", pa.string()),
    ("headers", pa.map_(pa.string(), pa.string())),
]
ENVELOPE = pa.schema(_COLUMNS)
"""One row per message. identity: what survives a redelivery within the transaction. digest: 128 bits of operation and
images, without the delivery's timestamps; payload: a checksum of the same (`txloom.config.identity`). expected:
declared table -> number of events, for metadata and for rows that are whole transactions. detail: for poison what is
wrong; for a row of a connector's snapshot its part in it. producer_run: the run of the producer that sent it. headers:
those of a Kafka record that its format needs."""

OF_SNAPSHOT, LAST_OF_SNAPSHOT = "row of a snapshot", "last row of a snapshot"
FIRST_OF_TABLE, LAST_OF_TABLE = "first row of a table in a snapshot", "last row of a table in a snapshot"
"""`detail` of the rows of a snapshot that a connector took of whole tables at one moment."""
OF_INCREMENTAL = "row of an incremental snapshot"
"""`detail` of a row that a connector read beside the stream: as of the commit that is its csn."""
OF_AHEAD = "row of an incremental snapshot, perhaps ahead of the stream"
"""`detail` of a row of an incremental snapshot whose values may be newer than its csn. The row has no table; it is
landed again, with its table, once the stream has passed the read."""
BEHIND = 1 << 59
"""Positions of rows that have what all changes of their csn left begin here, in 18 digits: behind those of any
transaction."""
