"""The changes that a table's merge folds, read part by part: those since its watermark; where one is late, more."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import cast

import pyarrow as pa
import pyarrow.compute as pc

from txloom.arrow_types import AnyArray, AnyColumn
from txloom.current.folding.column_nulling import NULLING_COLUMNS, Columns, Gone, columns_of, is_of_all_rows
from txloom.current.folding.components import components
from txloom.current.folding.fold import fold
from txloom.current.folding.recompute import recompute
from txloom.current.folding.value_sources import Images
from txloom.storage.paths import TablePaths
from txloom.storage.publishing.watermark import Watermark
from txloom.storage.rewriting.changed_keys import ChangedKeys, Values
from txloom.storage.targets import history_reader
from txloom.storage.targets.row_tables import RowTable

READ_FOR_KEYS = ("_txloom_op", "_txloom_before")


@dataclass(frozen=True)
class Source:
    """The changes that a table's merge folds.

    Args:
        paths: the tables of the pipeline.
        row_table: the table.
        reached: the watermark that it has.
        where: the SQL condition of the changes in its history.
        is_late: whether keys are folded anew from their history, because a change is late.
        only: where it is late, the keys of the new changes and those that changes of keys connect with them; None: all.
        parents: columns of it that hold the key of a document to which its rows belong, for each aggregate that has it.
        cleaned: the csn up to which its history was cleaned, so that changes may lack the ones before them; 0: never.
    """

    paths: TablePaths
    row_table: RowTable
    reached: Watermark
    where: str
    is_late: bool = False
    only: ChangedKeys | None = None
    parents: Sequence[Sequence[str]] = ()
    cleaned: int = 0

    def parts(self, *, keys_alone: bool = False) -> Iterator[pa.Table]:
        """Read the changes part by part; keys_alone: other columns than those of the key may be null."""
        columns = (*READ_FOR_KEYS, *self.row_table.key) if keys_alone and self.only is None else None
        for rows in self.read(columns):
            yield rows if self.only is None else rows.filter(self._concerned(rows, self.only))

    def read(self, columns: Sequence[str] | None = None) -> Iterator[pa.Table]:
        """Read the changes of all keys part by part; columns: others may be null; None: all."""
        return history_reader.parts(self.paths, self.row_table, self.where, columns)

    def absent(self) -> set[str]:
        """Return the declared columns that some insert among the changes lacks."""
        return history_reader.absent(self.paths, self.row_table, self.where)

    def _concerned(self, rows: pa.Table, keys: ChangedKeys) -> pa.BooleanArray:
        """Return which changes have one of some keys, before or after, or are of all rows."""
        images = self.images(rows)
        before, after = (columns_from(side, keys.columns) for side in (images.before, images.after))
        of_keys = pc.or_(keys.among(before), keys.among(after))
        return pc.or_(of_keys, is_of_all_rows(rows).combine_chunks())

    def images(self, changes: pa.Table) -> Images:
        """Return the images of the key columns of changes."""
        nothing = self.row_table.schema.empty_table()
        return Images.of(nothing, changes, self.row_table.key, self.row_table.key)

    def folded(self, rows: pa.Table, changes: pa.Table) -> pa.Table:
        """Return the net effects of changes on rows, with the columns of the table, `_txloom_deleted` and evidence."""
        key, columns = self.row_table.key, self.row_table.table.column_names
        if not self.is_late:
            effects = fold(rows, changes, key=key, columns=columns, evidence=True, cleaned=self.cleaned)
        else:
            effects = recompute(rows, changes, self.reached, key=key, columns=columns)
            effects = effects.append_column("_txloom_evidence", pa.nulls(effects.num_rows, pa.string()))
        return self.row_table.filled(effects)

    def columns(self, changes: pa.Table | None, gone: Mapping[str, Gone]) -> Columns:
        """Return which columns are dropped after the changes; changes: all of them, None: they are too many."""
        if self.is_late:
            gone = {}
        elif changes is not None:
            return columns_of(changes, gone)
        concerned = sorted((self.absent() & set(self.row_table.table.column_names)) | set(gone))
        if not concerned:
            return Columns({}, [])
        parts = self.read([*NULLING_COLUMNS, *concerned])
        return columns_of(pa.concat_tables(_nulling(part, concerned) for part in parts), gone)

    def keys(self, changes: pa.Table | None, filled: Sequence[str] = ()) -> ChangedKeys:
        """Return the keys that the changes have, before or after.

        changes: all of them; None: they are too many. filled: rows with a value of these columns change too.
        """
        key = self.row_table.key
        distinct: dict[str, list[AnyArray]] = {name: [] for name in key}
        for part in self.parts(keys_alone=True) if changes is None else [changes]:
            images = self.images(part)
            for name, values in distinct.items():
                values += [cast("AnyArray", side(name).unique()) for side in (images.before, images.after)]
        kinds = {name: self.row_table.schema.field(name).type for name in key}
        return ChangedKeys({name: Values.of(values, kinds[name]) for name, values in distinct.items()}, filled)

    def late(self, changes: pa.Table | None, target: Watermark) -> "Source":
        """Return what has to be folded because one of these changes is late: the history of their keys.

        Args:
            changes: all of these changes; None: they are too many.
            target: the watermark that the table gets.
        """
        history = replace(self, where=history_reader.upto(target), is_late=True)
        parts = self.parts() if changes is None else [changes]
        if any(pc.any(is_of_all_rows(part)).as_py() for part in parts):
            return history
        known = self.keys(changes)
        values = {name: _connected(each, history.together(name)) for name, each in known.values.items()}
        return replace(history, only=ChangedKeys(values))

    def together(self, column: str) -> dict[object, object]:
        """Return the values of a key column that changes of keys connect, each with one that stands for all of them."""
        return components(history_reader.edges(self.paths, self.row_table, column, self.where))


def _nulling(changes: pa.Table, concerned: Sequence[str]) -> pa.Table:
    """Return the changes that lack a column, or have a value of one that is concerned, and which of these they have."""
    given = {name: pc.is_valid(changes.column(name)) for name in concerned}
    is_chosen = reduce(pc.or_, given.values(), pc.is_valid(changes.column("_txloom_absent")))
    flags = {
        name: pc.if_else(has_value, pa.scalar(True), pa.scalar(None, pa.bool_())) for name, has_value in given.items()
    }
    about = {name: changes.column(name) for name in NULLING_COLUMNS}
    return pa.table(about | flags).filter(is_chosen)


def columns_from(side: Callable[[str], AnyColumn], names: Sequence[str]) -> pa.Table:
    """Return columns of one side of images as a table."""
    return pa.Table.from_arrays([side(name) for name in names], names=list(names))


def _connected(values: Values, together: Mapping[object, object]) -> Values:
    """Return values, and all that changes of keys connect with one of them."""
    if not together:
        return values
    kind = values.array.type
    old, new = (pa.array(list(side), kind) for side in (together.keys(), together.values()))
    reached = new.filter(pc.is_in(old, value_set=values.array))
    return Values.of([values.array, old.filter(pc.is_in(new, value_set=reached))], kind)
