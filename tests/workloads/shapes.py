"""Random schemas: one to five tables, an aggregate of some of them, a mirror of each."""

from dataclasses import dataclass
from pathlib import Path
from random import Random

from oracle.declarations import Aggregate, Child, Table

KINDS = ("long", "int", "decimal(20,4)", "string", "boolean", "date", "timestamp", "double", "decimal(38,10)")
KEYS = ("long", "string", "int", "date")


@dataclass(frozen=True)
class Shape:
    """The watched tables of a source, and the aggregate that some of them form."""

    tables: dict[str, Table]
    aggregate: Aggregate | None

    @property
    def children(self) -> dict[str, Child]:
        """Return the aggregate's children by table."""
        return {child.table: child for child in self.aggregate.children} if self.aggregate else {}


def shape(chance: Random) -> Shape:
    """Make up a schema."""
    count = chance.randint(1, 5)
    root = _table("t0", chance, composite=chance.random() < 0.3)
    tables = {"t0": root}
    children = []
    with_aggregate = count > 1 and chance.random() < 0.7
    for number in range(1, count):
        name = f"t{number}"
        if with_aggregate and chance.random() < 0.75:
            relation = chance.choice(("one", "many"))
            tables[name] = _child(name, root, relation, chance)
            parent = root.key if relation == "one" else tuple(f"p_{column}" for column in root.key)
            children.append(Child(name, f"f{number}", relation, parent))  # type: ignore[arg-type]
        else:
            tables[name] = _table(name, chance, composite=chance.random() < 0.4)
    aggregate = Aggregate("doc", "t0", tuple(children)) if children else None
    return Shape(tables, aggregate)


def _table(name: str, chance: Random, *, composite: bool) -> Table:
    key = {"k": chance.choice(KEYS)} | ({"k2": chance.choice(KEYS)} if composite else {})
    return Table(name, f"APP.{name.upper()}", tuple(key), key | _values(chance))


def _child(name: str, root: Table, relation: str, chance: Random) -> Table:
    own = {column: root.columns[column] for column in root.key}
    if relation == "one":
        return Table(name, f"APP.{name.upper()}", root.key, own | _values(chance))
    parent = {f"p_{column}": kind for column, kind in own.items()}
    if chance.random() < 0.3:
        return Table(name, f"APP.{name.upper()}", (*parent, "line"), parent | {"line": "int"} | _values(chance))
    return Table(name, f"APP.{name.upper()}", ("id",), {"id": "long"} | parent | _values(chance))


def _values(chance: Random) -> dict[str, str]:
    return {f"v{number}": chance.choice(KINDS) for number in range(chance.randint(0, 4))}


def declaration(shape: Shape, inbox: Path, *, patience: str = "2h", progress: bool = False) -> str:
    """Write the schema as a pipeline's YAML; progress: nothing counts its events."""
    topic = "" if progress else ", transaction_topic: metadata"
    lines = [
        "name: workload",
        f"source: {{format: goldengate, files: {{path: {inbox}}}{topic}}}",
        f"completeness: {{rule: {'progress' if progress else f'counts, patience: {patience}'}}}",
        "tables:",
    ]
    for table in shape.tables.values():
        lines += [f"  - name: {table.name}", f"    source: {table.source}", f"    key: [{', '.join(table.key)}]"]
        lines += ["    columns:", *[f"      {column}: {kind}" for column, kind in table.columns.items()]]
    lines += ["targets:", "  mirrors:", *[f"    - table: {name}" for name in shape.tables]]
    if shape.aggregate is not None:
        lines += ["  aggregates:", f"    - name: {shape.aggregate.name}", f"      root: {shape.aggregate.root}"]
        lines += ["      children:"]
        for child in shape.aggregate.children:
            parent = f"parent_key: [{', '.join(child.parent_key)}]"
            names = f"table: {child.table}, as: {child.field}, relation: {child.relation}"
            lines.append(f"        - {{{names}, {parent}}}")
    return "\n".join(lines) + "\n"
