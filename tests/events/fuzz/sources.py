"""Whole messages of every format, of a table with a column of each type: what the fuzzer then spoils."""

import json
from typing import Any

from txloom.config.load import find
from txloom.config.models.column_types import parse
from txloom.config.models.pipeline import Column, Pipeline, Table
from txloom.config.models.source import ChangeSets, Source

TYPES = {
    "id": "long", "number": "int", "money": "decimal(9,2)", "large": "decimal(38,10)", "ratio": "double",
    "single": "float", "flag": "boolean", "day": "date", "at": "timestamp", "instant": "timestamptz", "clock": "time",
    "guid": "uuid", "bytes": "binary", "doc": "json", "text": "string", "list": "array<int>",
}  # fmt: skip
VALUES = {
    "id": 1, "number": "2", "money": "12.50", "large": "12345678901234567890.5", "ratio": 1.5, "single": "2.5",
    "flag": True, "day": "2026-11-21", "at": "2026-11-21 10:11:12.123456", "instant": "2026-11-21 10:11:12Z",
    "clock": "10:11:12", "guid": "123e4567-e89b-12d3-a456-426614174000", "bytes": "00ff", "doc": {"a": [1, None]},
    "text": "é\u2028😀", "list": [1, None, 3],
}  # fmt: skip
DEBEZIUM = VALUES | {"day": 20_000, "at": 1_795_230_201_314_108, "clock": 3_600_000_000, "bytes": "AP8=", "doc": "{}"}
SCHEMA = {
    "type": "struct",
    "fields": [
        {
            "field": name,
            "type": "struct",
            "fields": [
                {"field": "at", "type": "int64", "name": "io.debezium.time.MicroTimestamp"},
                {"field": "money", "type": "bytes", "name": "org.apache.kafka.connect.data.Decimal"}
                | {"parameters": {"scale": "2"}},
                {"field": "list", "type": "array", "items": {"type": "int32"}},
            ],
        }
        for name in ("before", "after")
    ]
    + [{"field": "op", "type": "string"}],
}
TABLE = Table(
    name="wide",
    source="shop.wide",
    columns=tuple(Column(name=name, type=parse(kind)) for name, kind in TYPES.items()),
    key=("id",),
    undeclared_columns="evolve",
)
NOTES = Table(name="notes", source="shop.notes", columns=(Column(name="note", type=parse("string")),), key="none")
TABLES = (TABLE, NOTES)
ROWS, METADATA = "wide", "tx"
SOURCES = {
    "postgresql": {"connector": "postgresql", "db": "d", "schema": "shop", "table": "wide", "lsn": 31_368_536},
    "mysql": {"connector": "mysql", "db": "shop", "table": "wide", "file": "mysql-bin.000003", "pos": 1234, "row": 0},
    "oracle": {"connector": "oracle", "db": "D", "schema": "SHOP", "table": "WIDE", "scn": "7", "commit_scn": "9"},
    "sqlserver": {"connector": "sqlserver", "db": "d", "schema": "shop", "table": "wide"}
    | {"change_lsn": "00000025:00000d98:00a2", "commit_lsn": "00000025:00000d98:00a3", "event_serial_no": 1},
}
IDS = {"postgresql": "776:31368536", "mysql": "file=mysql-bin.000003,pos=1234", "oracle": "5.6.641"} | {
    "sqlserver": "00000025:00000d98:00a3"
}


def pipeline(form: str, **source: Any) -> Pipeline:
    """Return a pipeline of a format that watches the two tables."""
    topic = METADATA if form in ("goldengate", "debezium") else None
    read = {"format": form, "files": {"path": "/inbox"}, "transaction_topic": topic, **source}
    return find("orders").model_copy(update={"source": Source.model_validate(read), "tables": TABLES})


def goldengate() -> list[tuple[str, Any]]:
    """Return (topic, message) of rows and metadata."""
    row = {
        "table": "SHOP.WIDE",
        "op_ts": "2025-07-07 23:33:54.000000",
        "pos": "00000000110009047521",
        "csn": "334516829",
    }
    row |= {"xid": "1.2.3", "tokens": {"RUN": "7"}}
    upper = {name.upper(): value for name, value in VALUES.items()}
    rows = [
        {**row, "op_type": "I", "before": None, "after": upper},
        {**row, "op_type": "U", "before": {"ID": 1, "TEXT": "a"}, "after": {"ID": 2, "TEXT_isMissing": True}},
        {**row, "op_type": "D", "before": upper},
        {**row, "op_type": "T"},
        {**row, "op_type": "I", "table": "SHOP.NOTES", "after": {"NOTE": "a"}},
    ]
    counts = [{"data_collection": "WIDE", "event_count": 2}, {"data_collection": "OTHER", "event_count": 1}]
    metadata = {"xid": "1.2.3", "csn": "334516829", "tx_ts": 1_751_931_234_000, "event_count": 4}
    return [(ROWS, each) for each in rows] + [(METADATA, {**metadata, "data_collections": counts})]


