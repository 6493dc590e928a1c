"""Dead letters: transactions that were given up, and events that came after their transaction was finished."""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import reduce
from typing import Any, NamedTuple

from pyspark.sql import DataFrame, Row, Window
from pyspark.sql import functions as F

from txloom.config import names
from txloom.config.identity import AT_POSITION, NUMBERED, same_content
from txloom.quality.producer_diagnostics import uncounted
from txloom.steps.buffer.micro_batch import Batch
from txloom.storage.dead_letters.spark_rows import as_dead_letters
from txloom.storage.delta import arrow_tables, small_tables
from txloom.storage.delta.sql import int_list
from txloom.storage.system_tables import PENDING_TRANSACTIONS
from txloom.transactions import causes, completeness

GIVEN = (
    "tx bigint, cause string, detail string, rows bigint, first_at bigint, first_landing bigint, last_landing bigint"
)
"""What `Given` is in Spark."""
BOUNDS = ("tx", "first_landing", "last_landing")
"""What tells transactions that are given up from one another: one of a hash may be given up, come back, and again."""


class Given(NamedTuple):
    """What `inter` needs to know of each transaction that it buries; its events lie between two landings."""

    tx: int
    cause: str
    detail: str
    rows: int
    first_at: int
    first_landing: int
    last_landing: int

    @property
    def bounds(self) -> tuple[int, int, int]:
        """Return BOUNDS."""
        return self.tx, self.first_landing, self.last_landing


@dataclass(frozen=True)
class DeadLettered:
    """Dead letters and rows for `transactions`, both None when there are none, and how the counts change."""

    dead_letters: DataFrame | None = None
    transactions: DataFrame | None = None
    rows: int = 0
    duplicates: int = 0
    released: int = 0


def give_up(
    batch: Batch, dead: Sequence[Row], watched: Mapping[int, str], operations: Mapping[int, Mapping[str, Any]]
) -> DeadLettered:
    """Turn transactions that waited longer than patience into dead letters with cause and detail.

    operations: by transaction, the received rows by operation and table, of those with more rows than were counted.
    One that another batch finished long ago (so that the buffer had forgotten it) is judged as late events instead.
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
    """Return BOUNDS of given transactions that another batch released, but for those that only had their ids before."""
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


def cause_of(row: Row, watched: Mapping[int, str], operations: Mapping[int, Mapping[str, Any]]) -> str:
    """Return why a transaction is given up; an excess of exactly one operation's rows is named for it."""
    cause: str = row["cause"]
    if cause != completeness.EXCESS:
        return cause
    expected, received = (counts_by_table(row[name], watched) for name in ("expected", "received"))
    return causes.UNCOUNTED.get(uncounted(expected, received, operations.get(row["tx"], {})) or "", cause)


def _events_of(batch: Batch, given: DataFrame, landings: Collection[int]) -> DataFrame:
    """Return the events of given transactions, with what is given: those that came between its landings alone."""
    watched = (F.col("kind") == "metadata") | ((F.col("kind") == "row") & F.col("table").isNotNull())
    events = batch.change_events.where(F.col("landing").isin(sorted(landings)) & watched).drop("cause", "detail")
    return events.join(F.broadcast(given), "tx").where("landing between first_landing and last_landing")


def describe(row: Row, watched: Mapping[int, str]) -> str:
    """Say what is missing or too much: `order_line_items 3/4`; received over expected, tables that differ only.

    >>> describe(Row(expected='{"1": 4}', received='{"1": 3}'), {1: "lines"})
    'lines 3/4'
    """
    received = counts_by_table(row["received"], watched)
    expected = counts_by_table(row["expected"], watched)
    if row["expected"] is None:
        return ", ".join(f"{table} {count}/?" for table, count in sorted(received.items()))
    tables = sorted(set(received) | set(expected))
    differing = [t for t in tables if received.get(t, 0) != expected.get(t, 0)]
    return ", ".join(f"{t} {received.get(t, 0)}/{expected.get(t, 0)}" for t in differing)


def counts_by_table(packed: str | None, watched: Mapping[int, str]) -> dict[str, int]:
    """Unpack counts per table hash into counts per table."""
    return {watched.get(int(table), table): count for table, count in json.loads(packed or "{}").items()}


