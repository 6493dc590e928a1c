"""Compose documents of an aggregate from rows of its members, in this process."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

RowValues = dict[str, Any]
Key = tuple[Any, ...]
STAMP = ("_txloom_csn", "_txloom_pos", "_txloom_xid")


@dataclass(frozen=True)
class Member:
    """A child table of an aggregate: its key, the columns that name its parent, and its field in the document."""

    field: str
    relation: str
    key: tuple[str, ...]
    parent_key: tuple[str, ...]
    columns: tuple[str, ...]


def compose(
    touched: Iterable[Key],
    roots: Mapping[Key, RowValues],
    children: Mapping[str, tuple[Member, Sequence[RowValues]]],
    key: Sequence[str],
    columns: Sequence[str],
) -> list[RowValues]:
    """Return one row per touched document, in the schema of the aggregate's current table with `_txloom_deleted`.

    A document exists while its root row does; a child belongs to the document that its parent columns name. The stamp
    of a document (csn, pos, xid) is the newest of its rows.

    Args:
        touched: The keys of the documents to compose.
        roots: Root rows by key; a touched document without one is deleted, and only its key is filled.
        children: By name, each child table and its rows.
        key: The root's key columns.
        columns: The root's declared columns.

    >>> rows = compose([(1,)], {}, {}, ["id"], ["id", "name"])
    >>> rows[0]["_txloom_deleted"], rows[0]["id"]
    (True, 1)
    """
    gathered = {name: by_parent(member, rows) for name, (member, rows) in children.items()}
    documents = []
    for document in touched:
        root = roots.get(document)
        if root is None:
            documents.append({**dict(zip(key, document, strict=True)), "_txloom_deleted": True})
            continue
        composed = {name: root[name] for name in columns}
        latest = tuple(root[name] for name in STAMP)
        for name, (member, _) in children.items():
            of_document = gathered[name].get(document, [])
            latest = max([latest, *(tuple(row[stamp] for stamp in STAMP) for row in of_document)])
            composed[member.field] = nested(member, of_document)
        documents.append({**composed, **dict(zip(STAMP, latest, strict=True)), "_txloom_deleted": False})
    return documents


def by_parent(member: Member, rows: Sequence[RowValues]) -> dict[Key, list[RowValues]]:
    """Group a child's rows by the key of their parent, each group ordered by the child's key."""
    children: dict[Key, list[RowValues]] = {}
    for row in sorted(rows, key=lambda row: key_of(row, member.key)):
        children.setdefault(key_of(row, member.parent_key), []).append(row)
    return children


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
