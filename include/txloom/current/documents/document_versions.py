"""Intervals of an aggregate (SCD2): every state of its documents, and from when to when it held."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from txloom.current.documents.compose import Member
from txloom.current.versions import INTERVAL

Key = tuple[Any, ...]
RowValues = dict[str, Any]
Version = dict[str, Any]
CSN, TIME, DELETED = "_txloom_csn", "_txloom_committed_at", "_txloom_deleted"


@dataclass
class _Rows:
    """One member's rows as of a csn, indexed by their key and by their document's key."""

    key: Sequence[str]
    parent: Sequence[str]
    rows: dict[Key, RowValues] = field(default_factory=dict)
    below: dict[Key, set[Key]] = field(default_factory=dict)

    def apply(self, version: Version) -> list[Key]:
        """Apply a version of a row, and return the keys of the documents that it touches."""
        row_key = key_of(version, self.key)
        touched = []
        if (old := self.rows.pop(row_key, None)) is not None:
            touched.append(key_of(old, self.parent))
            self.below[touched[0]].discard(row_key)
        if not version[DELETED]:
            self.rows[row_key] = version
            touched.append(key_of(version, self.parent))
            self.below.setdefault(touched[-1], set()).add(row_key)
        return touched

    def of(self, document: Key) -> list[RowValues]:
        """Return a document's rows, ordered by their key."""
        return [self.rows[row_key] for row_key in sorted(self.below.get(document, ()))]


def document_intervals(
    root: pa.Table,
    key: Sequence[str],
    columns: Sequence[str],
    children: Sequence[tuple[Member, pa.Table]],
    schema: pa.Schema,
) -> pa.Table:
    """Return the intervals of documents, one row per interval in which a document did not change.

    A document exists while its root row does. A row holds from the csn `_txloom_valid_from` up to, but not including,
    `_txloom_valid_to` (null: it still holds).

    Args:
        root: Versions of the root's rows, from `current.versions.versions`.
        key: The root's key columns.
        columns: The root's declared columns.
        children: Each child table with its versions.
        schema: The schema of a document's declared columns and fields.
    """
    members = {member.field: member for member, _ in children}
    versions_of: dict[str, list[Version]] = {"": root.to_pylist()}
    versions_of |= {member.field: versions.to_pylist() for member, versions in children}
    states = {"": _Rows(key, key)} | {name: _Rows(member.key, member.parent_key) for name, member in members.items()}
    open_since: dict[Key, dict[str, Any]] = {}
    intervals: list[dict[str, Any]] = []
    for csn, at, group in _by_transaction(versions_of):
        touched = dict.fromkeys(document for name, version in group for document in states[name].apply(version))
        for document in touched:
            _close_interval(document, _document(document, states, members, columns), (csn, at), open_since, intervals)
    intervals += open_since.values()
    time = root.schema.field(TIME).type
    interval_fields = zip(INTERVAL, (pa.int64(), pa.int64(), time, time, pa.bool_()), strict=True)
    return pa.Table.from_pylist(intervals, pa.schema([*schema, *interval_fields]))


def _by_transaction(versions_of: Mapping[str, Sequence[Version]]) -> list[tuple[int, Any, list[tuple[str, Version]]]]:
    """Group the versions of all members by transaction, in commit order."""
    groups: dict[int, list[tuple[str, Version]]] = {}
    for name, versions in versions_of.items():
        for version in versions:
            groups.setdefault(version[CSN], []).append((name, version))
    return [(csn, groups[csn][0][1][TIME], groups[csn]) for csn in sorted(groups)]


def _document(
    document: Key, states: Mapping[str, _Rows], members: Mapping[str, Member], columns: Sequence[str]
) -> RowValues | None:
    row = states[""].rows.get(document)
    if row is None:
        return None
    fields = {name: row[name] for name in columns}
    return fields | {name: nested(member, states[name].of(document)) for name, member in members.items()}


def _close_interval(
    document: Key,
    now: RowValues | None,
    at: tuple[int, Any],
    open_since: dict[Key, dict[str, Any]],
    intervals: list[dict[str, Any]],
) -> None:
    """Close a document's interval where it changed, and begin the next one."""
    before = open_since.get(document)
    if before is not None:
        if now is not None and all(repr(before[name]) == repr(value) for name, value in now.items()):
            return
        intervals.append(before | dict(zip(INTERVAL[1::2], at, strict=True)) | {INTERVAL[4]: False})
        del open_since[document]
    if now is not None:
        open_since[document] = now | dict(zip(INTERVAL, (at[0], None, at[1], None, True), strict=True))


def nested(member: Member, rows: Sequence[RowValues]) -> list[RowValues] | RowValues | None:
    """Return the value of a child's field: a list for the relation `many`, else the last row by key, or None.

    rows: the child's rows of one document, ordered by key.

    >>> nested(Member("lines", "many", ("id",), ("order",), ("id",)), [{"id": 1, "order": 7}, {"id": 2, "order": 7}])
    [{'id': 1}, {'id': 2}]
    """
    images = [{column: row[column] for column in member.columns} for row in rows]
    if member.relation == "many":
        return images
    return images[-1] if images else None


def key_of(row: RowValues, names: Sequence[str]) -> Key:
    """Return a row's key.

    >>> key_of({"id": 1, "line": 2}, ["id", "line"])
    (1, 2)
    """
    return tuple(row[name] for name in names)
