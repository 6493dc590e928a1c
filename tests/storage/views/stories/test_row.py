"""The story of a key: every change with what was before and after, out of histories as releases write them."""

from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from released import Released
from txloom.config import load
from txloom.errors import ConfigurationError
from txloom.storage.delta import small_tables
from txloom.storage.paths import TablePaths
from txloom.storage.system_tables import PENDING_TRANSACTIONS
from txloom.storage.targets import history_tables, schemas
from txloom.storage.views.stories.row import Story, key_story


def story_of(lake: Released, key: str, **more: Any) -> Story:
    return key_story(lake.pipeline, str(lake.folder), "readings", {"id": key}, **more)


def steps(story: Story) -> list[tuple[Any, ...]]:
    return [(row["op"], row["csn"], row["before"], row["after"], row["changed"]) for row in story.page.rows]


@pytest.fixture
def lake(tmp_path: Path) -> Released:
    return Released(tmp_path, "id: long, a: int, b: string")


def test_each_change_tells_before_and_after_newest_first(lake: Released) -> None:
    lake.release(1, [("I", {}, {"id": 1, "a": 1, "b": "x"}), ("I", {}, {"id": 2, "a": 9, "b": "other"})])
    lake.release(2, [("U", {}, {"id": 1, "a": 2})])
    lake.release(3, [("D", {"id": 1}, {})])
    lake.release(4, [("I", {}, {"id": 1, "a": 5, "b": "new"})])
    first, second, new = {"id": 1, "a": 1, "b": "x"}, {"id": 1, "a": 2, "b": "x"}, {"id": 1, "a": 5, "b": "new"}
    story = story_of(lake, "1")
    assert steps(story) == [
        ("I", 4, None, new, []),
        ("D", 3, second, None, []),
        ("U", 2, first, second, ["a"]),
        ("I", 1, None, first, []),
    ]
    assert (story.keys, story.page.total, story.current, story.cleaned) == ([{"id": 1}], 4, None, 0)
    assert [row["is_shown"] for row in story.page.rows] == [True] * 4


def test_values_that_are_named_like_a_secret_are_masked_and_their_changes_told(tmp_path: Path) -> None:
    lake = Released(tmp_path, "id: long, code: {type: string, source: CARD_PIN}, doc: string")
    lake.release(1, [("I", {}, {"id": 1, "code": "0000", "doc": "x"})])
    lake.release(2, [("U", {}, {"id": 1, "code": "1111", "doc": None})])
    lake.merge(lambda: pytest.fail("so few rows need no Spark"))
    story = story_of(lake, "1")
    first, second = {"id": 1, "code": "***", "doc": "x"}, {"id": 1, "code": "***", "doc": None}
    assert steps(story) == [("U", 2, first, second, ["code", "doc"]), ("I", 1, None, first, [])]
    assert story.current is not None
    assert {name: story.current[name] for name in second} == second


def test_pages_know_what_a_row_was_before_their_oldest_change(lake: Released) -> None:
    lake.release(1, [("I", {}, {"id": 1, "a": 0, "b": "x"})])
    for csn in range(2, 8):
        lake.release(csn, [("U", {}, {"id": 1, "a": csn})])
    page = story_of(lake, "1", number=2, size=3)
    assert (page.page.total, page.page.pages) == (7, 3)
    assert [(row["csn"], row["before"]["a"], row["after"]) for row in page.page.rows] == [
        (4, 3, {"id": 1, "a": 4, "b": "x"}),
        (3, 2, {"id": 1, "a": 3, "b": "x"}),
        (2, 0, {"id": 1, "a": 2, "b": "x"}),
    ]


def test_what_nobody_told_is_unknown_and_not_null(lake: Released) -> None:
    lake.release(5, [("U", {"id": 1, "a": 3}, {"id": 1, "a": 4})])
    row = story_of(lake, "1").page.rows[0]
    assert (row["before"], row["after"], row["changed"], row["unknown"]) == (
        {"id": 1, "a": 3},
        {"id": 1, "a": 4},
        ["a"],
        ["b"],
    )


