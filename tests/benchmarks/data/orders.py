"""Orders for benchmarks: a root table, one child of relation `one` and two of `many`, and documents of them.

Every order has one row of details, three lines and three notes. A row is the same wherever it is made; the rows of the
base are as of csn 0.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from benchmarks.data.mirrors import FIRST, Ints, write_changes
from txloom.config.models.pipeline import Pipeline
from txloom.storage.delta import data_files
from txloom.storage.paths import TablePaths
from txloom.storage.targets import row_tables

CHILDREN = 3
"""Lines, and notes, of each order."""
PART = 250_000
"""Orders whose rows are made and written at a time."""
AT_ORDER, AT_CHILD = FIRST, (FIRST + 1_000_000, FIRST + 2_000_000)
"""When the first row of a table is changed, in microseconds since 1970; each change is a transaction."""

DECLARED = """\
name: bench
source: {{format: change_sets, files: {{path: "{inbox}", settle: 0s}}}}
completeness: {{rule: single}}
tables:
- name: orders
  source: B.ORDERS
  key: [order_id]
  columns: {{order_id: long, status: string, total: "decimal(20,4)", at: timestamp}}
- name: details
  source: B.DETAILS
  key: [order_id]
  columns: {{order_id: long, carrier: string, address: string}}
- name: lines
  source: B.LINES
  key: [line_id]
  columns: {{line_id: long, order_id: long, product: string, quantity: int, price: "decimal(18,4)"}}
- name: notes
  source: B.NOTES
  key: [note_id]
  columns: {{note_id: long, order_id: long, text: string}}
targets:
  aggregates:
  - name: orders
    root: orders
    children:
    - {{table: details, relation: one, parent_key: [order_id]}}
    - {{table: lines, relation: many, parent_key: [order_id]}}
    - {{table: notes, relation: many, parent_key: [order_id]}}
"""


def declared(folder: Path, inbox: Path) -> Path:
    """Write the declaration of the pipeline, and return its file."""
    file = folder / "bench.yaml"
    file.write_text(DECLARED.format(inbox=inbox))
    return file


def orders(ids: Ints, version: int = 0) -> pa.Table:
    """Return orders with some ids, as they are after so many changes."""
    mixed = _mixed(ids, version)
    return pa.table(
        {
            "order_id": pa.array(ids),
            "status": pa.array(["open", "paid", "sent", "done"]).take(pa.array(mixed % 4)),
            "total": _decimals(mixed % 1_000_000_000, 20),
            "at": pa.array(FIRST - 1_000_000_000 + mixed, pa.timestamp("us")),
        }
    )


def details(ids: Ints) -> pa.Table:
    """Return the details of orders."""
    mixed = _mixed(ids, 0)
    carriers = pa.array(["FEDEX", "UPS", "DHL"]).take(pa.array(mixed % 3))
    return pa.table({"order_id": pa.array(ids), "carrier": carriers, "address": _texts(mixed % 9_999, " Main Street")})


def lines(ids: Ints, of: Ints) -> pa.Table:
    """Return lines with some ids; of: the orders that they belong to."""
    mixed = _mixed(ids, 0)
    return pa.table(
        {
            "line_id": pa.array(ids),
            "order_id": pa.array(of),
            "product": _texts(mixed % 20_011, " pieces"),
            "quantity": pa.array(1 + mixed % 17, pa.int32()),
            "price": _decimals(mixed % 10_000_000, 18),
        }
    )


def notes(ids: Ints, of: Ints) -> pa.Table:
    """Return notes with some ids; of: the orders that they belong to."""
    return pa.table({"note_id": pa.array(ids), "order_id": pa.array(of), "text": _texts(_mixed(ids, 0), " was said")})


def _mixed(ids: Ints, version: int) -> Ints:
    return (ids * 2654435761 + version * 40503) & 0xFFFFFFFF


def _texts(numbers: Ints, text: str) -> pa.Array:
    return pa.array(np.char.add(numbers.astype(str), text))


def _decimals(numbers: Ints, digits: int) -> pa.Array:
    scaled = pa.array(numbers, pa.int64()).cast(pa.decimal128(19, 0))
    return pa.Array.from_buffers(pa.decimal128(digits, 4), len(numbers), scaled.buffers())


MANY: Mapping[str, Callable[[Ints, Ints], pa.Table]] = {"lines": lines, "notes": notes}
"""Children of the relation `many`: how their rows are made of their ids and their orders'."""


def rows(first: int, until: int) -> dict[str, pa.Table]:
    """Return, by table, the rows of the base of the orders from `first` to before `until`."""
    ids = np.arange(first, until, dtype=np.int64)
    children = np.arange(first * CHILDREN, until * CHILDREN, dtype=np.int64)
    parents = children // CHILDREN
    many = {name: make(children, parents) for name, make in MANY.items()}
    return {"orders": orders(ids), "details": details(ids), **many}


