"""Events that come after their transaction was finished: duplicates, dead letters, or what a dead one still lacked.

What comes for a dead transaction is added to its dead letters. Where that completes it, a row with the cause "complete
now" is added to `transactions` (docs/architecture.md, promise 8).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from txloom.config.identity import is_one
from txloom.quality.findings import Finding
from txloom.steps.buffer.declared_rules import rules_of
from txloom.steps.buffer.give_up import DeadLettered, causes_frame, late_events
from txloom.steps.buffer.late_metadata import contradictions
from txloom.steps.buffer.micro_batch import Batch
from txloom.storage.dead_letters.open_letters import dead_by_hash, released
from txloom.storage.dead_letters.spark_rows import as_dead_letters
from txloom.storage.declarations.redeclared import as_declared, redeclared_of
from txloom.storage.delta import arrow_tables
from txloom.storage.delta.sql import text_list
from txloom.storage.system_tables import TRANSACTIONS
from txloom.transactions import metadata, reused_ids
from txloom.transactions.causes import COMPLETE, UNCOUNTED
from txloom.transactions.completeness import EXCESS, NO_METADATA, SHORT

CURABLE = frozenset((NO_METADATA, SHORT, EXCESS, *UNCOUNTED.values()))
"""Causes that more events can end. A value that cannot be read, or a suspect that is held, needs an operator."""


@dataclass(frozen=True)
class Late:
    """What late events of a batch lead to.

    Args:
        dead_lettered: dead letters, and changes of the counts.
        completed: rows for `transactions` of dead ones that are complete now.
        findings: findings about metadata that counts otherwise than what was released.
    """

    dead_lettered: DeadLettered = field(default_factory=DeadLettered)
    completed: pa.Table = field(default_factory=TRANSACTIONS.empty_table)
    findings: Sequence[Finding] = ()


def judge(batch: Batch, late: Sequence[Row], causes: Mapping[int, str]) -> Late:
    """Decide about the late events of a batch, without writing.

    Args:
        batch: the batch.
        late: decisions of kind `late`: landing and row of an event, the hash of its transaction, and `rows`, which is 0
            for metadata.
        causes: causes of the transactions that this batch gives up, by hash.
    """
    known = dead_by_hash(batch.paths) if late else {}
    of_dead = known.keys() | causes.keys()
    findings = contradictions(batch, [row for row in late if not row["rows"] and row["tx"] not in of_dead])
    late = [row for row in late if row["rows"] or row["tx"] in of_dead]
    dead_lettered, dead = _judged(batch, late, causes, known) if late else (DeadLettered(), {})
    completed = completed_of(batch, [identity for identity, cause in dead.values() if cause in CURABLE])
    return Late(dead_lettered, completed, findings)


def _judged(
    batch: Batch, late: Sequence[Row], batch_causes: Mapping[int, str], known: Mapping[int, tuple[str, str]]
) -> tuple[DeadLettered, dict[int, tuple[str, str]]]:
    """Return the dead letters among late rows and metadata, and the dead transactions: id and cause, by hash.

    known: all dead transactions, likewise.
    """
    coordinates = [(row["landing"], row["row"]) for row in late]
    landings = sorted({row["landing"] for row in late})
    events = batch.change_events.where(F.col("landing").isin(landings) & F.col("kind").isin("row", "metadata"))
    late_rows = batch.spark.createDataFrame(coordinates, "landing bigint, row bigint")
    events = events.join(F.broadcast(late_rows), ["landing", "row"], "left_semi")
    concerned = {row["tx"] for row in late}
    dead = _given_up_now(batch, {tx: cause for tx, cause in batch_causes.items() if tx in concerned}, events)
    dead |= {tx: cause for tx, cause in known.items() if tx in concerned}
    causes = {tx: cause for tx, (_, cause) in dead.items()}
    dead_lettered = late_events(batch, events.where("kind = 'row'"), causes)
    if not dead:
        return dead_lettered, dead
    joined = _metadata(batch, events.where("kind = 'metadata'"), causes)
    dead_letters = [part for part in (dead_lettered.dead_letters, joined) if part is not None]
    both = reduce(DataFrame.unionByName, dead_letters) if dead_letters else None
    return DeadLettered(both, None, dead_lettered.rows, dead_lettered.duplicates), dead


def _given_up_now(batch: Batch, causes: Mapping[int, str], events: DataFrame) -> dict[int, tuple[str, str]]:
    """Return id and cause, by hash, of the transactions that this batch gives up.

    Those that another batch released long ago are left out.
    """
    if not causes:
        return {}
    concerned = events.where(F.col("tx").isin(list(causes)))
    ids = {row["tx"]: row["transaction_id"] for row in concerned.select("tx", "transaction_id").distinct().collect()}
    ends = dict(sorted(released(batch.paths, list(ids.values()))))
    again = concerned.where(F.col("transaction_id").isin(list(ends))).select(*reused_ids.COLUMNS) if ends else None
    rows = [row.asDict() for row in again.collect()] if again is not None else []
    later = {row["transaction_id"] for row in rows if reused_ids.is_behind([row], ends[row["transaction_id"]])}
    return {tx: (name, causes[tx]) for tx, name in ids.items() if name not in ends or name in later}


def _metadata(batch: Batch, late: DataFrame, dead: Mapping[int, str]) -> DataFrame | None:
    """Return the dead letters of late metadata whose counts their dead transaction did not have yet; None: none."""
    expected, position = F.to_json("expected").alias("counts"), F.struct("landing", "row").alias("seen_at")
    metadata_events = batch.change_events.where((F.col("kind") == "metadata") & F.col("tx").isin(list(dead)))
    seen = metadata_events.select("tx", expected, position)
    news = late.where(F.col("tx").isin(list(dead))).withColumn("counts", expected).withColumn("late_at", position)
    again = (
        (F.col("n.tx") == F.col("s.tx"))
        & (F.col("n.counts") == F.col("s.counts"))
        & (F.col("s.seen_at") < F.col("n.late_at"))
    )
    news = news.alias("n").join(F.broadcast(seen).alias("s"), again, "left_anti")
    news = news.join(F.broadcast(causes_frame(batch, dead)), "tx").drop("cause", "detail").persist()
    news = news.withColumnRenamed("joins", "cause")
    news = news.withColumn("detail", F.lit("came after the transaction was given up"))
    return None if news.isEmpty() else as_dead_letters(news, datetime.now(UTC), batch.release)


def completed_of(batch: Batch, dead: Sequence[str]) -> pa.Table:
    """Return a row for `transactions` of each dead transaction that is whole by all that was landed of it.

    Args:
        batch: the batch.
        dead: ids of transactions.
    """
    if not dead:
        return TRANSACTIONS.empty_table()
    ids = text_list(dead)
    columns = f"{', '.join(reused_ids.COLUMNS)}, xid, committed_at, landed_at, payload, digest, expected, landing"
    columns += ', "table", "row", producer_run'
    redeclared = redeclared_of(batch.pipeline, batch.paths) if batch.declared.number > 1 else None
    columns += ", topic, value, headers, op, source_table" if redeclared is not None else ""
    chosen = "kind = 'metadata' or kind = 'row' and (\"table\" is not null or value is not null)"
    sql = f"select {columns} from t where transaction_id in ({ids}) and ({chosen})"
    landed = arrow_tables.select(batch.paths.change_events, sql)
    if redeclared is not None and landed.num_rows:
        landed = as_declared(batch.pipeline, redeclared, landed).rename_columns({"counts": "expected"})
    landed = landed.filter(
        pc.or_(pc.equal(landed.column("kind"), pa.scalar("metadata")), pc.is_valid(landed.column("table")))
    )
    events = reused_ids.split(landed.to_pylist())
    before = released(batch.paths, dead)
    rows = [_whole(of_transaction, batch) for name, of_transaction in events.items() if name not in before]
    return pa.Table.from_pylist([row for row in rows if row is not None], TRANSACTIONS)


def _whole(events: Sequence[Mapping[str, Any]], batch: Batch) -> dict[str, Any] | None:
    metadata_events = [event for event in events if event["kind"] == "metadata"]
    rows: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for event in events:
        if event["kind"] == "row":
            rows.setdefault((event["table"], event["identity"]), []).append(event)
    newest = metadata.newest(metadata_events)
    if newest is None or any(not is_one(each) for each in rows.values()):
        return None
    rules = rules_of(batch.pipeline)
    if not rules.corrected and len({metadata.counts_of(each) for each in metadata_events}) > 1:
        return None
    runs = {event["producer_run"] for event in events} - {None}
    if len(runs) > 1 and rules.hold:
        return None
    received: dict[str, int] = {}
    for table, _ in rows:
        received[table] = received.get(table, 0) + 1
    if received != {table: count for table, count in dict(newest["expected"] or ()).items() if count}:
        return None
    first = {name: newest[name] for name in ("transaction_id", "xid", "committed_at")}
    return first | {
        "csn": max((event["csn"] for event in events if event["csn"] is not None), default=None),
        "status": "dead",
        "cause": COMPLETE,
        "rows": len(rows),
        "first_landed_at": min(event["landed_at"] for event in events),
        "finished_at": datetime.now(UTC),
        "release": batch.release,
    }
