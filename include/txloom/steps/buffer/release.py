"""Release whole transactions: read their messages, give them types, and make the rows of every history table.

`txloom.steps.buffer.release_batch` calls this in the driver's process, or in tasks of Spark, each with a share.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from txloom.arrow_types import AnyArray, AnyColumn
from txloom.config import names
from txloom.config.models.pipeline import Pipeline, Table
from txloom.events import formats
from txloom.events.images.reader import ImageReader
from txloom.history.aggregate_stream import stream
from txloom.history.changes import changes
from txloom.quality.findings import Finding
from txloom.steps.schema_drift import undeclared, without_before
from txloom.storage.declarations.undeclared_columns import Undeclared
from txloom.storage.delta import arrow_tables
from txloom.storage.delta.sql import int_list, sql_name
from txloom.storage.landing import event_files
from txloom.storage.landing.event_files import FilePart
from txloom.storage.paths import TablePaths
from txloom.storage.snapshots import dated_transactions
from txloom.storage.system_tables import INSTANT, TRANSACTIONS
from txloom.transactions import events as ev
from txloom.transactions.hashes import hashed

EVENTS = ["transaction_id", "tx", "xid", "csn", "pos", "op", "committed_at"]
EVENTS += ["landing", "row", "kind", "table", "value", "topic"]
ANY_TX = (-(2**63), 2**63 - 1)


@dataclass(frozen=True)
class Share:
    """Whole transactions of a batch that are released in one call.

    Args:
        chosen: the transactions, in the schema RELEASED_ROWS.
        landings: the landings that have their events.
        repeated: duplicates among these events, in the schema REPEATED_ROWS, which are left out.
        tx: the lowest and highest hash of the transactions.
        part: the part of change_events whose events of the one transaction are released; None: all events.
    """

    chosen: pa.Table
    landings: Sequence[int]
    repeated: pa.Table
    tx: tuple[int, int] = ANY_TX
    part: FilePart | None = None


@dataclass(frozen=True)
class Release:
    """What the release of some transactions makes; nothing is written yet.

    Args:
        history: rows by history table.
        transactions: rows for `transactions`.
        unreadable: by hash, the problem of transactions with a value that does not fit its declared type. They are in
            neither of the above, and are to become dead letters.
        undeclared: undeclared columns.
        findings: what images show of their producer beside that.
    """

    history: dict[str, pa.Table] = field(default_factory=dict)
    transactions: pa.Table = field(default_factory=TRANSACTIONS.empty_table)
    unreadable: dict[int, str] = field(default_factory=dict)
    undeclared: Sequence[Undeclared] = ()
    findings: Sequence[Finding] = ()
    has_metadata: bool = False
    """Whether metadata was among the events."""


def release(pipeline: Pipeline, paths: TablePaths, number: int, share: Share) -> Release:
    """Make the history rows of whole transactions.

    Args:
        pipeline: the declaration, with columns that tables took up.
        paths: the tables of the pipeline.
        number: the release number. Transactions that another release has are left out, those of this one are made
            again.
        share: the transactions.
    """
    chosen = _new(paths, number, share.chosen)
    if not chosen.num_rows:
        return Release()
    events = _events(pipeline, paths, share)
    made = [made_of(pipeline, events_of(events, each, share.repeated), each, number) for each in _in_turn(chosen)]
    return made[0] if len(made) == 1 else _joined(made)


def _in_turn(chosen: pa.Table) -> Iterator[pa.Table]:
    """Yield the transactions in parts that have each hash once: two transactions may have one id."""
    tx = chosen.column("tx").to_numpy()
    order = np.lexsort((chosen.column("first_landing").to_numpy(), tx))
    starts, number = ev.groups(tx[order])
    turn = np.arange(len(order)) - starts[number]
    for each in range(int(turn.max()) + 1):
        yield chosen.take(pa.array(order[turn == each]))


def _joined(made: Sequence[Release]) -> Release:
    """Return several releases as one; a part without rows of a member gets empty lists for that member."""
    history: dict[str, list[pa.Table]] = {}
    for name, rows in (histories for each in made for histories in each.history.items()):
        history.setdefault(name, []).append(rows)
    return Release(
        {name: arrow_tables.joined(parts) for name, parts in history.items()},
        pa.concat_tables(each.transactions for each in made),
        {tx: problem for each in made for tx, problem in each.unreadable.items()},
        [name for each in made for name in each.undeclared],
        [finding for each in made for finding in each.findings],
        any(each.has_metadata for each in made),
    )


def made_of(pipeline: Pipeline, events: pa.Table, chosen: pa.Table, number: int) -> Release:
    """Make the history rows of transactions out of their events.

    Args:
        pipeline: the declaration, with columns that tables took up.
        events: rows of change_events without duplicates, with the columns EVENTS.
        chosen: the transactions, in the schema RELEASED_ROWS.
        number: the release number.
    """
    typed = _typed(pipeline, events)
    unreadable = _problems(typed)
    if unreadable:
        bad = pa.array(sorted(unreadable), pa.int64())
        typed = {name: without(rows, "tx", bad) for name, rows in typed.items()}
        typed = {name: rows for name, rows in typed.items() if rows.num_rows}
        chosen = without(chosen, "tx", bad)
    history = _history(pipeline, typed, number)
    findings = without_before(typed) if pipeline.source.format == "goldengate" else ()
    transactions = _transactions(events, chosen, number)
    has_metadata = bool(pc.any(pc.equal(events.column("kind"), pa.scalar("metadata"))).as_py())
    return Release(history, transactions, unreadable, undeclared(typed), findings, has_metadata)


def without(rows: pa.Table, column: str, values: AnyArray) -> pa.Table:
    """Return the rows whose value in a column is none of some values."""
    return rows.filter(pc.invert(pc.is_in(rows.column(column), values)))


def _new(paths: TablePaths, number: int, chosen: pa.Table) -> pa.Table:
    """Leave out transactions that another release has: history decides (docs/architecture.md, promise 2).

    A transaction is identified by id and csn: PostgreSQL's ids come back after a wrap-around or a restore.
    """
    if not chosen.num_rows:
        return chosen
    csn = chosen.column("csn")
    among = f"csn between {pc.min(csn).as_py()} and {pc.max(csn).as_py()}"
    sql = f"select transaction_id, csn from t where {among} and release <> {number} and status = 'released'"
    rows = arrow_tables.select(paths.table(names.TRANSACTIONS), sql)
    if not rows.num_rows:
        return chosen
    rows = rows.append_column("tx", hashed(rows.column("transaction_id")))
    return chosen.filter(pa.array(~np.isin(_pairs(chosen, "tx", "csn"), _pairs(rows, "tx", "csn"))))


def _events(pipeline: Pipeline, paths: TablePaths, share: Share) -> pa.Table:
    where = (
        f"landing in ({int_list(share.landings)}) and tx between {share.tx[0]} and {share.tx[1]}"
        " and (kind = 'metadata' or (kind = 'row' and \"table\" is not null))"
    )
    columns = EVENTS if pipeline.source.format != "debezium" else [*EVENTS, "headers"]
    if share.part is not None:
        return _of_one(event_files.events_in(paths, share.part, columns), share)
    named = ", ".join(map(sql_name, columns))
    return arrow_tables.select(paths.change_events, f"select {named} from t where {where}")


def _of_one(events: pa.Table, share: Share) -> pa.Table:
    """Return the rows and metadata of a share's one transaction, as `_events` reads them by SQL."""
    kind, tx = events.column("kind"), events.column("tx")
    is_row = pc.and_(pc.equal(kind, pa.scalar("row")), pc.is_valid(events.column("table")))
    chosen = pc.and_kleene(
        pc.or_(pc.equal(kind, pa.scalar("metadata")), is_row), pc.equal(tx, pa.scalar(share.tx[0], pa.int64()))
    )
    landings = pa.array(share.landings, pa.int64())
    return events.filter(pc.and_kleene(chosen, pc.is_in(events.column("landing"), landings)))


