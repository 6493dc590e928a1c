"""The declaration of a source, as frozen models: files or Kafka, and the options of each format."""

from collections.abc import Iterable
from datetime import timedelta
from typing import Annotated, Literal

from pydantic import Field, PrivateAttr

from txloom.config.models.base import Model
from txloom.config.models.fields import Count, Duration, Folder, SourceColumn, SourceTable, Text, Topic, Wait


class Files(Model):
    """Folders of files that a producer appends to."""

    path: Annotated[
        Folder, Field(description="The folder with a sub-folder for each topic; relative to the project root")
    ]
    settle: Annotated[
        Wait,
        Field(
            description="How long a file without a final newline must be unchanged to count as whole; if its last line "
            "is not valid JSON, it must be unchanged for completeness.patience too"
        ),
    ] = timedelta(seconds=60)
    layout: Annotated[
        Literal["values", "records"],
        Field(
            description="What a line holds; values: a message, records: an object with a message's `value` as text "
            "and its `headers`, as tools write that copy topics into files"
        ),
    ] = "values"


class Kafka(Model):
    """Topics of Kafka brokers."""

    brokers: Annotated[Text, Field(description="The brokers to begin with, such as kafka-1:9092,kafka-2:9092")]
    topics: Annotated[
        tuple[Topic, ...],
        Field(description="A list of the topics that carry rows; the transaction topic comes by itself", min_length=1),
    ]
    options: Annotated[
        dict[Text, Text],
        Field(description="Settings of the client (librdkafka's names), such as {security.protocol: SASL_SSL}"),
    ] = Field(default_factory=dict)
    messages_per_run: Annotated[Count, Field(description="How many records one run lands at most")] = 5_000_000


class Debezium(Model):
    """How a Debezium connector writes values, where messages carry no schema that says so."""

    database: Annotated[
        Literal["postgresql", "mysql", "mariadb", "oracle", "sqlserver"] | None,
        Field(
            description="The source database: with time_precision_mode it determines the unit of numbers in time "
            "columns"
        ),
    ] = None
    time_precision_mode: Annotated[
        Literal["adaptive", "adaptive_time_microseconds", "connect", "isostring", "microseconds", "nanoseconds"] | None,
        Field(description="The connector's time.precision.mode; by default the one that its database has"),
    ] = None
    time_unit: Annotated[
        Literal["adaptive", "millis", "nanos", "connect"] | None,
        Field(description="The unit of all timestamps and times, instead of both; adaptive: microseconds"),
    ] = None
    binary_mode: Annotated[
        Literal["base64", "hex"], Field(description="How binary values are written: binary.handling.mode")
    ] = "base64"


class Signals(Model):
    """How a Debezium connector is asked to read tables anew, and where it says how far it is."""

    topic: Annotated[
        Topic, Field(description="The topic that the connector takes signals from: its signal.kafka.topic")
    ]
    notifications: Annotated[
        Topic, Field(description="The topic that the connector notifies: its notification.sink.topic.name")
    ]
    prefix: Annotated[
        Text | None,
        Field(description="The connector's topic.prefix; by default what transaction_topic has before .transaction"),
    ] = None
    watermarks: Annotated[
        Text | None,
        Field(
            description="The table in which the connector keeps the watermarks of its chunks, with the table's schema: "
            "the connector's signal.data.collection. If it is declared for PostgreSQL, rows of incremental snapshots "
            "do not wait for a later commit"
        ),
    ] = None
    answer_within: Annotated[
        Duration,
        Field(
            description="How long a request may make no progress before a finding says so, such as 2h; progress is a "
            "notification of the connector, or the request's next state"
        ),
    ] = timedelta(hours=1)


class ChangeSets(Model):
    """What the fields of change sets are called."""

    flag: Annotated[SourceColumn, Field(description="The field that says I, U or D")] = "FLAG"
    timestamp: Annotated[
        SourceColumn,
        Field(description="The field that says when a change was made; it orders changes that stand alone"),
    ] = "CDC_TIMESTAMP"
    transaction: Annotated[
        SourceColumn | None,
        Field(description="The field with the id of the source's transaction, a number that grows; for progress"),
    ] = None
    sequence: Annotated[
        SourceColumn | None,
        Field(
            description="The field that numbers the changes of a transaction; without it their position orders them, "
            "and equal rows count by how often they come in a file"
        ),
    ] = None


class Snapshots(Model):
    """What extracts hold, of the format snapshots."""

    extracts: Annotated[
        Literal["full", "partial"],
        Field(
            description="What a row that an extract does not have means; full: it was deleted, partial: it was not "
            "supplied and stays as it is"
        ),
    ]

    @property
    def is_full(self) -> bool:
        """Return whether an extract has all rows of its table."""
        return self.extracts == "full"


Format = Literal["goldengate", "debezium", "wal2json", "change_events", "change_sets", "snapshots"]
EXACT = ("debezium", "wal2json")
"""The formats in which names that differ only in case are two tables: names are spelled as in the source's catalog."""


class Source(Model):
    """Where change events come from."""

    format: Annotated[Format, Field(description="The format of the messages")]
    files: Annotated[Files | None, Field(description="Folders of files that hold one message a line")] = None
    kafka: Annotated[Kafka | None, Field(description="Topics of Kafka brokers, instead of files")] = None
    transaction_topic: Annotated[
        Topic | None, Field(description="The topic that carries the transaction metadata; goldengate and debezium")
    ] = None
    debezium: Annotated[Debezium, Field(description="How values are written, of the format debezium")] = Debezium()
    signals: Annotated[
        Signals | None,
        Field(description="How the connector is asked for snapshots of tables, of the format debezium over Kafka"),
    ] = None
    change_sets: Annotated[ChangeSets, Field(description="What fields are called, of the format change_sets")] = (
        ChangeSets()
    )
    snapshots: Annotated[Snapshots | None, Field(description="What extracts hold, of the format snapshots")] = None
    unknown_tables: Annotated[
        Literal["count", "dead_letter"],
        Field(description="What becomes of rows of tables that are neither watched nor ignored"),
    ] = "count"
    ignored_tables: Annotated[
        tuple[SourceTable, ...],
        Field(description="Source tables that are left alone, such as PUBLIC.AUDIT_LOG"),
    ] = ()
    max_message_bytes: Annotated[
        Count,
        Field(description="The most bytes that a message may have; a larger one becomes a dead letter, cut"),
    ] = 32 << 20
    run_token: Annotated[
        Text | None,
        Field(description="The token in row messages that names the producer's run, such as a process id"),
    ] = None

    _former: tuple["Source", ...] = PrivateAttr(())

    @property
    def former(self) -> tuple["Source", ...]:
        """Return the source as it was declared before, newest first; only of a pipeline with what its lake knows."""
        return self._former

    def with_former(self, former: Iterable["Source"]) -> "Source":
        """Return the source with what it was declared as before, newest first."""
        copy = self.model_copy()
        copy._former = tuple(former)
        return copy
