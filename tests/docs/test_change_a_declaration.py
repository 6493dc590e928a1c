"""The table of docs/declaring.md that says what an edit of a declaration asks for: each row of it is played."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from steps.settling.edited_shop import DOCUMENTS, LINE, LINES, ORDERS, EditedShop, Row
from storage.declarations.connector_shop import ConnectorShop
from txloom.errors import ConfigurationError
from txloom.quality.findings import CHANGED
from txloom.storage.checks.findings import open_findings

NEEDS_SNAPSHOT = "the table needs a snapshot"
STAYS_NULL = "earlier values stay null, and a finding names the column"
REFUSED = "refused"
REFUSED_KEYS = {
    "root of": "root",
    "written in another case": r"tables\[orders\].source: found app.Orders, expected APP.ORDERS as before",
    "only in case": "columns.Total: found the name Total, expected total, or a name that differs",
    "partition_by": "partition_by",
    "narrower type": "columns.total: found int",
    "earlier rows lack": r"columns.total: found source AMOUNT, expected source_aliases: \[total\] in addition",
    "key: none": r"tables\[lines\].key: found none, expected \[id\] as before",
    "lacks values": "columns.q: found long in the key, expected a column with a value in every change of lines_changes",
}
"""By a word of an edit that is refused, what the refusal names."""
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
    keys: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, str] = field(default_factory=dict)

    def write(self, shop: EditedShop) -> None:
        shop.declare(self.tables, self.mirrors, self.aggregates, self.sources, self.keys, **self.options)


ALL = Declared()
ORDERS_ALONE = Declared(mirrors=("{table: orders}",))
NO_TOTAL = Declared({"orders": {"id": "long"}, "lines": LINES})
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


def documents_of(as_: str, parent_key: str) -> Shown:
    """Return a call for documents whose children have another name or hang below another order."""

    def compared(shop: EditedShop) -> tuple[list[Row] | None, list[Row]]:
        lines, orders = shop.source("lines"), shop.source("orders")
        expected = [{**row, as_: [each for each in lines if each[parent_key] == row["id"]]} for row in orders]
        return shop.shown("doc_current"), expected

    return compared


def mirror_named(shop: EditedShop) -> tuple[list[Row] | None, list[Row]]:
    return shop.shown("lines_now"), shop.source("lines")


def taken_up(shop: EditedShop) -> tuple[list[Row] | None, list[Row]]:
    return shop.shown("orders"), [{**row, "total": str(row["total"])} for row in shop.source("orders")]


def times(shop: EditedShop) -> tuple[list[Row] | None, list[Row]]:
    """Return what lines show, and what they are to show if their numbers count milliseconds."""
    expected = [{**row, "q": datetime(1970, 1, 1) + timedelta(milliseconds=row["q"])} for row in shop.source("lines")]
    return shop.shown("lines"), expected


def read_by(unit: str) -> Declared:
    """Return a declaration of lines with a time, and the unit that its numbers count."""
    timed = {"lines": {"id": "long", "o_id": "long", "q": "timestamp"}}
    return Declared(timed, ("{table: lines}",), options={"debezium": f"time_unit: {unit}"})


def of_documents(declared: str) -> "Declared":
    return Declared(mirrors=(), aggregates=(declared,))


def things(source: str) -> Declared:
    """Return a declaration of one table, which reads a source."""
    return Declared({"things": {"id": "long"}}, ("{table: things}",), (), {"things": source})


def total_from(column: str) -> Declared:
    """Return a declaration in which the total of orders is declared in some way."""
    return Declared({"orders": {"id": "long", "total": column}, "lines": LINES})


def lines_of(source: str) -> Declared:
    """Return a declaration of lines with one number, which is read from a column of the source."""
    return Declared({"lines": {"id": "long", "n": f"{{type: long, source: {source}}}"}}, ("{table: lines}",))


def number_of_lines(shop: EditedShop) -> list[Row]:
    return [{"id": row["id"], "n": row["q"]} for row in shop.source("lines")]


def lines_with(option: str) -> Declared:
    """Return a declaration whose mirror of lines has an option."""
    return Declared(mirrors=("{table: orders}", f"{{table: lines, {option}}}"))


@dataclass(frozen=True)
class Edit:
    """Declarations one after the other, with commits between them, and the table that the last of them concerns.

    renamed: columns that the source renames before the last commit under the first declaration. source: what plays it.
    """

    first: Declared
    then: tuple[Declared, ...]
    shown: Shown
    renamed: Mapping[str, str] = field(default_factory=dict)
    source: type[EditedShop] = EditedShop


EDITS: dict[str, Edit] = {
    "a mirror is added": Edit(ORDERS_ALONE, (ALL,), same("lines")),
    "a mirror is added to a table that an aggregate has": Edit(
        Declared(mirrors=(), aggregates=(DOCUMENTS,)), (Declared(aggregates=(DOCUMENTS,)),), same("lines")
    ),
    "an aggregate is added to tables that have mirrors": Edit(ALL, (Declared(aggregates=(DOCUMENTS,)),), documents),
    "a child is added to an aggregate": Edit(
        Declared(mirrors=(), aggregates=(NO_CHILD,)), (Declared(mirrors=(), aggregates=(DOCUMENTS,)),), documents
    ),
    "a child that has a mirror is added to an aggregate": Edit(
        Declared(aggregates=(NO_CHILD,)), (Declared(aggregates=(DOCUMENTS,)),), documents
    ),
    "a child gets another name (`as`)": Edit(
        of_documents(DOCUMENTS), (of_documents(DOCUMENTS.replace("items", "parts")),), documents_of("parts", "o_id")
    ),
    "a child gets another `relation` or `parent_key`": Edit(
        of_documents(DOCUMENTS), (of_documents(DOCUMENTS.replace("[o_id]", "[q]")),), documents_of("items", "q")
    ),
    "a target is removed, and added again later": Edit(ALL, (ORDERS_ALONE, ALL), same("lines")),
    "a table is removed from `tables`, and added again later": Edit(
        ALL, (Declared({"orders": ORDERS}, ("{table: orders}",)), ALL), same("lines")
    ),
    "a column is added": Edit(NO_TOTAL, (ALL,), same("orders")),
    "`undeclared_columns: evolve` is set": Edit(NO_TOTAL, (replace(NO_TOTAL, options={"evolve": "orders"}),), taken_up),
    "a column is removed": Edit(ALL, (NO_TOTAL,), same("orders")),
    "a column is removed, and added again later": Edit(ALL, (NO_TOTAL, ALL), same("orders")),
    "a column gets another name, and keeps its source": Edit(
        ALL,
        (Declared({"orders": {"id": "long", "amount": "{type: long, source: total}"}, "lines": LINES}),),
        same("orders", total="amount"),
    ),
    "a column gets a wider type": Edit(
        Declared({"orders": {"id": "long", "total": "int"}, "lines": LINES}), (ALL,), same("orders")
    ),
    "a column gets a narrower type": Edit(
        ALL, (Declared({"orders": {"id": "long", "total": "int"}, "lines": LINES}),), same("orders")
    ),
    "a column that the source renamed gets the new name as `source`, and the former one in `source_aliases`": Edit(
        ALL,
        (total_from("{type: long, source: AMOUNT, source_aliases: [TOTAL]}"),),
        same("orders"),
        {"total": "amount"},
    ),
    "a column gets another `source` that all rows have": Edit(
        lines_of("o_id"), (lines_of("q"),), lambda shop: (shop.shown("lines"), number_of_lines(shop))
    ),
    "a column gets another `source` that earlier rows lack": Edit(
        ALL, (total_from("{type: long, source: AMOUNT}"),), same("orders"), {"total": "amount"}
    ),
    "`dropped_columns` changes": Edit(
        replace(ALL, options={"keeps": "orders"}),
        (ALL,),
        lambda shop: (shop.shown("orders"), [{"id": row["id"], "total": None} for row in shop.source("orders")]),
        {"total": "amount"},
    ),
    "`source.debezium` says otherwise how values are written": Edit(
        read_by("adaptive"), (read_by("millis"),), times, source=ConnectorShop
    ),
    "the key of a table gets other columns": Edit(ALL, (Declared(keys={"lines": "[id, o_id]"}),), same("lines")),
    "a key column gets another name, and keeps its source": Edit(
        ALL,
        (
            Declared(
                {"orders": ORDERS, "lines": {LINE: "{type: long, source: id}", "o_id": "long", "q": "long"}},
                keys={"lines": f"[{LINE}]"},
            ),
        ),
        same("lines", id=LINE),
    ),
    "the key of a table gets a column that its history lacks values of": Edit(
        Declared({"orders": ORDERS, "lines": {"id": "long", "o_id": "long"}}),
        (Declared(keys={"lines": "[id, q]"}),),
        same("lines"),
    ),
    "a table whose rows were updated or deleted gets `key: none`": Edit(
        ALL, (Declared(keys={"lines": "none"}),), same("lines")
    ),
    "a table gets another source": Edit(things("APP.ORDERS"), (things("APP.LINES"),), same("things", "lines")),
    "a table gets another name, and keeps its source": Edit(
        Declared({"orders": ORDERS}, ("{table: orders}",)), (things("APP.ORDERS"),), same("things", "orders")
    ),
    "a history gets another name": Edit(ALL, (lines_with("history: lines_log"),), same("lines")),
    "a current table gets another name": Edit(ALL, (lines_with("current: lines_now"),), mirror_named),
    "a column, a child or a root gets a name that differs from an earlier one only in case": Edit(
        ALL,
        (Declared({"orders": {"id": "long", "Total": "{type: long, source: total}"}, "lines": LINES}),),
        same("orders", total="Total"),
    ),
    "the root of an aggregate changes under the same history": Edit(
        of_documents(DOCUMENTS), (of_documents("{name: doc, root: lines}"),), documents
    ),
    "`partition_by` changes": Edit(ALL, (lines_with("partition_by: o_id"),), same("lines")),
    "the source of a column is written in another case": Edit(
        ALL, (total_from("{type: long, source: TOTAL}"),), same("orders")
    ),
    "the source of a table is written in another case": Edit(
        ALL, (Declared(sources={"orders": "app.Orders"}),), same("orders")
    ),
    "an expectation, an alert or a schedule changes": Edit(
        ALL, (Declared(options={"schedule": "'@hourly'"}),), same("lines")
    ),
}


def play(shop: EditedShop, edit: Edit, *, forgets: bool) -> None:
    """Play commits under each declaration; forgets: whether messages are removed before each edit."""
    edit.first.write(shop)
    shop.orders(1, 2, 3)
    shop.run()
    shop.renamed = dict(edit.renamed)
    shop.commit(("U", "orders", {"id": 1, "total": 11}), ("U", "lines", {"id": 20, "o_id": 1, "q": 5}))
    shop.run()
    for number, declared in enumerate(edit.then, 4):
        if forgets:
            shop.forget()
        declared.write(shop)
        shop.orders(number)
        shop.commit(("D", "lines", 10 * number - 30))
        shop.run()


def rows() -> dict[str, list[str]]:
    """Return the rows of the page's table by their first cell."""
    section = (PROJECT / "docs" / "declaring.md").read_text().split("\n## Change a declaration\n")[1].split("\n## ")[0]
    cells = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in section.splitlines() if line.startswith("|")
    ]
    return {first: others for first, *others in cells[2:]}


