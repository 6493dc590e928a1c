"""Undo a repair: land the rows that it touched as history had them before it, as one more transaction.

The inverse stands at the csn of the repair, behind its rows. So what the stream says of a row above that csn stands, as
it does over a repair, and the tables are what they would be without the repair. A row of which history has a newer
change is left as it is: the repair no longer decides what it shows.
"""

import logging
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, cast

import pyarrow as pa
import pyarrow.compute as pc

from txloom.config import names
from txloom.current.equality.row_images import image
from txloom.current.folding.column_nulling import is_of_all_rows
from txloom.current.folding.fold import fold
from txloom.errors import BeforeHistory, ConfigurationError
from txloom.steps.audit.repair import Part, first_and_last, land_parts, loaded_topics, row_key
from txloom.steps.landing.internal_transaction import REPAIR
from txloom.steps.landing.land_events import finish_last
from txloom.steps.step import Counts, Step
from txloom.storage.checks.audited_rows import Repair
from txloom.storage.declarations.undeclared_columns import effective_pipeline
from txloom.storage.delta import small_tables
from txloom.storage.delta.sql import text_list, text_literal
from txloom.storage.landing import landing_tables
from txloom.storage.paths import TablePaths
from txloom.storage.targets import history_reader, schemas
from txloom.storage.targets.lake_digests import audited, texts_of
from txloom.storage.targets.row_tables import RowTable, row_tables

LOG = logging.getLogger(__name__)

UNDO = f"{REPAIR}undo:"
"""The prefix of the topics under which inverses are planned; landing and csn of the repair, and the table, follow."""
RowKey = tuple[Any, ...]


@dataclass(frozen=True)
class _Repaired:
    """A landing of a repair that was released; csn, release: of its transaction."""

    landing: int
    tables: tuple[str, ...]
    csn: int
    release: int

    @property
    def xid(self) -> str:
        return f"{REPAIR}{self.landing}"


def undo_repair(step: Step, run_id: str) -> Counts:
    """Land the inverse of what a run of `repair` landed; a repeated call lands nothing more.

    Args:
        step: the pipeline, its tables and the run.
        run_id: the run that repaired, or one that undid a repair.

    Returns:
        tables, rows, newer (rows that were changed since and are left as they are), landing and last_landing, if any.

    Raises:
        ConfigurationError: the run landed no repair; it is not released yet; or a table is no longer declared.
        BeforeHistory: maintenance has cleaned the rows of before the repair from history.
    """
    paths, pipeline = step.paths, effective_pipeline(step.pipeline, step.paths)
    landing_tables.create_tables(paths)
    last = finish_last(step)
    by_table = {each.table.name: each for each in row_tables(pipeline)}
    known, parts, newer = loaded_topics(paths), list[Part](), 0
    for repaired in _repaired(paths, run_id):
        for table in repaired.tables:
            topic = f"{UNDO}{repaired.landing}:{repaired.csn}:{table}"
            if topic in known:
                continue
            if table not in by_table:
                raise ConfigurationError(f"run {run_id} repaired {table}, which is no longer declared: declare it")
            inverse = _inverse(paths, by_table[table], repaired)
            for key in inverse.newer:
                shown = row_key(pipeline, table, key)
                LOG.warning(f"[repair] {table}: a row is left as it is: it was changed since: {shown}")
            newer += len(inverse.newer)
            parts += [Part(table, topic, repaired.csn, inverse.at, inverse.rows)] if inverse.rows else []
    landings = land_parts(step, parts, last + 1)
    rows = sum(landings.values())
    LOG.info(f"[repair] {rows} rows are landed as history had them before {run_id}, {newer} are left; audit again")
    return {"tables": len({each.table for each in parts}), "rows": rows, "newer": newer} | first_and_last(landings)


