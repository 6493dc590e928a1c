"""Find the events of released transactions in change_events again, and make their history rows anew.

A release does not record its events one by one. They follow from `transactions`: the events that were landed between
the transaction's first landing and its release, each identity once. If they are not as many rows as were released, the
transaction stays as it is: some events are no longer there, or cannot be distinguished from later ones.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from txloom.arrow_types import AnyValues
from txloom.config import names
from txloom.steps.backfill.scope import GONE, REBUILT, UNREADABLE, Scope
from txloom.steps.buffer.release import ANY_TX, EVENTS, events_of, made_of
from txloom.storage.buffer.buffer_stream import RELEASED_ROWS, REPEATED_ROWS
from txloom.storage.delta import arrow_tables, small_tables
from txloom.storage.delta.sql import instant_literal, sql_name, text_list
from txloom.storage.system_tables import TRANSACTIONS
from txloom.transactions.events import NOWHERE
from txloom.transactions.hashes import hashed

COLUMNS = ("transaction_id", "xid", "csn", "rows", "release")
LEFT_OUT = ("identity", "payload", "digest", "landed_at", "expected")
"""Columns of landed events that a release does not read."""
KEYS = ("tx", "table", "identity", "payload", "digest")
"""What two deliveries of one event have in common."""
_TYPES: dict[str, pa.DataType] = {"xid": pa.string(), "csn": pa.int64(), "rows": pa.int64(), "release": pa.int64()}
TABLES = pa.list_(pa.string())
_TYPES |= {"landing": pa.int64(), "fate": pa.string(), "tables": TABLES}
OUTCOMES = pa.schema(_TYPES)
"""The outcome (`fate`) of each transaction of a backfill. gone: its events are no longer there, or cannot be
distinguished from those of another one with its id. short: rows of it have not arrived. unreadable: they do not fit
what is declared now. The history rows of all three stay as they are. tables: of these; null: of all tables."""


@dataclass(frozen=True)
class Rebuilt:
    """Rebuilt transactions.

    Args:
        history: rows by history table.
        outcomes: in the schema OUTCOMES.
    """

    history: dict[str, pa.Table]
    outcomes: pa.Table


def transactions(scope: Scope) -> pa.Table:
    """Return the released transactions of a backfill, ordered by tx.

    Their columns are those of the schema RELEASED_ROWS, transaction_id, xid, release and landing; first_landing,
    last_landing and runs are 0.
    """
    csns = f"csn between {scope.first} and {scope.last}"
    if scope.redeclared is not None and scope.first <= 0:
        # Where only rows tell a csn, a transaction without a watched row has none.
        csns += f" or csn = {NOWHERE}"
    where = f"status = 'released' and release <= {scope.release} and ({csns})"
    columns = [*COLUMNS, "first_landed_at", "finished_at", "landing"]
    schema = pa.schema([TRANSACTIONS.field(name) for name in columns])
    rows = arrow_tables.rows_of(scope.paths.table(names.TRANSACTIONS), schema, f"{where} and ({scope.chosen})")
    if not rows.num_rows:
        texts = [(name, pa.string()) for name in COLUMNS[:2]]
        integers = [(name, pa.int64()) for name in ("release", "landing")]
        return pa.schema([*texts, *RELEASED_ROWS, *integers]).empty_table()
    rows = rows.append_column("tx", hashed(rows.column("transaction_id")))
    for name, instant in (("first_at", "first_landed_at"), ("finished_at", "finished_at")):
        micros = rows.column(instant).cast(pa.timestamp("us", "UTC")).cast(pa.int64())
        rows = rows.drop_columns([instant]).append_column(name, micros)
    nothing = pa.repeat(pa.scalar(0, pa.int64()), rows.num_rows)
    for name in ("first_landing", "last_landing", "runs"):
        rows = rows.append_column(name, nothing)
    return rows.sort_by("tx")


def landings(scope: Scope, chosen: pa.Table) -> tuple[int, int]:
    """Return the first and last landing that may have events of some transactions; (0, 0): none.

    Args:
        scope: the backfill.
        chosen: the transactions, as `transactions` returns them; at least one.
    """
    first, last = pc.min(chosen.column("first_at")).as_py(), pc.max(chosen.column("finished_at")).as_py()
    moments = pa.array([first, last]).cast(pa.timestamp("us", "UTC")).to_pylist()
    since, until = (instant_literal(moment) for moment in moments)
    where = f"kind = 'clock' and landed_at between {since} and {until}"
    bounds = small_tables.query(
        scope.paths.change_events, f"select min(landing) as a, max(landing) as b from t where {where}"
    )
    return (bounds[0]["a"] or 0, bounds[0]["b"] or 0) if bounds else (0, 0)


def count_landed(scope: Scope) -> int:
    """Return how many rows of watched tables, or of those that are watched now, were landed."""
    sources = text_list(scope.redeclared.sources if scope.redeclared is not None else ())
    is_watched = f'"table" is not null or source_table in ({sources})' if sources else '"table" is not null'
    sql = f"select count(*) as n from t where kind = 'row' and ({is_watched})"
    return int(small_tables.query(scope.paths.change_events, sql)[0]["n"])


def rebuild(scope: Scope, chosen: pa.Table, between: tuple[int, int], bounds: tuple[int, int] = ANY_TX) -> Rebuilt:
    """Make the history rows of transactions anew; nothing is written.

    Args:
        scope: the backfill.
        chosen: the transactions, as `transactions` returns them.
        between: the first and last landing that may have their events.
        bounds: the lowest and highest hash of the transactions.
    """
    if not chosen.num_rows:
        return Rebuilt({}, OUTCOMES.empty_table())
    once = known_by_id(chosen)
    if not pc.all(once).as_py():
        rebuilt = rebuild(scope, chosen.filter(once), between, bounds)
        left = chosen.filter(pc.invert(once))
        return Rebuilt(rebuilt.history, pa.concat_tables([rebuilt.outcomes, outcomes_of(left, GONE)]))
    events = _landed(scope, chosen, between, bounds)
    if not events.num_rows:
        return Rebuilt({}, outcomes_of(chosen, _fates(pc.equal(chosen.column("rows"), pa.scalar(0)))))
    complete = _complete(events, chosen)
    tx = pa.array(np.unique(complete.column("tx").to_numpy()), pa.int64())
    there = pc.or_(pc.is_in(chosen.column("tx"), tx), pc.equal(chosen.column("rows"), pa.scalar(0)))
    whole = chosen.filter(there)
    made = made_of(scope.pipeline, of_tables(complete, whole, scope.tables), whole.select(RELEASED_ROWS.names), 0)
    bad = pa.array(sorted(made.unreadable), pa.int64())
    unreadable = pc.is_in(chosen.column("tx"), bad)
    return Rebuilt(made.history, outcomes_of(chosen, pc.if_else(unreadable, UNREADABLE, _fates(there))))


def _fates(there: AnyValues) -> AnyValues:
    """Return what becomes of transactions; there: of which every event is there."""
    fates: AnyValues = pc.if_else(there, REBUILT, GONE)
    return fates


def outcomes_of(chosen: pa.Table, fate: str | AnyValues, tables: Sequence[Sequence[str]] | None = None) -> pa.Table:
    """Return rows of OUTCOMES for transactions; fate: of all, or of each; tables: of which tables, None: of all."""
    columns: list[AnyValues] = [chosen.column(name) for name in OUTCOMES.names[:5]]
    fates = pa.repeat(pa.scalar(fate), chosen.num_rows) if isinstance(fate, str) else fate
    of_tables = pa.nulls(chosen.num_rows, TABLES) if tables is None else pa.array(tables, TABLES)
    return pa.Table.from_arrays([*columns, fates, of_tables], schema=OUTCOMES)


def known_by_id(chosen: pa.Table) -> pa.BooleanArray:
    """Say for each transaction whether no other one has its id: events of one id cannot be separated afterwards."""
    _, position, counts = np.unique(chosen.column("tx").to_numpy(), return_inverse=True, return_counts=True)
    once: pa.BooleanArray = pa.array(counts[position.reshape(-1)] == 1)
    return once


def _landed(scope: Scope, chosen: pa.Table, between: tuple[int, int], bounds: tuple[int, int]) -> pa.Table:
    """Return all events of transactions, with the columns that identify duplicates.

    A row may have a csn below that of its transaction, or none.
    """
    last = pc.max(chosen.column("csn")).as_py()
    where = (
        f"tx between {bounds[0]} and {bounds[1]} and landing between {between[0]} and {between[1]}"
        f" and (csn is null or csn <= {last})"
        " and (kind = 'metadata' or (kind = 'row' and \"table\" is not null and value is not null))"
    )
    sql = f"select {landed_columns(scope)} from t where {where}"
    tx = chosen.column("tx").combine_chunks()
    return arrow_tables.matching(scope.paths.change_events, sql, "tx", tx).combine_chunks()


def landed_columns(scope: Scope) -> str:
    """Return the columns of landed events that are read, as SQL: those of a release, and what identifies duplicates."""
    headers = ", headers" if scope.pipeline.source.format == "debezium" else ""
    return f"{', '.join(map(sql_name, EVENTS))}{headers}, identity, payload, digest, landed_at, expected"


def _complete(events: pa.Table, chosen: pa.Table) -> pa.Table:
    """Return the events that made transactions whole, of the transactions of which every event is there."""
    at = np.searchsorted(chosen.column("tx").to_numpy(), events.column("tx").to_numpy())
    landed = events.column("landed_at").cast(pa.timestamp("us", "UTC")).cast(pa.int64()).to_numpy()
    first, finished = (chosen.column(name).to_numpy()[at] for name in ("first_at", "finished_at"))
    in_time = (first <= landed) & (landed <= finished)
    first_ones = in_time & _first_of_each(events, in_time)
    lacking = ~_counted(events, first_ones, at, chosen)
    if lacking.any():
        # A clock that was put back makes a landing look earlier than the one before it.
        again = _first_of_each(events, lacking[at])
        first_ones = np.where(lacking[at], again, first_ones)
    whole = _counted(events, first_ones, at, chosen)
    return events.filter(pa.array(first_ones & whole[at]))


def _first_of_each(events: pa.Table, among: np.ndarray) -> np.ndarray:
    """Flag the row events that were landed first of those with one identity and content, and all metadata."""
    rows = among & pc.equal(events.column("kind"), pa.scalar("row")).to_numpy(zero_copy_only=False)
    first_ones: np.ndarray = (among & ~rows) | first_of_each(events, rows, KEYS)
    return first_ones


def first_of_each(events: pa.Table, among: np.ndarray, keys: Sequence[str]) -> np.ndarray:
    """Flag, of some row events, those that were landed first of those that are equal in `keys`, `digest` the last."""
    position = np.flatnonzero(among)
    chosen = events.select([*keys, "landing", "row"]).take(pa.array(position, pa.int64()))
    chosen = chosen.append_column("index", pa.array(position, pa.int64()))
    chosen = chosen.sort_by([("landing", "ascending"), ("row", "ascending")])
    is_first = np.zeros(events.num_rows, np.bool_)
    is_first[_by_transaction(chosen, [*keys]).column("index").to_numpy()] = True
    return is_first


def _by_transaction(rows: pa.Table, keys: list[str]) -> pa.Table:
    """Return the first row of each content; a row without a digest stands for all rows that it may be equal to."""
    first = rows.group_by(keys, use_threads=False).aggregate([("index", "first")])
    first = first.rename_columns([*keys, "index"])
    undigested = pc.is_null(first.column("digest"))
    if not pc.any(undigested).as_py():
        return first
    old = first.filter(undigested)
    known = first.filter(pc.invert(undigested)).join(old.select(keys[:-1]), keys[:-1], join_type="left anti")
    return pa.concat_tables([old, known.select(first.column_names)])


def _counted(events: pa.Table, first_ones: np.ndarray, at: np.ndarray, chosen: pa.Table) -> np.ndarray:
    """Say which transactions have as many rows as they were released with."""
    rows = first_ones & pc.equal(events.column("kind"), pa.scalar("row")).to_numpy(zero_copy_only=False)
    counts = np.bincount(at[rows], minlength=chosen.num_rows)
    equal: np.ndarray = counts == chosen.column("rows").to_numpy()
    return equal


def of_tables(events: pa.Table, chosen: pa.Table, tables: Sequence[str]) -> pa.Table:
    """Return the events of some tables, at the csn of their transaction and with its release."""
    metadata = pc.equal(events.column("kind"), pa.scalar("metadata"))
    is_of_tables = pc.is_in(events.column("table"), pa.array(tables, pa.string()))
    left_out = [name for name in events.column_names if name in LEFT_OUT]
    events = events.filter(pc.or_(metadata, is_of_tables)).drop_columns(left_out)
    chosen = chosen.sort_by("tx")
    ends = {"first_landing": 0, "last_landing": 2**62}
    for name, value in ends.items():
        column = pa.repeat(pa.scalar(value, pa.int64()), chosen.num_rows)
        chosen = chosen.set_column(chosen.schema.get_field_index(name), name, column)
    of_transactions = events_of(events, chosen, REPEATED_ROWS.empty_table()).combine_chunks()
    if not of_transactions.num_rows:
        return of_transactions.append_column("release", pa.nulls(0, pa.int64()))
    at = np.searchsorted(chosen.column("tx").to_numpy(), of_transactions.column("tx").to_numpy())
    return of_transactions.append_column("release", chosen.column("release").take(pa.array(at, pa.int64())))
