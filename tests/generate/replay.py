"""Naive readers of what was generated, by what is known of the formats; they know nothing of the generator."""

import base64
import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv

from oracle.capture import Image, Key
from oracle.declarations import TABLES
from oracle.values import typed_state

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
UNAVAILABLE = "__debezium_unavailable_value"
State = dict[str, dict[Key, Image]]


@dataclass(frozen=True)
class Event:
    """A change of a watched row: old key and new values; a column that is not there is unchanged."""

    table: str
    op: str
    old: Key | None
    new: Image | None


Versions = list[tuple[int, list[Event]]]
"""Transactions in commit order, with the csn of each."""


def lines(folder: Path, topic: str) -> list[bytes]:
    """Return all lines of a topic, file by file."""
    content = b"".join(file.read_bytes() for file in sorted((folder / topic).iterdir()))
    return content.split(b"\n")[:-1]


def topics(folder: Path) -> list[str]:
    """Return the topics below a folder, as a pipeline sees them."""
    return sorted(path.name for path in folder.iterdir() if not path.name.startswith(("_", ".")))


def states(names_of: Versions) -> Iterator[tuple[int, State]]:
    """Yield csn and state after every transaction; the state is one and the same object."""
    state: State = {name: {} for name in TABLES}
    for csn, events in names_of:
        for event in events:
            apply(state[event.table], event)
        yield csn, state


def final(versions: Versions) -> dict[str, Any]:
    """Return the last state, typed."""
    state: State = {name: {} for name in TABLES}
    for event in (event for _, events in versions for event in events):
        apply(state[event.table], event)
    return typed_state(state)


def truth(folder: Path) -> dict[str, Any]:
    """Return the rows that the generator wrote down, typed."""
    state: State = {}
    for name, table in TABLES.items():
        rows = [json.loads(line) for line in (folder / f"{name}.jsonl").read_text().split("\n")[:-1]]
        state[name] = {tuple(row[column] for column in table.key): row for row in rows}
        assert len(state[name]) == len(rows)
    return typed_state(state)


def goldengate(folder: Path) -> Versions:
    """Read rows by transaction and position, and require what the metadata counts."""
    metadata_topic = "dev.transaction_metadata_json"
    rows: dict[str, dict[int, dict[str, Any]]] = defaultdict(dict)
    for topic in topics(folder):
        for line in lines(folder, topic) if topic != metadata_topic else ():
            row = json.loads(line)
            rows[row["xid"]][int(row["pos"])] = row
    versions = []
    for line in lines(folder, metadata_topic):
        metadata = json.loads(line)
        changes = [row for _, row in sorted(rows.pop(metadata["xid"], {}).items())]
        assert {row["csn"] for row in changes} <= {metadata["csn"]}
        counts = Counter(row["table"].removeprefix("PUBLIC.") for row in changes)
        assert counts == {part["data_collection"]: part["event_count"] for part in metadata["data_collections"]}
        assert metadata["event_count"] == len(changes)
        events = [_goldengate_event(row) for row in changes if row["table"] != "PUBLIC.AUDIT_LOG"]
        versions.append((int(metadata["csn"]), events))
    assert not rows
    return sorted(versions, key=lambda each: each[0])


def wal2json(folder: Path) -> Versions:
    """Read one stream, in which transactions are whole and in commit order."""
    versions: Versions = []
    begun: str | None = None
    for line in lines(folder, "wal2json"):
        row = json.loads(line, parse_int=str, parse_float=str)
        if row["action"] == "B":
            begun = row["xid"]
            versions.append((_lsn(row["lsn"]), []))
        elif row["action"] == "C":
            assert row["xid"] == begun and _lsn(row["lsn"]) == versions[-1][0] < _lsn(row["nextlsn"])
            begun = None
        else:
            assert row["xid"] == begun and row["schema"] == "public" and _lsn(row["lsn"]) < versions[-1][0]
            if row["table"] != "audit_log":
                versions[-1][1].append(_wal2json_event(row))
    assert begun is None
    return versions