def _repaired(paths: TablePaths, run_id: str) -> list[_Repaired]:
    """Return the landings of a run that repaired.

    Raises ConfigurationError where there are none, or one whose transaction is not released.
    """
    of_run = f"run_id = {text_literal(run_id)} and starts_with(topic, '{REPAIR}')"
    tables = dict[int, list[str]]()
    for row in small_tables.query(paths.landed_files, f"select landing, topic from t where {of_run}"):
        tables.setdefault(row["landing"], []).append(row["topic"].rsplit(":", 1)[-1])
    xids = text_list(f"{REPAIR}{landing}" for landing in tables)
    landed = set[int]()
    if tables:
        sql = f"select landing from t where kind = 'metadata' and xid in ({xids})"
        landed = {row["landing"] for row in small_tables.query(paths.change_events, sql)}
    if not landed:
        raise ConfigurationError(
            f"run {run_id} landed no repair that could be undone: its id is that of a run of jobs/repair.py, which its "
            "log names"
        )
    sql = f"select xid, csn, release from t where status = 'released' and xid in ({xids})"
    released = {row["xid"]: row for row in small_tables.query(paths.table(names.TRANSACTIONS), sql)}
    waiting = sorted(landing for landing in landed if f"{REPAIR}{landing}" not in released)
    if waiting:
        raise ConfigurationError(
            f"the repair of run {run_id} is not released yet (landing {', '.join(map(str, waiting))}): run a cycle, "
            "then undo it; where it is among the dead letters, it changed nothing"
        )
    rows = {landing: released[f"{REPAIR}{landing}"] for landing in landed}
    return [
        _Repaired(landing, tuple(sorted(tables[landing])), row["csn"], row["release"])
        for landing, row in sorted(rows.items())
    ]


@dataclass(frozen=True)
class _Inverse:
    """rows: that undo a repair. newer: rows that were changed since. at: when the repair's rows were committed."""

    rows: list[Repair]
    newer: list[Repair]
    at: Any


def _inverse(paths: TablePaths, row_table: RowTable, repaired: _Repaired) -> _Inverse:
    """Return what makes the rows that a repair touched as history had them before it."""
    if history_reader.cleaned(paths, row_table) >= repaired.csn:
        raise BeforeHistory(
            f"the history of {row_table.table.name} was cleaned up to csn {repaired.csn} or further "
            "(maintenance.history.keep), so that the rows of before the repair are gone: load a snapshot of the table "
            "(jobs/load_snapshot.py)"
        )
    where = f"_txloom_xid = {text_literal(repaired.xid)} and _txloom_csn = {repaired.csn}"
    done = history_reader.chosen(paths, row_table, where)
    if not done.num_rows:
        return _Inverse([], [], None)
    ops = dict(zip(_keys(done, row_table), cast("list[str]", done.column("_txloom_op").to_pylist()), strict=True))
    key_images = dict(zip(ops, _images(done.select(list(row_table.key)), row_table), strict=True))
    changes = _changes_of(paths, row_table, ops)
    begin = pc.min(done.column("_txloom_pos")).as_py()
    since = _changed_since(changes, row_table, repaired, begin)
    before = _rows_before(changes, row_table, repaired.csn, begin)
    rows, newer = list[Repair](), list[Repair]()
    for key, op in ops.items():
        is_shown, was = op != "D", before.get(key)
        if key in since:
            newer.append(Repair("D", key_images[key], repaired.csn, None))
        elif was is not None:
            rows.append(Repair("U" if is_shown else "r", was, repaired.csn, None))
        elif is_shown:
            rows.append(Repair("D", key_images[key], repaired.csn, None))
    return _Inverse(rows, newer, done.column("_txloom_committed_at")[0].as_py())


