"""Replace the rows of a history after one of its tables gets another source or key."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain

import pyarrow as pa
import pyarrow.compute as pc

from txloom.arrow_types import AnyArray
from txloom.config import names
from txloom.steps.backfill.scope import Scope, Target
from txloom.steps.backfill.table_comparison import stay_of
from txloom.steps.settling.need import Need, renaming_of
from txloom.storage.declarations import history_rewriting
from txloom.storage.declarations.records import Pair, State
from txloom.storage.delta import arrow_tables, small_tables


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
    changes = rows.column(field).combine_chunks()
    changes = pc.if_else(is_kept, changes, pa.scalar([], changes.type))
    rows = rows.set_column(rows.column_names.index(field), rows.schema.field(field), changes)
    lists = [rows.column(each.name) for each in rows.schema if pa.types.is_list(each.type)]
    sizes = [pc.fill_null(pc.list_value_length(each), 0) for each in lists]
    return rows.filter(pc.greater(pc.max_element_wise(*sizes), pa.scalar(0)))
