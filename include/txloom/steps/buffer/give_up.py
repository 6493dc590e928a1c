"""Dead letters: transactions that were given up, and events that came after their transaction was finished."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import reduce
from typing import Any, NamedTuple

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from txloom.config.identity import AT_POSITION, BY_CONTENT, same_content
from txloom.quality.producer_diagnostics import uncounted
from txloom.steps.buffer.micro_batch import Batch
from txloom.storage.dead_letters.spark_rows import as_dead_letters
from txloom.transactions import causes, completeness

GIVEN = (
    "tx bigint, cause string, detail string, rows bigint, first_at bigint, first_landing bigint, last_landing bigint"
)
"""The schema of `Given` in Spark."""
BOUNDS = ("tx", "first_landing", "last_landing")
"""These identify a given-up transaction: one with the same hash may be given up, come back and be given up again."""


Unfinished = Mapping[str, Any]
"""A transaction that waits or is given up: a row of UNFINISHED_ROWS (`txloom.transactions.completeness`)."""


class Given(NamedTuple):
    """What `dead_letter` needs of a transaction: tx is its hash; its events were landed between two landings."""

    tx: int
    cause: str
    detail: str
    rows: int
    first_at: int
    first_landing: int
    last_landing: int

    @property
    def bounds(self) -> tuple[int, int, int]:
        """Return the values of BOUNDS."""
        return self.tx, self.first_landing, self.last_landing


@dataclass(frozen=True)
class DeadLettered:
    """What became dead letters in a batch.

    Args:
        dead_letters: rows for `dead_letters`; None: none.
        transactions: rows for `transactions`; None: none.
        rows: by how many the count of dead events changes.
        duplicates: by how many the count of duplicates changes.
        released: by how many the count of released events changes.
    """

    dead_letters: DataFrame | None = None
    transactions: DataFrame | None = None
    rows: int = 0
    duplicates: int = 0
    released: int = 0


def give_up(
    batch: Batch, dead: Sequence[Unfinished], watched: Mapping[int, str], operations: Mapping[int, Mapping[str, Any]]
) -> DeadLettered:
    """Turn transactions that waited for longer than patience into dead letters with cause and detail.

    A transaction that another batch released long ago, so that the buffer no longer remembers it, is treated as late
    events.

    Args:
        batch: the batch.
        dead: the transactions.
        watched: the watched tables by hash.
        operations: by hash of a transaction, received rows by operation and table; see `producer_checks.operations_of`.
    """
    if not dead:
        return DeadLettered()
    given = [
        Given(
            row["tx"],
            cause_of(row, watched, operations),
            describe(row, watched),
            *(row["rows"], row["first_at"], min(row["landings"]), max(row["landings"])),
        )
        for row in dead
    ]
    landings = {landing for row in dead for landing in row["landings"]}
    forgotten = _released_before(batch, given, landings)
    again = [each for each in given if each.bounds in forgotten]
    late = DeadLettered()
    if again:
        events = _distinct(_events_of(batch, _frame(batch, again).select(*BOUNDS), landings))
        late = late_events(batch, events.where("kind = 'row'").drop(*BOUNDS[1:]))
    dead_lettered = dead_letter(batch, [each for each in given if each.bounds not in forgotten], landings)
    dead_letters = [part for part in (late.dead_letters, dead_lettered.dead_letters) if part is not None]
    moved = sum(each.rows for each in again)
    return DeadLettered(
        reduce(DataFrame.unionByName, dead_letters) if dead_letters else None,
        dead_lettered.transactions,
        rows=late.rows - moved,
        duplicates=late.duplicates,
    )


def _frame(batch: Batch, given: Sequence[Given]) -> DataFrame:
    return batch.spark.createDataFrame(list(given), GIVEN)


def _released_before(batch: Batch, given: Sequence[Given], landings: Collection[int]) -> set[tuple[int, int, int]]:
    """Return BOUNDS of the given transactions that another batch released.

    One that has the same id as a released one but lies behind its csn is another transaction, and left out.
    """
    frame = _frame(batch, given).select(*BOUNDS)
    earlier = batch.earlier_transactions.select("tx", F.col("csn").alias("end"))
    known = F.broadcast(frame.select("tx").distinct()).join(earlier, "tx").groupBy("tx").agg(F.max("end").alias("end"))
    ends = {row["tx"]: row["end"] for row in known.collect()}
    if not ends:
        return set()
    position = F.regexp_extract("identity", AT_POSITION, 1).try_cast("bigint")
    lies_at = F.when(F.col("kind") == "metadata", F.col("csn")).otherwise(F.when(F.col("csn").isNull(), position))
    events = _events_of(batch, frame.where(F.col("tx").isin(list(ends))), landings)
    behind = {tuple(row)[:3]: row["at"] for row in events.groupBy(*BOUNDS).agg(F.max(lies_at).alias("at")).collect()}
    concerned = [each.bounds for each in given if each.tx in ends]
    return {each for each in concerned if (behind.get(each) or 0) <= ends[each[0]]}


def cause_of(row: Unfinished, watched: Mapping[int, str], operations: Mapping[int, Mapping[str, Any]]) -> str:
    """Return the cause of a transaction that is given up.

    Args:
        row: the transaction.
        watched: the watched tables by hash.
        operations: as in `give_up`. Where the excess is exactly the rows of one operation, the cause names it.
    """
    cause: str = row["cause"]
    if cause != completeness.EXCESS:
        return cause
    expected, received = (counts_by_table(row[name], watched) for name in ("expected", "received"))
    return causes.UNCOUNTED.get(uncounted(expected, received, operations.get(row["tx"], {})) or "", cause)


def _events_of(batch: Batch, given: DataFrame, landings: Collection[int]) -> DataFrame:
    """Return the watched events of given transactions, with the columns of `given`.

    Of each transaction only events between its first and last landing.
    """
    watched = (F.col("kind") == "metadata") | ((F.col("kind") == "row") & F.col("table").isNotNull())
    events = batch.change_events.where(F.col("landing").isin(sorted(landings)) & watched).drop("cause", "detail")
    return events.join(F.broadcast(given), "tx").where("landing between first_landing and last_landing")


def describe(row: Unfinished, watched: Mapping[int, str]) -> str:
    """Return received over expected rows of the tables in which they differ, such as `order_line_items 3/4`.

    >>> describe({"expected": {1: 4}, "received": {1: 3}}, {1: "lines"})
    'lines 3/4'
    """
    received = counts_by_table(row["received"], watched)
    expected = counts_by_table(row["expected"], watched)
    if row["expected"] is None:
        return ", ".join(f"{table} {count}/?" for table, count in sorted(received.items()))
    tables = sorted(set(received) | set(expected))
    differing = [t for t in tables if received.get(t, 0) != expected.get(t, 0)]
    return ", ".join(f"{t} {received.get(t, 0)}/{expected.get(t, 0)}" for t in differing)


def counts_by_table(counts: Mapping[int, int] | None, watched: Mapping[int, str]) -> dict[str, int]:
    """Return counts by table name.

    Args:
        counts: by hash of a table's name; None: none.
        watched: the watched tables by hash.
    """
    return {watched.get(table, str(table)): count for table, count in (counts or {}).items()}


def dead_letter(batch: Batch, given: Sequence[Given], landings: Collection[int]) -> DeadLettered:
    """Return dead letters for all distinct events of given transactions, and their rows for `transactions`.

    Duplicates (same identity and content) are left out. A transaction that is given up, redriven and given up again is
    given twice where a rebuild takes in both at once.

    Args:
        batch: the batch.
        given: the transactions.
        landings: the landings that have their events.
    """
    if not given:
        return DeadLettered()
    held = _distinct(_events_of(batch, _frame(batch, given), landings))
    now = datetime.now(UTC)
    transactions = held.groupBy(*BOUNDS).agg(
        F.min("transaction_id").alias("transaction_id"),
        F.min("xid").alias("xid"),
        F.max("csn").alias("csn"),
        F.min("committed_at").alias("committed_at"),
        F.lit("dead").alias("status"),
        F.first("cause").alias("cause"),
        F.first("rows").alias("rows"),
        F.timestamp_micros(F.first("first_at")).alias("first_landed_at"),
        F.lit(now).alias("finished_at"),
        F.lit(batch.release).cast("bigint").alias("release"),
    )
    return DeadLettered(as_dead_letters(held, now, batch.release), transactions.drop(*BOUNDS))


def _distinct(events: DataFrame) -> DataFrame:
    """Return each distinct event of a given transaction: the first landed of those with one identity and content."""
    same = [*BOUNDS, "kind", "table", "identity", "payload"]
    content = F.coalesce("digest", F.max("digest").over(Window.partitionBy(*same)))
    first = Window.partitionBy(*same, "content").orderBy("landing", "row")
    numbered = events.withColumn("content", content).withColumn("again", F.row_number().over(first))
    return numbered.where("again = 1").drop("again", "content")


def late_events(batch: Batch, late: DataFrame, dead: Mapping[int, str] | None = None) -> DeadLettered:
    """Compare late row events of finished transactions with what was landed before them.

    One with an identity and content that was landed before is a duplicate. One with another content, or with a new
    identity, becomes a dead letter.

    Args:
        batch: the batch.
        late: rows of change_events.
        dead: causes of dead transactions, by hash; a new identity gets the cause of its transaction.
    """
    transactions = late.select("tx", "csn").distinct().collect()
    if not transactions:
        return DeadLettered()
    csns = [row["csn"] for row in transactions]
    near = F.lit(True) if None in csns else F.col("csn").isin(csns)
    concerned = batch.spark.createDataFrame([(row["tx"],) for row in transactions], "tx bigint").distinct()
    seen = batch.change_events.where(near & (F.col("kind") == "row")).join(F.broadcast(concerned), "tx", "left_semi")
    content, before = F.struct("payload", "digest"), F.col("seen_at") < F.col("late_at")
    former = F.regexp_replace("identity", BY_CONTENT, "")
    seen_at = F.struct("landing", "row").alias("seen_at")
    named = (F.col(name).alias(f"seen_{name}") for name in ("tx", "table", "source_table"))
    seen = seen.where(F.col("table").isNotNull()).select(
        *named, former.alias("seen_former"), F.col("identity").alias("known"), content.alias("seen"), seen_at
    )
    same = F.expr(same_content("seen", "says"))
    # Sources are compared first, because a renamed table keeps its source.
    in_one_source = F.lower("source_table") == F.lower("seen_source_table")
    in_one_table = F.coalesce(in_one_source, F.col("table") == F.col("seen_table"))
    one = (F.col("known") == F.col("identity")) | F.col("seen.digest").isNull()
    judged = (
        late.drop("cause", "detail")
        .withColumns({"late_at": F.struct("landing", "row"), "says": content, "former": former})
        .join(
            seen, (F.col("tx") == F.col("seen_tx")) & (F.col("former") == F.col("seen_former")) & in_one_table, "left"
        )
        .groupBy(*[c for c in late.columns if c not in ("cause", "detail", "expected")], "late_at")
        .agg(F.max(before & one & same).alias("same"), F.max(before & one & ~same).alias("other"))
        .join(F.broadcast(causes_frame(batch, dead or {})), "tx", "left")
        .persist()
    )
    new = F.coalesce("joins", F.lit(causes.LATE))
    outcome = F.when(F.col("same"), None).when(F.col("other"), completeness.CONFLICT).otherwise(new)
    about = {"cause": outcome, "detail": F.concat(F.lit("transaction "), F.col("transaction_id"))}
    dead_letters = judged.withColumns(about).where("cause is not null").drop("joins")
    dead_lettered, all_of_them = dead_letters.count(), judged.count()
    return DeadLettered(
        as_dead_letters(dead_letters, datetime.now(UTC), batch.release),
        None,
        dead_lettered,
        all_of_them - dead_lettered,
    )


def causes_frame(batch: Batch, dead: Mapping[int, str]) -> DataFrame:
    """Return a frame of causes by hash of the transaction: columns `tx` and `joins`."""
    return batch.spark.createDataFrame(list(dead.items()), "tx bigint, joins string")
