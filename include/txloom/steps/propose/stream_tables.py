"""Tables of a declaration out of a sample of a stream: what its messages say of columns, types and keys."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from txloom.steps.propose.database_types import proposed
from txloom.steps.propose.proposal import Column, Table, fit
from txloom.steps.propose.sampled_types import sampled_type
from txloom.steps.propose.samples import Sample

Message = Mapping[str, Any]
NO_KEY = "no message says what the key is: inserts only"
CONNECT = {
    "int8": "int", "int16": "int", "int32": "int", "int64": "long", "float32": "float", "float": "float",
    "float64": "double", "double": "double", "boolean": "boolean", "string": "string", "bytes": "binary",
}  # fmt: skip
"""Types of Kafka Connect, as its JSON converter names them."""
SEMANTIC = {
    "org.apache.kafka.connect.data.Date": "date",
    "org.apache.kafka.connect.data.Time": "time",
    "org.apache.kafka.connect.data.Timestamp": "timestamp",
    "io.debezium.time.Date": "date",
    "io.debezium.time.Time": "time",
    "io.debezium.time.MicroTime": "time",
    "io.debezium.time.NanoTime": "time",
    "io.debezium.time.Timestamp": "timestamp",
    "io.debezium.time.MicroTimestamp": "timestamp",
    "io.debezium.time.NanoTimestamp": "timestamp",
    "io.debezium.time.ZonedTimestamp": "timestamptz",
    "io.debezium.data.Uuid": "uuid",
    "io.debezium.data.Json": "json",
}
DECIMAL = "org.apache.kafka.connect.data.Decimal"
SOURCE_TYPE = "__debezium.source.column.type"


def wal2json_tables(sample: Sample) -> list[Table]:
    """Return the tables of a stream of wal2json, whose messages have PostgreSQL's types, and keys with include-pk."""
    columns: dict[str, dict[str, str]] = defaultdict(dict)
    keys: dict[str, tuple[list[str], str]] = {}
    for message in _expanded(each for messages in sample.topics.values() for each in messages):
        name = f"{message.get('schema')}.{message.get('table')}"
        if message.get("columns"):
            columns[name] |= {each["name"]: each["type"] for each in message["columns"]}
        if message.get("pk"):
            keys[name] = [each["name"] for each in message["pk"]], ""
        elif name not in keys and 0 < len(message.get("identity") or ()) < len(columns[name]):
            keys[name] = [each["name"] for each in message["identity"]], "it is the replica identity"
    tables = []
    for name in sorted(columns):
        types = {column: proposed(kind) for column, kind in columns[name].items()}
        key, guess = keys.get(name, ([], NO_KEY))
        made = [Column(each, kind.type, kind.guess) for each, kind in types.items()]
        tables.append(fit(Table(name, made, key, guess)))
    return tables


def _expanded(messages: Iterable[Message]) -> Iterable[Message]:
    """Yield changes as format-version 2 has them, also of version 1."""
    for message in messages:
        if message.get("action") in ("I", "U", "D"):
            yield message
        for change in message.get("change") or ():
            types = zip(change.get("columnnames", ()), change.get("columntypes", ()), strict=False)
            key = change.get("pk", {}).get("pknames", ())
            old = change.get("oldkeys", {}).get("keynames", ())
            yield {
                "schema": change.get("schema"),
                "table": change.get("table"),
                "columns": [{"name": name, "type": kind} for name, kind in types],
                "pk": [{"name": name} for name in key],
                "identity": [{"name": name} for name in old],
            }


def goldengate_tables(sample: Sample) -> list[Table]:
    """Return the tables of GoldenGate's messages, which name the key, and have all values as text."""
    values: dict[str, dict[str, list[Any]]] = defaultdict(lambda: defaultdict(list))
    keys = dict[str, list[str]]()
    for message in (each for messages in sample.topics.values() for each in messages if "op_type" in each):
        name = str(message["table"])
        for image in (message.get("before"), message.get("after")):
            for column, value in (image or {}).items():
                values[name][column].append(value)
        if message.get("primary_keys"):
            keys[name] = list(message["primary_keys"])
    return [
        fit(Table(name, _sampled(values[name]), keys.get(name, []), "" if name in keys else NO_KEY))
        for name in sorted(values)
    ]


