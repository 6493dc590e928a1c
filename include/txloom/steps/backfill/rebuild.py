"""backfill, rebuild: histories of a range from change_events, and current tables from history, into shadow tables.

A current table is rebuilt from the history as a backfill would leave it (`left_history`), as a first merge makes it:
at once, or piece by piece where it is large.
"""

import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from txloom.config import names
from txloom.config.models.pipeline import Aggregate
from txloom.current.documents.compose import distinct_keys
from txloom.steps.backfill.left_history import LeftHistory
from txloom.steps.backfill.released_events import OUTCOMES, Share, count_landed, landings, transactions
from txloom.steps.backfill.scope import REBUILT, Scope, Target
from txloom.steps.backfill.transaction_rows import (
    Large,
    MadePart,
    Part,
    Work,
    large_transactions,
    rebuild,
    rebuild_large,
)
from txloom.steps.buffer.release_batch import FEWEST_BITS, SHARE
from txloom.steps.current.composition import Composition, Rows, compose_into
from txloom.steps.current.first_fold import fold_first
from txloom.storage.delta import arrow_tables, data_files, small_tables
from txloom.storage.rewriting.rewrite import Rewrite
from txloom.storage.rewriting.table_files import TableFiles
from txloom.storage.spark import tasks
from txloom.storage.targets import shadow_tables
from txloom.storage.targets.row_tables import member_of, row_tables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TRANSACTIONS = names.TRANSACTIONS
"""Its shadow table has the outcome of each transaction."""


def rebuild_shadows(session: "Callable[[], SparkSession]", scope: Scope) -> dict[str, int]:
    """Replace the shadow tables of a backfill; return counts: transactions, events, and transactions by outcome.

    Args:
        session: opens a Spark session, where its tasks rebuild what is large.
        scope: the backfill.
    """
    chosen, rows = rebuild_histories(session, scope)
    _currents(session, scope)
    sql = "select fate, count(*) as n from t group by fate"
    outcomes = {
        row["fate"]: row["n"] for row in small_tables.query(scope.paths.table(names.shadow_table(TRANSACTIONS)), sql)
    }
    return {"transactions": chosen.num_rows, "events": rows, REBUILT: 0} | outcomes


def rebuild_histories(session: "Callable[[], SparkSession]", scope: Scope) -> tuple[pa.Table, int]:
    """Replace the shadows of histories; return the transactions, and about how many events they have.

    Args:
        session: opens a Spark session, where its tasks rebuild what is large.
        scope: the backfill.
    """
    chosen = transactions(scope)
    rows = event_count(scope, chosen)
    if rows <= arrow_tables.LOCAL_ROWS:
        _histories(scope, chosen)
    else:
        _histories_in_shares(session, scope, chosen, rows)
    return chosen, rows


def _histories(scope: Scope, chosen: pa.Table) -> None:
    """Write the shadows of histories; chosen: the transactions, as `released_events.transactions` returns them."""
    rebuilt = rebuild(scope, Share(chosen, landings(scope, chosen) if chosen.num_rows else (0, 0)))
    for target in scope.histories:
        rows = rebuilt.history.get(target.name)
        rows = target.schema.empty_table() if rows is None else _without_cleaned(target, rows)
        shadow_tables.write(_shadow(scope, target.name), arrow_tables.conform(rows, target.schema))
    shadow_tables.write(_shadow(scope, TRANSACTIONS), arrow_tables.conform(rebuilt.outcomes, OUTCOMES))


def _histories_in_shares(session: "Callable[[], SparkSession]", scope: Scope, chosen: pa.Table, rows: int) -> None:
    """Write the same: tasks write data files, share by share of the transactions, and one commit a table adds them.

    rows: how many events the transactions have.
    """
    targets = {each.name: each for each in scope.histories}
    empty = {each.name: each.schema.empty_table() for each in scope.histories}
    empty[TRANSACTIONS] = OUTCOMES.empty_table()
    for name, nothing in empty.items():
        shadow_tables.write(_shadow(scope, name), nothing)
    if not chosen.num_rows:
        return
    shares, large = _shares(scope, chosen, rows)

    def keep(name: str, made: pa.Table) -> data_files.DataFile:
        rows = _without_cleaned(targets[name], made) if name in targets else made
        return data_files.write_file(rows, names.shadow_table(name), _shadow(scope, name))

    def write(some: Iterable[Share]) -> Iterator[data_files.DataFile]:
        for share in some:
            rebuilt = rebuild(scope, share)
            for name, made in {**rebuilt.history, TRANSACTIONS: rebuilt.outcomes}.items():
                if made.num_rows:
                    yield keep(name, made)

    written = tasks.in_tasks(session, shares, write)
    for kept, outcome in rebuild_large(scope, large, keep, partial(tasks.in_tasks, session)):
        written += [*kept, keep(TRANSACTIONS, outcome)]
    attempt = f"backfill:{uuid.uuid4().hex}"
    for name in empty:
        of_table = [part for part in written if part.table == names.shadow_table(name)]
        data_files.append_files(of_table, _shadow(scope, name), attempt, 0)


