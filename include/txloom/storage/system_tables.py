"""Schemas of the tables that every pipeline has, as Arrow."""

from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from txloom.events.envelope import ENVELOPE

INSTANT = pa.timestamp("us", "UTC")
COUNTS = pa.map_(pa.string(), pa.int64())
TEXTS = pa.map_(pa.string(), pa.string())
ENTERED = "entered"
"""The column that says in which order rows of a table were entered, whatever the clocks of those who entered them said:
a row's is larger than those of all rows that it could know. Rows of before this column have none."""


def arrow_schema(columns: "Iterable[pa.Field[Any] | tuple[str, pa.DataType]]") -> pa.Schema:
    """Return a schema of columns, each a field or a name with its type.

    >>> arrow_schema([("id", pa.int64()), pa.field("name", pa.string())]).names
    ['id', 'name']
    """
    return pa.schema([each if isinstance(each, pa.Field) else pa.field(*each) for each in columns])


CHANGE_EVENTS = arrow_schema(
    [
        ("landing", pa.int64()),
        ("row", pa.int64()),
        ENVELOPE.field("kind"),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("file", pa.string()),
        ("line", pa.int64()),
        ("landed_at", INSTANT),
        ENVELOPE.field("transaction_id"),
        ("tx", pa.int64()),
        *[field for field in ENVELOPE if field.name not in ("ordinal", "kind", "transaction_id")],
        ("bucket", pa.int32()),
        ("numbers", pa.binary()),
    ]
)
"""kind: row, metadata, poison, tombstone, or one of the buffer's own: clock, and numbers (what the buffer sees of the
rows and metadata written with them, packed by hash bucket; only those have bucket and numbers). tx: the hash of
transaction_id under which the buffer knows a transaction; large files are sorted by it, so that a release finds a
transaction's events together. table: the declared name, null when unwatched. digest, payload: what shows whether two
events of one identity say the same (`txloom.config.identity`). value: the message as it came."""

DEAD_LETTERS = arrow_schema(
    [
        *[
            CHANGE_EVENTS.field(name)
            for name in (
                "transaction_id",
                "xid",
                "csn",
                "pos",
                "table",
                "source_table",
                "op",
                "kind",
                "cause",
                "detail",
                "topic",
                "partition",
                "offset",
                "file",
                "line",
                "landing",
                "row",
                "value",
                "headers",
                "landed_at",
            )
        ],
        pa.field("dead_at", INSTANT),
        pa.field("release", pa.int64()),
    ]
)
"""An event that cannot be applied, with its cause. release: the buffer's batch that gave it up, null from landing."""

TRANSACTIONS = arrow_schema(
    [
        ("transaction_id", pa.string()),
        ("xid", pa.string()),
        ("csn", pa.int64()),
        ("committed_at", INSTANT),
        ("status", pa.string()),
        ("cause", pa.string()),
        ("rows", pa.int64()),
        ("first_landed_at", INSTANT),
        ("finished_at", INSTANT),
        ("release", pa.int64()),
        ("landing", pa.int64()),
    ]
)
"""One row per finished transaction; status: released or dead (then with a cause). landing: of a released one, the last
that has events of it; it tells by which declaration its messages were decoded."""

REDECODES = "decoded again"
"""`detail` of the clock row of a landing that decoded undecided transactions again, by a changed declaration."""
PENDING_TRANSACTIONS = arrow_schema(
    [
        ("transaction_id", pa.string()),
        ("xid", pa.string()),
        ("csn", pa.int64()),
        ("committed_at", INSTANT),
        ("first_landed_at", INSTANT),
        ("age_seconds", pa.int64()),
        ("expected", COUNTS),
        ("received", COUNTS),
        ("cause", pa.string()),
        ("as_of", INSTANT),
    ]
)
"""What is buffered now; expected is null while no metadata was seen."""

LANDED_FILES = arrow_schema(
    [
        ("landing", pa.int64()),
        ("run_id", pa.string()),
        ("at", INSTANT),
        ("file_number", pa.int64()),
        ("topic", pa.string()),
        ("file", pa.string()),
        ("size", pa.int64()),
        ("modified", pa.int64()),
        ("start", pa.int64()),
        ("origin", pa.string()),
        ("follows", pa.string()),
        ("watched", pa.string()),
        ("reading", pa.string()),
    ]
)
"""The plan of landings: one row a file; a landing without files has one row with a null file. start: from where on in
the file's content it is read. origin: the name under which the file was read before, or another that begins like it;
for an extract of a date, what the date has of it (`storage.snapshots.kept_columns`). follows: the file behind which it
comes. watched: the digest of the declaration by which the messages are decoded (`contents.watched_content`); null for
landings that txloom writes itself, except those of dates. reading: how the messages are read
(`landing_plan.last_reading`), as JSON; null where watched is, and in landings of earlier versions."""