def debezium(folder: Path) -> Versions:
    """Read records; transactions are joined on the part of their id before the colon, END says csn and counts."""
    rows: dict[str, list[dict[str, Any]]] = defaultdict(list)
    records = [json.loads(line) for topic in topics(folder) for line in lines(folder, topic)]
    ends: dict[str, dict[str, Any]] = {}
    for record in records:
        value = None if record["value"] is None else json.loads(record["value"], parse_float=str)
        if record["topic"] == "dev.transaction":
            if value["status"] == "END":
                ends[value["id"].partition(":")[0]] = value
        elif value is not None:
            rows[value["transaction"]["id"].partition(":")[0]].append(value | {"headers": dict(record["headers"])})
    versions = []
    for xid, end in ends.items():
        topic_records = sorted(rows.pop(xid, []), key=lambda row: row["transaction"]["total_order"])
        assert [row["transaction"]["total_order"] for row in topic_records] == list(range(1, len(topic_records) + 1))
        counts = Counter(f"public.{row['source']['table']}" for row in topic_records)
        assert counts == {part["data_collection"]: part["event_count"] for part in end["data_collections"]}
        csn = int(end["id"].partition(":")[2])
        assert all(
            int(row["transaction"]["id"].partition(":")[2]) == row["source"]["lsn"] < csn for row in topic_records
        )
        versions.append(
            (csn, _debezium_events([row for row in topic_records if row["source"]["table"] != "audit_log"]))
        )
    assert not rows
    return sorted(versions, key=lambda each: each[0])


def change_events(folder: Path) -> Versions:
    """Read events in the order of their timestamps."""
    versions = []
    for topic in topics(folder):
        for line in lines(folder, topic):
            event = json.loads(line)
            op = event["changeType"][0].upper()
            old = None if event["oldKeyNames"] is None else tuple(event["oldKeyValues"])
            new = None if op == "D" else dict(zip(event["columnNames"], event["columnValues"], strict=True))
            versions.append((_micros(event["timestamp"]), [Event(topic.removeprefix("public."), op, old, new)]))
    return _watched(versions)


def change_sets(folder: Path) -> Versions:
    """Read rows in the order of their timestamps."""
    versions = []
    for topic in topics(folder):
        table = topic.removeprefix("public.")
        for row in _change_set(folder, topic):
            op, at = row.pop("FLAG"), _micros(str(row.pop("CDC_TIMESTAMP")))
            key = tuple(str(row[name]) for name in TABLES[table].key) if table in TABLES else None
            versions.append((at, [Event(table, op, None if op == "I" else key, None if op == "D" else row)]))
    return _watched(versions)


READERS = {
    "goldengate": goldengate,
    "debezium": debezium,
    "wal2json": wal2json,
    "change_events": change_events,
    "change_sets": change_sets,
}


def apply(rows: dict[Key, Image], event: Event) -> None:
    """Change a table's rows as an event says, and require that it can."""
    table = TABLES[event.table]
    if event.op == "T":
        rows.clear()
    elif event.op == "D":
        assert event.old is not None
        del rows[event.old]
    elif event.op == "I":
        assert event.new is not None
        key = tuple(str(event.new[name]) for name in table.key)
        assert key not in rows and event.new.keys() == table.columns.keys()
        rows[key] = event.new
    else:
        assert event.old is not None and event.new is not None
        row = rows.pop(event.old) | event.new
        key = tuple(str(row[name]) for name in table.key)
        assert key not in rows
        rows[key] = row


def _goldengate_event(row: dict[str, Any]) -> Event:
    table = row["table"].removeprefix("PUBLIC.").lower()
    before, after = ({name.lower(): value for name, value in row.get(part, {}).items()} for part in ("before", "after"))
    old = tuple(before[name] for name in TABLES[table].key) if "before" in row else None
    return Event(table, row["op_type"], old, after if "after" in row else None)


