"""Each read between an edit and the next cycle is right by the old or new declaration, or is refused with a message."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest

from called import step_of
from steps.settling.edited_shop import EditedShop
from txloom import read
from txloom.cli import main
from txloom.config.models.pipeline import Pipeline, Table
from txloom.errors import TxloomError
from txloom.steps.audit.audit import audit
from txloom.steps.audit.audit_scope import Choice as Audited
from txloom.steps.backfill.backfill import backfill
from txloom.steps.export.export_cut import Choice, export_cut
from txloom.storage.declarations import records
from txloom.storage.edits.refused_edits import refused_edits
from txloom.storage.views.stories.row import key_story
from txloom.storage.views.stories.transaction import TransactionName, transaction
from workloads.small_lake import SmallLake

CASES = int(os.environ.get("TXLOOM_PENDING", "4"))
SEED = int(os.environ.get("TXLOOM_SEED", "7000"))


@dataclass
class Shape:
    """A declaration of orders and lines: columns by table, its name, source and key, and the targets.

    columns: by source name, the name in the lake and the type.
    """

    columns: dict[str, dict[str, tuple[str, str]]]
    names: dict[str, str] = field(default_factory=lambda: {"orders": "orders", "lines": "lines"})
    sources: dict[str, str] = field(default_factory=lambda: {"orders": "APP.ORDERS", "lines": "APP.LINES"})
    keys: dict[str, list[str]] = field(default_factory=lambda: {"orders": ["id"], "lines": ["id"]})
    mirrors: dict[str, tuple[str, str]] = field(default_factory=dict)
    child: tuple[str, str] | None = ("items", "many")
    documents: bool = True
    evolve: bool = False

    def declare(self, shop: EditedShop) -> None:
        tables = {
            self.names[table]: {
                name: f"{{type: '{kind}', source: {source}}}" for source, (name, kind) in columns.items()
            }
            for table, columns in self.columns.items()
        }
        keys = {
            self.names[table]: f"[{', '.join(self.columns[table][each][0] for each in self.keys[table])}]"
            for table in self.columns
        }
        mirrors = [
            f"{{table: {self.names[table]}, current: {current}, history: {history}}}"
            for table, (current, history) in self.mirrors.items()
        ]
        children = ""
        if self.child is not None:
            field_name, relation = self.child
            parent = self.columns["lines"]["o_id"][0]
            child = f"table: {self.names['lines']}, as: {field_name}, relation: {relation}, parent_key: [{parent}]"
            children = f"{{{child}}}"
        documents = f"{{name: doc, root: {self.names['orders']}, children: [{children}]}}"
        sources = {self.names[table]: self.sources[table] for table in self.columns}
        evolve = {"evolve": self.names["orders"]} if self.evolve else {}
        shop.declare(tables, mirrors, [documents] if self.documents else [], sources, keys, **evolve)


def first(chance: Random) -> Shape:
    """Return a first declaration."""
    orders = {"id": ("id", "long"), "total": ("total", "int"), "note": ("note", "string")}
    lines = {"id": ("id", "long"), "o_id": ("o_id", "long"), "q": ("q", "int")}
    made = Shape({"orders": orders, "lines": lines}, evolve=chance.random() < 0.5)
    made.documents = chance.random() < 0.6
    if chance.random() < 0.3:
        made.columns["orders"].pop("note")
    made.mirrors = {
        table: (table, f"{table}_changes")
        for table in ("orders", "lines")
        if not made.documents or chance.random() < 0.6
    }
    return made


def _rename_column(made: Shape, chance: Random) -> None:
    table = chance.choice(sorted(made.columns))
    source = chance.choice(sorted(made.columns[table]))
    _, kind = made.columns[table][source]
    made.columns[table][source] = (f"{source}_{chance.choice('xy')}", kind)


def _swap_columns(made: Shape, chance: Random) -> None:
    columns = made.columns["lines"]
    one, other = chance.sample(sorted(columns), 2)
    (name, kind), (other_name, other_kind) = columns[one], columns[other]
    columns[one], columns[other] = (other_name, kind), (name, other_kind)


def _toggle_column(made: Shape, chance: Random) -> None:
    table, source, kind = chance.choice(
        (("orders", "note", "string"), ("orders", "total", "int"), ("lines", "q", "int"))
    )
    if made.columns[table].pop(source, None) is None:
        made.columns[table][source] = (source, kind)


def _other_type(made: Shape, chance: Random) -> None:
    source, table = chance.choice((("total", "orders"), ("q", "lines"), ("note", "orders"), ("tags", "orders")))
    name, _ = made.columns[table].get(source, (source, ""))
    kind = {"tags": "array<string>", "note": "string"}.get(source, "long")
    made.columns[table][source] = (name, kind)


def _other_key(made: Shape, chance: Random) -> None:
    made.keys["lines"] = chance.choice((["id", "o_id"], ["o_id", "id"], ["id"]))


def _other_source(made: Shape, chance: Random) -> None:
    made.sources["lines"] = chance.choice(("APP.LINES", "APP.COPIES"))


def _rename_table(made: Shape, chance: Random) -> None:
    table = chance.choice(("orders", "lines"))
    made.names[table] = f"{table}_{chance.choice('ab')}"
    if table in made.mirrors and chance.random() < 0.6:
        made.mirrors[table] = (made.names[table], f"{made.names[table]}_changes")


def _other_names(made: Shape, chance: Random) -> None:
    for table, (current, history) in made.mirrors.items():
        how = chance.random()
        made.mirrors[table] = (f"{table}_now" if how < 0.6 else current, f"{table}_log" if how > 0.3 else history)


def _toggle_mirror(made: Shape, chance: Random) -> None:
    table = chance.choice(("orders", "lines"))
    if made.mirrors.pop(table, None) is None:
        made.mirrors[table] = (table, f"{table}_changes")


def _toggle_documents(made: Shape, chance: Random) -> None:
    made.documents = not made.documents


def _other_child(made: Shape, chance: Random) -> None:
    made.child = chance.choice((None, ("items", "many"), ("parts", "many")))


def _toggle_evolve(made: Shape, chance: Random) -> None:
    made.evolve = not made.evolve


EDITS = (
    _rename_column, _rename_column, _swap_columns, _toggle_column, _other_type, _other_type, _other_key, _other_source,
    _rename_table, _other_names, _toggle_mirror, _toggle_documents, _other_child, _toggle_evolve,
)  # fmt: skip


def commit(shop: EditedShop, chance: Random) -> None:
    """Commit inserts, updates and deletes of orders and lines, in some cycles."""
    number = 1
    for _ in range(chance.randint(1, 2)):
        for _ in range(chance.randint(1, 3)):
            order = {"id": number, "total": number, "note": chance.choice(("a", None)), "tags": ["x", "y"]}
            shop.commit(("I", "orders", order), ("I", "lines", {"id": number, "o_id": number, "q": number + 20}))
            number += 1
        known = chance.choice(sorted(shop.state["orders"]))
        shop.commit(("U", "orders", {"id": known, "total": 50}), ("U", "lines", {"id": known, "o_id": known, "q": 9}))
        if chance.random() < 0.4:
            shop.commit(("D", "lines", known))
            shop.commit(("I", "lines", {"id": known, "o_id": known, "q": 7}))
        shop.run()


def answers(pipeline: Pipeline, shop: EditedShop, warehouse: str) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yield each read of a pipeline: its name, and a call that returns its answer."""
    csns = sorted(shop.states)
    for table in pipeline.current_tables:
        seen = Seen.of(pipeline, warehouse, table)
        yield f"as_of {table}", lambda seen=seen: [seen.as_of(csn) for csn in (csns[0], csns[-1])]
        yield f"intervals {table}", seen.intervals
        if len(seen.root.key) == 1:
            yield f"changes {table}", seen.changes
    for csn in csns:
        yield f"transaction {csn}", lambda csn=csn: _written(pipeline, warehouse, csn)