def debezium_tables(sample: Sample) -> list[Table]:
    """Return the tables of Debezium's messages: with types where they carry their schema, else out of values."""
    values: dict[str, dict[str, list[Any]]] = defaultdict(lambda: defaultdict(list))
    types: dict[str, dict[str, tuple[str, str]]] = defaultdict(dict)
    keys = dict[str, list[str]]()
    for topic, messages in sample.topics.items():
        for message in messages:
            body = message.get("payload", message)
            if not isinstance(body, dict) or not isinstance(body.get("source"), dict) or "op" not in body:
                continue
            about = body["source"]
            name = f"{about.get('schema') or about.get('db')}.{about.get('table')}"
            for image in (body.get("before"), body.get("after")):
                for column, value in (image or {}).items():
                    values[name][column].append(value)
            types[name] |= _declared(message.get("schema"), is_postgresql=about.get("connector") == "postgresql")
            if key := next((_key_of(each) for each in sample.keys.get(topic, ()) if _key_of(each)), None):
                keys[name] = key
    tables = []
    for name in sorted(values):
        known = types[name]
        guessed = {column.source: column for column in _sampled(values[name])}
        columns = [Column(each, *known[each]) if each in known else guessed[each] for each in values[name]]
        tables.append(fit(Table(name, columns, keys.get(name, []), "" if name in keys else NO_KEY)))
    return tables


def _key_of(message: Message) -> list[str]:
    body = message.get("payload", message)
    return list(body) if isinstance(body, dict) else []


def _declared(schema: Any, *, is_postgresql: bool) -> dict[str, tuple[str, str]]:
    """Return the types of columns out of the schema that a message carries."""
    fields = schema.get("fields", ()) if isinstance(schema, dict) else ()
    for part in fields:
        if part.get("field") == "after":
            return {each["field"]: _connect_type(each, is_postgresql) for each in part.get("fields", ())}
    return {}


def _connect_type(field: Message, is_postgresql: bool) -> tuple[str, str]:  # noqa: FBT001 - one flag of the source
    """Return the type of a field of Connect's schema, and why it is a guess.

    The type of the source's column, where the connector sends it, is read for PostgreSQL alone: other databases have
    other types of the same name.
    """
    name, parameters = field.get("name", ""), field.get("parameters") or {}
    if is_postgresql and (source := parameters.get(SOURCE_TYPE)):
        length, scale = (parameters.get(f"__debezium.source.column.{part}") for part in ("length", "scale"))
        digits = f"({length},{scale})" if length and scale else ""
        known = proposed(f"{SOURCE_TYPES.get(source.lower(), source.lower())}{digits}")
        if not known.guess:
            return known
    if name == DECIMAL:
        precision = parameters.get("connect.decimal.precision")
        return f"decimal({precision or 38},{parameters.get('scale', 0)})", "" if precision else "say how wide"
    if name in SEMANTIC:
        return SEMANTIC[name], ""
    kind = str(field.get("type", ""))
    if kind == "array":
        element, guess = _connect_type(field.get("items") or {}, is_postgresql)
        guess = "" if element == "string" else guess
        return (f"array<{element}>", guess) if element not in ("json", "binary") else ("json", "")
    if kind == "string" and not name:
        return "string", "text, or a decimal that the connector writes as text"
    if kind in CONNECT:
        return CONNECT[kind], "" if not name else f"{name} stays as it is"
    return "json", f"{name or kind} has parts"


SOURCE_TYPES = {"int2": "smallint", "int4": "integer", "int8": "bigint", "varchar": "text", "bpchar": "text"}
"""Short names of PostgreSQL's types, as Debezium propagates them."""


def _sampled(values: Mapping[str, list[Any]]) -> list[Column]:
    return [Column(name, *sampled_type(seen)) for name, seen in values.items()]
