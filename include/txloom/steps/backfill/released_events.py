"""Find the events of released transactions in change_events again, and judge which transactions are there.

A release does not record its events one by one. They follow from `transactions`: the events that were landed between
the transaction's first landing and its release, each identity once. If they are not as many rows as were released, the
transaction stays as it is: some events are no longer there, or cannot be distinguished from later ones.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from txloom.arrow_types import AnyValues
from txloom.config import names
from txloom.config.models.pipeline import Pipeline
from txloom.steps.backfill.scope import GONE, HIGHEST, REBUILT, UNREADABLE, Scope
from txloom.steps.buffer.release import ANY_TX, EVENTS, events_of
from txloom.storage.buffer.buffer_stream import RELEASED_ROWS, REPEATED_ROWS
from txloom.storage.delta import arrow_tables, small_tables
from txloom.storage.delta.sql import instant_literal, text_list
from txloom.storage.landing import event_files
from txloom.storage.landing.event_files import FilePart
from txloom.storage.system_tables import CHANGE_EVENTS, TRANSACTIONS
from txloom.transactions.events import NOWHERE
from txloom.transactions.hashes import hashed
from txloom.transactions.redelivered import Flags, Positions, first_of_each, number_deliveries, released_positions
from txloom.transactions.reused_ids import with_reuse

COLUMNS = ("transaction_id", "xid", "csn", "rows", "release")
LEFT_OUT = ("identity", "payload", "digest", "landed_at", "expected", "counts", "source_table")
"""Columns of landed events that a release does not read."""
_TYPES: dict[str, pa.DataType] = {"xid": pa.string(), "csn": pa.int64(), "rows": pa.int64(), "release": pa.int64()}
TABLES = pa.list_(pa.string())
_TYPES |= {"landing": pa.int64(), "fate": pa.string(), "tables": TABLES}
OUTCOMES = pa.schema(_TYPES)
"""The outcome (`fate`) of each transaction of a backfill. gone: its events are no longer there, or cannot be
distinguished from those of another one with its id. short: rows of it have not arrived. unreadable: they do not fit
what is declared now. The history rows of all three stay as they are. tables: of these; null: of all tables."""


@dataclass(frozen=True)
class Share:
    """Transactions whose events are read at once.

    Args:
        chosen: the transactions, as `transactions` returns them.
        between: the first and last landing that may have their events.
        bounds: the lowest and highest hash of the transactions.
        part: the part of change_events that is read; None: all of it.
    """

    chosen: pa.Table
    between: tuple[int, int]
    bounds: tuple[int, int] = ANY_TX
    part: FilePart | None = None


def transactions(scope: Scope) -> pa.Table:
    """Return the released transactions of a backfill, ordered by tx.

    Their columns are those of the schema RELEASED_ROWS, transaction_id, xid, release, landing, and those of
    `with_reuse`; first_landing, last_landing and runs are 0.
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
        return with_reuse(pa.schema([*texts, *RELEASED_ROWS, *integers]).empty_table(), ())
    rows = rows.append_column("tx", hashed(rows.column("transaction_id")))
    for name, instant in (("first_at", "first_landed_at"), ("finished_at", "finished_at")):
        micros = rows.column(instant).cast(pa.timestamp("us", "UTC")).cast(pa.int64())
        rows = rows.drop_columns([instant]).append_column(name, micros)
    nothing = pa.repeat(pa.scalar(0, pa.int64()), rows.num_rows)
    for name in ("first_landing", "last_landing", "runs"):
        rows = rows.append_column(name, nothing)
    # An unwatched row may come from any landing, so it may be of a transaction with the same id outside this choice.
    known = () if scope.redeclared is None else _with_ids_of(scope, rows)
    return with_reuse(rows.sort_by("tx"), known)


def _with_ids_of(scope: Scope, chosen: pa.Table) -> Iterator[pa.Table]:
    """Yield tx and csn of all released transactions that have an id of the chosen ones."""
    schema = pa.schema([TRANSACTIONS.field(name) for name in ("transaction_id", "csn")])
    ids = chosen.column("tx").combine_chunks()
    for part in arrow_tables.parts_of(scope.paths.table(names.TRANSACTIONS), schema, "status = 'released'"):
        rows = part.append_column("tx", hashed(part.column("transaction_id")))
        yield rows.filter(pc.is_in(rows.column("tx"), value_set=ids)).select(["tx", "csn"])


