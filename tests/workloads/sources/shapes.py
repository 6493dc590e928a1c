"""Random schemas: one to five tables, an aggregate of some of them or of its root alone, a mirror of each.

A child of the relation `one` may have rows of its own key, so that documents have several of them.
"""

from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from oracle.declarations import Aggregate, Child, Table
from workloads.dimensions import PLAIN, Dimensions
from workloads.sources.kinds import NARROW, NARROW_KEYS, WIDE, WIDE_KEYS

SERIAL = "u"
"""A key's column whose values are never used again, so that it identifies a row by itself."""
BELOW = "t6"
"""The table that hangs below a child of the aggregate."""


@dataclass(frozen=True)
class Shape:
    """The watched tables of a source, and the aggregate that some of them form.

    below: a second aggregate, whose root is a child of the first one. renamed: by table, how often the source renames
    each column. foretold: whether a declaration must have the new names before rows do, because no row shows that its
    table lost a column. altered: by table, the columns that the source drops, and may add again.
    """

    tables: dict[str, Table]
    aggregate: Aggregate | None
    dimensions: Dimensions = PLAIN
    below: Aggregate | None = None
    renamed: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    foretold: bool = False
    altered: Mapping[str, Set[str]] = field(default_factory=dict)

    @property
    def children(self) -> dict[str, Child]:
        """Return the aggregate's children by table."""
        return {child.table: child for child in self.aggregate.children} if self.aggregate else {}

    @property
    def hanging(self) -> dict[str, tuple[str, Child]]:
        """Return each table that hangs below another one, with the root that it has the key of."""
        both = [each for each in (self.aggregate, self.below) if each is not None]
        return {child.table: (each.root, child) for each in both for child in each.children}


def shape(chance: Random, dimensions: Dimensions = PLAIN) -> Shape:
    """Make up a schema."""
    return _Maker(chance, dimensions).shape()


class _Maker:
    """Makes up tables."""

    def __init__(self, chance: Random, dimensions: Dimensions) -> None:
        self._chance, self._dimensions = chance, dimensions
        self._keys = WIDE_KEYS if dimensions.wide_keys else NARROW_KEYS
        self._values = WIDE if dimensions.wide_values else NARROW

    def shape(self) -> Shape:
        """Make up one to five tables, an aggregate of some of them."""
        chance, count = self._chance, self._chance.randint(1, 5)
        root = self._table("t0", composite=chance.random() < 0.3)
        if self._dimensions.serials and chance.random() < 0.5:
            root = _with_serial(root)
        tables = {"t0": root}
        children = []
        with_aggregate = chance.random() < 0.7
        for number in range(1, count):
            name = f"t{number}"
            if with_aggregate and chance.random() < 0.75:
                relation = chance.choice(("one", "many"))
                is_keyed = relation == "one" and chance.random() < 0.6
                tables[name] = self._child(name, root, "one" if is_keyed else "many")
                parent = root.key if is_keyed else tuple(f"p_{column}" for column in root.key)
                children.append(Child(name, f"f{number}", relation, parent))  # type: ignore[arg-type]
            else:
                tables[name] = self._table(name, composite=chance.random() < 0.4)
                if self._dimensions.serials:
                    tables[name] = _with_serial(tables[name])
        if self._dimensions.keyless:
            tables["t7"] = Table("t7", "APP.T7", (), {"v": "long"} | self._columns())
        if self._dimensions.twins:
            tables["t8"] = Table("t8", "APP.t0", ("k",), {"k": "long"} | self._columns())
        aggregate = Aggregate("doc", "t0", tuple(children)) if with_aggregate else None
        below = self._below(tables, children) if self._dimensions.below and children else None
        return Shape(tables, aggregate, self._dimensions, below)

    def _below(self, tables: dict[str, Table], children: list[Child]) -> Aggregate:
        """Make up a table below a child, and return the aggregate of both."""
        root = tables[self._chance.choice(children).table]
        parent = {f"q_{column}": root.columns[column] for column in root.key}
        columns = {"id": "long"} | parent | self._columns()
        tables[BELOW] = Table(BELOW, f"APP.{BELOW.upper()}", ("id",), columns)
        return Aggregate("sub", root.name, (Child(BELOW, "f6", "many", tuple(parent)),))

    def _table(self, name: str, *, composite: bool) -> Table:
        key = {"k": self._chance.choice(self._keys)}
        key |= {"k2": self._chance.choice(self._keys)} if composite else {}
        return Table(name, f"APP.{name.upper()}", tuple(key), key | self._columns())

    def _child(self, name: str, root: Table, relation: str) -> Table:
        key = {column: root.columns[column] for column in root.key}
        if relation == "one":
            return Table(name, f"APP.{name.upper()}", root.key, key | self._columns())
        parent = {f"p_{column}": kind for column, kind in key.items()}
        if self._chance.random() < 0.3:
            return Table(name, f"APP.{name.upper()}", (*parent, "line"), parent | {"line": "int"} | self._columns())
        return Table(name, f"APP.{name.upper()}", ("id",), {"id": "long"} | parent | self._columns())

    def _columns(self) -> dict[str, str]:
        return {f"v{number}": self._chance.choice(self._values) for number in range(self._chance.randint(0, 4))}


def _with_serial(table: Table) -> Table:
    """Return a table whose key has a serial."""
    return Table(table.name, table.source, (*table.key, SERIAL), {SERIAL: "long"} | table.columns)


@dataclass(frozen=True)
class SourceText:
    """What a declaration says of a source: its format, its rule, and what follows the path of its files."""

    source: str
    rule: str = "counts"
    layout: str = ""
    patience: str = "2h"

    @property
    def completeness(self) -> str:
        """Return the rule, with patience where it has one."""
        return self.rule if self.rule in ("single", "progress") else f"{self.rule}, patience: {self.patience}"


def declaration(
    shape: Shape, inbox: Path, *, patience: str = "2h", progress: bool = False, source: SourceText | None = None
) -> str:
    """Write the schema as a pipeline's YAML; progress: nothing counts its events; source: another one's."""
    counted = SourceText("format: goldengate, transaction_topic: metadata", patience=patience)
    source = source or (SourceText("format: goldengate", "progress") if progress else counted)
    lines = [
        "name: workload",
        f"source: {{{source.source}, files: {{path: {inbox}{source.layout}}}}}",
        f"completeness: {{rule: {source.completeness}}}",
        "tables:",
    ]
    for table in shape.tables.values():
        key = f"[{', '.join(table.key)}]" if table.key else "none"
        lines += [f"  - name: {table.name}", f"    source: {table.source}", f"    key: {key}"]
        lines += ["    columns:", *[f"      {column}: {kind}" for column, kind in table.columns.items()]]
    lines += ["targets:", "  mirrors:", *[f"    - table: {name}" for name in shape.tables]]
    if shape.aggregate is not None:
        lines += ["  aggregates:", f"    - name: {shape.aggregate.name}", f"      root: {shape.aggregate.root}"]
        lines += ["      children:"] if shape.aggregate.children else []
        for child in shape.aggregate.children:
            parent = f"parent_key: [{', '.join(child.parent_key)}]"
            names = f"table: {child.table}, as: {child.field}, relation: {child.relation}"
            lines.append(f"        - {{{names}, {parent}}}")
    return "\n".join(lines) + "\n"