FILE_POSITIONS = arrow_schema(
    [
        ("landing", pa.int64()),
        ("at", INSTANT),
        ("topic", pa.string()),
        ("file", pa.string()),
        ("size", pa.int64()),
        ("modified", pa.int64()),
        ("start", pa.int64()),
        ("until", pa.int64()),
        ("tail", pa.int64()),
        ("lines", pa.int64()),
        ("digest", pa.string()),
        ("head", pa.string()),
        ("before", pa.string()),
        ("open", pa.string()),
        ("left", pa.string()),
        ("was", pa.string()),
        ("begins_inside", pa.bool_()),
        ("read_again", pa.bool_()),
        ("problem", pa.string()),
        ("is_access", pa.bool_()),
        ("lost", pa.string()),
    ]
)
"""How far each file of a source was read by a landing; of a topic's file the newest row holds. size, modified: what it
was then. until: the place in its content behind its last newline, lines: how many lines that is, tail: bytes that came
behind it. digest: of the content from start on, head: of its first line, blank ones left out. before, open, left: of
ordered formats, the transaction that was open in front of the file, at until and behind the tail, as JSON. was: the
name that it had before it was renamed. begins_inside: the file began in a transaction that was not open. read_again:
lines that an earlier landing had read. problem: why it could not be read, is_access: which may pass without a change
of the file. lost: an operator set it aside; why, and who said so."""

LANDED_OFFSETS = arrow_schema(
    [
        ("landing", pa.int64()),
        ("run_id", pa.string()),
        ("at", INSTANT),
        ("topic", pa.string()),
        ("topic_id", pa.string()),
        ("partition", pa.int32()),
        ("first", pa.int64()),
        ("until", pa.int64()),
        ("lost", pa.string()),
    ]
)
"""The plan of landings from Kafka: records of each partition, from one offset to before another. lost: nothing of them
was landed, because an operator accepted their loss; why, and who said so."""

SOURCE_PARTITIONS = arrow_schema(
    [
        ("landing", pa.int64()),
        ("at", INSTANT),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("csn", pa.int64()),
        ("torn", pa.int64()),
    ]
)
"""How far a partition was after a landing, where transactions wait for all of them; csn: the highest id that it had
shown, null when it was first seen. torn: behind this id came events that could not be read, and nothing since."""

SOURCE_SNAPSHOTS = arrow_schema(
    [
        ("landing", pa.int64()),
        ("at", INSTANT),
        ("left_out", pa.bool_()),
        ("since", INSTANT),
        ("rows", pa.int64()),
        ("lowest", pa.int64()),
        ("highest", pa.int64()),
        ("ended", pa.int64()),
        ("closed", pa.int64()),
        ("initial", pa.int64()),
        ("newest", pa.int64()),
        ("fresh", pa.list_(pa.int64())),
        ("mixed", pa.list_(pa.struct([("since", pa.int64()), ("until", pa.int64())]))),
    ]
)
"""How snapshots that a connector sends row by row stood after a landing (`txloom.transactions.snapshots`). since, rows,
lowest, highest: of those under way; ended, closed: up to which csn they are sent, and landed, whole; initial: the csn
of the newest one that the stream began with, or began anew with, once it is whole. newest: the highest csn of any; null
in rows of an older version. fresh: the csns of the landing's snapshots from which the connector restarted its stream.
mixed: the csns at which no state of the source is known, from that of a snapshot that the connector gave up to below
that of the one that it took instead. left_out: no more than that the landing left something out."""

ROWS_AHEAD = arrow_schema(
    [
        ("landing", pa.int64()),
        ("at", INSTANT),
        ("rows", pa.int64()),
        ("lowest", pa.int64()),
        ("read_until", INSTANT),
        ("of_landing", pa.int64()),
    ]
)
"""One row for each landing with rows that may be ahead of the stream, and one for each landing that lands such rows
again, with their tables. of_landing: the earlier landing of the rows that a landing lands again. rows, lowest: their
number and their lowest csn. read_until: when the connector sent the last of them, by the connector's clock."""