def landings(scope: Scope, chosen: pa.Table) -> tuple[int, int]:
    """Return the first and last landing that may have events of some transactions; (0, 0): none.

    Rows of a table that was not watched may have been landed at any time.

    Args:
        scope: the backfill.
        chosen: the transactions, as `transactions` returns them; at least one.
    """
    if scope.redeclared is not None:
        return (0, HIGHEST)
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


def outcomes_of(chosen: pa.Table, fate: str | AnyValues, tables: Sequence[Sequence[str]] | None = None) -> pa.Table:
    """Return rows of OUTCOMES for transactions; fate: of all, or of each; tables: of which tables, None: of all."""
    columns: list[AnyValues] = [chosen.column(name) for name in OUTCOMES.names[:5]]
    fates = pa.repeat(pa.scalar(fate), chosen.num_rows) if isinstance(fate, str) else fate
    of_tables = pa.nulls(chosen.num_rows, TABLES) if tables is None else pa.array(tables, TABLES)
    return pa.Table.from_arrays([*columns, fates, of_tables], schema=OUTCOMES)


def read_released(scope: Scope, share: Share) -> pa.Table:
    """Return the events of transactions as they were decoded when they were landed.

    A row may have a csn below that of its transaction, or none. Rows whose message was removed are among them.

    Args:
        scope: the backfill.
        share: the transactions; at least one.
    """
    last = pc.max(share.chosen.column("csn"))

    def is_chosen(events: pa.Table) -> pa.BooleanArray:
        kind, csn = events.column("kind"), events.column("csn")
        is_row = pc.and_(pc.equal(kind, pa.scalar("row")), pc.is_valid(events.column("table")))
        in_reach = pc.or_kleene(pc.is_null(csn), pc.less_equal(csn, last))
        return pc.and_(pc.or_(is_row, pc.equal(kind, pa.scalar("metadata"))), in_reach)

    return read_landed(scope, share, is_chosen)


def read_landed(scope: Scope, share: Share, is_chosen: Callable[[pa.Table], pa.BooleanArray]) -> pa.Table:
    """Return landed rows and metadata of transactions, with their messages.

    Args:
        scope: the backfill.
        share: the transactions.
        is_chosen: returns which rows of change_events are read.
    """
    headers = ["headers"] if scope.pipeline.source.format == "debezium" else []
    names_of = [*EVENTS, *headers, "identity", "payload", "digest", "landed_at", "expected", "source_table"]
    schema = arrow_tables.plain_schema(pa.schema([CHANGE_EVENTS.field(name) for name in names_of]))
    (lowest, highest), (first, last) = share.bounds, share.between
    if share.part is not None:
        read = iter([event_files.events_in(scope.paths, share.part, names_of)])
    else:
        where = f"tx between {lowest} and {highest} and landing between {first} and {last}"
        where += " and kind in ('metadata', 'row')"
        read = arrow_tables.parts_of(scope.paths.change_events, schema, where)
    tx = share.chosen.column("tx").combine_chunks()
    since, until = (pa.scalar(landing, pa.int64()) for landing in share.between)

    def chosen_of(events: pa.Table) -> pa.Table:
        landing = events.column("landing")
        landed = pc.and_(pc.greater_equal(landing, since), pc.less_equal(landing, until))
        is_inside = pc.and_(pc.is_in(events.column("tx"), value_set=tx), landed)
        return events.filter(pc.and_(is_inside, is_chosen(events)))

    return pa.concat_tables([schema.empty_table(), *(chosen_of(events) for events in read)]).combine_chunks()


