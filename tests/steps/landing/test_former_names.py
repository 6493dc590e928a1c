"""Messages that came under former names of topics and fields are read after the declaration has new names."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from steps.settling.edited_shop import DOCUMENTS, LINES, ORDERS, EditedShop
from txloom.config import load
from txloom.storage.dead_letters.open_letters import open_dead_letters
from txloom.storage.landing import landing_plan
from workloads.small_lake import SmallLake

ALL = {"orders": ORDERS, "lines": LINES}
MIRRORS = ["{table: orders}", "{table: lines}"]
NEW_ORDER = (("I", "orders", {"id": 7, "total": 7}), ("I", "lines", {"id": 70, "o_id": 7, "q": 7}))


def declare_all(shop: EditedShop) -> None:
    shop.declare(ALL, MIRRORS, [DOCUMENTS])


def deliver(shop: EditedShop, late: dict[str, list[Any]]) -> None:
    for topic, rows in late.items():
        shop.send(topic, *rows)
    shop.run()


def is_right(shop: EditedShop) -> bool:
    tables = all(shop.shown(name) == shop.source(name) for name in ALL)
    return tables and shop.shown("doc_current") == shop.documents()


def dead(shop: Any) -> Sequence[Any]:
    letters = open_dead_letters(shop.lake.paths, "cause")
    return letters.to_pylist()


@pytest.mark.parametrize("is_renamed_first", [False, True])
def test_rows_that_metadata_of_a_former_topic_counted_are_missing_in_a_table_that_is_declared(
    tmp_path: Path, is_renamed_first: bool
) -> None:
    shop = EditedShop(tmp_path)
    shop.declare({"orders": ORDERS}, MIRRORS[:1])
    shop.orders(1, 2)
    late = shop.commit(*NEW_ORDER, late=["lines"])
    shop.run()
    shop.metadata = "counts"
    if is_renamed_first:
        shop.declare({"orders": ORDERS}, MIRRORS[:1])
        shop.run()
    declare_all(shop)
    shop.orders(3)
    shop.run()
    assert shop.shown("lines") is shop.shown("doc_current") is None
    deliver(shop, late)
    assert is_right(shop) and not dead(shop)


def test_a_transaction_that_waits_keeps_the_metadata_of_a_former_topic(tmp_path: Path) -> None:
    shop = EditedShop(tmp_path)
    shop.declare({"orders": ORDERS}, MIRRORS[:1])
    shop.orders(1, 2)
    late = shop.commit(*NEW_ORDER, late=["orders"])
    shop.run()
    for topic in ("counts", "meta", "totals"):
        shop.metadata = topic
        declare_all(shop)
        shop.orders(shop.csn)
        shop.run()
        assert not dead(shop) and shop.cut["valid_through"] == 120
    deliver(shop, late)
    assert is_right(shop) and shop.cut["valid_through"] == shop.csn


def test_a_dead_transaction_is_made_whole_though_its_metadata_came_in_a_former_topic(tmp_path: Path) -> None:
    shop = EditedShop(tmp_path, patience="1s")
    declare_all(shop)
    shop.orders(1)
    late = shop.commit(*NEW_ORDER, late=["lines"])
    shop.run()
    time.sleep(1)
    shop.run()
    assert len(shop.cut["gaps"]) == 1
    shop.metadata = "counts"
    declare_all(shop)
    deliver(shop, late)
    shop.run()
    assert is_right(shop) and not dead(shop)


def test_metadata_that_came_while_no_topic_of_it_was_declared_is_read_once_its_topic_is_declared_again(
    tmp_path: Path,
) -> None:
    shop = EditedShop(tmp_path)
    declare_all(shop)
    shop.orders(1)
    shop.run()
    shop.declare(ALL, MIRRORS, [DOCUMENTS], rule="progress")
    shop.orders(2)
    late = shop.commit(*NEW_ORDER, late=["lines"])
    shop.run()
    assert [row["cause"] for row in dead(shop)] == ["no table"] * 2
    declare_all(shop)
    shop.orders(3)
    shop.run()
    assert not dead(shop) and shop.cut["valid_through"] == 120
    deliver(shop, late)
    assert is_right(shop) and not dead(shop) and shop.cut["valid_through"] == shop.csn


class TokenShop(EditedShop):
    """A shop whose rows name the process and the host of their producer."""

    def _row(self, *about: Any) -> dict[str, Any]:
        return super()._row(*about) | {"tokens": {"RUN": "4711", "HOST": "db-1"}}

    def declare_token(self, name: str) -> None:
        self.declare(ALL, MIRRORS, [DOCUMENTS])
        file = self.folder / "shop.yaml"
        text = file.read_text().replace("format: goldengate,", f"format: goldengate, run_token: {name},")
        file.write_text(text.replace("rule: counts,", "rule: counts, suspects: hold,"))
        self.lake.pipeline = load(file)


def test_a_waiting_transaction_has_one_producer_run_after_the_token_got_another_name(tmp_path: Path) -> None:
    shop = TokenShop(tmp_path)
    shop.declare_token("RUN")
    shop.orders(1)
    late = shop.commit(*NEW_ORDER, late=["lines"])
    shop.run()
    shop.declare_token("HOST")
    deliver(shop, late)
    assert is_right(shop) and shop.cut["valid_through"] == shop.csn
    rows = [row for row in shop.lake.rows("change_events") if row["kind"] == "row" and row["csn"] == shop.csn]
    assert [row["producer_run"] for row in rows if row["landing"] > 1] == ["db-1"] * 2


SETS = """
name: shop
source: {{format: change_sets, files: {{path: {inbox}, settle: 0s}}{fields}}}
completeness: {{rule: {rule}}}
tables:
{tables}
targets: {{mirrors: ["*"]}}
"""
TABLE = "- {{name: {name}, source: SHOP.{source}, key: [code], columns: {{code: string, price: long}}{more}}}"
FORMER = "FLAG,code,price,AT,XID"
LATER = "OP,code,price,CHANGED,TX"


class Sets:
    """A small lake of change sets of the tables a, b and so on, whose fields get other names."""

    def __init__(self, folder: Path, rule: str, names: str) -> None:
        self.folder, self.rule, self.sets, self.head = folder, rule, 0, FORMER
        self.source = dict[str, dict[str, int | str]]()
        (folder / "inbox").mkdir()
        self.lake = SmallLake(folder, self.declared(names))

    def declared(self, names: str, more: str = "", limit: str = "") -> Any:
        flag, _, _, at, number = self.head.split(",")
        numbered = f", transaction: {number}" if self.rule == "progress" else ""
        fields = f", change_sets: {{flag: {flag}, timestamp: {at}{numbered}}}{limit}"
        tables = "\n".join(TABLE.format(name=name, source=name.upper(), more=more) for name in names)
        file = self.folder / "shop.yaml"
        inbox = self.folder / "inbox"
        file.write_text(SETS.format(inbox=inbox, fields=fields, rule=self.rule, tables=tables))
        return load(file)

    def put(self, name: str, code: str, price: int | str, number: int) -> None:
        """Write a change set of one row into the folder of a table, in a transaction."""
        self.sets += 1
        folder = self.folder / "inbox" / f"SHOP.{name.upper()}"
        folder.mkdir(exist_ok=True)
        row = f"I,{code},{price},2026-01-01 00:00:{self.sets:02}.0,{number}"
        (folder / f"{self.sets:02}.csv").write_text(f"{self.head}\n{row}\n")
        self.source.setdefault(name, {})[code] = price

    def shown(self, name: str) -> dict[str, int]:
        return {row["code"]: row["price"] for row in self.lake.rows(name)}


@pytest.mark.parametrize("rule", ["single", "progress"])
def test_rows_under_former_names_of_fields_are_read(tmp_path: Path, rule: str) -> None:
    sets = Sets(tmp_path, rule, "a")
    for number in (1, 2):
        sets.put("a", f"k{number}", number, number)
        sets.put("b", f"k{number}", number, number)
    sets.lake.run()
    sets.head = LATER
    sets.lake.pipeline = sets.declared("ab")
    for number in (3, 4, 5):
        sets.put("a", f"k{number}", number, number)
        sets.put("b", f"k{number}", number, number)
        sets.lake.run()
    last = {"k5"} if rule == "progress" else set()
    for name in "ab":
        assert sets.shown(name) == {code: price for code, price in sets.source[name].items() if code not in last}
    assert not dead(sets)


@pytest.mark.parametrize("undeclared", ["evolve", "quarantine"])
def test_fields_under_former_names_are_no_columns(tmp_path: Path, undeclared: str) -> None:
    sets = Sets(tmp_path, "progress", "ab")
    sets.lake.pipeline = sets.declared("ab", f", undeclared_columns: {undeclared}")
    sets.put("a", "k1", 1, 1)
    sets.lake.run()
    sets.head = LATER
    sets.lake.pipeline = sets.declared("ab", f", undeclared_columns: {undeclared}")
    for number in (2, 3):
        sets.put("a", f"k{number}", number, number)
        sets.put("b", f"k{number}", number, number)
    sets.lake.run()
    assert sets.shown("a") == {"k1": 1, "k2": 2} and not dead(sets)
    assert not {"FLAG", "AT", "XID", "flag", "at", "xid"} & sets.lake.rows("a")[0].keys()


def test_rows_that_come_late_under_former_names_are_read(tmp_path: Path) -> None:
    sets = Sets(tmp_path, "single", "a")
    sets.put("a", "k1", 1, 1)
    sets.lake.run()
    sets.head = LATER
    sets.lake.pipeline = sets.declared("a")
    sets.put("a", "k2", 2, 2)
    sets.lake.run()
    sets.head = FORMER
    sets.put("a", "k3", 3, 3)
    sets.lake.run()
    assert sets.shown("a") == sets.source["a"] and not dead(sets)


def test_a_lower_limit_of_bytes_holds_for_new_messages_alone(tmp_path: Path) -> None:
    sets = Sets(tmp_path, "progress", "ab")
    for number in (1, 2):
        for name in "abc":
            sets.put(name, f"k{number}" + "x" * 400, number, number)
    sets.lake.run()
    sets.lake.pipeline = sets.declared("abc", limit=", max_message_bytes: 300")
    for number in (3, 4):
        for name in "abc":
            sets.put(name, f"k{number}", number, number)
        sets.lake.run()
    for name in "abc":
        assert sets.shown(name) == {code: price for code, price in sets.source[name].items() if code != "k4"}
    assert not dead(sets)


def test_a_waiting_row_without_a_value_of_a_new_key_keeps_its_transaction_back(tmp_path: Path) -> None:
    sets = Sets(tmp_path, "progress", "ab")
    for number, price in ((1, 1), (2, "")):
        for name in "ab":
            sets.put(name, f"k{number}", price if name == "a" else number, number)
    sets.lake.run()
    assert sets.shown("b") == {"k1": 1}
    pipeline = sets.declared("ab")
    of_price = {"key": ("code", "price")}
    tables = [each.model_copy(update=of_price) if each.name == "a" else each for each in pipeline.tables]
    sets.lake.pipeline = pipeline.model_copy(update={"tables": tuple(tables)})
    for number in (3, 4):
        for name in "ab":
            sets.put(name, f"k{number}", number, number)
        sets.lake.run()
    cut = max(sets.lake.rows("cuts"), key=lambda each: int(each["cut_id"]))
    assert [gap["csn"] for gap in cut["gaps"]] == [2] and [row["cause"] for row in dead(sets)]
    assert sets.shown("b") == {"k1": 1, "k3": 3}


def test_former_names_stay_known_through_many_edits(tmp_path: Path) -> None:
    shop = EditedShop(tmp_path)
    for topic in ("meta", "counts", "meta", "totals"):
        shop.metadata = topic
        declare_all(shop)
        shop.orders(shop.csn)
        shop.run()
    pipeline = landing_plan.as_landed(shop.lake.pipeline, shop.lake.paths)
    assert [each.transaction_topic for each in pipeline.source.former] == ["meta", "counts"]
    assert is_right(shop)