def events_of(events: pa.Table, chosen: pa.Table, repeated: pa.Table) -> pa.Table:
    """Return exactly the events that make transactions whole, at the csn of their transaction.

    Some rows do not have this csn. Those of a MySQL transaction with a GTID have their position in the binlog instead,
    so that a state as of a csn in between would show half of the transaction.

    Args:
        events: rows of change_events, also of other transactions and landings.
        chosen: the transactions: `tx`, `csn`, `first_landing` and `last_landing`, each hash once.
        repeated: duplicates, in the schema REPEATED_ROWS.
    """
    chosen = chosen.sort_by("tx")
    tx, first, last = (chosen.column(name).to_numpy() for name in ("tx", "first_landing", "last_landing"))
    events_tx, landing = events.column("tx").to_numpy(), events.column("landing").to_numpy()
    at = np.minimum(np.searchsorted(tx, events_tx), len(tx) - 1)
    inside = (tx[at] == events_tx) & (first[at] <= landing) & (landing <= last[at])
    if repeated.num_rows:
        inside &= ~_are_among(events, repeated)
    events, csn = events.filter(pa.array(inside)), chosen.column("csn").take(pa.array(at[inside]))
    return events.set_column(events.schema.get_field_index("csn"), "csn", csn)


def _are_among(events: pa.Table, repeated: pa.Table) -> np.ndarray:
    """Return which events have the position of a duplicate."""
    are = pc.is_in(events.column("row"), repeated.column("row").combine_chunks()).to_numpy()
    some = np.flatnonzero(are)
    pairs = _pairs(events.select(["landing", "row"]).take(pa.array(some, pa.int64())), "landing", "row")
    are[some] = np.isin(pairs, _pairs(repeated, "landing", "row"))
    return are


def _pairs(rows: pa.Table, *names: str) -> np.ndarray:
    """Return columns of 64-bit integers as one structured value for each row, so that rows can be compared."""
    pairs = np.empty(rows.num_rows, [(name, "i8") for name in names])
    for name in names:
        pairs[name] = rows.column(name).to_numpy()
    return pairs


