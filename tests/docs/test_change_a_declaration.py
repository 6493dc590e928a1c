"""The table of docs/declaring.md that says what an edit of a declaration asks for: each row of it is played."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from steps.settling.edited_shop import DOCUMENTS, LINES, ORDERS, EditedShop, Row

NEEDS_SNAPSHOT = "the table needs a snapshot"
PROJECT = Path(__file__).parents[2]
BOTH = {"orders": ORDERS, "lines": LINES}
MIRRORS = ["{table: orders}", "{table: lines}"]
NO_CHILD = "{name: doc, root: orders, children: []}"


@dataclass(frozen=True)
class Declared:
    """What is declared: tables with their columns, targets, and sources that are not the tables' names."""

    tables: Mapping[str, Mapping[str, str]] = field(default_factory=lambda: BOTH)
    mirrors: tuple[str, ...] = tuple(MIRRORS)
    aggregates: tuple[str, ...] = ()
    sources: Mapping[str, str] = field(default_factory=dict)

    def write(self, shop: EditedShop) -> None:
        shop.declare(self.tables, self.mirrors, self.aggregates, self.sources)


ALL = Declared()
ORDERS_ALONE = Declared(mirrors=("{table: orders}",))
Shown = Callable[[EditedShop], tuple[list[Row] | None, list[Row]]]


def same(table: str, source: str | None = None, **names: str) -> Shown:
    """Return a call for what a table shows and what it is to show: the source's columns, under some other names."""

    def compared(shop: EditedShop) -> tuple[list[Row] | None, list[Row]]:
        rows = shop.source(source or table)
        known = shop.lake.pipeline.table(table).column_names
        expected = [{names.get(name, name): value for name, value in row.items()} for row in rows]
        return shop.shown(table), [{name: row[name] for name in known} for row in expected]

    return compared


def documents(shop: EditedShop) -> tuple[list[Row] | None, list[Row]]:
    return shop.shown("doc_current"), shop.documents()


def things(source: str) -> Declared:
    """Return a declaration of one table, which reads a source."""
    return Declared({"things": {"id": "long"}}, ("{table: things}",), (), {"things": source})


@dataclass(frozen=True)
class Edit:
    """Declarations one after the other, with commits between them, and the table that the last of them concerns."""

    first: Declared
    then: tuple[Declared, ...]
    shown: Shown


EDITS: dict[str, Edit] = {
    "a mirror is added": Edit(ORDERS_ALONE, (ALL,), same("lines")),
    "a mirror is added to a table that an aggregate has": Edit(
        Declared(mirrors=(), aggregates=(DOCUMENTS,)), (Declared(aggregates=(DOCUMENTS,)),), same("lines")
    ),
    "an aggregate is added to tables that have mirrors": Edit(ALL, (Declared(aggregates=(DOCUMENTS,)),), documents),
    "a child is added to an aggregate": Edit(
        Declared(mirrors=(), aggregates=(NO_CHILD,)), (Declared(mirrors=(), aggregates=(DOCUMENTS,)),), documents
    ),
    "a target is removed, and added again later": Edit(ALL, (ORDERS_ALONE, ALL), same("lines")),
    "a column is added": Edit(Declared({"orders": {"id": "long"}, "lines": LINES}), (ALL,), same("orders")),
    "a column is removed": Edit(ALL, (Declared({"orders": {"id": "long"}, "lines": LINES}),), same("orders")),
    "a column gets another name, and keeps its source": Edit(
        ALL,
        (Declared({"orders": {"id": "long", "amount": "{type: long, source: total}"}, "lines": LINES}),),
        same("orders", total="amount"),
    ),
    "a table gets another source": Edit(things("APP.ORDERS"), (things("APP.LINES"),), same("things", "lines")),
    "a table gets another name, and keeps its source": Edit(
        Declared({"orders": ORDERS}, ("{table: orders}",)), (things("APP.ORDERS"),), same("things", "orders")
    ),
}


def play(shop: EditedShop, edit: Edit, *, forgets: bool) -> None:
    """Play commits under each declaration; forgets: whether messages are removed before each edit."""
    edit.first.write(shop)
    shop.orders(1, 2, 3)
    shop.run()
    shop.commit(("U", "orders", {"id": 1, "total": 11}), ("U", "lines", {"id": 20, "o_id": 1, "q": 5}))
    shop.run()
    for number, declared in enumerate(edit.then, 4):
        if forgets:
            shop.forget()
        declared.write(shop)
        shop.orders(number)
        shop.commit(("D", "lines", 10 * number - 30))
        shop.run()


@pytest.mark.parametrize("name", EDITS)
def test_tables_are_the_sources_after_the_edit(tmp_path: Path, name: str) -> None:
    shop = EditedShop(tmp_path)
    play(shop, EDITS[name], forgets=False)
    shown, expected = EDITS[name].shown(shop)
    assert shown == expected


@pytest.mark.parametrize("name", EDITS)
def test_where_messages_are_gone_it_is_as_the_page_says(tmp_path: Path, name: str) -> None:
    shop = EditedShop(tmp_path)
    play(shop, EDITS[name], forgets=True)
    shown, expected = EDITS[name].shown(shop)
    without_messages = rows()[name][-1]
    assert without_messages.split(" (")[0] in ("nothing changes", NEEDS_SNAPSHOT)
    assert shown == (None if without_messages == NEEDS_SNAPSHOT else expected)


def test_every_edit_of_the_page_is_played() -> None:
    assert list(rows()) == list(EDITS)


def rows() -> dict[str, list[str]]:
    """Return the rows of the page's table by their first cell."""
    section = (PROJECT / "docs" / "declaring.md").read_text().split("\n## Change a declaration\n")[1].split("\n## ")[0]
    cells = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in section.splitlines() if line.startswith("|")
    ]
    return {first: others for first, *others in cells[2:]}