SNAPSHOT_REQUESTS = arrow_schema(
    [
        ("request", pa.string()),
        ("at", INSTANT),
        ("run_id", pa.string()),
        ("status", pa.string()),
        ("tables", pa.list_(pa.string())),
        ("since_csn", pa.int64()),
        ("landing", pa.int64()),
        ("release", pa.int64()),
        ("ends", pa.map_(pa.string(), pa.int64())),
        ("until_csn", pa.int64()),
        ("removed", pa.int64()),
        ("detail", pa.string()),
    ]
)
"""Incremental snapshots that a connector was asked for; of each request the newest row holds.

status: planned; sent; read (the connector says that it has read the tables; ends: up to which offset of each partition
all that it read lies, once known; until_csn: the highest csn that was landed up to there); loaded (the current tables
show it); or failed. since_csn: the newest csn of the stream before the request: rows that the snapshot read have this
or a higher one. landing, release: the newest before the request: what it read comes after them. removed: rows that it
did not have and that were deleted.
"""

SOURCE_NAMES = arrow_schema(
    [("name", pa.string()), ("spelling", pa.string()), ("landing", pa.int64()), ("at", INSTANT)]
)
"""How a landing first spelled a name of the source (`txloom.events.source_names`); name: the declared table, with the
name in capital letters where a table has several."""

EVOLVED_COLUMNS = arrow_schema(
    [
        ("table", pa.string()),
        ("column", pa.string()),
        ("source", pa.string()),
        ("since_csn", pa.int64()),
        ("added_at", INSTANT),
    ]
)
"""Columns that a source added and that a table took up, as text: `undeclared_columns: evolve`."""

OPEN_STATUSES = ("declared", "waiting")
"""Values of `status` in COMPLETENESS of a history whose earlier rows are still to be made again."""
COMPLETENESS = arrow_schema(
    [
        ("table", pa.string()),
        ("member", pa.string()),
        ("status", pa.string()),
        ("since_csn", pa.int64()),
        ("reason", pa.string()),
        ("missing", pa.string()),
        ("declaration", pa.string()),
        ("release", pa.int64()),
        ("basis", pa.int64()),
        ("run_id", pa.string()),
        ("at", INSTANT),
        (ENTERED, pa.int64()),
    ]
)
"""What a history was written from, and since when it is complete; the newest row of a table and member holds. table:
its name in the lake. member: the declared name of the source table whose changes it has. status: see
`txloom.storage.declarations.records`. since_csn: every state from this csn on is there, 0: all. reason: why it is known
to be complete from there. missing: what is missing below, in words. declaration: the content (`config.contents`), as
JSON, and which columns of before its rows still have (`records.HELD`). release: the newest release that worked by an
earlier declaration. basis: the number (entered) of the record by which tables that are computed from the history were
last to be computed again; null: this one."""
COMPUTED_TABLES = arrow_schema(
    [
        ("table", pa.string()),
        ("mark", pa.string()),
        ("status", pa.string()),
        ("since_csn", pa.int64()),
        ("reason", pa.string()),
        ("declaration", pa.string()),
        ("run_id", pa.string()),
        ("at", INSTANT),
        (ENTERED, pa.int64()),
    ]
)
"""What a current table is computed from, and from which csn on its rows are right; the newest row of a table with the
mark of its newest commit holds. mark: `txloom.storage.declarations.marks`. status, since_csn, reason: of its members in
COMPLETENESS, those of the one that is complete last. declaration: as JSON, for a mirror or row table the content of its
table (`config.contents`) with partition_by, for documents that of the aggregate; histories: by member, the history that
has its rows."""

FINDINGS = arrow_schema(
    [
        ("code", pa.string()),
        ("severity", pa.string()),
        ("table", pa.string()),
        ("column", pa.string()),
        ("since_csn", pa.int64()),
        ("xid", pa.string()),
        ("evidence", pa.string()),
        ("needs_snapshot", pa.bool_()),
        ("hint", pa.string()),
        ("status", pa.string()),
        ("run_id", pa.string()),
        ("at", INSTANT),
    ]
)
"""What is wrong with a source or its producer, with evidence; of each (code, table, column) the newest row holds.
status: open or closed. needs_snapshot: rows of the table (null: of all tables) may differ from the source's."""

LEASES = arrow_schema(
    [
        ("epoch", pa.int64()),
        ("run_id", pa.string()),
        ("step", pa.string()),
        ("host", pa.string()),
        ("pid", pa.int64()),
        ("began", pa.string()),
        ("acquired_at", INSTANT),
        ("released_at", INSTANT),
    ]
)
"""One row: who holds the pipeline, or held it last (then with released_at); epoch: how many did before it, and it."""