def _rows_before(changes: pa.Table, row_table: RowTable, csn: int, begin: int) -> dict[RowKey, str]:
    """Return rows as history had them before a place in the commit order, as JSON objects by key."""
    is_before = pc.or_(
        pc.less(changes.column("_txloom_csn"), pa.scalar(csn)),
        pc.and_(
            pc.equal(changes.column("_txloom_csn"), pa.scalar(csn)),
            pc.less(changes.column("_txloom_pos"), pa.scalar(begin)),
        ),
    )
    empty = schemas.current_schema(row_table.table).empty_table()
    table = row_table.table
    folded = fold(empty, changes.filter(is_before), key=row_table.key, columns=table.column_names)
    rows = folded.filter(pc.invert(folded.column("_txloom_deleted")))
    return dict(zip(_keys(rows, row_table), _images(rows, row_table), strict=True))


def _images(rows: pa.Table, row_table: RowTable) -> list[str]:
    """Return rows as JSON objects; rows: with all declared columns, or with those of the key."""
    columns = [column for column in audited(row_table) if column.name in rows.column_names]
    texts = zip(*(column.to_pylist() for column in texts_of(rows, columns)), strict=True)
    return [image(columns, row, {}) for row in texts]


def _changed_since(changes: pa.Table, row_table: RowTable, repaired: _Repaired, begin: int) -> set[RowKey]:
    """Return the keys of rows that were changed above a repair, or released after it; a truncate changes all rows."""
    others = changes.filter(pc.not_equal(changes.column("_txloom_xid"), pa.scalar(repaired.xid)))
    csn, pos, release = (others.column(f"_txloom_{name}") for name in ("csn", "pos", "release"))
    above = pc.or_(
        pc.greater(csn, pa.scalar(repaired.csn)),
        pc.and_(pc.equal(csn, pa.scalar(repaired.csn)), pc.greater_equal(pos, pa.scalar(begin))),
    )
    since = others.filter(pc.or_(above, pc.greater(release, pa.scalar(repaired.release))))
    if "T" in since.column("_txloom_op").to_pylist():
        return {*_keys(changes, row_table)}
    return {*_keys(since, row_table), *_keys_before(since, row_table)}


def _changes_of(paths: TablePaths, row_table: RowTable, keys: Collection[RowKey]) -> pa.Table:
    """Return all changes of some rows, of the rows that key changes connect with them, and those of all rows."""
    among, nothing = set(keys), schemas.changes_schema(row_table.table).empty_table()
    while True:
        parts = [_among(part, row_table, among) for part in history_reader.parts(paths, row_table, "true")]
        changes = pa.concat_tables([nothing, *parts])
        updates = changes.filter(pc.equal(changes.column("_txloom_op"), pa.scalar("U")))
        tied = {*_keys(updates, row_table), *_keys_before(updates, row_table)}
        new = {key for key in tied if None not in key} - among
        if not new:
            return changes
        among |= new


def _among(changes: pa.Table, row_table: RowTable, keys: Collection[RowKey]) -> pa.Table:
    """Return the changes of some rows, before or after, and those of all rows."""
    first = row_table.key[0]
    values = pa.array([key[0] for key in keys], changes.schema.field(first).type)
    old = pc.struct_field(changes.column("_txloom_before"), [first])
    near = pc.or_(pc.is_in(changes.column(first), values), pc.is_in(old, values))
    some = changes.filter(pc.or_(near, is_of_all_rows(changes)))
    pairs = zip(_keys(some, row_table), _keys_before(some, row_table), strict=True)
    touches = pa.chunked_array([pa.array([after in keys or old in keys for after, old in pairs], pa.bool_())])
    return some.filter(pc.or_(touches, is_of_all_rows(some)))


def _keys(rows: pa.Table, row_table: RowTable) -> Iterator[RowKey]:
    return _tuples(rows.column(name) for name in row_table.key)


def _keys_before(changes: pa.Table, row_table: RowTable) -> Iterator[RowKey]:
    before = changes.column("_txloom_before")
    return _tuples(pc.struct_field(before, [name]) for name in row_table.key)


def _tuples(columns: Iterable[Any]) -> Iterator[RowKey]:
    return zip(*(column.to_pylist() for column in columns), strict=True)
