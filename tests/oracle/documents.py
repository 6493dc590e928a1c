"""See a root and its children as nested documents, with flat relational semantics.

A document exists while its root row does. A child belongs to the document whose key its parent columns name, and to
none when there is no such root. When a root's key changes, a child that the source sent no event for goes along.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from oracle.capture import Event, Image, Key
from oracle.declarations import Aggregate, Child, Table
from oracle.values import typed

Document = dict[str, Any]
Tables = Mapping[str, dict[Key, Image]]


def documents(state: Tables, aggregate: Aggregate, tables: Mapping[str, Table]) -> dict[Key, Document]:
    """Nest the children of each root row, those of a `many` child in the order of their key, of `one` the last."""
    by_key: dict[Key, Document] = {key: dict(row) for key, row in state[aggregate.root].items()}
    for child in aggregate.children:
        groups = _by_parent(state[child.table], child, tables[child.table])
        for key, document in by_key.items():
            document[child.field] = _nested(groups.get(key, []), child)
    return by_key


def several(state: Tables, aggregate: Aggregate) -> set[str]:
    """Return the fields of the relation `one` of which some document has several rows."""
    roots = state[aggregate.root].keys()
    return {
        child.field
        for child in aggregate.children
        if child.relation == "one"
        and any(n > 1 and key in roots for key, n in Counter(map(_parents(child), state[child.table].values())).items())
    }


def _parents(child: Child) -> Callable[[Image], Key]:
    return lambda row: parent_of(row, child)


def orphans(state: Tables, aggregate: Aggregate) -> dict[str, list[Key]]:
    """Return, per child table, the keys of rows whose root does not exist."""
    roots = state[aggregate.root].keys()
    return {
        child.table: [key for key, row in state[child.table].items() if parent_of(row, child) not in roots]
        for child in aggregate.children
    }


def parent_of(row: Image, child: Child) -> Key:
    """Return the root key that a child row names."""
    return tuple(str(row[column]) for column in child.parent_key)


class Moves:
    """The children that a transaction's root key changes carry along; an event of their own overrules it."""

    def __init__(self, aggregate: Aggregate, tables: Mapping[str, Table]) -> None:
        self._aggregate = aggregate
        self._tables = tables
        self._parents: dict[tuple[str, Key], Key] = {}

    def note(self, event: Event, state: Tables) -> None:
        """Note an event before it is applied to the state."""
        key_columns = self._tables[event.table].key
        old, new = _key_in(event.before, key_columns), _key_in(event.after, key_columns)
        if event.table != self._aggregate.root:
            self._overrule(event.table, None if event.op == "T" else old or new)
        elif event.op == "U" and old and new and old != new and old in state[event.table]:
            self._carry(old, new, state)

    def settle(self, state: Tables) -> None:
        """Give every child that is still carried its new parent, at the end of the transaction."""
        carried = {(name, key): state[name].pop(key) for name, key in self._parents if key in state[name]}
        children = {child.table: child for child in self._aggregate.children}
        for (name, key), row in carried.items():
            parent = self._parents[name, key]
            image = {**row, **dict(zip(children[name].parent_key, parent, strict=True))}
            state[name][tuple(str(image[column]) for column in self._tables[name].key)] = image

    def _carry(self, old: Key, new: Key, state: Tables) -> None:
        for child in self._aggregate.children:
            for key, row in state[child.table].items():
                if self._parents.get((child.table, key), parent_of(row, child)) == old:
                    self._parents[child.table, key] = new

    def _overrule(self, table: str, key: Key | None) -> None:
        for name, carried in list(self._parents):
            if name == table and key in (None, carried):
                del self._parents[name, carried]


def _by_parent(rows: Mapping[Key, Image], child: Child, table: Table) -> dict[Key, list[Image]]:
    groups: dict[Key, list[Image]] = {}
    for row in sorted(
        rows.values(), key=lambda row: [typed(row[column], table.columns[column]) for column in table.key]
    ):
        groups.setdefault(parent_of(row, child), []).append(row)
    return groups


def _nested(rows: list[Image], child: Child) -> Image | list[Image] | None:
    if child.relation == "many":
        return rows
    return rows[-1] if rows else None


def _key_in(image: Image | None, columns: tuple[str, ...]) -> Key | None:
    parts = [(image or {}).get(column) for column in columns]
    return None if None in parts else tuple(str(part) for part in parts)