@dataclass
class Seen:
    """A current table as it is read; columns: the declared ones and those of intervals, without taken-up ones."""

    pipeline: Pipeline
    warehouse: str
    table: str
    root: Table
    columns: set[str]

    @classmethod
    def of(cls, pipeline: Pipeline, warehouse: str, table: str) -> "Seen":
        aggregate = next((each for each in pipeline.targets.aggregates if each.current == table), None)
        mirrors = {each.current: each.table for each in pipeline.targets.mirrors}
        root = pipeline.table(aggregate.root if aggregate is not None else mirrors[table])
        fields = {child.as_ for child in aggregate.children} if aggregate is not None else set()
        of_intervals = {f"_txloom_{name}" for name in ("valid_from", "valid_to", "is_current")}
        return cls(pipeline, warehouse, table, root, {*root.column_names, *fields, *of_intervals})

    def _plain(self, rows: Iterable[Mapping[str, Any]]) -> list[str]:
        return sorted(repr(sorted((name, row[name]) for name in row if name in self.columns)) for row in rows)

    def as_of(self, csn: int) -> list[str]:
        return self._plain(read.as_of(self.pipeline, self.table, csn=csn, warehouse=self.warehouse).to_pylist())

    def intervals(self) -> list[str]:
        """Return the intervals; []: a table takes up columns, which begin intervals too."""
        rows = read.intervals(self.pipeline, self.table, warehouse=self.warehouse).to_pylist()
        return [] if any(each.undeclared_columns == "evolve" for each in self.pipeline.tables) else self._plain(rows)

    def changes(self) -> list[Any]:
        """Return the changes of a row's story."""
        story = key_story(self.pipeline, self.warehouse, self.table, {self.root.key[0]: "1"})
        rows = [row for row in story.page.rows if row["table"] == self.root.name]
        images = [(self._plain([row[name]]) if row[name] else None) for row in rows for name in ("before", "after")]
        return [images, [[row[name] for name in ("table", "op", "csn", "key", "old_key")] for row in story.page.rows]]