def dead_letter(batch: Batch, given: Sequence[Given], landings: Collection[int]) -> DeadLettered:
    """Make dead letters out of all distinct events of given transactions (GIVEN), which lie in some landings.

    Duplicates (same identity and content) are left out, as they were counted. A transaction that is given up, redriven
    and given up again is given twice where a rebuild takes in both at once.
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
    """Leave out what came again (same identity and content) of a given transaction, as the buffer did."""
    same = [*BOUNDS, "kind", "table", "identity", "payload"]
    content = F.coalesce("digest", F.max("digest").over(Window.partitionBy(*same)))
    first = Window.partitionBy(*same, "content").orderBy("landing", "row")
    numbered = events.withColumn("content", content).withColumn("again", F.row_number().over(first))
    return numbered.where("again = 1").drop("again", "content")


def late_events(batch: Batch, late: DataFrame, dead: Mapping[int, str] | None = None) -> DeadLettered:
    """Judge rows of finished transactions by what was landed before them.

    The same identity with the same content is a duplicate; with another content, or a new identity, a dead letter.
    dead: causes of dead transactions, whose dead letters a new identity joins.
    """
    places = late.select("tx", "csn").distinct().collect()
    if not places:
        return DeadLettered()
    csns = [row["csn"] for row in places]
    near = F.lit(True) if None in csns else F.col("csn").isin(csns)
    concerned = batch.spark.createDataFrame([(row["tx"],) for row in places], "tx bigint").distinct()
    seen = batch.change_events.where(near & (F.col("kind") == "row")).join(F.broadcast(concerned), "tx", "left_semi")
    content, before = F.struct("payload", "digest"), F.col("place") < F.col("own")
    former = F.regexp_replace("identity", NUMBERED, "").alias("former")
    there = F.struct("landing", "row").alias("place")
    seen = seen.select("tx", "table", former, F.col("identity").alias("known"), content.alias("seen"), there)
    same = F.expr(same_content("seen", "says"))
    one = (F.col("known") == F.col("identity")) | F.col("seen.digest").isNull()
    judged = (
        late.drop("cause", "detail")
        .withColumns({"own": F.struct("landing", "row"), "says": content, "former": former})
        .join(seen, ["tx", "table", "former"], "left")
        .groupBy(*[c for c in late.columns if c not in ("cause", "detail", "expected")], "own")
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
    """Return causes by transaction, as columns `tx` and `joins`."""
    return batch.spark.createDataFrame(list(dead.items()), "tx bigint, joins string")


def list_waiting(
    batch: Batch,
    waiting: Sequence[Row],
    named: Mapping[int, Mapping[str, Any]],
    watched: Mapping[int, str],
    clock: Row,
) -> None:
    """Replace pending_transactions by what waits now, longest first, as of a landing's clock.

    named: what their events say of them, by hash. The commit carries the batch's release number: it is what
    `storage.progress` takes as the buffer's snapshot.
    """
    at = datetime.fromtimestamp(clock["first_at"] / 1e6, UTC)
    rows = [_pending(row, named[row["tx"]], watched, at) for row in waiting]
    rows.sort(key=lambda row: row["age_seconds"], reverse=True)
    path = batch.paths.table(names.PENDING_TRANSACTIONS)
    about = {"release": batch.release, "landing": clock["landing"], "reached": clock["csn"]}
    small_tables.replace(path, rows, PENDING_TRANSACTIONS, about)


def named(batch: Batch, waiting: Sequence[Row]) -> dict[int, dict[str, Any]]:
    """Return what the events of unfinished transactions say of them, by the buffer's hash."""
    if not waiting:
        return {}
    landings = int_list([landing for row in waiting for landing in row["landings"]])
    columns = ("transaction_id", "xid", "csn", "committed_at")
    sql = f"select tx, {', '.join(columns)} from t where landing in ({landings}) and tx is not null"
    events = arrow_tables.matching(batch.paths.change_events, sql, "tx", [row["tx"] for row in waiting])
    groups = events.group_by("tx").aggregate([(name, "max") for name in columns])
    groups = groups.rename_columns([name.removesuffix("_max") for name in groups.column_names])
    return {row["tx"]: row for row in groups.to_pylist()}


def _pending(row: Row, named: Mapping[str, Any], watched: Mapping[int, str], at: datetime) -> dict[str, Any]:
    first = datetime.fromtimestamp(row["first_at"] / 1e6, UTC)
    committed = named["committed_at"]
    return {
        "transaction_id": named["transaction_id"],
        "xid": named["xid"],
        "csn": named["csn"],
        "committed_at": committed,
        "first_landed_at": first,
        "age_seconds": int((at - first).total_seconds()),
        "expected": None if row["expected"] is None else counts_by_table(row["expected"], watched),
        "received": counts_by_table(row["received"], watched),
        "cause": row["cause"],
        "as_of": at,
    }
