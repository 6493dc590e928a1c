"""Messages that are removed, as maintenance removes old ones; and what can no longer be made again without them."""

from collections.abc import Iterable, Mapping
from datetime import timedelta
from random import Random
from typing import Any

from deltalake import DeltaTable

from called import step_of
from txloom.config import names
from txloom.events.formats import is_ordered
from txloom.steps.maintenance.expire import expire
from txloom.storage.buffer.newest_batch import buffer_state
from txloom.storage.dead_letters import open_letters
from txloom.storage.delta import arrow_tables
from txloom.storage.delta.sql import text_list
from workloads.small_lake import SmallLake

Row = Mapping[str, Any]


def forget(lake: SmallLake, chance: Random) -> str:
    """Remove messages of what is decided up to any landing, as `expire` does; return how, "" for nothing.

    Where nothing is undecided, a lake of Spark's runs the step itself. A transaction that waits, or is dead, keeps its
    messages here, also those of tables that nobody watches: `expire` keeps them for longer than patience.
    """
    seen = buffer_state(lake.paths)
    if seen is None or not seen.landing:
        return ""
    undecided = _undecided(lake, seen.landing)
    if lake.spark is not None and not undecided and chance.random() < 0.5:
        kept = lake.pipeline.maintenance
        short = kept.model_copy(
            update={"change_events": kept.change_events.model_copy(update={"keep": timedelta(seconds=0)})}
        )
        pipeline = lake.pipeline.model_copy(update={"maintenance": short})
        expire(step_of(pipeline, lake.warehouse, f"run-{lake.runs}", lake.spark))
        return "expire"
    upto = chance.randint(1, seen.landing)
    chosen = f"kind = 'row' and value is not null and landing <= {upto}"
    chosen += "".join(f' and not (landing = {a} and "row" = {b})' for a, b in _late(lake))
    if undecided:
        chosen += f" and coalesce(transaction_id, '') not in ({text_list(undecided)})"
    DeltaTable(lake.paths.change_events).update(predicate=chosen, updates={"value": "null", "headers": "null"})
    return "forget"


def _late(lake: SmallLake) -> list[tuple[int, int]]:
    """Return landing and row of what dead letters of released transactions took."""
    letters = open_letters.open_dead_letters(lake.paths, 'landing, "row"')
    return list(zip(*(letters.column(name).to_pylist() for name in ("landing", "row")), strict=True))


def _undecided(lake: SmallLake, landing: int) -> list[str]:
    """Return the ids of transactions that wait, are dead, or have messages that no batch of the buffer took yet.

    A transaction waits too while only rows of it came that nobody watches, and its metadata did not.
    """
    waiting = {row["transaction_id"] for row in lake.rows(names.PENDING_TRANSACTIONS)}
    dead = {row["transaction_id"] for row in open_letters.given_up(lake.paths)}
    letters = open_letters.open_dead_letters(lake.paths, "transaction_id, csn").to_pylist()
    released = {(row["transaction_id"], row["csn"]) for row in lake.rows(names.TRANSACTIONS)}
    dead |= {row["transaction_id"] for row in letters if (row["transaction_id"], row["csn"]) not in released}
    sql = f"select distinct transaction_id from t where landing > {landing}"
    new = {row["transaction_id"] for row in arrow_tables.select(lake.paths.change_events, sql).to_pylist()}
    ended = "select transaction_id from t where kind = 'metadata' and transaction_id is not null"
    sql = f"select distinct transaction_id from t where kind = 'row' and transaction_id not in ({ended})"
    unended = {row["transaction_id"] for row in arrow_tables.select(lake.paths.change_events, sql).to_pylist()}
    # Rows outside of transactions, and transactions that end by order, have no metadata.
    unended -= {row["transaction_id"] for row in lake.rows(names.TRANSACTIONS)}
    unended = set() if is_ordered(lake.pipeline) else {each for each in unended if each and not each.startswith("r:")}
    return sorted(each for each in waiting | dead | new | unended if each is not None)


def lost_sources(lake: SmallLake, upto: int) -> set[str]:
    """Return the source tables of which a row is gone, in every delivery, that was committed up to a csn."""
    columns = "transaction_id, source_table, payload, digest, value is null as is_gone"
    sql = f"select {columns} from t where kind = 'row' and source_table is not null and coalesce(csn, 0) <= {upto}"
    kept: set[tuple[Any, ...]] = set()
    gone: set[tuple[Any, ...]] = set()
    for row in arrow_tables.select(lake.paths.change_events, sql).to_pylist():
        content = (row["source_table"], row["transaction_id"], row["payload"], row["digest"])
        (gone if row["is_gone"] else kept).add(content)
    return {content[0] for content in gone - kept}


def is_lost(source: str, lost: Iterable[str]) -> bool:
    """Return whether a source table is among those of messages, which may name it in part or in another case."""
    return source in lost or any(_last(each) == _last(source) for each in lost)


def _last(source: str) -> str:
    return source.rsplit(".", 1)[-1].casefold()
