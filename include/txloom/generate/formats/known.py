"""The formats that can be generated, with their default options."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from txloom.errors import ConfigurationError
from txloom.generate.formats.change_events import ChangeEventWriter
from txloom.generate.formats.change_sets import ChangeSetWriter
from txloom.generate.formats.debezium import DebeziumWriter
from txloom.generate.formats.goldengate import GoldenGateWriter
from txloom.generate.formats.messages import Writer
from txloom.generate.formats.wal2json import Wal2JsonWriter

VALUES, RECORDS, CSV = "values", "records", "csv"


@dataclass(frozen=True)
class Format:
    """A format's layouts, the default first, and its default topics."""

    layouts: tuple[str, ...]
    topic: str
    transaction_topic: str | None = None


FORMATS = {
    "goldengate": Format((VALUES, RECORDS), "dev.{schema}.{table}.json", "dev.transaction_metadata_json"),
    "debezium": Format((RECORDS, VALUES), "dev.{schema}.{table}", "dev.transaction"),
    "wal2json": Format((VALUES, RECORDS), "wal2json"),
    "change_events": Format((VALUES, RECORDS), "{schema}.{table}"),
    "change_sets": Format((CSV, VALUES), "{schema}.{table}"),
}


def completed(shape: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a format, with defaults for those that are not given or None.

    Raises:
        ConfigurationError: The layout or a topic does not fit the format.
    """
    name = shape["format"]
    format_ = FORMATS[name]
    given = {key: value for key, value in shape.items() if value is not None}
    options = {
        "layout": format_.layouts[0],
        "topic": format_.topic,
        "transaction_topic": format_.transaction_topic,
    } | given
    if options["layout"] not in format_.layouts:
        raise ConfigurationError(
            f"--layout: found {options['layout']}, but {name} has {' and '.join(format_.layouts)}."
        )
    if format_.transaction_topic is None and options["transaction_topic"] is not None:
        raise ConfigurationError(f"--transaction-topic: found {options['transaction_topic']!r}, but {name} has none.")
    try:
        topics = {options["topic"].format(schema="schema", table=table) for table in ("one", "other")}
    except (KeyError, IndexError, ValueError):
        topics = set()
    parts = 1 if name == "wal2json" else 2
    if len(topics) != parts or any(not topic or set(topic) & set("/\\\0") or topic[0] in "._" for topic in topics):
        expected = "one topic for all tables" if parts == 1 else "a name with {table} in it, and perhaps {schema}"
        raise ConfigurationError(f"--topic: found {options['topic']!r}, expected {expected}.")
    return options


def new_writer(shape: Mapping[str, Any]) -> Writer:
    """Return the writer of a format; shape: its options, as `completed` returns them."""
    name, topic, schema, metadata_topic = (shape[key] for key in ("format", "topic", "schema", "transaction_topic"))
    if name == "goldengate":
        return GoldenGateWriter(topic, schema, metadata_topic)
    if name == "debezium":
        return DebeziumWriter(topic, schema, metadata_topic, shape["seed"])
    if name == "wal2json":
        return Wal2JsonWriter(topic, schema)
    if name == "change_events":
        return ChangeEventWriter(topic, schema)
    return ChangeSetWriter(topic, schema, "csv" if shape["layout"] == CSV else "values")