def debezium() -> list[tuple[str, Any]]:
    """Return (topic, message) of rows of all connectors, with and without a schema around them, and of END."""
    sent: list[tuple[str, Any]] = []
    for name, source in SOURCES.items():
        block = {"id": IDS[name], "total_order": 3, "data_collection_order": 1}
        row = {"source": {**source, "ts_ms": 1_795_230_201_314, "snapshot": "false"}, "transaction": block, "ts_ms": 1}
        images = {"c": (None, DEBEZIUM), "u": ({"id": 1}, DEBEZIUM), "d": (DEBEZIUM, None), "t": (None, None)}
        for op, (before, after) in images.items():
            sent.append((ROWS, {**row, "op": op, "before": before, "after": after}))
        sent.append((ROWS, {**row, "op": "r", "before": None, "after": DEBEZIUM, "transaction": None}))
        counts = [{"data_collection": "shop.wide", "event_count": 2}]
        end = {"status": "END", "id": IDS[name], "ts_ms": 1, "event_count": 2, "data_collections": counts}
        sent += [(METADATA, end), (METADATA, {**end, "status": "BEGIN"})]
    return sent + [(topic, {"schema": SCHEMA, "payload": message}) for topic, message in sent]


def wal2json() -> list[tuple[str, Any]]:
    """Return (topic, message) of a transaction's lines in format-version 2."""
    cells = [{"name": name, "type": "text", "value": value} for name, value in VALUES.items()]
    key = [{"name": "id", "type": "bigint", "value": 1}]
    row = {"xid": 7, "lsn": "0/11", "timestamp": "2026-11-21 10:11:12+00", "schema": "shop", "table": "wide"}
    begin, commit = ({"action": action, "xid": 7, "lsn": "0/10", "nextlsn": "0/20"} for action in "BC")
    rows = [{**row, "action": "I", "columns": cells}, {**row, "action": "U", "columns": cells, "identity": key}]
    rows += [{**row, "action": "D", "identity": key}, {**row, "action": "T"}, {"action": "M", "content": "a"}]
    return [(ROWS, message) for message in (begin, *rows, commit)]


def wal2json_v1() -> Any:
    """Return a transaction in format-version 1."""
    names, kinds = list(VALUES), ["text"] * len(VALUES)
    columns = {"columnnames": names, "columntypes": kinds, "columnvalues": list(VALUES.values())}
    old = {"oldkeys": {"keynames": ["id"], "keytypes": ["bigint"], "keyvalues": [1]}}
    row = {"schema": "shop", "table": "wide"}
    changes = [{"kind": "insert", **row, **columns}, {"kind": "update", **row, **columns, **old}]
    changes += [{"kind": "delete", **row, **old}, {"kind": "message", "content": "a"}]
    return {"xid": 7, "nextlsn": "0/20", "timestamp": "2026-11-21 10:11:12+00", "change": changes}


def change_events() -> list[tuple[str, Any]]:
    """Return (topic, message) of each kind of change."""
    columns = {"columnNames": list(VALUES), "columnValues": list(VALUES.values())}
    old = {"oldKeyNames": ["id"], "oldKeyValues": [1]}
    kinds = {"insert": columns, "update": columns | old, "delete": old, "truncate": {}}
    at = {"timestamp": "2026-11-21 10:11:12.5", "table": "shop.wide"}
    return [(ROWS, {"changeType": kind, **at, **more}) for kind, more in kinds.items()]


def change_sets() -> list[tuple[str, Any]]:
    """Return (topic, message) of rows with each flag, with what a transaction needs too."""
    system_columns = {"CDC_TIMESTAMP": "2026-11-21 10:11:12.5", "TX": 7, "SEQ": 1}
    return [(ROWS, {"FLAG": flag, **system_columns, **VALUES}) for flag in "IUDH"]


PIPELINES = {
    "goldengate": pipeline("goldengate", run_token="RUN", unknown_tables="dead_letter"),
    "debezium": pipeline("debezium", debezium={"time_unit": "adaptive"}),
    "wal2json": pipeline("wal2json"),
    "change_events": pipeline("change_events", unknown_tables="dead_letter"),
    "change_sets": pipeline("change_sets"),
    "change_sets_of_transactions": pipeline("change_sets", change_sets=ChangeSets(transaction="TX", sequence="SEQ")),
}
MESSAGES = {
    "goldengate": goldengate(),
    "debezium": debezium(),
    "wal2json": wal2json(),
    "change_events": change_events(),
    "change_sets": change_sets(),
    "change_sets_of_transactions": change_sets(),
}


def text(message: Any) -> str:
    """Write a message as its producer does."""
    return json.dumps(message, separators=(",", ":"), ensure_ascii=False)