def test_a_key_change_is_followed_both_ways(lake: Released) -> None:
    lake.release(1, [("I", {}, {"id": 1, "a": 1, "b": "x"})])
    lake.release(2, [("U", {"id": 1}, {"id": 2, "a": 1, "b": "x"})])
    lake.release(3, [("U", {"id": 2}, {"id": 3, "a": 7})])
    by_key = {key: story_of(lake, key) for key in "123"}
    assert [row["key"] for row in by_key["1"].page.rows] == [{"id": 3}, {"id": 2}, {"id": 1}]
    assert [row["old_key"] for row in by_key["1"].page.rows] == [{"id": 2}, {"id": 1}, None]
    assert by_key["1"].keys == [{"id": 1}, {"id": 2}, {"id": 3}]
    assert by_key["3"].keys[0] == {"id": 3}
    assert steps(by_key["1"]) == steps(by_key["2"]) == steps(by_key["3"])
    assert by_key["2"].page.rows[0]["changed"] == ["id", "a"]
    assert by_key["2"].page.rows[0]["before"] == {"id": 2, "a": 1, "b": "x"}


def test_a_truncate_ends_a_row_and_is_told_only_of_rows_that_were(lake: Released) -> None:
    lake.release(1, [("I", {}, {"id": 1, "a": 1, "b": "x"})])
    lake.release(2, [("T", {}, {})])
    lake.release(3, [("I", {}, {"id": 1, "a": 2, "b": "y"})])
    assert [(row["op"], row["before"]) for row in story_of(lake, "1").page.rows] == [
        ("I", None),
        ("T", None),
        ("I", None),
    ]
    nobody = story_of(lake, "4711")
    assert (nobody.page.rows, nobody.page.total, nobody.current) == ([], 0, None)


def test_a_change_above_valid_through_is_not_shown_yet(lake: Released) -> None:
    lake.release(1, [("I", {}, {"id": 1, "a": 1, "b": "x"})])
    lake.release(9, [("U", {}, {"id": 1, "a": 2})])
    waits = {"transaction_id": "x5:5", "xid": "x5", "csn": 5}
    path = lake.paths.table("pending_transactions")
    small_tables.replace(path, [waits], PENDING_TRANSACTIONS, {"release": 2, "landing": 2})
    assert [(row["csn"], row["is_shown"]) for row in story_of(lake, "1").page.rows] == [(9, False), (1, True)]


def test_hostile_values_stay_what_they_are(lake: Released) -> None:
    hostile = "<script>alert('1')</script>\u202e\x1b[31m; drop table t"
    lake.release(1, [("I", {}, {"id": 1, "a": 1, "b": hostile})])
    assert story_of(lake, "1").page.rows[0]["after"]["b"] == hostile


def test_keys_of_every_type_are_found_by_their_text(tmp_path: Path) -> None:
    columns = {
        "name": "string",
        "amount": '"decimal(10,2)"',
        "day": "date",
        "moment": "timestamptz",
        "local": "timestamp",
    }
    declared_columns = ", ".join(f"{name}: {kind}" for name, kind in columns.items())
    lake = Released(tmp_path, f"{declared_columns}, ok: boolean, a: int", key=f"[{', '.join(columns)}, ok]")
    texts = {"name": "it's", "amount": "1.50", "day": "2026-01-02", "moment": "2026-01-02T03:04:05.000006+01:00"}
    texts |= {"local": "2026-01-02 03:04:05.000006", "ok": "true"}
    values = dict.fromkeys(texts) | {
        "name": "it's",
        "amount": Decimal("1.50"),
        "day": date(2026, 1, 2),
        "ok": True,
    }
    values |= {"moment": datetime(2026, 1, 2, 2, 4, 5, 6, UTC), "local": datetime(2026, 1, 2, 3, 4, 5, 6)}
    lake.release(1, [("I", {}, {**values, "a": 7}), ("I", {}, {**values, "amount": Decimal("1.51"), "a": 8})])
    story = key_story(lake.pipeline, str(tmp_path), "readings", texts)
    assert [row["after"]["a"] for row in story.page.rows] == [7]


