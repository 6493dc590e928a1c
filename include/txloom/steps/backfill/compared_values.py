"""The values of history rows that a comparison looks at: without where an event was landed, and declared columns only.

A redelivery was landed elsewhere and has the same content. Lists of column names may contain a column that is no
longer declared. Inserts released before a column was declared do not list it as absent, but rebuilt inserts do.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from txloom.arrow_types import AnyArray
from txloom.config import names
from txloom.storage.delta import arrow_tables

UNCOMPARED = ("_txloom_landing", "_txloom_row")
"""Where an event was landed."""
NONE_IS_NULL = ("_txloom_unchanged", "_txloom_absent")
"""Lists of names that are null where they name no column."""


Listed = Mapping[str, tuple[int, int | None]]
"""By column, the newest release before it was declared, and the csn of the first event that had it (None: no event had
it). Inserts up to this release do not list the column as absent, except those with this csn or a higher one."""


def compared_values(rows: pa.Table, listed: Mapping[str, Listed]) -> pa.Table:
    """Return rows of a table as they are compared: without UNCOMPARED, also in the changes of a document's members.

    Args:
        rows: the rows.
        listed: since when inserts list a column as absent, by the field with the changes of a document's member; ""
            stands for a mirror's history. Columns that inserts always listed are left out.
    """
    columns = {name: rows.column(name).combine_chunks() for name in rows.column_names if name not in UNCOMPARED}
    return pa.table(_compared(columns, _Since.of(columns, "", listed), listed))


@dataclass(frozen=True)
class _Since:
    """Since when inserts list a column as absent, and the release and csn of each row or change."""

    listed: Listed
    releases: AnyArray
    csns: AnyArray

    @classmethod
    def of(cls, columns: Mapping[str, AnyArray], name: str, listed: Mapping[str, Listed]) -> "_Since":
        if not listed.get(name):
            return cls({}, pa.nulls(0), pa.nulls(0))
        return cls(listed[name], columns["_txloom_release"], columns["_txloom_csn"])

    def take(self, parents: AnyArray) -> "_Since":
        """Return a copy for the items of lists; parents: for each item, the index of its row."""
        if not self.listed:
            return self
        return replace(self, releases=self.releases.take(parents), csns=self.csns.take(parents))

    def compares(self, items: AnyArray, parents: AnyArray) -> AnyArray:
        """Return whether each name in the lists of absent columns is compared; parents: of each, its list index."""
        compared: AnyArray = pa.array(np.ones(len(items), np.bool_))
        at = self.take(parents)
        for column, (release, csn) in self.listed.items():
            is_later = pc.greater(at.releases, pa.scalar(release))
            if csn is not None:
                is_later = pc.or_(is_later, pc.greater_equal(at.csns, pa.scalar(csn)))
            compared = pc.and_(compared, pc.or_(pc.not_equal(items, pa.scalar(column)), is_later))
        return compared


def _compared(columns: dict[str, AnyArray], since: _Since, listed: Mapping[str, Listed]) -> dict[str, AnyArray]:
    declared = [name for name in columns if not name.startswith(names.SYSTEM_PREFIX)]
    made = dict[str, AnyArray]()
    for name, values in columns.items():
        is_list = pa.types.is_list(values.type) and len(values) > 0
        inside: pa.DataType = values.type.value_type if is_list else pa.null()
        if pa.types.is_struct(inside):
            made[name] = _compared_changes(values, _Since.of(columns, name, listed))
        elif name.startswith(names.SYSTEM_PREFIX) and pa.types.is_string(inside):
            made[name] = _compared_names(name, values, declared, since)
        else:
            made[name] = values
    return made


def _compared_changes(values: AnyArray, since: _Since) -> AnyArray:
    """Return the changes of a document's member as they are compared."""
    kept = [field.name for field in values.type.value_type if field.name not in UNCOMPARED]
    changes = pc.list_flatten(values)
    columns = {each: pc.struct_field(changes, each) for each in kept}
    parts = _compared(columns, since.take(pc.list_parent_indices(values)), {})
    made = pa.StructArray.from_arrays(list(parts.values()), names=list(parts))
    if f"{names.SYSTEM_PREFIX}pos" in kept:
        # Earlier versions wrote null instead of an empty list if a transaction has no change of a member.
        values = values.fill_null(pa.scalar([], values.type))
    return arrow_tables.with_items(values, made, np.ones(len(made), np.bool_))


def _compared_names(name: str, values: AnyArray, declared: Collection[str], since: _Since) -> AnyArray:
    """Return lists of names of columns as they are compared."""
    items = pc.list_flatten(values)
    is_compared = pc.is_in(items, value_set=pa.array(declared, pa.string()))
    if name == "_txloom_absent" and since.listed:
        is_compared = pc.and_(is_compared, since.compares(items, pc.list_parent_indices(values)))
    flags = is_compared.to_numpy(zero_copy_only=False)
    known = values if flags.all() else arrow_tables.with_items(values, items.filter(is_compared), flags)
    return _without_empty(known) if name in NONE_IS_NULL else known


def _without_empty(lists: AnyArray) -> AnyArray:
    """Return lists with null in the place of empty ones."""
    is_empty = pc.equal(pc.list_value_length(lists), pa.scalar(0)).fill_null(False)
    made: AnyArray = pc.if_else(is_empty, pa.scalar(None, lists.type), lists)
    return made