def _written(pipeline: Pipeline, warehouse: str, csn: int) -> Any:
    story = transaction(pipeline, warehouse, TransactionName(csn=csn)).story
    assert story is not None
    return sorted(repr({**row, "history": ""}) for row in story.written)


def redeclare(shop: EditedShop, old: Shape, chance: Random) -> list[Callable[[Shape, Random], None]]:
    """Draw edits until the edited declaration is valid, declare it, and return the edits."""
    while True:
        new, drawn = deepcopy(old), chance.sample(EDITS, chance.choice((1, 1, 2, 3)))
        for edit in drawn:
            edit(new, chance)
        with suppress(TxloomError):
            new.declare(shop)
            return drawn


def answer(call: Callable[[], Any]) -> Any:
    """Return what a call returns, or the class of the error with which it refuses."""
    try:
        return call()
    except TxloomError as error:
        assert len(str(error)) > 20
        return TxloomError


@pytest.mark.parametrize("seed", range(SEED, SEED + CASES))
def test_it_is_right_or_refused(tmp_path: Path, seed: int) -> None:
    chance = Random(seed)
    shop = EditedShop(tmp_path)
    old = first(chance)
    old.declare(shop)
    commit(shop, chance)
    before = {name: answer(call) for name, call in answers(shop.lake.pipeline, shop, shop.lake.warehouse)}
    versions = read.versions(shop.lake.pipeline, warehouse=shop.lake.warehouse)
    rows = {name: shop.lake.rows(name, version) for name, version in versions.items()}
    drawn = redeclare(shop, old, chance)
    pipeline, warehouse = shop.lake.pipeline, shop.lake.warehouse
    fresh = SmallLake(tmp_path / "fresh", pipeline)
    (tmp_path / "fresh").mkdir()
    fresh.run()
    right = {name: answer(call) for name, call in answers(pipeline, shop, fresh.warehouse)}
    note = f"seed {seed}: {[each.__name__ for each in drawn]}"
    for name, call in answers(pipeline, shop, warehouse):
        got = answer(call)
        allowed = (TxloomError, before.get(name), right[name], [] if "intervals" in name else None)
        assert got in allowed, f"{note}: {name}:\n{got}\nold {before.get(name)}\nnew {right[name]}"
    assert read.versions(pipeline, warehouse=warehouse) == versions
    check_steps(shop, note)
    assert {name: shop.lake.rows(name, version) for name, version in versions.items()} == rows, note
    if not refused_edits(pipeline, shop.lake.paths, records.read(shop.lake.paths)):
        shop.run()
        shop.run()
        # If the declaration did not change, maintenance may clean histories, which then have fewer changes.
        for name, call in answers(pipeline, shop, warehouse):
            got = answer(call) if name.startswith("as_of") else TxloomError
            assert got in (TxloomError, right[name]), f"{note}, after the cycle: {name}:\n{got}\n{right[name]}"


def check_steps(shop: EditedShop, note: str) -> None:
    """Run the steps that read between cycles; each does what is right, or refuses."""
    lake, tables = shop.lake, [*shop.lake.pipeline.tables]
    exported = step_of(lake.pipeline, lake.warehouse, "export")
    assert answer(lambda: export_cut(exported, Choice(str(shop.folder / "exported")))["written"]) in (1, TxloomError)
    known = {"APP.ORDERS": "orders", "APP.LINES": "lines"}
    for table in tables:
        if table.source in known:
            folder = Path(shop.export(known[table.source]))
            if table.name != known[table.source]:
                (folder / known[table.source]).rename(folder / table.name)
    csn = int(shop.cut["valid_through"])
    audited = step_of(lake.pipeline, lake.warehouse, "audit")
    choice = Audited((), timedelta(0), str(shop.folder / f"load-{shop.csn}"), csn)
    counts = answer(lambda: audit(audited, choice))
    assert counts is TxloomError or not counts["differing"], f"{note}: audit {counts}"
    early = step_of(lake.pipeline, lake.warehouse, "early", lake.session)
    counts = answer(lambda: [backfill(early, task) for task in ("rebuild", "compare")][1])
    assert counts is TxloomError or not counts["changes"], f"{note}: backfill {counts}"
    answer(lambda: backfill(early, "drop"))
    answer(shop.clean)
    for command in ("plan", "status"):
        assert main([command, str(shop.folder / "shop.yaml"), "--warehouse", lake.warehouse]) in (0, 1, 2), note