BACKFILLS = arrow_schema(
    [
        ("run_id", pa.string()),
        ("table", pa.string()),
        ("status", pa.string()),
        ("from_csn", pa.int64()),
        ("to_csn", pa.int64()),
        ("counts", COUNTS),
        ("digest", pa.int64()),
        ("samples", pa.string()),
        ("state", pa.string()),
        ("detail", pa.string()),
        ("at", INSTANT),
        (ENTERED, pa.int64()),
    ]
)
"""What became of each table of a backfill; of a run's rows of one table the newest holds. status: rebuilding, rebuilt,
compared, applied or dropped. samples: a JSON list of rows before and after, bounded. digest: of all that differs.
state: how far the live table was. A null table speaks of the whole run. to_csn: 2^63-1: to the end. The detail "the
declaration changed" marks what a merge rebuilt after an edit; its state names the source tables. The table "*" then
marks what it copied from another history (status copied), or computed again from history (computed)."""

INCIDENTS = arrow_schema(
    [
        ("kind", pa.string()),
        ("subject", pa.string()),
        ("opened_at", INSTANT),
        ("closed_at", INSTANT),
        ("since", INSTANT),
        ("severity", pa.string()),
        ("what", pa.string()),
        ("todo", pa.string()),
        ("total", pa.int64()),
        ("rows", pa.list_(pa.string())),
        ("page", pa.string()),
        ("opened_to", pa.list_(pa.string())),
        ("closed_to", pa.list_(pa.string())),
        ("claimed_by", pa.string()),
        ("claimed_at", INSTANT),
        ("is_over", pa.bool_()),
    ]
)
"""One row for each time that something was wrong. since: how long it has been so; opened_at: when it was noticed.
opened_to, closed_to: channels that got the message; claimed_by: who is sending now. is_over: closed, and every
channel has the message."""

LEDGER = arrow_schema(
    [
        ("run_id", pa.string()),
        ("step", pa.string()),
        ("generation", pa.int64()),
        ("batch", pa.int64()),
        ("at", INSTANT),
        ("counts", COUNTS),
        ("valid_through", pa.int64()),
        ("balanced", pa.bool_()),
        ("detail", pa.string()),
        ("declared", pa.string()),
        (ENTERED, pa.int64()),
    ]
)
"""One row for each step of each run. declared: for a merge, the digest of the declaration that it used."""

DISMISSALS = arrow_schema(
    [
        ("landing", pa.int64()),
        ("row", pa.int64()),
        ("transaction_id", pa.string()),
        ("cause", pa.string()),
        ("person", pa.string()),
        ("reason", pa.string()),
        ("run_id", pa.string()),
        ("at", INSTANT),
    ]
)
"""Dead letters that somebody dismissed by name, each by the landing and row that it has in dead_letters."""

OPEN_DEAD_LETTERS = arrow_schema(
    [
        ("release", pa.int64()),
        ("landing", pa.int64()),
        ("tables", pa.map_(pa.string(), pa.string())),
        ("letters", pa.list_(pa.struct([("landing", pa.int64()), ("row", pa.int64())]))),
        ("given_up", pa.list_(pa.struct([("transaction_id", pa.string()), ("csn", pa.int64())]))),
        ("at", INSTANT),
        ("rule", pa.int64()),
    ]
)
"""At most one row: which dead letters, and which transactions that were given up, were open after a release and a
landing, so that queries on open ones read those and what came since. tables: by Delta's id of dead_letters,
transactions and dismissals, the version that was read, size and time of its log entry, and a number of rows that it may
not fall below. letters, given_up: null where they are too many. rule: by which rule they were open."""

READERS = arrow_schema(
    [
        ("reader", pa.string()),
        ("cut_id", pa.int64()),
        ("at", INSTANT),
        ("until", INSTANT),
    ]
)
"""Who reads which cut, and until when vacuum keeps it for them; of each (reader, cut) the newest row holds."""

