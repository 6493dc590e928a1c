"""Findings: a closed list of what can be wrong with a source or its producer, each with a hint on what to do.

A finding is a fact with the data that shows it. It does not stop a run. One that needs a snapshot means that rows of a
table may differ from the source's until the table is loaded anew.
"""

from dataclasses import dataclass

ADDED = "column added"
DROPPED = "column dropped"
RENAMED = "column renamed"
CHANGED = "rows changed without events"
UNKNOWN_ROW = "row was never seen"
KEY_TWICE = "key is not unique"
GROUPED = "transactions are grouped"
DELETES_UNCOUNTED = "deletes are not counted"
OPERATIONS_UNCOUNTED = "operations are not counted"
NO_BEFORE = "no images before"
SHORT_NAMES = "short names collide"
CSN_BACK = "csn jumped back"
XID_AGAIN = "transaction id came again"
TWO_RUNS = "rebuilt from two producer runs"
NULLS_OMITTED = "nulls are left out"
LOST = "records were lost"
UNREADABLE = "file cannot be read"
NOT_EXTRACTED = "column is not in the extract"
TABLE_NOT_EXTRACTED = "table is not in the extract"
SEVERAL = "document has several children of one"
UNKNOWN_VALUES = "came too late for its history"
COUNTS_CHANGED = "counts changed after release"
RUNS_OVERLAP = "two producer runs overlap"
TAKEN_TWICE = "snapshot was taken twice"
READ_AGAIN = "rows were read again"
DIFFERS = "differs from the source"
DOCUMENTS_DIFFER = "documents differ from their rows"
INCOMPLETE = "history is not complete"
UNANSWERED = "snapshot request makes no progress"

