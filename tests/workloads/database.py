"""A source database: tables that transactions change, the events that they send, and the state after each commit.

It plays statements on rows and never reads events, so that it is a second opinion on everything that does.
"""

import json
from collections import Counter
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from random import Random

from oracle.capture import Image, Key, Message
from oracle.declarations import Child, Table
from workloads.shapes import Shape

State = dict[str, dict[Key, Image]]
TEXTS = ("", "a", "NULL", "null", "x'y", '"q"', "é", "\u202eabc", "{}", "0x1", " b ", "line\nbreak", "\\", "1e5")
POOL = 6
"""Different keys that a table's rows come from: few, so that keys are deleted and used again."""


@dataclass
class Sent:
    """One committed transaction: what it sent, and every table's rows after it."""

    xid: str
    csn: int
    rows: list[Message]
    metadata: Message
    state: State


@dataclass
class Database:
    """A source that plays random transactions over a schema."""

    shape: Shape
    chance: Random
    state: State = field(default_factory=dict)
    csn: int = 100
    pos: int = 0

    def __post_init__(self) -> None:
        self.state = {name: {} for name in self.shape.tables}
        self._events: list[tuple[Table, str, Image | None, Image | None]] = []
        self._gone: dict[str, set[str]] = {name: set() for name in self.shape.tables}

    def play(self, transactions: int) -> list[Sent]:
        """Commit a number of transactions."""
        return [self._transaction(number) for number in range(transactions)]

    def _transaction(self, number: int) -> Sent:
        self._events = []
        for _ in range(self.chance.choice((0, 1, 1, 1, 2, 3, 6))):
            self._statement(self.chance.choice(list(self.shape.tables.values())))
        self.csn += self.chance.randint(1, 5)
        xid = f"{self.chance.randint(1, 99)}.{number}"
        rows = [self._message(xid, *event) for event in self._events]
        if self.chance.random() < 0.2:
            rows.append(self._message(xid, UNWATCHED, "I", None, {"id": "1"}))
        counts = Counter(json.loads(message)["table"].rsplit(".", 1)[-1] for _, message in rows)
        content = {"xid": xid, "csn": str(self.csn), "event_count": sum(counts.values())}
        if counts or self.chance.random() < 0.5:
            parts = [{"data_collection": name, "event_count": count} for name, count in counts.items()]
            content["data_collections"] = parts  # type: ignore[assignment]
        snapshot = {name: dict(rows) for name, rows in self.state.items()}
        return Sent(xid, self.csn, rows, ("metadata", json.dumps(content)), snapshot)

    def _message(self, xid: str, table: Table, op: str, before: Image | None, after: Image | None) -> Message:
        self.pos += self.chance.randint(1, 3)
        content = {"table": table.source, "op_type": op, "pos": f"{self.pos:020}", "xid": xid, "csn": str(self.csn)}
        for name, image in (("before", before), ("after", after)):
            if image is not None:
                content[name] = {column.upper(): value for column, value in image.items()}  # type: ignore[assignment]
        return f"rows.{table.name}", json.dumps(content, separators=(",", ":"), ensure_ascii=self.chance.random() < 0.5)

    def _statement(self, table: Table) -> None:
        rows = self.state[table.name]
        kinds = [self._insert]
        if rows:
            kinds += [self._update, self._update, self._update, self._delete, self._rekey, self._insert]
        if len(rows) > 1:
            kinds.append(self._rotate)
        odd = self.chance.random()
        if odd < 0.04:
            kinds = [self._truncate]
        elif odd < 0.07:
            kinds = [self._alter]
        self.chance.choice(kinds)(table)

    # Statements. Each changes the state by itself and says what a log would show of it.

    def _insert(self, table: Table) -> None:
        row = {column: self._value(kind, column in table.key) for column, kind in table.columns.items()}
        row |= self._parent_for(table) | dict.fromkeys(self._gone[table.name])
        if _key(row, table) not in self.state[table.name]:
            self.state[table.name][_key(row, table)] = row
            self._events.append((table, "I", None, self._told(table, row)))

    def _alter(self, table: Table) -> None:
        """Drop a column, or add one again that was dropped: it then is null in every row. An insert shows it.

        Without an insert nobody could know of it, which is why it is the same transaction's next statement.
        """
        gone = self._gone[table.name]
        parents = self.shape.children[table.name].parent_key if table.name in self.shape.children else ()
        plain = [column for column in table.columns if column not in (*table.key, *parents)]
        rows = self.state[table.name]
        fresh = {
            column: self._value(kind, required=True) for column, kind in table.columns.items() if column in table.key
        }
        if not plain or tuple(map(str, fresh.values())) in rows:
            return
        column = self.chance.choice(plain)
        gone ^= {column}
        for key in rows:
            rows[key] = rows[key] | {column: None}
        row = {name: fresh.get(name) or self._value(kind, name in parents) for name, kind in table.columns.items()}
        row |= dict.fromkeys(gone)
        rows[_key(row, table)] = row
        self._events.append((table, "I", None, self._told(table, row)))

    def _told(self, table: Table, row: Image) -> Image:
        """Return an image of a row: the columns that the table has now."""
        return {column: value for column, value in row.items() if column not in self._gone[table.name]}

    def _update(self, table: Table) -> None:
        row = self._any(table)
        free = [column for column in table.columns if column not in table.key]
        free = [column for column in free if column not in self._gone[table.name]]
        changed = {
            column: self._value(table.columns[column], required=False) for column in free if self.chance.random() < 0.5
        }
        child = self.shape.children.get(table.name)
        if child is not None and not set(child.parent_key) & set(table.key) and self.chance.random() < 0.3:
            changed |= self._parent_for(table)
        self._change(table, [(row, row | changed)])

    def _rekey(self, table: Table) -> None:
        """Give one row another key; a root's children follow by a cascade."""
        row = self._any(table)
        new = row | {column: self._value(table.columns[column], required=True) for column in table.key}
        new |= self._parent_for(table) if self.chance.random() < 0.5 else {}
        if _key(new, table) not in self.state[table.name]:
            self._change(table, [(row, new)])

    def _rotate(self, table: Table) -> None:
        """Let several rows exchange their keys in one statement."""
        rows = self.chance.sample(list(self.state[table.name].values()), min(len(self.state[table.name]), 3))
        keys = [{column: row[column] for column in table.key} for row in rows]
        self._change(table, [(row, row | key) for row, key in zip(rows, keys[1:] + keys[:1], strict=True)])

    def _delete(self, table: Table) -> None:
        row = self._any(table)
        if self._is_root(table) and self.chance.random() < 0.5:
            for child in self.shape.children.values():
                own = self.shape.tables[child.table]
                for below in self._below(child, row, table):
                    self._remove(own, below)
        self._remove(table, row)

    def _remove(self, table: Table, row: Image) -> None:
        del self.state[table.name][_key(row, table)]
        before = self._told(table, row) if self.chance.random() < 0.5 else {column: row[column] for column in table.key}
        self._events.append((table, "D", before, None))

    def _truncate(self, table: Table) -> None:
        self.state[table.name].clear()
        self._events.append((table, "T", None, None))

    def _change(self, table: Table, changes: list[tuple[Image, Image]]) -> None:
        """Change rows in one statement, then what refers to them; a statement that breaks a key does nothing."""
        below = self._referring(table, [old for old, _ in changes])
        cascaded: dict[str, list[tuple[Image, Image]]] = {}
        for (old, new), found in zip(changes, below, strict=True):
            if _key(old, table) == _key(new, table):
                continue
            for child, row in found:
                parent = dict(zip(child.parent_key, _key_values(new, table), strict=True))
                cascaded.setdefault(child.table, []).append((row, row | parent))
        statements = [(table, changes), *((self.shape.tables[name], moved) for name, moved in cascaded.items())]
        if all(self._unique_after(*statement) for statement in statements):
            for statement in statements:
                self._apply(*statement)

    def _unique_after(self, table: Table, changes: list[tuple[Image, Image]]) -> bool:
        left = self.state[table.name].keys() - {_key(old, table) for old, _ in changes}
        new = [_key(new, table) for _, new in changes]
        return len(set(new)) == len(new) and not left & set(new)

    def _apply(self, table: Table, changes: list[tuple[Image, Image]]) -> None:
        rows = self.state[table.name]
        for old, _ in changes:
            del rows[_key(old, table)]
        for old, new in changes:
            rows[_key(new, table)] = new
            self._events.append((table, "U", *self._images(table, old, new)))

    def _images(self, table: Table, old: Image, new: Image) -> tuple[Image | None, Image]:
        """Return what an update tells: whole or sparse images, but a key that changes is told with its old one."""
        key = {column: old[column] for column in table.key}
        moved = _key(old, table) != _key(new, table)
        old_image = self._told(table, old)
        before = self.chance.choice((old_image, key) if moved else (old_image, key, None))
        if self.chance.random() < 0.5:
            return before, self._told(table, new)
        told = {column: value for column, value in new.items() if column in table.key or value != old[column]}
        return before, told

    # What statements look at.

    def _is_root(self, table: Table) -> bool:
        return self.shape.aggregate is not None and self.shape.aggregate.root == table.name

    def _any(self, table: Table) -> Image:
        return self.chance.choice(list(self.state[table.name].values()))

    def _below(self, child: Child, row: Image, root: Table) -> list[Image]:
        key = _key(row, root)
        return [r for r in self.state[child.table].values() if tuple(r[c] for c in child.parent_key) == key]

    def _referring(self, table: Table, rows: list[Image]) -> list[list[tuple[Child, Image]]]:
        if not self._is_root(table):
            return [[] for _ in rows]
        children = self.shape.children.values()
        return [[(child, r) for child in children for r in self._below(child, row, table)] for row in rows]

    def _parent_for(self, table: Table) -> Image:
        """Return the parent columns of a child's row: mostly of a root that is there."""
        child, aggregate = self.shape.children.get(table.name), self.shape.aggregate
        if child is None or aggregate is None:
            return {}
        root = self.shape.tables[aggregate.root]
        if self.state[root.name] and self.chance.random() < 0.8:
            return dict(zip(child.parent_key, _key_values(self._any(root), root), strict=True))
        kinds = [root.columns[column] for column in root.key]
        return {own: self._value(kind, required=True) for own, kind in zip(child.parent_key, kinds, strict=True)}

    def _value(self, kind: str, required: bool) -> str | None:
        if not required and self.chance.random() < 0.2:
            return None
        number = self.chance.randint(0, POOL - 1)
        if required:
            return {"long": str(number), "int": str(number), "string": f"k{number}", "date": f"2026-01-0{number + 1}"}[
                kind
            ]
        return self._free(kind)

    def _free(self, kind: str) -> str:
        chance = self.chance
        if kind in ("long", "int"):
            bits = 63 if kind == "long" else 31
            return str(chance.choice((0, -1, 2**bits - 1, -(2**bits), chance.randint(-999, 999))))
        if kind == "decimal(20,4)":
            return f"{chance.randint(-(10**8), 10**8) / 10**4:.4f}"
        if kind == "decimal(38,10)":
            return f"{chance.choice(('', '-'))}{chance.randint(1, 10**28 - 1)}.{chance.randint(0, 10**10 - 1):010}"
        if kind == "boolean":
            return chance.choice(("true", "false"))
        if kind == "date":
            return str(date(1969, 12, 1) + timedelta(days=chance.randint(0, 60_000)))
        if kind == "timestamp":
            return str(datetime(1969, 12, 1) + timedelta(microseconds=chance.randint(0, 10**16)))
        if kind == "double":
            return chance.choice(("1.5", "-0.0", "NaN", "Infinity", "1e-300", "0.1"))
        return chance.choice(TEXTS)


UNWATCHED = Table("other", "APP.OTHER", ("id",), {"id": "long"})


def _key_values(row: Image, table: Table) -> tuple[str | None, ...]:
    return tuple(row[column] for column in table.key)


def _key(row: Image, table: Table) -> Key:
    return tuple(str(row[column]) for column in table.key)
