"""Replace rows of a history after a table gets another source or key, or changes of a child get other parents."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import chain

import pyarrow as pa
import pyarrow.compute as pc

from txloom.arrow_types import AnyArray
from txloom.config import names
from txloom.current.folding.value_sources import WHOLE
from txloom.current.row_hashes import row_hashes
from txloom.steps.backfill.compare import counts_of
from txloom.steps.backfill.scope import Scope, Target
from txloom.steps.backfill.table_comparison import STAMP, remade_of, stay_of
from txloom.steps.settling.need import Need, renaming_of
from txloom.storage.declarations import history_rewriting
from txloom.storage.declarations.records import Pair, State
from txloom.storage.delta import arrow_tables, small_tables
from txloom.storage.delta.read_session import opened
from txloom.storage.delta.sql import sql_name
from txloom.storage.targets.shadow_tables import KIND, SURPLUS


def replace_rows(scope: Scope, target: Target, states: Mapping[Pair, State], needs: Sequence[Need]) -> None:
    """Replace the rows of a history with the rows that were made again, in one commit.

    Rows of the same source stay if their transactions could not be made again. The columns of these rows get their new
    names. The history is not complete as of these rows, so that no reader takes the rows for rows of the declaration.

    Args:
        scope: the rebuild, which made all rows of the history again.
        target: the history.
        states: the state of each history's member.
        needs: the needs of the members whose rows are replaced.
    """
    path, shadow = scope.paths.table(target.name), scope.paths.table(names.shadow_table(target.name))
    rows = chain(arrow_tables.parts_of(shadow, target.schema), _staying(scope, target, states, needs))
    schema = arrow_tables.plain_schema(small_tables.schema_of(path))
    numbers = history_rewriting.numbers_of(states[need.pair] for need in needs)
    history_rewriting.replace(path, schema, rows, numbers)


def _staying(scope: Scope, target: Target, states: Mapping[Pair, State], needs: Sequence[Need]) -> Iterator[pa.Table]:
    """Return the rows of transactions that could not be made again, without changes of another source.

    The call itself opens the history, because the writer that consumes the rows cannot start a query.
    """
    if (is_staying := stay_of(scope, target)) is None:
        return iter(())
    fields = [states[need.pair].newest.declaration.get("field") for need in needs]
    members = [*zip(needs, fields, (renaming_of(states, [need]) for need in needs), strict=True)]

    def kept(rows: pa.Table) -> pa.Table:
        for need, field, renaming in members:
            rows = _without_other_source(history_rewriting.with_names(rows, renaming), need, field)
        return rows

    parts = history_rewriting.rows_of(scope.paths.table(target.name))
    return (kept(rows.filter(is_staying(rows))) for rows in parts)


def _without_other_source(rows: pa.Table, need: Need, field: str | None) -> pa.Table:
    """Return rows of a history without the changes that a member has from another source.

    field: of an aggregate's history, the field of the member; None: the history is a mirror's.
    """
    release: AnyArray = rows.column("_txloom_release").combine_chunks()
    is_kept = pc.less_equal(release, pa.scalar(-1 if need.kept is None else need.kept))
    if field is None:
        return rows.filter(is_kept)
    return _without_changes(rows, [field], is_kept)


def take_out_moved(scope: Scope, target: Target, fields: Sequence[str]) -> None:
    """Remove the changes that an aggregate's history still has under an earlier parent or key, in one commit.

    A transaction that was made again has one row for each root that it concerns. Any other row of the transaction is of
    a root that is no longer the parent of a changed child, or has its key under a name that was declared for a while.
    A repeated call removes nothing more.

    Args:
        scope: the rebuild, whose rows were already written to the history.
        target: the history, which was already compared with these rows.
        fields: the fields of all declared members; changes in other fields stay.
    """
    if not counts_of(scope, target)["surplus"] or not len(moved := _find_moved(scope, target)):
        return
    path = scope.paths.table(target.name)
    parts = history_rewriting.rows_of(path)
    rows = (_without_changes(each, fields, pc.invert(_is_among(each, target, moved))) for each in parts)
    history_rewriting.replace(path, arrow_tables.plain_schema(small_tables.schema_of(path)), rows)


def take_out_keyless(scope: Scope, target: Target, states: Mapping[Pair, State], needs: Iterable[Need]) -> None:
    """Remove changes without a complete key from a history, in one commit: no table can be computed from these.

    A run may die, or be followed by an edit, after a buffer wrote changes by a declaration that gave the key another
    name. If the messages of these changes are gone too, the history lacks their transactions. A repeated call removes
    nothing more.

    Args:
        scope: the rebuild, whose rows were already written to the history.
        target: the history.
        states: the state of each history's member.
        needs: the needs of members that lack transactions.
    """
    path = scope.paths.table(target.name)
    gaps = [(need.gap, states[need.pair].newest.declaration) for need in needs if need.gap is not None]
    keyless = [_Keyless(each["key"], each.get("field"), after) for after, each in gaps if each["key"]]
    if not any(each.is_in(path) for each in keyless):
        return

    def kept(rows: pa.Table) -> pa.Table:
        for each in keyless:
            rows = each.take_out(rows)
        return rows

    parts, schema = history_rewriting.rows_of(path), arrow_tables.plain_schema(small_tables.schema_of(path))
    history_rewriting.replace(path, schema, (kept(rows) for rows in parts))


@dataclass(frozen=True)
class _Keyless:
    """Changes of a history's member that lack a part of their key.

    Args:
        key: the columns of the key.
        field: of an aggregate's history, the field of the member; None: the history is a mirror's.
        after: the release after which the changes were written.
    """

    key: Sequence[str]
    field: str | None
    after: int

    def is_in(self, path: str) -> bool:
        """Return whether a history has such changes."""
        read = [*self.key, "_txloom_op"] if self.field is None else [self.field]
        columns = ", ".join(sql_name(name) for name in ("_txloom_release", *read))
        sql = f"select {columns} from t where _txloom_release > {self.after}"
        parts = arrow_tables.batches({"t": opened(path)}, sql)
        return any(pc.any(pc.invert(self._find_kept(rows))).as_py() for rows in parts)

    def take_out(self, rows: pa.Table) -> pa.Table:
        """Return rows of a history without these changes."""
        is_kept = self._find_kept(rows)
        if self.field is None:
            return rows.filter(is_kept)
        lists = rows.column(self.field).combine_chunks()
        flags = is_kept.to_numpy(zero_copy_only=False)
        changes = arrow_tables.with_items(lists, pc.list_flatten(lists).filter(is_kept), flags).cast(lists.type)
        return with_changes(rows.set_column(rows.column_names.index(self.field), self.field, changes))

    def _find_kept(self, rows: pa.Table) -> AnyArray:
        """Return which changes of the member stay, in the order of the rows."""
        is_later = pc.greater(rows.column("_txloom_release").combine_chunks(), pa.scalar(self.after))
        columns = {name: rows.column(name).combine_chunks() for name in rows.column_names}
        if self.field is not None:
            changes = pc.list_flatten(columns[self.field])
            is_later = is_later.take(pc.list_parent_indices(columns[self.field]))
            columns = {each.name: pc.struct_field(changes, [i]) for i, each in enumerate(changes.type)}
        is_whole = pc.is_in(columns["_txloom_op"], value_set=pa.array(WHOLE))
        has_key = reduce(pc.and_, [pc.is_valid(columns[name]) for name in self.key])
        kept: AnyArray = pc.or_(pc.invert(is_later), pc.or_(is_whole, has_key))
        return kept


def _find_moved(scope: Scope, target: Target) -> AnyArray:
    """Return the key hashes of history rows that their transactions did not get when they were made again."""
    schema = pa.schema([target.schema.field(name) for name in dict.fromkeys((*target.key, *STAMP))])
    compared, is_remade = scope.paths.table(names.difference_table(target.name)), remade_of(scope, target)
    surplus = arrow_tables.parts_of(compared, schema, f"{KIND} = '{SURPLUS}'")
    hashes = [row_hashes(rows.filter(is_remade(rows)), target.key) for rows in surplus]
    moved: AnyArray = pa.concat_arrays(hashes) if hashes else pa.array([], pa.binary())
    for rows in arrow_tables.parts_of(scope.paths.table(names.shadow_table(target.name)), schema):
        # The second copy of a row is surplus too, although its changes have the right parent.
        moved = moved.filter(pc.invert(pc.is_in(moved, value_set=row_hashes(rows, target.key))))
    return moved


def _is_among(rows: pa.Table, target: Target, keys: AnyArray) -> AnyArray:
    return pc.is_in(row_hashes(rows, target.key), value_set=keys)


def _without_changes(rows: pa.Table, fields: Sequence[str], is_kept: AnyArray) -> pa.Table:
    """Return rows of an aggregate's history without changes in some fields; omit rows that have no changes left.

    is_kept: a mask of the rows whose changes stay.
    """
    for field in fields:
        changes = rows.column(field).combine_chunks()
        changes = pc.if_else(is_kept, changes, pa.scalar([], changes.type))
        rows = rows.set_column(rows.column_names.index(field), rows.schema.field(field), changes)
    return with_changes(rows)


def with_changes(rows: pa.Table) -> pa.Table:
    """Return those rows of an aggregate's history that have a change."""
    lists = [rows.column(each.name) for each in rows.schema if pa.types.is_list(each.type)]
    sizes = [pc.fill_null(pc.list_value_length(each), 0) for each in lists]
    return rows.filter(pc.greater(pc.max_element_wise(*sizes), pa.scalar(0)))
