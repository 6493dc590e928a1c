"""Documents of an aggregate, composed from flat rows in one process."""

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

    A document exists while its root row does; a child belongs to the document that its parent columns name; `many`
    children are ordered by their key, and of several `one` children the last by key stands.

    >>> rows = compose([(1,)], {}, {}, ["id"], ["id", "name"])
    >>> rows[0]["_txloom_deleted"], rows[0]["id"]
    (True, 1)
    """
    gathered = {name: _by_parent(member, rows) for name, (member, rows) in children.items()}
    documents = []
    for document in touched:
        root = roots.get(document)
        if root is None:
            documents.append({**dict(zip(key, document, strict=True)), "_txloom_deleted": True})
            continue
        composed = {name: root[name] for name in columns}
        latest = tuple(root[name] for name in STAMP)
        for name, (member, _) in children.items():
            own = gathered[name].get(document, [])
            latest = max([latest, *(tuple(row[stamp] for stamp in STAMP) for row in own)])
            nested = [{column: row[column] for column in member.columns} for row in own]
            composed[member.field] = nested if member.relation == "many" else (nested[-1] if nested else None)
        documents.append({**composed, **dict(zip(STAMP, latest, strict=True)), "_txloom_deleted": False})
    return documents


def _by_parent(member: Member, rows: Sequence[RowValues]) -> dict[Key, list[RowValues]]:
    found: dict[Key, list[RowValues]] = {}
    for row in sorted(rows, key=lambda row: tuple(row[name] for name in member.key)):
        found.setdefault(tuple(row[name] for name in member.parent_key), []).append(row)
    return found
