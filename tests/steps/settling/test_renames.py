"""Columns, keys and fields that get other names: earlier rows have each value under the present name of its column."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drawn import examples
from steps.settling.edited_shop import LINES, ORDERS, EditedShop
from txloom import read
from txloom.steps.settling import remake
from txloom.storage.declarations import records as r

Names = dict[str, str]
"""By column of the source, its name in the lake."""
NAMES = ("id", "total", "o_id", "q", "other")
SOURCES = {"orders": tuple(ORDERS), "lines": tuple(LINES)}
EXCHANGED = {"id": "id", "o_id": "q", "q": "o_id"}


class Killed(Exception):
    """The run that died."""


def declare(shop: EditedShop, orders: Names, lines: Names, field: str = "items") -> None:
    """Declare both tables and documents of them with some names."""
    of = {"orders": orders, "lines": lines}
    tables = {
        table: {name: f"{{type: long, source: {source}}}" for source, name in names.items()}
        for table, names in of.items()
    }
    keys = {table: f"[{names['id']}]" for table, names in of.items()}
    child = f"{{table: lines, as: {field}, relation: many, parent_key: [{lines['o_id']}]}}"
    documents = f"{{name: doc, root: orders, children: [{child}]}}"
    shop.declare(tables, [f"{{table: {table}}}" for table in of], [documents], keys=keys)


def named(rows: list[dict[str, Any]], names: Names) -> list[dict[str, Any]]:
    """Return rows of the source under some names."""
    return [{names[source]: value for source, value in row.items()} for row in rows]


def run_killed(shop: EditedShop) -> None:
    """Run a cycle that dies after it has renamed columns of histories, before it does anything else for the edit."""
    with mock.patch.object(remake, "remake", side_effect=Killed), pytest.raises(Killed):
        shop.run()


def assert_shown(shop: EditedShop, orders: Names, lines: Names, field: str) -> None:
    """Compare the states as of the newest cut and of the first one with the source."""
    for csn in (shop.cut["valid_through"], shop.lake.rows("cuts")[0]["valid_through"]):
        source = {table: shop.source(table, csn) for table in SOURCES}
        rows = {table: named(source[table], names) for table, names in (("orders", orders), ("lines", lines))}
        members = {row["id"]: list[dict[str, Any]]() for row in source["orders"]}
        for line, row in zip(rows["lines"], source["lines"], strict=True):
            members[row["o_id"]].append(line)
        documents = [{**row, field: members[row[orders["id"]]]} for row in rows["orders"]]
        for table, expected in {**rows, "doc_current": documents}.items():
            shown = read.as_of(shop.lake.pipeline, table, csn=csn, warehouse=shop.lake.paths.warehouse).to_pylist()
            plain = [{name: row[name] for name in row if not name.startswith("_txloom_")} for row in shown]
            key = (lines if table == "lines" else orders)["id"]
            assert sorted(plain, key=lambda row: row[key]) == expected, (table, csn)


@st.composite
def edits(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Draw edits: names of both tables and of the documents' field, whether the run dies, and new rows before it."""

    def names(table: str) -> Names:
        drawn = draw(st.permutations(NAMES))
        return dict(zip(SOURCES[table], drawn, strict=False))

    return [
        {
            "names": (names("orders"), names("lines"), draw(st.sampled_from(["items", "things"]))),
            "dies": draw(st.booleans()),
            "adds": draw(st.booleans()),
        }
        for _ in range(draw(st.integers(1, 4)))
    ]


@given(edits())
@settings(max_examples=examples(5), deadline=None)
def test_values_follow_the_names_of_their_columns(drawn: list[dict[str, Any]]) -> None:
    with TemporaryDirectory() as folder:
        shop = EditedShop(Path(folder))
        declare(shop, *({name: name for name in columns} for columns in SOURCES.values()))
        shop.orders(1, 2)
        shop.commit(("U", "lines", {"id": 20, "q": 7}), ("U", "orders", {"id": 1, "total": 9}))
        shop.run()
        shop.commit(("U", "lines", {"id": 10, "q": 8}), sparse=True)
        shop.run()
        shop.forget()
        for number, edit in enumerate(drawn):
            declare(shop, *edit["names"])
            if edit["adds"]:
                shop.orders(3 + number)
            if edit["dies"] and edit is not drawn[-1]:
                # If the edit changes nothing, nothing is made again, and the run does not die.
                with mock.patch.object(remake, "remake", side_effect=Killed):
                    try:
                        shop.run()
                    except Killed:
                        continue
            else:
                shop.run()
            assert_shown(shop, *edit["names"])


def test_columns_exchange_their_names_though_the_run_dies(tmp_path: Path) -> None:
    shop = EditedShop(tmp_path)
    same = [{name: name for name in columns} for columns in SOURCES.values()]
    declare(shop, *same)
    shop.orders(1, 2)
    shop.commit(("U", "lines", {"id": 10, "q": 8}))
    shop.run()
    shop.forget()
    declare(shop, same[0], EXCHANGED)
    run_killed(shop)
    shop.run()
    assert_shown(shop, same[0], EXCHANGED, "items")


def test_columns_exchange_their_names_while_rows_are_waited_for(tmp_path: Path) -> None:
    shop = EditedShop(tmp_path)
    same = [{name: name for name in columns} for columns in SOURCES.values()]
    declare(shop, *same)
    shop.commit(("I", "orders", {"id": 1, "total": 1}), ("I", "lines", {"id": 10, "o_id": 1, "q": 2}))
    shop.run()
    shop.declare({"orders": ORDERS}, ["{table: orders}"])
    new = ("I", "orders", {"id": 7, "total": 7}), ("I", "lines", {"id": 70, "o_id": 7, "q": 8})
    held = shop.commit(*new, late=["lines"])
    shop.run()
    declare(shop, same[0], EXCHANGED)
    for _ in range(2):
        shop.run()
        assert shop.states_of()["lines_changes", "lines"].newest.status == r.WAITING
        assert [(row["o_id"], row["q"]) for row in shop.lake.rows("lines_changes")] == [(2, 1)]
    shop.send("lines", *held["lines"])
    shop.run()
    assert_shown(shop, same[0], EXCHANGED, "items")