@dataclass(frozen=True)
class JudgedWhole:
    """Landed events of transactions, of which a transaction is there with as many rows as it was released with.

    Args:
        scope: the backfill.
        chosen: the transactions, ordered by tx.
        events: their events, with the columns KEYS, kind, landing, row, pos, landed_at and has_message.
    """

    scope: Scope
    chosen: pa.Table
    events: pa.Table

    @property
    def pipelines(self) -> Sequence[Pipeline]:
        """The declaration, once for all targets that are made of the same transactions."""
        return (self.scope.pipeline,)

    def candidates(self, pipeline: Pipeline) -> Flags:  # noqa: ARG002 (all targets have one pipeline)
        """Return which events are released if their transaction is there."""
        return self._first_in_time

    def taken(self, pipeline: Pipeline) -> Flags:  # noqa: ARG002
        """Return which events made their transaction whole, of those of which every row is there."""
        flags: Flags = self._first_ones & self._is_whole[self._at]
        return flags

    def outcomes(self, unreadable: set[int]) -> pa.Table:
        """Return the outcomes of the transactions; unreadable: hashes of those with a value that does not fit."""
        there = pc.or_(pa.array(self._is_whole), pc.equal(self.chosen.column("rows"), pa.scalar(0)))
        refused = pc.is_in(self.chosen.column("tx"), value_set=pa.array(sorted(unreadable), pa.int64()))
        return outcomes_of(self.chosen, pc.if_else(refused, UNREADABLE, pc.if_else(there, REBUILT, GONE)))

    @cached_property
    def _at(self) -> npt.NDArray[np.int64]:
        """The transaction of each event."""
        return np.searchsorted(self.chosen.column("tx").to_numpy(), self.events.column("tx").to_numpy())

    @cached_property
    def pos(self) -> Positions:
        """The position under which each event was released."""
        return released_positions(self.events, self._delivery, self._is_in_time)

    @cached_property
    def _delivery(self) -> npt.NDArray[np.int64]:
        """The numbers of the deliveries of rows that lost their message, and came again."""
        return number_deliveries(self.events, self._is_kept, self._is_in_time & ~self._is_kept)

    @cached_property
    def _is_row(self) -> Flags:
        flags: Flags = pc.equal(self.events.column("kind"), pa.scalar("row")).to_numpy(zero_copy_only=False)
        return flags

    @cached_property
    def _is_kept(self) -> Flags:
        """Which events are rows that still have their message."""
        flags: Flags = self._is_row & self.events.column("has_message").to_numpy()
        return flags

    @cached_property
    def _is_in_time(self) -> Flags:
        """Which events are rows that were landed in time, with or without their message."""
        return self._is_row & is_in_time(self.events, self.chosen, self._at)

    @cached_property
    def _first_in_time(self) -> Flags:
        return first_of_each(self.events, self._is_kept & self._is_in_time)

    @cached_property
    def _first_ones(self) -> Flags:
        """Which rows are the first of their identity and content: among those in time, or among all."""
        lacking = ~self._counted(self._first_in_time)
        if not lacking.any():
            return self._first_in_time
        # A clock that was put back makes a landing look earlier than the one before it. Where the rows in time are all
        # there, with or without their messages, a row that came later was not released: it may contradict one of them.
        is_known = self._counted(first_of_each(self.events, self._is_in_time))[self._at]
        may_be = ~is_known | self._is_in_time | (self._delivery >= 0)
        again = first_of_each(self.events, self._is_kept & lacking[self._at] & may_be)
        flags: Flags = np.where(lacking[self._at], again, self._first_in_time)
        return flags

    @cached_property
    def _is_whole(self) -> Flags:
        return self._counted(self._first_ones)

    def _counted(self, rows: Flags) -> Flags:
        """Return which transactions have as many rows as they were released with."""
        counts = np.bincount(self._at[rows], minlength=self.chosen.num_rows)
        equal: Flags = counts == self.chosen.column("rows").to_numpy()
        return equal


def is_in_time(events: pa.Table, chosen: pa.Table, at: npt.NDArray[np.int64]) -> Flags:
    """Return which events were landed between the first event of their transaction and its release.

    Args:
        events: landed events.
        chosen: the transactions.
        at: the transaction of each event.
    """
    landed = events.column("landed_at").cast(pa.timestamp("us", "UTC")).cast(pa.int64()).to_numpy()
    first, finished = (chosen.column(name).to_numpy() for name in ("first_at", "finished_at"))
    flags: Flags = (first[at] <= landed) & (landed <= finished[at])
    return flags


def of_tables(events: pa.Table, chosen: pa.Table, tables: Sequence[str]) -> pa.Table:
    """Return the row events of some tables, at the csn of their transaction and with its release."""
    is_of_tables = pc.is_in(events.column("table"), pa.array(tables, pa.string()))
    left_out = [name for name in events.column_names if name in LEFT_OUT]
    events = events.filter(is_of_tables).drop_columns(left_out)
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
