"""A source database: tables that transactions change, the events that they send, and the state after each commit.

It plays statements on rows and never reads events, so that it is a second opinion on everything that does.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Protocol

from oracle.capture import Image, Key, Message
from oracle.declarations import Child, Table
from workloads.sources.kinds import Values
from workloads.sources.shapes import SERIAL, Shape

State = dict[str, dict[Key, Image]]


@dataclass(frozen=True)
class Change:
    """One changed row, or a truncated table: the whole rows before and after, and the columns that the table had."""

    table: Table
    op: str
    before: Image | None
    after: Image | None
    columns: tuple[str, ...]

    @property
    def moves(self) -> bool:
        """Tell whether the row's key changes."""
        if self.before is None or self.after is None:
            return False
        return any(self.before[column] != self.after[column] for column in self.table.key)

    def image(self, row: Image) -> Image:
        """Return what a log has of a row: the columns that the table has now."""
        return {column: row[column] for column in self.columns}

    def key(self, row: Image) -> Image:
        """Return a row's key."""
        return {column: row[column] for column in self.table.key}


GIVEN_UP = -2
"""The number of a snapshot that the connector gave up."""


@dataclass
class Sent:
    """One committed transaction: the messages that tell of it, every table's rows after it, and its changes.

    number: of the transaction; below 0: what was there before the first; GIVEN_UP: a snapshot that was not ended.
    renamed: by table, how often each column was renamed until then.
    """

    xid: str
    csn: int
    rows: list[Message]
    metadata: Message | None
    state: State
    changes: Sequence[Change] = ()
    number: int = 0
    renamed: Mapping[str, Mapping[str, int]] = field(default_factory=dict)


class Writer(Protocol):
    """Writes transactions as a source does; what the source cannot tell, its database does not do.

    truncates: any, alone (as a transaction of its own) or none. alters: columns are dropped and come back. rotates:
    rows exchange their keys. special: doubles that are no numbers. moves_serials: a row keeps its serial under another
    key; where a row that is left out stays as it was, both would have it.
    """

    truncates: str
    alters: bool
    rotates: bool
    special: bool
    moves_serials: bool

    def write(self, sent: Sent) -> None:
        """Give a transaction its messages."""
        ...