def _shares(scope: Scope, chosen: pa.Table, rows: int) -> tuple[list[Share], list[Large]]:
    """Return the transactions in shares of about the same size, and those that are larger than a share.

    rows: how many events all have.
    """
    from txloom.storage.spark import spread

    between = landings(scope, chosen)
    large = large_transactions(scope, chosen, between, SHARE)
    tx = pa.chunked_array([each.shares[0].chosen.column("tx").combine_chunks() for each in large], pa.int64())
    rest = chosen.filter(pc.invert(pc.is_in(chosen.column("tx"), value_set=tx.combine_chunks())))
    ranges = spread.hash_ranges(max(rows - sum(each.rows for each in large), 0), SHARE, FEWEST_BITS)
    split = (Share(spread.within(rest, "tx", bounds), between, bounds) for bounds in ranges)
    return [share for share in split if share.chosen.num_rows], large


@dataclass(frozen=True)
class RebuiltCount:
    """How much is rebuilt of some transactions.

    Args:
        rows: how many rows, by history table.
        outcomes: of the transactions, in the schema OUTCOMES.
    """

    rows: Counter[str]
    outcomes: pa.Table


def count_rebuilt(scope: Scope) -> Iterator[RebuiltCount]:
    """Yield how much `rebuild_histories` would make, by making it and forgetting it share by share.

    Args:
        scope: the backfill.
    """
    chosen = transactions(scope)
    if not chosen.num_rows:
        return
    rows, shares, large = event_count(scope, chosen), [Share(chosen, landings(scope, chosen))], list[Large]()
    if rows > arrow_tables.LOCAL_ROWS:
        shares, large = _shares(scope, chosen, rows)
    for share in shares:
        rebuilt = rebuild(scope, share)
        yield RebuiltCount(Counter({name: made.num_rows for name, made in rebuilt.history.items()}), rebuilt.outcomes)

    def count(name: str, made: pa.Table) -> Counter[str]:
        return Counter({name: made.num_rows})

    def in_turn(parts: Sequence[Part], work: Work[Counter[str]]) -> list[MadePart[Counter[str]]]:
        return [made for part in parts for made in work([part])]

    for kept, outcome in rebuild_large(scope, large, count, in_turn):
        yield RebuiltCount(sum(kept, Counter[str]()), outcome)


def event_count(scope: Scope, chosen: pa.Table) -> int:
    """Return about how many events some transactions have; chosen: as `released_events.transactions` returns them."""
    rows: int = pc.sum(chosen.column("rows")).as_py() or 0
    return max(rows, count_landed(scope)) if scope.redeclared is not None else rows


def _without_cleaned(target: Target, rows: pa.Table) -> pa.Table:
    """Return the rows of a history above the csn up to which it was cleaned."""
    csn = rows.column("_txloom_csn")
    return rows.filter(pc.greater(csn, pa.scalar(target.above))) if target.above else rows


def _currents(session: "Callable[[], SparkSession]", scope: Scope) -> None:
    """Write the shadows of current tables: fold each history, then compose documents of the folded rows."""
    histories = {target.name: target for target in scope.histories}
    for row_table in row_tables(scope.pipeline):
        rewrite = _anew(scope, scope.rows(row_table))
        source = LeftHistory.of(scope, row_table, histories[row_table.history])
        fold_first(session, source, rewrite)
        rewrite.commit({})
    for aggregate in scope.pipeline.targets.aggregates:
        rewrite = _anew(scope, scope.documents(aggregate))
        compose_into(rewrite, session, _composition(scope, aggregate))
        rewrite.commit({})


def _composition(scope: Scope, aggregate: Aggregate) -> Composition:
    """Return what all documents of an aggregate are composed of: the shadows of its members."""
    pipeline, root = scope.pipeline, scope.pipeline.table(aggregate.root)
    current = {row_table.table.name: row_table.current for row_table in row_tables(pipeline)}
    parents = {root.name: root.key} | {child.table: child.parent_key for child in aggregate.children}
    opened = {name: TableFiles.open(_shadow(scope, current[name])) for name in parents}
    members = [Rows(key, opened[name], opened[name].files) for name, key in parents.items()]
    key_schema = pa.schema([opened[root.name].schema.field(name) for name in root.key])
    keys = arrow_tables.rows_of(_shadow(scope, current[root.name]), key_schema, "true")
    children = [member_of(pipeline.table(child.table), child) for child in aggregate.children]
    return Composition(root.key, root.column_names, children, distinct_keys([keys], root.key), members)


def _anew(scope: Scope, target: Target) -> Rewrite:
    """Begin the commit that writes the shadow of a table."""
    return shadow_tables.anew(_shadow(scope, target.name), target.schema, target.key)


def _shadow(scope: Scope, table: str) -> str:
    return scope.paths.table(names.shadow_table(table))
