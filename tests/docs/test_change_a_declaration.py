"""The table of docs/declaring.md that says what an edit of a declaration asks for: each row of it is played."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from steps.settling.edited_shop import DOCUMENTS, LINE, LINES, ORDERS, EditedShop, Row
from storage.declarations.connector_shop import ConnectorShop
from txloom.errors import ConfigurationError
from txloom.quality.findings import CHANGED
from txloom.steps.settling.planned_tables import PlannedTable, planned_tables
from txloom.storage.checks.findings import open_findings

NEEDS_SNAPSHOT = "the table needs a snapshot"
STAYS_NULL = "earlier values stay null, and a finding names the column"
REFUSED = "refused"
REFUSED_KEYS = {
    "root of": "root",
    "written in another case": r"tables\[orders\].source: found app.Orders, expected APP.ORDERS as before",
    "only in case": "columns.Total: found the name Total, expected total, or a name that differs",
    "partition_by": "partition_by",
    "not read a text": "columns.total: found date, expected a type that reads '",
    "narrower type": "columns.total: found int",
    "earlier rows lack": r"columns.total: found source AMOUNT, expected source_aliases: \[total\] in addition",
    "key: none": r"tables\[lines\].key: found none, expected \[id\] as before",
    "lacks values": "columns.q: found long in the key, expected a column with a value in every change of lines_changes",
}
"""By a word of an edit that is refused, what the refusal names."""
SETTINGS = (
    "`expectations`, `judge`, `alerts`, `audit`, `maintenance`, `spark`, `zorder`, `targets.incomplete`, "
    "`targets.catalog`, `schedule`, `after`, `start_date`, `timeout`, `owner` or `description` changes"
)
"""The row of the settings that say nothing of rows."""
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


class NotedShop(EditedShop):
    """A shop whose orders have notes too."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, state={"orders": {}, "lines": {}, "notes": {}})

    def orders(self, *numbers: int) -> None:
        for number in numbers:
            super().orders(number)
            self.commit(("I", "notes", {"id": 100 * number, "o_id": number}))


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


def noted_documents(**fields: str) -> Shown:
    """Return a call for documents with some fields; fields: by field, the table of its rows."""

    def compared(shop: EditedShop) -> tuple[list[Row] | None, list[Row]]:
        expected = [dict(row) for row in shop.source("orders")]
        for row in expected:
            for name, table in fields.items():
                row[name] = [each for each in shop.source(table) if each["o_id"] == row["id"]]
        return shop.shown("doc_current"), expected

    return compared


def last_line(shop: EditedShop) -> tuple[list[Row] | None, list[Row]]:
    """Return documents that show one line of each order: the last by key."""
    return shop.shown("doc_current"), [
        {**row, "items": row["items"][-1] if row["items"] else None} for row in shop.documents()
    ]


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


def typed(kind: str) -> Declared:
    """Return a declaration of orders whose total has a type."""
    return Declared({"orders": {"id": "long", "total": kind}, "lines": LINES})


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


def noted(*children: str) -> Declared:
    """Return a declaration of documents of orders, with children."""
    tables = {**BOTH, "notes": {"id": "long", "o_id": "long"}}
    return Declared(tables, aggregates=(f"{{name: doc, root: orders, children: [{', '.join(children)}]}}",), mirrors=())


def named(name: str) -> Declared:
    """Return a declaration of documents under a name, whose history and current table keep theirs."""
    return of_documents(DOCUMENTS.replace("name: doc", f"name: {name}, history: log, current: doc_current"))


def of_orders(shop: EditedShop) -> tuple[list[Row] | None, list[Row]]:
    return shop.shown("doc_current"), shop.source("orders")


ITEMS = "{table: lines, as: items, relation: many, parent_key: [o_id]}"
NOTES = "{table: notes, relation: many, parent_key: [o_id]}"
EVOLVED = replace(NO_TOTAL, options={"evolve": "orders"})


