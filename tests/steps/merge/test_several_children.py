"""A document that has several rows of a child of the relation `one` is named by a finding, by whichever engine."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lake import merge_by_spark
from steps.merge.keyed import Change, Keyed
from steps.merge.small_pieces import cut_small
from steps.merge.test_merge_any_keys import no_spark
from steps.settling.edited_shop import LINES, ORDERS, EditedShop
from txloom.quality.findings import SEVERAL
from txloom.steps.merge import several_children
from txloom.storage.checks import findings
from txloom.storage.checks.findings import open_findings
from txloom.storage.delta import arrow_tables, small_tables

TABLE, LINE = "by_long", "by_long_line"


def root(key: int) -> Change:
    return Change("I", after={"k0": key, "v": 1, "w": "x"})


def line(number: int, key: int) -> Change:
    return Change("I", after={"id": number, "k0": key})


def gone(number: int, key: int) -> Change:
    return Change("D", before={"id": number, "k0": key})


class Shop(Keyed):
    """Documents with one line each, as they are declared."""

    def merged(self, spark: Callable[[], Any], csn: int, *lines: Change, roots: tuple[Change, ...] = ()) -> None:
        self.release({TABLE: {csn: roots}, LINE: {csn: lines}})
        self.merge(spark)

    def open_ones(self) -> list[tuple[str, str, int, str, str]]:
        rows = [row for row in open_findings(self.paths) if row["code"] == SEVERAL]
        return [(row["table"], row["column"], row["since_csn"], row["evidence"], row["severity"]) for row in rows]

    def shown(self) -> dict[int, int | None]:
        rows = arrow_tables.select(self.paths.table(f"{TABLE}_doc_current"), "select * from t").to_pylist()
        return {row["k0"]: (row["lines"] or {}).get("id") for row in rows}


NAMED = (
    f"{TABLE}_doc_current",
    "lines",
    20,
    f'document {{"k0": 1}} has 3 rows of {LINE}, and `lines` shows the last by key',
    "error",
)


def two_with_several(shop: Shop) -> None:
    """Let document 1 have three lines since csn 20, and document 2 two since csn 21."""
    shop.merged(no_spark, 10, line(11, 1), line(12, 2), line(99, 7), line(98, 7), roots=(root(1), root(2), root(3)))
    assert not shop.open_ones(), "rows without a root are in no document"
    shop.release({LINE: {20: [line(4, 1), line(3, 1)], 21: [line(5, 2)]}})


@pytest.mark.parametrize("size", [None, 100])
def test_a_finding_names_the_document_and_closes_when_none_has_several(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int | None
) -> None:
    """size: the bytes of a piece where documents are composed in pieces."""
    if size is not None:
        cut_small(monkeypatch, size)
    shop = Shop(tmp_path / "shop", [TABLE], relation="one")
    two_with_several(shop)
    shop.merge(no_spark)
    assert shop.open_ones() == [NAMED]
    assert shop.shown() == {1: 11, 2: 12, 3: None}
    shop.merged(no_spark, 30, gone(3, 1), gone(11, 1))
    assert shop.open_ones() == [NAMED], "another document still has several"
    shop.merged(no_spark, 40, gone(12, 2))
    assert not shop.open_ones()
    assert shop.shown() == {1: 4, 2: 5, 3: None}
    (last,) = small_tables.query(shop.paths.table("findings"), "select evidence from t where status = 'closed'")
    assert last["evidence"] == f"{NAMED[3]}; {several_children.SINGLE}"


def test_nothing_is_searched_where_no_finding_is_open_or_nothing_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    searched = list[str]()
    monkeypatch.setattr(several_children, "_is_single", lambda *given: bool(searched.append(given[3].table)))
    shop = Shop(tmp_path / "shop", [TABLE], relation="one")
    shop.merged(no_spark, 10, line(1, 1), roots=(root(1),))
    shop.merged(no_spark, 20, line(2, 1))
    shop.merge(no_spark)
    assert (searched, len(shop.open_ones())) == ([], 1)
    shop.merged(no_spark, 30, line(7, 3))
    assert searched == [LINE]


def test_a_finding_closes_once_the_relation_is_many_and_stays_where_the_table_is_too_large(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = Shop(tmp_path / "shop", [TABLE], relation="one")
    shop.merged(no_spark, 10, line(1, 1), line(2, 1), roots=(root(1),))
    monkeypatch.setattr(several_children, "CHECKED_BYTES", 0)
    shop.merged(no_spark, 20, gone(2, 1))
    assert len(shop.open_ones()) == 1
    known = open_findings(shop.paths)
    (aggregate,) = shop.pipeline.targets.aggregates
    many = aggregate.model_copy(
        update={"children": tuple(each.model_copy(update={"relation": "many"}) for each in aggregate.children)}
    )
    targets = shop.pipeline.targets.model_copy(update={"aggregates": (many,)})
    several_children.close_single(shop.pipeline.model_copy(update={"targets": targets}), shop.paths, known, (), (), "r")
    assert not shop.open_ones()
    assert json.loads(known[0]["evidence"].split("document ")[1].split(" has")[0]) == {"k0": 1}


def named(shop: EditedShop) -> list[tuple[int, str]]:
    """Return since when which document has several lines."""
    rows = [row for row in open_findings(shop.lake.paths) if row["code"] == SEVERAL]
    return [(row["since_csn"], row["evidence"].split(",")[0]) for row in rows]


def declare(shop: EditedShop, relation: str, parent: str = "o_id") -> None:
    """Declare documents of orders with their lines, and mirrors of both."""
    child = f"{{table: lines, as: item, relation: {relation}, parent_key: [{parent}]}}"
    aggregate = f"{{name: doc, root: orders, children: [{child}]}}"
    shop.declare(
        {"orders": ORDERS, "lines": LINES}, ["{table: orders}", "{table: lines}"], [aggregate] if relation else []
    )


@pytest.fixture
def edited(tmp_path: Path) -> EditedShop:
    """Return a shop with mirrors alone, of which order 1 has two lines."""
    shop = EditedShop(tmp_path)
    declare(shop, "")
    shop.orders(1, 2)
    shop.commit(("I", "lines", {"id": 11, "o_id": 1, "q": 3}))
    shop.run()
    return shop


BOTH_LINES = (130, 'document {"id": 1} has 2 rows of lines')


@pytest.mark.parametrize("before", ["", "many"])
def test_documents_that_an_edit_computes_anew_name_the_one_that_has_several(edited: EditedShop, before: str) -> None:
    declare(edited, before)
    edited.run()
    declare(edited, "one")
    edited.run()
    assert named(edited) == [BOTH_LINES], "no message came"
    edited.run()
    assert named(edited) == [BOTH_LINES], "nothing was edited"
    declare(edited, "many")
    edited.run()
    assert named(edited) == []


def test_a_finding_closes_where_an_edit_leaves_no_document_with_several(edited: EditedShop) -> None:
    declare(edited, "one")
    edited.run()
    declare(edited, "one", parent="q")
    edited.run()
    assert named(edited) == [], "each line has another q"
    declare(edited, "one")
    edited.run()
    assert named(edited) == [BOTH_LINES]


def test_lost_documents_that_are_composed_anew_name_it_again(edited: EditedShop) -> None:
    declare(edited, "one")
    edited.run()
    findings.close(edited.lake.paths, open_findings(edited.lake.paths), "by hand", "closed")
    shutil.rmtree(edited.lake.paths.table("doc_current"))
    edited.run()
    assert named(edited) == [BOTH_LINES]


@pytest.mark.long
def test_spark_names_the_same_document(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spark: Any) -> None:
    """That it closes findings alike is drawn in `test_spark_merge_any_keys`: a merge by Spark takes seconds."""
    shop = Shop(tmp_path / "shop", [TABLE], relation="one")
    two_with_several(shop)
    merge_by_spark(monkeypatch)
    shop.merge(lambda: spark)
    assert shop.open_ones() == [NAMED]
    assert shop.shown() == {1: 11, 2: 12, 3: None}
