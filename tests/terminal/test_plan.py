"""`txloom plan`: what it says of tables is what the next run does to them."""

import json
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from txloom.cli import main
from txloom.config import load
from workloads.small_lake import SmallLake

Captured = pytest.CaptureFixture[str]
DECLARED = """
name: shop
source: {{format: change_events, files: {{path: {inbox}, settle: 0s}}}}
completeness: {{rule: single}}
tables:
  - {{name: orders, source: S.ORDERS, key: [id], columns: {{{columns}}}}}
  - {{name: visits, source: S.VISITS, key: none, columns: {{note: string}}}}
targets:
  mirrors: [{mirrors}]
  aggregates: [{{name: doc, root: orders, children: []}}]
"""


class Shop:
    """A declaration that changes, and its lake."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.file = folder, folder / "shop.yaml"
        (folder / "inbox" / "S.ORDERS").mkdir(parents=True)

    def declare(self, columns: str, mirrors: str = "orders") -> None:
        self.file.write_text(DECLARED.format(inbox=self.folder / "inbox", columns=columns, mirrors=mirrors))

    def run(self) -> None:
        lake = SmallLake(self.folder, load(self.file))
        lake.run()

    def plan(self, capsys: Captured, *flags: str) -> dict[str, Any]:
        assert main(["plan", str(self.file), "--json", "--warehouse", str(self.folder / "warehouse"), *flags]) == 0
        answer: dict[str, Any] = json.loads(capsys.readouterr().out)
        return answer

    def states(self, capsys: Captured) -> dict[str, str]:
        return {table["name"]: table["state"] for table in self.plan(capsys)["tables"]}

    def types(self, table: str) -> dict[str, str]:
        return {
            f.name: str(f.type.type) for f in DeltaTable(self.folder / "warehouse" / "shop" / table).schema().fields
        }


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path)


def test_all_is_new_and_then_nothing_changes(shop: Shop, capsys: Captured) -> None:
    shop.declare("id: long, note: string", '"*"')
    first = shop.plan(capsys)
    names = ["orders", "orders_changes", "visits", "visits_changes", "doc_current", "doc_stream"]
    assert {table["name"]: table["state"] for table in first["tables"]} == dict.fromkeys(names, "new")
    assert [(table["key"], table["columns"]) for table in first["tables"][:3]] == [(["id"], 2), (["id"], 2), ([], 1)]
    assert first["reads"] == [f"files below {shop.folder / 'inbox'}, a folder for each topic"]
    assert not (shop.folder / "warehouse").exists(), "nothing is written"
    shop.run()
    assert {path.name for path in (shop.folder / "warehouse" / "shop").iterdir()} >= set(names)
    assert shop.states(capsys) == dict.fromkeys(names, "as it is")


def test_what_it_says_of_columns_is_what_the_next_run_does(shop: Shop, capsys: Captured) -> None:
    shop.declare("id: int, note: string, gone: string")
    shop.run()
    before = shop.types("orders")
    shop.declare("id: long, note: string, gift: date, 'on': string", '"*"')
    states = shop.states(capsys)
    changed = "gets gift, on; is written anew: id from int to long"
    assert states["orders_changes"] == f"{changed}; keeps gone with the earlier values"
    assert states["orders"] == f"is computed anew from 0 rows; {changed}; loses gone"
    assert states["visits"] == states["visits_changes"] == "new"
    shop.run()
    after = shop.types("orders")
    assert (before["id"], after["id"]) == ("integer", "long")
    assert after.keys() - before.keys() == {"gift", "on"} and "gone" not in after
    kept = {name: state for name, state in shop.states(capsys).items() if state != "as it is"}
    assert kept == {}, "a column of an earlier edit is no news"


def test_people_read_it_and_a_wrong_declaration_is_refused(shop: Shop, capsys: Captured) -> None:
    shop.declare("id: long")
    assert main(["plan", str(shop.file)]) == 0
    text = capsys.readouterr().out
    assert "shop_cdc" in text and "every change of S.ORDERS" in text and "documents of orders" in text
    shop.declare("id: lang")
    assert main(["plan", str(shop.file)]) == 2
    assert "Did you mean 'long'?" in capsys.readouterr().err
