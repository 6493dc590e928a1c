"""The envelope: what every source format's decoder makes of its messages, whatever they looked like."""

import pyarrow as pa

ENVELOPE = pa.schema(
    [
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
        ("committed_at", pa.timestamp("us", "UTC")),
        ("expected", pa.map_(pa.string(), pa.int64())),
        ("event_count", pa.int64()),
        ("cause", pa.string()),
        ("detail", pa.string()),
        ("value", pa.string()),
        ("producer_run", pa.string()),
        ("headers", pa.map_(pa.string(), pa.string())),
    ]
)
"""One row per message. identity: what survives a redelivery within the transaction. payload: a fingerprint of operation
and images, without the delivery's own time stamps. expected: declared table -> number of events, of metadata only.
producer_run: which run of the producer sent it. headers: those of a Kafka record that its format needs."""
