"""The declaration of expectations: what must hold before tables are published, and what a failure does."""

from typing import Annotated, Any, Literal

from pydantic import Field

from txloom.config.models.base import Model
from txloom.config.models.fields import ColumnName, Duration, LowerName, Statement, TableName, Text, Whole

Severity = Literal["block", "warn", "info"]
Judge = Literal["on_failure", "always"]
FindingCode = Literal[
    "column added",
    "column dropped",
    "column renamed",
    "rows changed without events",
    "row was never seen",
    "key is not unique",
    "transactions are grouped",
    "deletes are not counted",
    "operations are not counted",
    "no images before",
    "short names collide",
    "csn jumped back",
    "transaction id came again",
    "rebuilt from two producer runs",
    "nulls are left out",
    "records were lost",
    "column is not in the extract",
    "table is not in the extract",
    "document has several children of one",
    "came too late for its history",
    "file cannot be read",
    "counts changed after release",
    "two producer runs overlap",
    "snapshot was taken twice",
    "rows were read again",
    "differs from the source",
    "documents differ from their rows",
    "history is not complete",
    "snapshot request makes no progress",
]
"""The codes of `txloom.quality.findings`."""

Id = Annotated[LowerName, Field(description="A stable name of the expectation, and of its task")]
Failing = Annotated[Severity, Field(description="What a failure does: block stops the run before it publishes")]
Sentence = Annotated[Text, Field(description="What must hold, in the words of the business")]
Hint = Annotated[Text, Field(description="What the person on call should look at first")]


class OrphanExpectation(Model):
    """Expects that every child row has its parent."""

    kind: Annotated[Literal["orphans"], Field(description="The kind of expectation")]
    id: Id
    child: Annotated[TableName, Field(description="The watched table whose rows need a parent")]
    parent: Annotated[TableName, Field(description="The watched table that holds the parents")]
    parent_key: Annotated[
        tuple[ColumnName, ...],
        Field(description="A list of the child's columns that hold the parent's key, in its order", min_length=1),
    ]
    severity: Failing
    sentence: Sentence
    hint: Hint


class StuckExpectation(Model):
    """Expects that no transaction waits in the buffer for long."""

    kind: Annotated[Literal["stuck_transactions"], Field(description="The kind of expectation")]
    id: Id
    older_than: Annotated[Duration, Field(description="How long a transaction may wait until it is stuck, such as 10m")]
    severity: Failing
    sentence: Sentence
    hint: Hint


class DeadLetterExpectation(Model):
    """Expects that few dead letters are open."""

    kind: Annotated[Literal["dead_letters"], Field(description="The kind of expectation")]
    id: Id
    at_most: Annotated[Whole, Field(description="How many open dead letters are all right")] = 0
    severity: Failing
    sentence: Sentence
    hint: Hint


class LedgerExpectation(Model):
    """Expects that every landed event is accounted for."""

    kind: Annotated[Literal["unbalanced_ledger"], Field(description="The kind of expectation")]
    id: Id
    severity: Failing
    sentence: Sentence
    hint: Hint


class VersionExpectation(Model):
    """Expects that the version of a row never falls in commit order."""

    kind: Annotated[Literal["version_regressions"], Field(description="The kind of expectation")]
    id: Id
    table: Annotated[TableName, Field(description="A mirrored table that declares its version")]
    severity: Failing
    sentence: Sentence
    hint: Hint


class ValidThroughExpectation(Model):
    """Expects that what readers see is not old, by the source's clock; a source that is idle makes it old too."""

    kind: Annotated[Literal["valid_through_age"], Field(description="The kind of expectation")]
    id: Id
    older_than: Annotated[Duration, Field(description="How old the newest commit that readers see may be, such as 1h")]
    severity: Failing
    sentence: Sentence
    hint: Hint


class SnapshotAgeExpectation(Model):
    """Expects that extracts keep coming; for the format snapshots."""

    kind: Annotated[Literal["snapshot_age"], Field(description="The kind of expectation")]
    id: Id
    older_than: Annotated[Duration, Field(description="How long ago the newest landed date may have begun, such as 2d")]
    severity: Failing
    sentence: Sentence
    hint: Hint


class DriftExpectation(Model):
    """Expects that no finding is open that says that tables may differ from the source."""

    kind: Annotated[Literal["drift"], Field(description="The kind of expectation")]
    id: Id
    codes: Annotated[
        tuple[FindingCode, ...],
        Field(description="A list of the codes of findings that fail it; by default all that need a snapshot"),
    ] = ()
    severity: Failing
    sentence: Sentence
    hint: Hint


class GreatExpectation(Model):
    """Expects of a current table what one of Great Expectations' own expectations says."""

    kind: Annotated[Literal["great_expectation"], Field(description="The kind of expectation")]
    id: Id
    table: Annotated[TableName, Field(description="A current table, of a mirror or of documents")]
    expectation: Annotated[
        Text, Field(description="The class of Great Expectations, such as ExpectColumnValuesToNotBeNull")
    ]
    arguments: Annotated[
        dict[str, Any], Field(description="What the class takes, such as {column: order_id, mostly: 0.99}")
    ] = Field(default_factory=dict)
    where: Annotated[Statement | None, Field(description="The rows that are judged, as a condition in SQL")] = None
    severity: Failing
    sentence: Sentence
    hint: Hint


class InvariantExpectation(Model):
    """Expects that a query finds no row: what holds at every commit of the source holds at every cut."""

    kind: Annotated[Literal["invariant"], Field(description="The kind of expectation")]
    id: Id
    sql: Annotated[
        Statement, Field(description="A query over the current tables, by their names, that returns the rows that fail")
    ]
    severity: Failing
    sentence: Sentence
    hint: Hint


Expectation = Annotated[
    OrphanExpectation
    | StuckExpectation
    | DeadLetterExpectation
    | LedgerExpectation
    | VersionExpectation
    | ValidThroughExpectation
    | SnapshotAgeExpectation
    | DriftExpectation
    | GreatExpectation
    | InvariantExpectation,
    Field(discriminator="kind"),
]