def write_base(pipeline: Pipeline, paths: TablePaths, count: int) -> None:
    """Create the current tables and fill them with the first `count` orders and their documents, as of csn 0."""
    (aggregate,) = pipeline.targets.aggregates
    tables = {each.table.name: each for each in row_tables.row_tables(pipeline)}
    for table in tables.values():
        row_tables.create(table, paths)
    row_tables.create_documents(pipeline, aggregate, paths)
    parts: dict[str, list[data_files.DataFile]] = {}
    for first in range(0, count, PART):
        made = rows(first, min(count, first + PART))
        written = {tables[name].current: each for name, each in made.items()} | {aggregate.current: _documents(made)}
        for name, each in written.items():
            parts.setdefault(name, []).append(data_files.write_file(_stamped(each), name, paths.table(name)))
    for name, files in parts.items():
        data_files.append_files(files, paths.table(name), "base", 1)


def _stamped(table: pa.Table) -> pa.Table:
    zero = pa.repeat(pa.scalar(0, pa.int64()), table.num_rows)
    stamps = {"_txloom_csn": zero, "_txloom_pos": zero, "_txloom_xid": pa.repeat("base", table.num_rows)}
    for name, values in stamps.items():
        table = table.append_column(name, values)
    return table


def _documents(made: Mapping[str, pa.Table]) -> pa.Table:
    """Return the documents of orders whose rows are all here, in the order of the orders."""
    documents = made["orders"].append_column("details", _structs(made["details"]))
    offsets = pa.array(np.arange(made["orders"].num_rows + 1) * CHILDREN, pa.int32())
    for name in MANY:
        documents = documents.append_column(name, pa.ListArray.from_arrays(offsets, _structs(made[name])))
    return documents


def _structs(table: pa.Table) -> pa.StructArray:
    return pa.StructArray.from_arrays([each.combine_chunks() for each in table.columns], names=table.column_names)


@dataclass(frozen=True)
class Changed:
    """Which orders of a base change and how, each of them once."""

    count: int
    """How many orders the base has."""
    updated: Ints
    """Orders whose own row changes."""
    more: Ints
    """Orders that get another line; every second of them a note instead."""
    fewer: Ints
    """Orders that lose their first line; every second of them their first note instead."""

    @classmethod
    def among(cls, count: int, changes: int) -> "Changed":
        """Choose orders of a base of `count`: four of ten are updated, three get a row more, three lose one."""
        chosen = np.random.default_rng(count).choice(count, changes, replace=False).astype(np.int64)
        return cls(count, *np.split(chosen, [changes * 4 // 10, changes * 7 // 10]))

    @property
    def all(self) -> Ints:
        """Return every order that changes."""
        return np.concatenate([self.updated, self.more, self.fewer])

    def write(self, inbox: Path) -> None:
        """Write the changes as change sets."""
        write_changes(inbox, "orders", ["U"] * len(self.updated), orders(self.updated, 1), AT_ORDER)
        for odd, (name, make) in enumerate(MANY.items()):
            more, fewer = self.more[odd::2], self.fewer[odd::2]
            ids = np.concatenate([self._added(more), self._lost(fewer)])
            flags = ["I"] * len(more) + ["D"] * len(fewer)
            write_changes(inbox, name, flags, make(ids, np.concatenate([more, fewer])), AT_CHILD[odd])

    def growth(self, table: str) -> int:
        """Return by how many rows a child of the relation `many` grows."""
        odd = list(MANY).index(table)
        return len(self.more[odd::2]) - len(self.fewer[odd::2])

    def documents(self, ids: Ints) -> dict[int, dict[str, object]]:
        """Compose documents in plain Python, as they are after the changes; return them by id."""
        updated = {row["order_id"]: row for row in orders(self.updated, 1).to_pylist()}
        details_of = {row["order_id"]: row for row in details(ids).to_pylist()}
        children = {name: self._children(make, ids, odd) for odd, (name, make) in enumerate(MANY.items())}
        documents: dict[int, dict[str, object]] = {}
        for row in orders(ids).to_pylist():
            order = row["order_id"]
            many = {name: children[name].get(order, []) for name in MANY}
            documents[order] = {**updated.get(order, row), "details": details_of[order], **many}
        return documents

    def _children(
        self, make: Callable[[Ints, Ints], pa.Table], ids: Ints, odd: int
    ) -> dict[int, list[dict[str, object]]]:
        there = (ids[:, None] * CHILDREN + np.arange(CHILDREN)).reshape(-1)
        there = there[~np.isin(there, self._lost(self.fewer[odd::2]))]
        more = self.more[odd::2]
        made = make(np.concatenate([there, self._added(more)]), np.concatenate([there // CHILDREN, more]))
        children: dict[int, list[dict[str, object]]] = {}
        for row in made.to_pylist():
            children.setdefault(row["order_id"], []).append(row)
        return children

    def _added(self, to: Ints) -> Ints:
        """Return the ids of the rows that orders get: above those of the base."""
        added: Ints = self.count * CHILDREN + to
        return added

    @staticmethod
    def _lost(by: Ints) -> Ints:
        lost: Ints = by * CHILDREN
        return lost