@pytest.mark.parametrize(
    ("table", "key", "message"),
    [
        ("readngs", {"id": "1"}, "pipeline plant has no table 'readngs'. Did you mean 'readings'?"),
        ("x", {"id": "1"}, "pipeline plant has no table 'x'. It has readings."),
        ("readings", {"di": "1"}, "readings has the key id=...; found di"),
        ("readings", {}, "readings has the key id=...; found nothing"),
        ("readings", {"id": "1 or true"}, "readings.id is long; found '1 or true'"),
        ("readings", {"id": "1e400"}, "readings.id is long; found '1e400'"),
    ],
)
def test_what_cannot_be_asked_is_refused_with_what_there_is(
    lake: Released, table: str, key: dict[str, str], message: str
) -> None:
    with pytest.raises(ConfigurationError) as refused:
        key_story(lake.pipeline, str(lake.folder), table, key)
    assert str(refused.value) == message


def test_a_table_without_a_key_has_no_story(tmp_path: Path) -> None:
    lake = Released(tmp_path, "id: long", key="none")
    with pytest.raises(ConfigurationError) as refused:
        story_of(lake, "1")
    assert str(refused.value) == "readings has no key: its rows are inserted once and never change"


DOCUMENTS = """
name: plant
source: {format: change_events, files: {path: inbox}}
completeness: {rule: single}
tables:
- {name: orders, source: S.ORDERS, key: [id], columns: {id: long, note: string}}
- {name: lines, source: S.LINES, key: [no], columns: {no: long, order_id: long, qty: int}}
targets:
  aggregates:
  - {name: whole, root: orders, children: [{table: lines, as: lines, relation: many, parent_key: [order_id]}]}
"""


def test_a_document_tells_the_changes_of_its_root_and_children_also_of_those_that_left(tmp_path: Path) -> None:
    file = tmp_path / "plant.yaml"
    file.write_text(DOCUMENTS)
    pipeline, paths = load(file), TablePaths(str(tmp_path), "plant")
    history_tables.create(pipeline, paths)

    def line(pos: int, op: str, no: int, order: int | None, **more: Any) -> dict[str, Any]:
        return {"_txloom_pos": pos, "_txloom_op": op, "no": no, "order_id": order, "_txloom_before_known": [], **more}

    def row(csn: int, root: int | None, **members: Any) -> dict[str, Any]:
        return {
            "id": root,
            "_txloom_xid": f"x{csn}",
            "_txloom_csn": csn,
            "_txloom_release": 1,
            "orders": [],
            "lines": [],
            **members,
        }

    moved = {"_txloom_before": {"order_id": 7}, "_txloom_before_known": ["order_id"]}
    small_tables.append(
        paths.table("whole_stream"),
        [
            row(
                1,
                7,
                orders=[{"_txloom_pos": 1, "_txloom_op": "I", "id": 7, "note": "n"}],
                lines=[line(2, "I", 1, 7), line(3, "I", 2, 7)],
            ),
            row(1, 8, lines=[line(4, "I", 3, 8)]),
            row(2, 8, lines=[line(1, "U", 1, 8, **moved)]),
            row(3, None, lines=[line(1, "D", 2, None), line(2, "D", 3, None)]),
        ],
        schemas.stream_schema(pipeline, pipeline.targets.aggregates[0]),
    )
    story = key_story(pipeline, str(tmp_path), "whole_current", {"id": "7"})
    assert [(r["table"], r["op"], r["csn"], r["key"]) for r in story.page.rows] == [
        ("lines", "D", 3, {"no": 2}),
        ("lines", "U", 2, {"no": 1}),
        ("lines", "I", 1, {"no": 2}),
        ("lines", "I", 1, {"no": 1}),
        ("orders", "I", 1, {"id": 7}),
    ]
    assert (story.table, story.page.total, story.page.rows[1]["changed"]) == ("whole_current", 5, ["order_id"])
    of_line = key_story(pipeline, str(tmp_path), "lines", {"no": "1"})
    assert [(r["op"], r["csn"]) for r in of_line.page.rows] == [("U", 2), ("I", 1)]
