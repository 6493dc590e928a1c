"""GoldenGate JSON (Kafka Connect handler), operation mode: shared facts in formats of the source's manual."""

import zlib
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec
import pyarrow as pa

from txloom.config.models import Table

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
    ]
)


class _Message(msgspec.Struct):
    table: str | None = None
    op_type: str | None = None
    op_ts: msgspec.Raw = msgspec.Raw(b"null")
    pos: str | int | None = None
    xid: str | int | None = None
    csn: str | int | None = None
    before: msgspec.Raw = msgspec.Raw(b"null")
    after: msgspec.Raw = msgspec.Raw(b"null")
    tx_ts: msgspec.Raw = msgspec.Raw(b"null")
    event_count: int | None = None
    data_collections: list[dict[str, Any]] | None = None


class GoldenGateDecoder:
    """Decodes messages of GoldenGate's JSON into the envelope."""

    def __init__(self, tables: Sequence[Table], transaction_topic: str) -> None:
        self._names = {table.source: table.name for table in tables}
        self._short = {table.source.rsplit(".", 1)[-1]: table.name for table in tables}
        self._topic = transaction_topic
        self._decode = msgspec.json.Decoder(_Message).decode

    def decode(self, topic: str, values: Sequence[bytes | None]) -> pa.Table:
        rows = [self._one(topic, i, value) for i, value in enumerate(values)]
        return pa.Table.from_pylist(rows, ENVELOPE)

    def _one(self, topic: str, i: int, value: bytes | None) -> dict[str, Any]:
        if value is None:
            return {"ordinal": i, "kind": "tombstone"}
        text = value.decode("utf-8", "backslashreplace")
        try:
            m = self._decode(value)
            csn, xid = int(str(m.csn)), str(m.xid)
        except (msgspec.MsgspecError, ValueError) as error:
            return {"ordinal": i, "kind": "poison", "cause": "broken JSON", "detail": str(error), "value": text}
        base = {"ordinal": i, "xid": xid, "csn": csn, "transaction_id": f"{xid}:{csn}", "value": text}
        if topic == self._topic:
            counts: dict[str, int] = {}
            for c in m.data_collections or ():
                name = self._short.get(c["data_collection"].rsplit(".", 1)[-1])
                if name:
                    counts[name] = counts.get(name, 0) + c["event_count"]
            return {**base, "kind": "metadata", "expected": list(counts.items()), "event_count": m.event_count, "committed_at": _instant(m.tx_ts)}
        payload = zlib.crc32(bytes(m.before)) << 31 ^ zlib.crc32(bytes(m.after)) ^ zlib.crc32(str(m.op_type).encode())
        return {
            **base, "kind": "row", "pos": int(str(m.pos)), "identity": str(m.pos), "payload": payload, "source_table": m.table,
            "table": self._names.get(str(m.table)), "op": str(m.op_type).upper(), "committed_at": _instant(m.op_ts),
        }


def _instant(raw: msgspec.Raw) -> datetime | None:
    if raw is None:
        return None
    text = msgspec.json.decode(raw)
    try:
        return datetime.fromisoformat(text).replace(tzinfo=UTC) if isinstance(text, str) else datetime.fromtimestamp(text / 1000, UTC)
    except (ValueError, TypeError):
        return None