def _typed(pipeline: Pipeline, events: pa.Table) -> dict[str, pa.Table]:
    """Return the row events by table, with the typed images of each."""
    is_change = pc.and_(
        pc.equal(events.column("kind"), pa.scalar("row")),
        pc.not_equal(events.column("op"), pa.scalar(formats.KEY_CHANGE)),
    )
    typed = {}
    for table in pipeline.tables:
        is_of_table = pc.and_(is_change, pc.equal(events.column("table"), pa.scalar(table.name)))
        of_table = events.filter(is_of_table).combine_chunks()
        if of_table.num_rows:
            typed[table.name] = _with_images(of_table, formats.images(pipeline, table), table)
            if pipeline.source.snapshots is not None:
                typed[table.name] = _without_absent(typed[table.name])
    return typed


def _without_absent(events: pa.Table) -> pa.Table:
    """Return events in which no insert of a date lists absent columns.

    A date has the columns that were declared when it was compared. A column that it lacks was declared later; the
    source did not drop the column.
    """
    absent = events.column("absent")
    is_dated = pc.starts_with(events.column("xid"), dated_transactions.XID)
    kept = pc.if_else(is_dated, pa.scalar(None, absent.type), absent)
    return events.set_column(events.column_names.index("absent"), "absent", kept)


def _with_images(events: pa.Table, source: formats.Images | None, table: Table) -> pa.Table:
    images = ImageReader(table).read(_messages(events, source))
    events = events.drop_columns([name for name in ("value", "headers") if name in events.column_names])
    for name in images.column_names:
        events = events.append_column(name, images.column(name))
    return events


def _messages(events: pa.Table, source: formats.Images | None) -> Sequence[bytes | str]:
    """Return messages as the image reader takes them: in GoldenGate's layout.

    Rows of loaded snapshots are written in this layout already.
    """
    messages = cast("list[bytes | str]", events.column("value").to_pylist())
    if source is None:
        return messages
    indices = np.flatnonzero(pc.not_equal(events.column("topic"), pa.scalar(names.LOAD)).to_numpy())
    sent = events.take(pa.array(indices, pa.int64()))
    lists = sent.column("headers").to_pylist() if "headers" in sent.column_names else [None] * sent.num_rows
    headers = [None if each is None else dict(each) for each in lists]
    values = cast("list[str]", sent.column("value").to_pylist())
    operations = cast("list[str]", sent.column("op").to_pylist())
    decoded = formats.canonical(source, values, operations, headers)
    for position, message in zip(indices.tolist(), decoded, strict=True):
        messages[position] = message
    return messages


def _problems(typed: Mapping[str, pa.Table]) -> dict[int, str]:
    problems: dict[int, str] = {}
    for rows_of_table in typed.values():
        bad = rows_of_table.filter(pc.is_valid(rows_of_table.column("problem")))
        problems |= {row["tx"]: row["problem"] for row in bad.select(["tx", "problem"]).to_pylist()}
    return problems


def _history(pipeline: Pipeline, typed: Mapping[str, pa.Table], number: int) -> dict[str, pa.Table]:
    declared = {table.name: table for table in pipeline.tables}
    history = {
        mirror.history: changes(typed[mirror.table], declared[mirror.table], number)
        for mirror in pipeline.targets.mirrors
        if mirror.table in typed
    }
    for aggregate in pipeline.targets.aggregates:
        members = {aggregate.root, *(child.table for child in aggregate.children)}
        present = {name: rows for name, rows in typed.items() if name in members}
        if present:
            history[aggregate.history] = stream(present, aggregate, declared, number)
    return history


def _transactions(events: pa.Table, chosen: pa.Table, number: int) -> pa.Table:
    """Return the rows for `transactions`: id and commit time are those of the metadata, else of the first row."""
    is_metadata = pc.equal(events.column("kind"), pa.scalar("metadata")).to_numpy()
    order = np.concatenate([np.flatnonzero(is_metadata), np.flatnonzero(~is_metadata)])
    tx, first = np.unique(events.column("tx").to_numpy()[order], return_index=True)
    used = ["tx", *(name for name in TRANSACTIONS.names if name in events.column_names)]
    named = events.select(used).take(pa.array(order[first], pa.int64()))
    chosen = chosen.filter(pc.is_in(chosen.column("tx"), pa.array(tx))).sort_by("tx")
    named = named.filter(pc.is_in(named.column("tx"), chosen.column("tx").combine_chunks()))
    size = chosen.num_rows
    columns_known: dict[str, AnyArray | AnyColumn] = {
        "status": pa.repeat(pa.scalar("released"), size),
        "cause": pa.nulls(size, pa.string()),
        "first_landed_at": chosen.column("first_at").cast(INSTANT),
        "finished_at": chosen.column("finished_at").cast(INSTANT),
        "release": pa.repeat(pa.scalar(number, pa.int64()), size),
        "csn": chosen.column("csn"),
        "rows": chosen.column("rows"),
        "landing": chosen.column("last_landing"),
    }
    columns = [columns_known[name] if name in columns_known else named.column(name) for name in TRANSACTIONS.names]
    return pa.Table.from_arrays(columns, schema=TRANSACTIONS)