@dataclass
class Database:
    """A source that plays random transactions over a schema.

    renames: whether columns get other names. `state` has all rows under the first names. altered: by table, the
    columns that were dropped, and may have come back.
    """

    shape: Shape
    chance: Random
    writer: Writer
    state: State = field(default_factory=dict)
    csn: int = 100
    renames: bool = False

    def __post_init__(self) -> None:
        self.state = {name: {} for name in self.shape.tables}
        self._values = Values(self.chance, wide=self.shape.dimensions.wide_values, special=self.writer.special)
        self._keys = Values(self.chance, wide=self.shape.dimensions.wide_keys)
        self._events: list[Change] = []
        self._gone: dict[str, set[str]] = {name: set() for name in self.shape.tables}
        self.altered: dict[str, set[str]] = {name: set() for name in self.shape.tables}
        self._renamed: dict[str, dict[str, int]] = {name: {} for name in self.shape.tables}
        self._inserted = self._serial = 0

    def play(self, transactions: int) -> list[Sent]:
        """Commit a number of transactions."""
        return [self._transaction(number) for number in range(transactions)]

    def _transaction(self, number: int) -> Sent:
        self._events = []
        tables = list(self.shape.tables.values())
        if self.writer.truncates == "alone" and self.chance.random() < 0.04:
            self._truncate(self.chance.choice(tables))
        else:
            for _ in range(self.chance.choice((0, 1, 1, 1, 2, 3, 6))):
                self._statement(self.chance.choice(tables))
        self.csn += 2 * len(self._events) + self.chance.randint(1, 5)
        state = {name: dict(rows) for name, rows in self.state.items()}
        renamed = {name: dict(columns) for name, columns in self._renamed.items()}
        sent = Sent("", self.csn, [], None, state, self._events, number, renamed)
        self.writer.write(sent)
        return sent

    def _note(self, table: Table, op: str, before: Image | None = None, after: Image | None = None) -> None:
        columns = tuple(column for column in table.columns if column not in self._gone[table.name])
        change = Change(table, op, before, after, columns)
        self._events.append(_under_new_names(change, self._renamed[table.name]))

    def _statement(self, table: Table) -> None:
        rows = self.state[table.name]
        kinds = [self._insert]
        if rows and table.key:
            kinds += [self._update, self._update, self._update, self._delete, self._rekey, self._insert]
        if len(rows) > 1 and table.key and self.writer.rotates:
            kinds.append(self._rotate)
        odd = self.chance.random()
        if odd < 0.04 and self.writer.truncates == "any":
            kinds = [self._truncate]
        elif 0.04 < odd < 0.07 and self.writer.alters:
            kinds = [self._alter]
        elif 0.07 < odd < 0.1 and self.renames:
            kinds = [self._rename]
        elif 0.1 < odd < 0.13 and self.renames and self.writer.alters:
            kinds = [self._alter]
        self.chance.choice(kinds)(table)

    # Statements. Each changes the state by itself and says what a log would show of it.

    def _insert(self, table: Table) -> None:
        row = {column: self._value(kind, column in table.key) for column, kind in table.columns.items()}
        row |= self._next_serial(table) | self._parent_for(table) | dict.fromkeys(self._gone[table.name])
        if not table.key:
            for _ in range(self.chance.choice((1, 1, 2, 3))):
                self._put(table, row)
        elif _key(row, table) not in self.state[table.name]:
            self._put(table, row)

    def _put(self, table: Table, row: Image) -> None:
        """Insert a row; equal ones of a table without a key stay as many."""
        self._inserted += 1
        self.state[table.name][_key(row, table) or (f"#{self._inserted}",)] = row
        self._note(table, "I", after=row)

    def _alter(self, table: Table) -> None:
        """Drop a column, or add one again that was dropped: it then is null in every row. An insert shows it.

        Without an insert nobody could know of it, which is why it is the same transaction's next statement.
        """
        gone, rows = self._gone[table.name], self.state[table.name]
        plain, fresh = self._plain(table), self._fresh(table)
        if not plain or fresh is None:
            return
        column = self.chance.choice(plain)
        gone ^= {column}
        self.altered[table.name].add(column)
        for key in rows:
            rows[key] = rows[key] | {column: None}
        self._put_fresh(table, fresh)

    def _rename(self, table: Table) -> None:
        """Rename a column. Only later rows show the new name; an insert shows that the former name is gone."""
        fresh = self._fresh(table)
        if fresh is None:
            return
        renamed, column = self._renamed[table.name], self.chance.choice([*table.columns])
        renamed[column] = renamed.get(column, 0) + 1
        self._put_fresh(table, fresh)

    def _plain(self, table: Table) -> list[str]:
        """Return the columns that are part of no key."""
        return [column for column in table.columns if column not in (*table.key, *self._parents(table))]

    def _parents(self, table: Table) -> Sequence[str]:
        return self.shape.hanging[table.name][1].parent_key if table.name in self.shape.hanging else ()

    def _fresh(self, table: Table) -> Image | None:
        """Return the key of a row that can be inserted; None where a row has the drawn one."""
        fresh = {
            column: self._value(kind, required=True) for column, kind in table.columns.items() if column in table.key
        } | self._next_serial(table)
        return None if fresh and tuple(map(str, fresh.values())) in self.state[table.name] else fresh

    def _put_fresh(self, table: Table, key: Image) -> None:
        """Insert a row with a key."""
        parents = self._parents(table)
        row = {name: key.get(name) or self._value(kind, name in parents) for name, kind in table.columns.items()}
        self._put(table, row | dict.fromkeys(self._gone[table.name]))

    def _update(self, table: Table) -> None:
        row = self._any(table)
        free = [column for column in table.columns if column not in table.key]
        free = [column for column in free if column not in self._gone[table.name]]
        changed = {
            column: self._value(table.columns[column], required=False) for column in free if self.chance.random() < 0.5
        }
        _, child = self.shape.hanging.get(table.name, ("", None))
        if child is not None and not set(child.parent_key) & set(table.key) and self.chance.random() < 0.3:
            changed |= self._parent_for(table)
        self._change(table, [(row, row | changed)])

    def _rekey(self, table: Table) -> None:
        """Give one row another key; a root's children follow by a cascade."""
        row = self._any(table)
        new = row | {column: self._value(table.columns[column], required=True) for column in table.key}
        is_fresh = SERIAL in table.key and (self.chance.random() < 0.5 or not self.writer.moves_serials)
        new |= self._next_serial(table) if is_fresh else _serial(table, row)
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
                child_table = self.shape.tables[child.table]
                for below in self._below(child, row, table):
                    self._remove(child_table, below)
        self._remove(table, row)

    def _remove(self, table: Table, row: Image) -> None:
        del self.state[table.name][_key(row, table)]
        self._note(table, "D", row)

    def _truncate(self, table: Table) -> None:
        self.state[table.name].clear()
        self._note(table, "T")

    def _change(self, table: Table, changes: list[tuple[Image, Image]]) -> None:
        """Change rows in one statement, then what refers to them; a statement that breaks a key does nothing."""
        below = self._referring(table, [old for old, _ in changes])
        cascaded: dict[str, list[tuple[Image, Image]]] = {}
        for (old, new), children in zip(changes, below, strict=True):
            if _key(old, table) == _key(new, table):
                continue
            for child, row in children:
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
            self._note(table, "U", old, new)

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
        if table.name not in self.shape.hanging:
            return {}
        name, child = self.shape.hanging[table.name]
        root = self.shape.tables[name]
        if self.state[root.name] and self.chance.random() < 0.8:
            return dict(zip(child.parent_key, _key_values(self._any(root), root), strict=True))
        kinds = [root.columns[column] for column in root.key]
        return {column: self._value(kind, required=True) for column, kind in zip(child.parent_key, kinds, strict=True)}

    def _next_serial(self, table: Table) -> Image:
        """Return a new value of a table's serial; nothing where it has none."""
        if not _has_serial(self.shape, table):
            return {}
        self._serial += 1
        return {SERIAL: str(self._serial)}

    def _value(self, kind: str, required: bool) -> str | None:
        if required:
            return self._keys.key(kind)
        return None if self.chance.random() < 0.2 else self._values.free(kind)