@dataclass(frozen=True)
class Edit:
    """Declarations one after the other, with commits between them, and the table that the last of them concerns.

    renamed: columns that the source renames before the last commit under the first declaration. source: what plays it.
    refused: what the refusal names.
    """

    first: Declared
    then: tuple[Declared, ...]
    shown: Shown
    renamed: Mapping[str, str] = field(default_factory=dict)
    source: Callable[[Path], EditedShop] = EditedShop
    refused: str = ""


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
    "a child is removed from an aggregate": Edit(of_documents(DOCUMENTS), (of_documents(NO_CHILD),), of_orders),
    "the children of an aggregate are listed in another order": Edit(
        noted(ITEMS, NOTES), (noted(NOTES, ITEMS),), noted_documents(items="lines", notes="notes"), source=NotedShop
    ),
    "a child gets another `table`, and keeps its field (`as`)": Edit(
        noted(ITEMS),
        (noted(NOTES.replace("notes,", "notes, as: items,")),),
        noted_documents(items="notes"),
        source=NotedShop,
    ),
    "a child gets another name (`as`)": Edit(
        of_documents(DOCUMENTS), (of_documents(DOCUMENTS.replace("items", "parts")),), documents_of("parts", "o_id")
    ),
    "a child gets another `relation` or `parent_key`": Edit(
        of_documents(DOCUMENTS), (of_documents(DOCUMENTS.replace("[o_id]", "[q]")),), documents_of("items", "q")
    ),
    "an aggregate gets another `name`, and keeps its `history` and its `current`": Edit(
        named("doc"), (named("papers"),), documents
    ),
    "an aggregate replaces the mirrors of its tables in one edit": Edit(ALL, (of_documents(DOCUMENTS),), documents),
    "a mirror is removed, and an aggregate whose history is complete has its table": Edit(
        Declared(aggregates=(DOCUMENTS,)), (of_documents(DOCUMENTS),), documents
    ),
    "a mirror is removed, and an aggregate that was added after the mirror has its table": Edit(
        ALL, (Declared(aggregates=(DOCUMENTS,)), of_documents(DOCUMENTS)), documents
    ),
    "a target or a child is removed, and added again later": Edit(ALL, (ORDERS_ALONE, ALL), same("lines")),
    "a table is removed from `tables`, and added again later": Edit(
        ALL, (Declared({"orders": ORDERS}, ("{table: orders}",)), ALL), same("lines")
    ),
    "a column is added": Edit(NO_TOTAL, (ALL,), same("orders")),
    "`undeclared_columns: evolve` is set": Edit(NO_TOTAL, (replace(NO_TOTAL, options={"evolve": "orders"}),), taken_up),
    "`undeclared_columns` is not `evolve` any more": Edit(EVOLVED, (NO_TOTAL,), taken_up),
    "`undeclared_columns` changes between `ignore` and `quarantine`, or `version` changes": Edit(
        ALL, (replace(ALL, options={"of_orders": "undeclared_columns: quarantine"}),), same("orders")
    ),
    "columns are listed in another order": Edit(
        ALL, (Declared({"orders": {"total": "long", "id": "long"}, "lines": LINES}),), same("orders")
    ),
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
    "a `uuid` or `time` column becomes `string`, or a `string` column one of these, or a `float` column becomes"
    " `double`; arrays of these too": Edit(typed("float"), (typed("double"),), same("orders")),
    "a `string` column gets another type than `uuid` or `time`, which reads every text of the history": Edit(
        typed("string"), (ALL,), same("orders")
    ),
    "a `string` column gets a type that does not read a text of the history": Edit(
        typed("string"), (typed("date"),), same("orders")
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
    "the key of a table gets other columns, or lists its columns in another order": Edit(
        ALL, (Declared(keys={"lines": "[id, o_id]"}),), same("lines")
    ),
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
    SETTINGS: Edit(ALL, (Declared(options={"schedule": "'@hourly'"}),), same("lines")),
}