AUDIT_DIFFERENCE = pa.struct(
    [
        ("key", pa.map_(pa.string(), pa.string())),
        ("kind", pa.string()),
        ("column", pa.string()),
        ("lake", pa.string()),
        ("source", pa.string()),
        ("csn", pa.int64()),
    ]
)
AUDIT_REPAIR = pa.struct([("op", pa.string()), ("image", pa.string()), ("csn", pa.int64()), ("at", INSTANT)])
AUDIT_RESULTS = arrow_schema(
    [
        ("run_id", pa.string()),
        ("at", INSTANT),
        ("table", pa.string()),
        ("verdict", pa.string()),
        ("rows", pa.int64()),
        ("differing", pa.int64()),
        ("unsettled", pa.int64()),
        ("source_position", pa.int64()),
        ("cut_id", pa.int64()),
        ("valid_through", pa.int64()),
        ("source_seconds", pa.float64()),
        ("differences", pa.list_(AUDIT_DIFFERENCE)),
        ("repairs", pa.list_(AUDIT_REPAIR)),
        ("folder", pa.string()),
        ("kind", pa.string()),
        ("reason", pa.string()),
        ("not_compared", pa.list_(pa.string())),
        ("declared", pa.string()),
    ]
)
"""What an audit found in a table: how many rows the source has, how many differ, and the first of these.

verdict: equal; different; behind (the lake did not reach the moment of the database's snapshot in time, so that what
differs may be on its way); unsettled (rows that differ were being changed at every look, or nothing can be said of
them, for the reason); not compared (for the reason). A difference is one for each column of a row, with canonical texts
(`txloom.current.equality`). Its kind: missing, extra (the source has no such row), changed, null key (the key is null
in the columns that are named, which the lake cannot hold) or repeated (how many rows have this key). Its csn: of the
newest change that the lake has of the row. A repair is what makes a row that differs equal: an operation (r: the lake
lacks it, U, D) with the source's row as a JSON object (of D the key), as it was at that csn. folder: the snapshot
folder that stood for the database. kind: rows, or documents, which are compared with those that the rows of their
members make, as "source"; null in rows of older versions of txloom. not_compared: sentences that say what was left out,
and why. declared: a digest of the declaration of the table whose rows were compared; null for documents, and in rows of
older versions.
"""

GAP = pa.struct([("xid", pa.string()), ("csn", pa.int64()), ("cause", pa.string())])
AMENDED = pa.struct([("cut_id", pa.int64()), ("xid", pa.string()), ("csn", pa.int64())])
CUTS = arrow_schema(
    [
        ("cut_id", pa.int64()),
        ("run_id", pa.string()),
        ("valid_through", pa.int64()),
        ("release", pa.int64()),
        ("committed_at", INSTANT),
        ("published_at", INSTANT),
        ("versions", COUNTS),
        ("table_ids", TEXTS),
        ("marks", TEXTS),
        ("gaps", pa.list_(GAP)),
        ("amends", pa.list_(AMENDED)),
    ]
)
"""Published cuts: valid-through and each table's version; table_ids: Delta's id of each table, which another one in its
place does not have; marks: what each version's commit says of itself; both are null in cuts of before these columns.
gaps: dead-lettered transactions at or below it; amends: earlier cuts that a transaction was added below after they were
published, or that a backfill (`backfill RUN`, with the first csn of its range) repaired rows of."""

EXPECTATION_RESULTS = arrow_schema(
    [
        ("run_id", pa.string()),
        ("expectation", pa.string()),
        ("kind", pa.string()),
        ("severity", pa.string()),
        ("success", pa.bool_()),
        ("checked", pa.int64()),
        ("failed", pa.int64()),
        ("sample", pa.string()),
        ("sentence", pa.string()),
        ("hint", pa.string()),
        ("checked_at", INSTANT),
        ("versions", COUNTS),
        ("detail", pa.string()),
        ("first_seen", INSTANT),
        ("last_good", INSTANT),
        ("streak", pa.int64()),
    ]
)
"""One row per run, expectation and outcome; success: null where it was not judged, detail says why; sample: a JSON list
of failing rows, bounded and without secrets; versions: what was looked at. first_seen: when this row of failures began,
null where it passed; last_good: when it passed last; streak: how many runs in a row it has failed. A row that was not
judged has those of the row before it."""

COLUMN_FIGURES = pa.struct(
    [("nulls", pa.int64()), ("distinct", pa.int64()), ("minimum", pa.string()), ("maximum", pa.string())]
)
TABLE_STATISTICS = arrow_schema(
    [
        ("run_id", pa.string()),
        ("table", pa.string()),
        ("version", pa.int64()),
        ("measured_at", INSTANT),
        ("rows", pa.int64()),
        ("bytes", pa.int64()),
        ("files", pa.int64()),
        ("small_files", pa.int64()),
        ("deleted_share", pa.float64()),
        ("columns", pa.map_(pa.string(), COLUMN_FIGURES)),
    ]
)
"""One row per table and measuring run; distinct is approximate; minimum and maximum as text."""
