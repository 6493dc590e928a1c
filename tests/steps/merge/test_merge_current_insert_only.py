"""Tables without a key: every insert is a row, whatever it holds; nothing else can be taken."""

from pathlib import Path
from typing import Any

import pytest

from lake import merge_by_spark
from shop import Shop, delete, insert, truncate, update
from txloom import read
from txloom.config import load
from txloom.errors import ConfigurationError
from txloom.storage.views.status import status

TABLES = """
tables:
  - {name: visits, source: APP.VISITS, key: none, columns: {page: string, seconds: long}}
  - {name: pages, source: APP.PAGES, key: [page], columns: {page: string}}
targets: {mirrors: ["*"]}
"""


@pytest.mark.parametrize(
    "spread", [pytest.param(False, id="in this process"), pytest.param(True, id="by Spark", marks=pytest.mark.long)]
)
def test_equal_rows_stand_beside_each_other_and_late_ones_join_them(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spread: bool
) -> None:
    if spread:
        merge_by_spark(monkeypatch)
    shop = Shop(spark, tmp_path, TABLES)
    shop.commit(10, insert("visits", page="a", seconds=1), insert("visits", page="a", seconds=1))
    shop.commit(20, truncate("visits"), insert("visits", page="b", seconds=None))
    shop.run()
    assert shop.shown("visits", "page", "seconds") == [("b", None)]
    shop.commit(30, *[insert("visits", page="c", seconds=3)] * 3)
    shop.commit(25, insert("visits", page="d", seconds=4))
    shop.commit(15, insert("visits", page="gone", seconds=5))
    shop.run()
    assert shop.shown("visits", "page", "seconds") == [("b", None), *[("c", 3)] * 3, ("d", 4)]
    shop.commit(18, truncate("visits"))
    shop.commit(40, insert("visits", page="e", seconds=6))
    shop.run()
    assert shop.shown("visits", "page", "seconds") == [("b", None), *[("c", 3)] * 3, ("d", 4), ("e", 6)]
    as_of = read.as_of(shop.pipeline, "visits", csn=10, warehouse=shop.warehouse).to_pylist()
    assert [(row["page"], row["seconds"]) for row in as_of] == [("a", 1), ("a", 1)]
    held = read.intervals(shop.pipeline, "visits", warehouse=shop.warehouse).to_pylist()
    ends = sorted((row["page"], row["_txloom_valid_from"], row["_txloom_valid_to"] or 0) for row in held)
    assert ends == [
        ("a", 10, 18), ("a", 10, 18), ("b", 20, 0), *[("c", 30, 0)] * 3, ("d", 25, 0), ("e", 40, 0), ("gone", 15, 18)
    ]  # fmt: skip


def test_what_changes_a_row_without_a_key_is_a_dead_letter(spark: Any, tmp_path: Path) -> None:
    shop = Shop(spark, tmp_path, TABLES)
    shop.commit(10, update("visits", {"page": "a"}, page="b"), delete("visits", page="a"))
    shop.run()
    letters = status(shop.warehouse, "shop")["dead_letters"]
    assert [(row["cause"], row["events"]) for row in letters] == [("table without a key", 2)]


def test_a_table_without_a_key_is_no_member_of_an_aggregate(tmp_path: Path) -> None:
    file = tmp_path / "shop.yaml"
    aggregate = "{name: doc, root: pages, children: [{table: visits, relation: many, parent_key: [page]}]}"
    file.write_text(
        "name: shop\nsource: {format: goldengate, files: {path: inbox}, transaction_topic: metadata}\n"
        "completeness: {rule: counts, patience: 2h}"
        + TABLES.replace('{mirrors: ["*"]}', f'{{mirrors: ["*"], aggregates: [{aggregate}]}}')
    )
    with pytest.raises(ConfigurationError) as refused:
        load(file)
    assert str(refused.value) == (
        f"{file}:7: targets.aggregates[0].children[0].table: found 'visits', expected a table with a key."
        " A table whose key is `none` takes inserts only; it can be mirrored."
    )