def name_after(column: str, times: int) -> str:
    """Return the name that a column of the source has after it was renamed some times."""
    return f"{column}_{times + 1}" if times else column


def _under_new_names(change: Change, renamed: Mapping[str, int]) -> Change:
    """Return a change as a log has it after columns were renamed."""
    if not renamed:
        return change

    def row(image: Image | None) -> Image | None:
        return None if image is None else {name_of(column): value for column, value in image.items()}

    def name_of(column: str) -> str:
        return name_after(column, renamed.get(column, 0))

    kinds = {name_of(column): kind for column, kind in change.table.columns.items()}
    table = replace(change.table, key=tuple(map(name_of, change.table.key)), columns=kinds)
    columns = tuple(map(name_of, change.columns))
    return Change(table, change.op, row(change.before), row(change.after), columns)


def positions(sent: Sent, *, copies: bool) -> list[int]:
    """Return where a transaction's changes lie in the log; copies: rows that one statement inserts share a place."""
    collected, last = list[int](), None
    position = sent.csn - 2 * len(sent.changes)
    for change in sent.changes:
        is_copied = copies and last is not None and change.op == last.op == "I" and change.table == last.table
        position += 0 if is_copied and change.table.key else 1
        collected.append(position)
        last = change
    return collected


def _has_serial(shape: Shape, table: Table) -> bool:
    """Return whether a table's serial is its own: that of a child is the key of its parent."""
    return SERIAL in table.key and table.name not in shape.hanging


def _serial(table: Table, row: Image) -> Image:
    """Return the serial of a row; nothing where its table has none."""
    return {SERIAL: row[SERIAL]} if SERIAL in table.key else {}


def _key_values(row: Image, table: Table) -> tuple[str | None, ...]:
    return tuple(row[column] for column in table.key)


def _key(row: Image, table: Table) -> Key:
    return tuple(str(row[column]) for column in table.key)
