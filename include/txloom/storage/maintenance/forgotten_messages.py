"""Remove the messages of rows that were released, or that nobody watches.

Of an event only the message is removed. Its identity, fingerprint, coordinates and numbers stay: they identify a
duplicate years later, and a lost buffer is rebuilt from them (ADR 19). A run looks only at what was landed or released
since the one before it, however much waits or is dead behind that.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Set
from dataclasses import dataclass
from datetime import datetime
from typing import cast

import pyarrow as pa
import pyarrow.compute as pc
from delta.tables import DeltaTable as SparkTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from txloom.config import names
from txloom.storage.buffer.newest_batch import buffer_state
from txloom.storage.dead_letters import open_letters
from txloom.storage.delta import arrow_tables, small_tables, spark_tables
from txloom.storage.delta.read_session import exists, opened
from txloom.storage.delta.sql import instant_literal, text_literal
from txloom.storage.paths import TablePaths
from txloom.transactions import reused_ids

STEP = names.maintenance_step("expire")
"""The step in whose row of the ledger it says how far messages were removed."""
HAS_MESSAGE = "kind = 'row' and value is not null"
NO_ROWS = pa.table({name: pa.array([], pa.int64()) for name in ("landing", "row")})
BEHIND_ALL = 2**63 - 1
"""The csn at which a transaction without metadata ends at the latest."""


@dataclass(frozen=True)
class Forgotten:
    """How far messages were removed: of rows up to a landing, what was released up to a release, or is unwatched."""

    landing: int = 0
    release: int = 0


def forgotten(paths: TablePaths) -> Forgotten:
    """Return how far the newest run that ended removed messages."""
    of_step = f"step = {text_literal(STEP)} and detail is null"
    row = small_tables.newest(paths.table(names.LEDGER), "counts", of_step)
    counts = row["counts"] if row is not None else {}
    return Forgotten(counts["landing"], counts["release"]) if "release" in counts else Forgotten()


def forget_messages(
    session: Callable[[], SparkSession], paths: TablePaths, landing: int, before: datetime, since: Forgotten
) -> int:
    """Remove value and headers of rows up to a landing that were released or are unwatched; return how many.

    What waits or is dead keeps its messages, also those that nobody watches: it may still be released, by another
    declaration. Where an id was used again, a row belongs to the
    transaction that `reused_ids.named` says. A repeated call removes nothing.

    Args:
        session: opens a Spark session; it is not called where there is nothing to remove.
        paths: the tables of the pipeline.
        landing: the last landing whose messages are old enough.
        before: the time before which all rows up to that landing were landed.
        since: how far messages were removed before.
    """
    path = paths.change_events
    fresh = f"{HAS_MESSAGE} and landing <= {landing} and landing > {since.landing}"
    again = _released_again(paths, since, before)
    has_fresh = bool(small_tables.query(path, f"select 1 from t where {fresh} limit 1"))
    if not again.num_rows and not has_fresh:
        return 0
    open_ids = _read_open_ids(paths)
    unreleased = _unreleased_ends(paths, open_ids)
    older = _older(paths, since, again, unreleased) if again.num_rows else NO_ROWS
    if not older.num_rows and not has_fresh:
        return 0
    spark = session()
    rows = spark_tables.read(spark, path).where(fresh).select("landing", "row", "table", *reused_ids.COLUMNS)
    chosen, watched = rows.where("`table` is null"), rows.where("`table` is not null")
    if open_ids:
        # Their tables may be declared before they are released.
        whose = spark.createDataFrame(pa.table({"transaction_id": sorted(open_ids)}))
        watched = watched.unionByName(chosen.join(whose, "transaction_id", "left_semi").select(watched.columns))
        chosen = chosen.join(whose, "transaction_id", "left_anti")
    chosen = chosen.select(*NO_ROWS.column_names).unionByName(_of_released(spark, paths, watched, unreleased))
    if older.num_rows:
        chosen = chosen.unionByName(spark.createDataFrame(older))
    dead = open_letters.open_dead_letters(paths, 'landing, "row"', f"where landing <= {landing}")
    if dead.num_rows:
        chosen = chosen.join(spark.createDataFrame(dead), NO_ROWS.column_names, "left_anti")
    return _removed(spark, path, chosen, (0 if older.num_rows else since.landing, landing))


def _released_again(paths: TablePaths, since: Forgotten, before: datetime) -> pa.Table:
    """Return transactions that were released since, of which older landings may have rows.

    They waited since then, or were given up.

    Returns:
        transaction_id, and landing: the first one that may have such rows.
    """
    if not since.landing or not exists(paths.table(names.TRANSACTIONS)):
        return NO_ROWS
    tables = {"t": opened(paths.table(names.TRANSACTIONS))}
    released = f"t.status = 'released' and t.release > {since.release}"
    waited = (
        f"select transaction_id, 0 as landing from t where {released} and first_landed_at < {instant_literal(before)}"
    )
    if exists(paths.dead_letters):
        tables["d"] = opened(paths.dead_letters)
        joined = f"t join d on t.transaction_id = d.transaction_id where {released} and d.landing <= {since.landing}"
        waited += f" union all select t.transaction_id, d.landing from {joined}"
    return arrow_tables.ask(tables, waited)


def _older(paths: TablePaths, since: Forgotten, again: pa.Table, unreleased: pa.Table) -> pa.Table:
    """Return the rows of landings of before that belong to released transactions: landing, row.

    again: ids of transactions, see `_released_again`. unreleased: see `_unreleased_ends`.
    """
    within = f"landing between {pc.min(again.column('landing')).as_py()} and {since.landing}"
    columns = ", ".join(reused_ids.COLUMNS)
    sql = f'select landing, "row", {columns} from t where {HAS_MESSAGE} and {within}'
    ids = again.column("transaction_id").combine_chunks()
    rows = arrow_tables.matching(paths.change_events, sql, "transaction_id", ids)
    if not rows.num_rows:
        return NO_ROWS
    path, released = paths.table(names.TRANSACTIONS), "select transaction_id, csn from t where status = 'released'"
    ends = dict[str, dict[int, bool]]()
    for each in unreleased.to_pylist():
        ends.setdefault(each["transaction_id"], {})[each["csn"]] = False
    for each in arrow_tables.matching(path, released, "transaction_id", ids).to_pylist():
        ends.setdefault(each["transaction_id"], {})[each["csn"]] = True
    lists = [sorted(ends[name].items()) for name in cast("list[str]", rows.column("transaction_id").to_pylist())]
    of_rows = [[{"csn": csn, "is_released": is_released} for csn, is_released in each] for each in lists]
    rows = rows.append_column("ends", pa.array(of_rows, reused_ids.ENDS))
    return rows.filter(pa.array(reused_ids.are_released(rows))).select(NO_ROWS.column_names)


def _of_released(spark: SparkSession, paths: TablePaths, rows: DataFrame, unreleased: pa.Table) -> DataFrame:
    """Return landing and row of those rows that belong to released transactions; unreleased: see `_unreleased_ends`."""
    finished = spark_tables.read(spark, paths.table(names.TRANSACTIONS)).where("status = 'released'")
    each_end = finished.select("transaction_id", "csn", F.lit(True).alias("is_released"))
    if unreleased.num_rows:
        each_end = each_end.unionByName(spark.createDataFrame(unreleased).withColumn("is_released", F.lit(False)))
        each_end = each_end.groupBy("transaction_id", "csn").agg(F.max("is_released").alias("is_released"))
    of_id = F.sort_array(F.collect_set(F.struct("csn", "is_released"))).alias("ends")
    ends = each_end.groupBy("transaction_id").agg(of_id)

    def apply(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for events in (pa.Table.from_batches([batch]) for batch in batches if batch.num_rows):
            released = events.filter(pa.array(reused_ids.are_released(events)))
            yield from released.select(["landing", "row"]).to_batches()

    return rows.join(ends, "transaction_id").mapInArrow(apply, "landing bigint, row bigint")


def _read_open_ids(paths: TablePaths) -> set[str]:
    """Return the ids of the transactions that wait or are dead."""
    if not exists(paths.table(names.TRANSACTIONS)):
        return set()
    pending = small_tables.query(paths.table(names.PENDING_TRANSACTIONS), "select distinct transaction_id from t")
    return {row["transaction_id"] for row in (*open_letters.given_up(paths), *pending)}


def _unreleased_ends(paths: TablePaths, open_ids: Set[str]) -> pa.Table:
    """Return the transactions that wait or are dead although another one of their id was released: transaction_id, csn.

    Each has a row for each csn in its metadata, and one behind all csns, where it may end as long as none has come.
    Metadata of landings that the buffer did not take yet is among them. Ids that are used once are left out.
    """
    none = pa.table({"transaction_id": pa.array([], pa.string()), "csn": pa.array([], pa.int64())})
    if not exists(paths.table(names.TRANSACTIONS)):
        return none
    seen = buffer_state(paths)
    sql = "select transaction_id, csn from t where kind = 'metadata' and csn is not null"
    undecided = arrow_tables.select(paths.change_events, f"{sql} and landing > {0 if seen is None else seen.landing}")
    ids = pa.array(sorted(open_ids | {*_texts(undecided)}), pa.string())
    released = "select transaction_id from t where status = 'released'"
    reused = _texts(arrow_tables.matching(paths.table(names.TRANSACTIONS), released, "transaction_id", ids))
    if not reused:
        return none
    metadata = arrow_tables.matching(
        paths.change_events, sql, "transaction_id", pa.array(sorted(reused), pa.string())
    ).to_pylist()
    ends = {(row["transaction_id"], row["csn"]) for row in metadata} | {(name, BEHIND_ALL) for name in reused}
    return pa.Table.from_pylist(
        [{"transaction_id": name, "csn": csn} for name, csn in sorted(ends)], schema=none.schema
    )


def _texts(rows: pa.Table) -> set[str]:
    """Return the ids of rows, which lack the column where there is no row."""
    return {*cast("list[str]", rows.column("transaction_id").to_pylist())} if rows.num_rows else set()


def _removed(spark: SparkSession, path: str, rows: DataFrame, landings: tuple[int, int]) -> int:
    """Remove the messages of rows, which lie behind the first landing and up to the second; return how many."""
    after, until = landings
    expired = spark_tables.materialised(rows)
    count = expired.count()
    if count:
        about = json.dumps({"expired": until, "rows": count})
        session = spark_tables.new_write_session(spark, path, about)
        same = f"t.landing = s.landing and t.row = s.row and t.landing > {after} and t.landing <= {until}"
        target = SparkTable.forPath(session, path).alias("t")
        nothing = {name: F.lit(None) for name in ("value", "headers")}
        target.merge(expired.alias("s"), same).whenMatchedUpdate(set=nothing).execute()
        spark_tables.refuse_unwritten(path, about)
    return count