def _wal2json_event(row: dict[str, Any]) -> Event:
    table = row["table"]
    identity = {column["name"]: column["value"] for column in row.get("identity", ())}
    old = tuple(str(identity[name]) for name in TABLES[table].key) if identity else None
    new = {column["name"]: _text(column["value"]) for column in row["columns"]} if "columns" in row else None
    return Event(table, row["action"], old, new)


def _text(value: Any) -> str | None:
    return str(value).lower() if isinstance(value, bool) else value


def _lsn(text: str) -> int:
    high, _, low = text.partition("/")
    return int(high, 16) << 32 | int(low, 16)


def _debezium_events(rows: Iterable[dict[str, Any]]) -> list[Event]:
    """Return a transaction's events; a delete and the insert that names its key are one update of the key."""
    events: list[Event] = []
    for row in rows:
        table, op = row["source"]["table"], row["op"]
        key = TABLES[table].key
        old_key = row["headers"].get("__debezium.oldkey")
        if "__debezium.newkey" in row["headers"]:
            continue
        before, after = (_debezium_image(table, row[part]) for part in ("before", "after"))
        if op == "t":
            events.append(Event(table, "T", None, None))
        elif op == "d":
            assert before is not None
            events.append(Event(table, "D", tuple(str(before[name]) for name in key), None))
        elif op == "c" and old_key is None:
            events.append(Event(table, "I", None, after))
        else:
            assert after is not None
            key_values = after if old_key is None else {name: str(value) for name, value in json.loads(old_key).items()}
            new = {name: value for name, value in after.items() if value != UNAVAILABLE}
            events.append(Event(table, "U", tuple(str(key_values[name]) for name in key), new))
    return events


def _debezium_image(table: str, image: dict[str, Any] | None) -> Image | None:
    if image is None:
        return None
    return {name: _debezium_text(TABLES[table].columns[name], value) for name, value in image.items()}


def _debezium_text(declared: str, value: Any) -> str | None:
    """Write a value as PostgreSQL does."""
    if value is None or value == UNAVAILABLE:
        return value  # type: ignore[no-any-return]
    if declared == "date":
        return str(date(1970, 1, 1) + timedelta(days=value))
    if declared == "timestamp":
        return str((EPOCH + timedelta(microseconds=value)).replace(tzinfo=None))
    if declared == "time":
        text = str((EPOCH + timedelta(microseconds=value)).time())
        return text.rstrip("0") if "." in text else text
    if declared == "binary":
        return base64.b64decode(value).hex()
    if declared.startswith("array"):
        return (
            "{"
            + ",".join("NULL" if each is None else json.dumps(str(each), ensure_ascii=False) for each in value)
            + "}"
        )
    return str(value).lower() if isinstance(value, bool) else str(value)


def _change_set(folder: Path, topic: str) -> list[dict[str, Any]]:
    options = pa.csv.ConvertOptions(null_values=[""], strings_can_be_null=True, quoted_strings_can_be_null=False)
    events: list[dict[str, Any]] = []
    for file in sorted((folder / topic).iterdir()):
        if file.suffix == ".jsonl":
            rows = [json.loads(line, parse_int=str, parse_float=str) for line in file.read_bytes().split(b"\n")[:-1]]
            events += [{name: _text(value) for name, value in row.items()} for row in rows]
            continue
        options.column_types = dict.fromkeys(file.read_text().partition("\n")[0].split(","), pa.string())
        parsing = pa.csv.ParseOptions(newlines_in_values=True)
        events += pa.csv.read_csv(file, parse_options=parsing, convert_options=options).to_pylist()
    return events


def _micros(text: str) -> int:
    return (datetime.fromisoformat(text).replace(tzinfo=UTC) - EPOCH) // timedelta(microseconds=1)


def _watched(versions: Versions) -> Versions:
    assert len({csn for csn, _ in versions}) == len(versions)
    return sorted([each for each in versions if each[1][0].table in TABLES], key=lambda each: each[0])