def without_messages(name: str) -> str:
    """Return what the page says of an edit where messages are gone."""
    return rows()[name][-1]


@pytest.mark.parametrize("name", EDITS)
def test_tables_are_the_sources_after_the_edit(tmp_path: Path, name: str) -> None:
    shop = EDITS[name].source(tmp_path)
    if without_messages(name) == REFUSED:
        key = next(each for text, each in REFUSED_KEYS.items() if text in name)
        with pytest.raises(ConfigurationError, match=key):
            play(shop, EDITS[name], forgets=False)
        return
    play(shop, EDITS[name], forgets=False)
    shown, expected = EDITS[name].shown(shop)
    assert shown == expected


@pytest.mark.long
@pytest.mark.parametrize("name", [name for name in EDITS if without_messages(name) != REFUSED])
def test_where_messages_are_gone_it_is_as_the_page_says(tmp_path: Path, name: str) -> None:
    shop = EDITS[name].source(tmp_path)
    play(shop, EDITS[name], forgets=True)
    shown, expected = EDITS[name].shown(shop)
    says = without_messages(name)
    assert says.split(" (")[0] in ("nothing changes", NEEDS_SNAPSHOT, STAYS_NULL)
    if says == STAYS_NULL:
        nulls = [row["id"] for row in shown or [] if row["total"] is None]
        assert nulls == [1, 2, 3]
        named = [(each["table"], each["column"]) for each in open_findings(shop.lake.paths) if each["code"] == CHANGED]
        assert named == [("orders", "total")]
        expected = [{**row, "total": None} if row["id"] in nulls else row for row in expected]
    assert shown == (None if says == NEEDS_SNAPSHOT else expected)


def test_every_edit_of_the_page_is_played() -> None:
    assert list(rows()) == list(EDITS)