OTHER_NAME = "a name that differs in more than case"
QUARANTINED = replace(NO_TOTAL, options={"of_orders": "undeclared_columns: quarantine"})
MORE: dict[str, tuple[Edit, ...]] = {
    "a child is removed from an aggregate": (
        Edit(Declared(aggregates=(DOCUMENTS,)), (Declared(aggregates=(NO_CHILD,)),), of_orders),
    ),
    "a child gets another `relation` or `parent_key`": (
        Edit(of_documents(DOCUMENTS), (of_documents(DOCUMENTS.replace("many", "one")),), last_line),
        Edit(of_documents(DOCUMENTS.replace("many", "one")), (of_documents(DOCUMENTS),), documents),
    ),
    "a target or a child is removed, and added again later": (
        Edit(of_documents(DOCUMENTS), (of_documents(NO_CHILD), of_documents(DOCUMENTS)), documents),
    ),
    "`undeclared_columns` is not `evolve` any more": (Edit(EVOLVED, (QUARANTINED,), taken_up),),
    "`undeclared_columns` changes between `ignore` and `quarantine`, or `version` changes": (
        Edit(ALL, (replace(ALL, options={"of_lines": "version: q"}),), same("lines")),
    ),
    "the key of a table gets other columns, or lists its columns in another order": (
        Edit(Declared(keys={"lines": "[id, o_id]"}), (Declared(keys={"lines": "[o_id, id]"}),), same("lines")),
    ),
    "a current table gets another name": (
        Edit(
            of_documents(DOCUMENTS),
            (of_documents(DOCUMENTS.replace("name: doc", "name: doc, current: papers")),),
            lambda shop: (shop.shown("papers"), shop.documents()),
        ),
    ),
    "a column, a child or a root gets a name that differs from an earlier one only in case": (
        Edit(
            of_documents(DOCUMENTS),
            (of_documents(DOCUMENTS.replace("items", "Items")),),
            documents,
            refused=f"children: found the name Items, expected items, or {OTHER_NAME}",
        ),
        Edit(
            of_documents(DOCUMENTS),
            (
                Declared(
                    {"Orders": ORDERS, "lines": LINES},
                    (),
                    (DOCUMENTS.replace("orders", "Orders"),),
                    {"Orders": "APP.ORDERS"},
                ),
            ),
            documents,
            refused=f"root: found the name Orders, expected orders, or {OTHER_NAME}",
        ),
    ),
    SETTINGS: (
        Edit(ALL, (lines_with("zorder: [q]"),), same("lines")),
        Edit(of_documents(DOCUMENTS), (of_documents(f"{DOCUMENTS[:-1]}, zorder: [total]}}"),), documents),
        *(
            Edit(ALL, (Declared(options=options),), same("lines"))
            for options in (
                {"expectations": "[{kind: unbalanced_ledger, id: e, severity: warn, sentence: Even., hint: None.}]"},
                {"alerts": "{stuck_after: 10m}", "audit": "{connection: shop}", "judge": "always"},
                {"maintenance": "{change_events: {keep: 90d}, vacuum: {retain: 3d}}", "spark": "{state_groups: 16}"},
                {"owner": "shop", "description": "a shop", "timeout": "2h", "start_date": "2026-01-01"},
                {"after": "['txloom://bank/cuts']"},
                {"incomplete": "hold\n  catalog: lake"},
            )
        ),
    ),
}
"""By row, other edits of its kind."""
PLAYS = [(name, edit) for name in EDITS for edit in (EDITS[name], *MORE.get(name, ()))]
UNFORESEEN = ("`undeclared_columns: evolve` is set",)
"""The edits whose work a plan cannot know: it depends on the columns of later rows."""
IDS = [f"{name} {number}" for name in EDITS for number in range(1 + len(MORE.get(name, ())))]


def play(shop: EditedShop, edit: Edit, *, forgets: bool) -> list[PlannedTable]:
    """Play commits under each declaration, and return the plan of the last one before its commits.

    forgets: whether messages are removed before each edit.
    """
    edit.first.write(shop)
    shop.orders(1, 2, 3)
    shop.run()
    shop.renamed = dict(edit.renamed)
    shop.commit(("U", "orders", {"id": 1, "total": 11}), ("U", "lines", {"id": 20, "o_id": 1, "q": 5}))
    shop.run()
    plan = list[PlannedTable]()
    for number, declared in enumerate(edit.then, 4):
        if forgets:
            shop.forget()
        declared.write(shop)
        plan = planned_tables(shop.lake.pipeline, shop.lake.paths.warehouse, shop.lake.pipeline.name)
        shop.orders(number)
        shop.commit(("D", "lines", 10 * number - 30))
        shop.run()
    return plan


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


def costs_of(plan: list[PlannedTable]) -> set[str]:
    """Return what a plan makes the next cycle do to histories."""
    histories = [table.state for table in plan if table.what.startswith("every")]
    marks = {"messages": "from messages", "copies": " out of ", "rewrites": r"^(renames|is written anew)|; renames"}
    return {cost for cost, mark in marks.items() if any(re.search(mark, state) for state in histories)}


@pytest.mark.parametrize(("name", "edit"), PLAYS, ids=IDS)
def test_tables_are_the_sources_after_the_edit(tmp_path: Path, name: str, edit: Edit) -> None:
    shop = edit.source(tmp_path)
    if without_messages(name) == REFUSED:
        refusal = edit.refused or next(each for text, each in REFUSED_KEYS.items() if text in name)
        with pytest.raises(ConfigurationError, match=refusal):
            play(shop, edit, forgets=False)
        return
    plan = play(shop, edit, forgets=False)
    shown, expected = edit.shown(shop)
    assert shown == expected
    cost = rows()[name][1]
    words = {"messages": "messages", "copies": "copying|that history$", "rewrites": "rewriting"}
    if name not in UNFORESEEN:
        assert costs_of(plan) == {each for each, word in words.items() if re.search(word, cost)}
    assert cost != "nothing" or not any(table.rows or table.seconds for table in plan)
    assert "writing" not in cost or any(table.rows and table.seconds for table in plan)


@pytest.mark.long
@pytest.mark.parametrize(("name", "edit"), PLAYS, ids=IDS)
def test_where_messages_are_gone_it_is_as_the_page_says(tmp_path: Path, name: str, edit: Edit) -> None:
    if (says := without_messages(name)) == REFUSED:
        return
    shop = edit.source(tmp_path)
    play(shop, edit, forgets=True)
    shown, expected = edit.shown(shop)
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