HINTS = {
    ADDED: "The source has a column that is not declared: declare it, or set undeclared_columns to evolve.",
    DROPPED: "The source's inserts no longer have this column; it is null in every row from that csn on. If the source "
    "renamed it, declare the new name as its `source`, and the former name in `source_aliases`. Otherwise, take the "
    "column out of the declaration.",
    RENAMED: "Inserts have another column instead of this one. If the source renamed it, declare the new name as its "
    "`source`, and the former name in `source_aliases`: the next cycle restores the values, and the finding closes. If "
    "they are two different columns, declare the other one under another name, and load a snapshot of the table "
    "(jobs/load_snapshot.py).",
    CHANGED: "Rows were changed without events (ADD COLUMN ... DEFAULT, RENAME, ALTER TYPE, an import that was not "
    "captured), or events were lost: load a snapshot of the table (jobs/load_snapshot.py).",
    UNKNOWN_ROW: "A row was changed that never came: load the table's initial state with jobs/load_snapshot.py.",
    KEY_TWICE: "A row was inserted although one with its key stands: correct `key` in the declaration, or load a "
    "snapshot when a delete was lost.",
    GROUPED: "The metadata's producer puts several transactions into one: set GROUPTRANSOPS 1 in the metadata's "
    "replicat, then redrive.",
    DELETES_UNCOUNTED: "The metadata's producer leaves deletes out: take IGNOREDELETES out of the metadata's "
    "replicat, supply corrected metadata, then redrive.",
    OPERATIONS_UNCOUNTED: "The metadata's counts leave out an operation that the rows have: give both replicats the "
    "same filters (GETTRUNCATES, IGNOREINSERTS, IGNOREUPDATES), supply corrected metadata, then redrive.",
    NO_BEFORE: "Updates come without the image before, so that a change of the key looks like a row that was never "
    "seen: set GETUPDATEBEFORES and LOGALLSUPPLEMENTALCOLS.",
    SHORT_NAMES: "Two source tables have one short name, and metadata counts by it: exclude one of them from the "
    "metadata's replicat, or give each schema a metadata topic of its own.",
    CSN_BACK: "The newest metadata lies below what came before: was the source restored, or is another producer "
    "writing into the topic? After a restore, what was sent above that csn never happened: give the pipeline a new "
    "name and load a snapshot of all tables there (jobs/load_snapshot.py).",
    XID_AGAIN: "The source counts transaction ids round, or was restored; transactions are told apart by id and csn, "
    "so that nothing is mixed up.",
    TWO_RUNS: "The producer restarted inside the transaction, and its counts may agree although rows are lost: load a "
    "snapshot of the table (jobs/load_snapshot.py), which closes this; or compare it with the source.",
    NULLS_OMITTED: "Inserts come now with, now without this column, and one that is missing counts as dropped: let the "
    "producer write nulls, or set the table's dropped_columns to keep.",
    LOST: "Records were gone before they were landed, and an operator accepted it: load a snapshot of all tables "
    "(jobs/load_snapshot.py), and let topics and folders keep what is sent for longer than a run can be late.",
    UNREADABLE: "The other files were landed. Make it readable, or deliver it again under its name; or set it aside "
    "(jobs/accept_loss.py --file, docs/operations.md), and load a snapshot.",
    NOT_EXTRACTED: "No row of the table's extract has this column, so that it is null in every row that the extract "
    "holds: correct the export or the column's `source`, or take the column out of the declaration.",
    TABLE_NOT_EXTRACTED: "A full extract was compared without this table (jobs/diff_snapshot.py --without), so that "
    "cuts show it as of an earlier date than the other tables: export it again. The next date that has an extract of "
    "it closes this.",
    SEVERAL: "The child's relation is declared `one`, and documents have several of its rows, of which they show the "
    "last by key: declare `relation: many`, or correct `parent_key` or the source's rows. It closes itself after a "
    "merge of the child or the root that leaves no such document, where the child's table has at most 1 GB; else once "
    "its relation is declared many.",
    UNKNOWN_VALUES: "A transaction below what was cleaned from history changed a key and left columns of its row "
    "unchanged, "
    "which history no longer contains: load a snapshot of the table (jobs/load_snapshot.py), and let "
    "maintenance.history.keep reach further back than transactions come late.",
    COUNTS_CHANGED: "Metadata with other counts came for a transaction that was released by those that came first: "
    "compare the table with the source, or load a snapshot of it (jobs/load_snapshot.py).",
    TAKEN_TWICE: "The connector began its snapshot anew at the position of the one before, and rows of a table "
    "without a key cannot be told apart: some are there twice. Load a snapshot of the table (jobs/load_snapshot.py).",
    READ_AGAIN: "The connector read rows again beside its stream, and sends no deletes of rows that are gone. Ask it "
    "for the whole table (jobs/request_snapshot.py), or load a snapshot of it (jobs/load_snapshot.py). This closes by "
    "itself once no row of the table is older than what was read.",
    DIFFERS: "An audit compared the table with the database at one moment and found other rows, which audit_results "
    "lists. Find out since when (txloom explain), load just these rows (jobs/repair.py), audit it again.",
    DOCUMENTS_DIFFER: "An audit composed the documents of their members' rows, and the published ones are other ones, "
    "which audit_results lists. Let a backfill of the aggregate compare and replace them, then audit again.",
    INCOMPLETE: "Load a snapshot of the table as of the last missing csn or a later one (the pipeline's load DAG, or "
    "jobs/load_snapshot.py). When the stream reaches the csn of the snapshot, cuts show the table, and this finding "
    "closes. After that, read.as_of refuses every csn below that of the snapshot.",
    UNANSWERED: "Look at the connector's task in Kafka Connect, and restart it where it failed. It takes signals where "
    "signal.enabled.channels has kafka and signal.kafka.topic is the declared topic; one that was sent while no task "
    "ran may be lost. When the task runs and the request stays as it is, give it up (jobs/request_snapshot.py "
    "--give-up ID), then ask again.",
    RUNS_OVERLAP: "The producer restarted inside the transaction and sent rows of it again: nothing is missing, and "
    "there is nothing to do.",
}
GOLDENGATE_HINTS = {
    NULLS_OMITTED: "Inserts come now with, now without this column, and one that is missing counts as dropped: set "
    "format.omitNullValues to false in the handler, or the table's dropped_columns to keep.",
}
"""Hints that name settings of a GoldenGate producer; other producers do not have these settings."""
NEEDS_SNAPSHOT = frozenset(
    (
        RENAMED,
        CHANGED,
        UNKNOWN_ROW,
        CSN_BACK,
        LOST,
        UNKNOWN_VALUES,
        TWO_RUNS,
        COUNTS_CHANGED,
        TAKEN_TWICE,
        READ_AGAIN,
        DIFFERS,
        INCOMPLETE,
    )
)
OF_TRANSACTION = frozenset((TWO_RUNS, RUNS_OVERLAP, COUNTS_CHANGED))
"""Findings about one transaction: an open one says nothing about another transaction on the same table."""
SEVERITIES = {ADDED: "info", XID_AGAIN: "info", RUNS_OVERLAP: "info"} | dict.fromkeys(
    (*NEEDS_SNAPSHOT, UNREADABLE, SEVERAL, UNANSWERED, DOCUMENTS_DIFFER), "error"
)
"""Severity by code; a code that is not listed is a warning."""


@dataclass(frozen=True)
class Finding:
    """One fact: what, in which table and column (table None: the whole source), since which csn, and what shows it.

    todo: what to do in this case; None: what `HINTS` says about the code.
    """

    code: str
    table: str | None
    column: str | None
    since_csn: int | None
    xid: str | None
    evidence: str
    todo: str | None = None

    @property
    def severity(self) -> str:
        """Return the severity: error, warn or info."""
        return SEVERITIES.get(self.code, "warn")

    def hint(self, source_format: str | None = None) -> str:
        """Return what to do, as it fits the producer of a source format; None: whatever the format."""
        if self.todo is not None:
            return self.todo
        of_format = GOLDENGATE_HINTS if source_format == "goldengate" else {}
        return of_format.get(self.code, HINTS[self.code])
