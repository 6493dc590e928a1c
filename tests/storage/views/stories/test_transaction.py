"""The story of a transaction: what came when and where, what is missing, what became of it."""

from typing import Any

import pytest

from storage.views.booked import NOON, Shop, at
from txloom.errors import ConfigurationError
from txloom.storage.delta.small_tables import append
from txloom.storage.targets import history_tables, schemas
from txloom.storage.views.stories.transaction import SHOWN, Story, TransactionName, transaction

METADATA = {"kind": "metadata", "table": None, "source_table": None, "op": None, "topic": "metadata"}


def story(shop: Shop, number: int = 1, size: int = SHOWN, **query: Any) -> Story:
    story = transaction(shop.pipeline, shop.warehouse, TransactionName(**query), number=number, size=size)
    assert story.story is not None
    assert (story.total, len(story.candidates)) == (1, 1)
    return story.story


def said(shown: Story) -> list[tuple[str, str]]:
    return [(each["what"], each["sentence"]) for each in shown.said]


def finished(number: int, status: str, **more: Any) -> dict[str, Any]:
    row = {"transaction_id": f"x{number}:{number}", "xid": f"x{number}", "csn": number, "status": status}
    return row | {"committed_at": NOON, "finished_at": at(9), "release": 1, "rows": 2, **more}


def pending(number: int, **more: Any) -> dict[str, Any]:
    row = {"transaction_id": f"x{number}:{number}", "xid": f"x{number}", "csn": number, "first_landed_at": at(1)}
    return row | {"age_seconds": 540, "as_of": at(10), "cause": "table short", **more}


def test_a_released_transaction_tells_its_way_from_messages_to_the_first_cut(shop: Shop) -> None:
    shop.land({"row": 1}, {"row": 2, "table": "parts", "source_table": "APP.PARTS", "value": '{"id": 2}'})
    shop.land({"row": 3, **METADATA, "landing": 2, "landed_at": at(5), "expected": {"items": 1, "parts": 1}})
    shop.land({"row": 9, "xid": "x2", "csn": 2})
    shop.write("transactions", finished(1, "released", finished_at=at(5)), finished(2, "released"))
    cut = {"versions": [], "gaps": [], "amends": []}
    for number, (csn, release) in enumerate([(0, 1), (5, 0), (5, 1), (6, 2)]):
        moments = {"published_at": at(number + 10), "run_id": f"r{number}"}
        shop.write("cuts", cut | moments | {"cut_id": number, "valid_through": csn, "release": release})
    history_tables.create(shop.pipeline, shop.paths)
    row = {"id": 7, "_txloom_op": "I", "_txloom_xid": "x1", "_txloom_csn": 1, "_txloom_pos": 4, "_txloom_release": 1}
    others = [row | {"_txloom_xid": "x9"}, row | {"_txloom_csn": 9}]
    append(shop.paths.table("items_changes"), [row, *others], schemas.changes_schema(shop.pipeline.table("items")))
    shown_story = story(shop, xid="x1")
    assert (
        shown_story.transaction_id,
        shown_story.csn,
        shown_story.status,
        shown_story.cause,
        shown_story.waiting,
    ) == (
        "x1:1",
        1,
        "released",
        None,
        None,
    )
    assert said(shown_story) == [
        ("landed", "2 events landed with landing 1."),
        ("landed", "1 event landed with landing 2."),
        ("metadata", "Its metadata came and counts items 1, parts 1."),
        ("released", "2 rows released into history by release 1."),
        ("shown", "Cut 2 is the first that shows it."),
    ]
    assert [(row["table"], row["expected"], row["received"]) for row in shown_story.tables] == [
        ("items", 1, 1),
        ("parts", 1, 1),
    ]
    assert shown_story.written == [
        {"table": "items", "history": "items_changes", "rows": 1, "keys": [{"op": "I", "pos": 4, "key": {"id": 7}}]}
    ]
    assert shown_story.cut is not None
    assert (shown_story.cut["cut_id"], shown_story.cut["run_id"]) == (2, "r2")
    events = shown_story.events.page.rows
    assert [(row["line"], row["table"], row["kind"], row["came"], row["value"]) for row in events] == [
        (1, "items", "row", "first", None),
        (2, "parts", "row", "first", '{"id": 2}'),
        (3, None, "metadata", "first", None),
    ]
    assert shown_story == story(shop, csn=1) == story(shop, transaction_id="x1:1")


def test_messages_are_shown_without_values_that_are_named_like_a_secret(shop: Shop) -> None:
    shop.land({"row": 1, "value": '{"id": 1, "api_key": "s", "n": 1.50}'}, {"row": 2, "value": '{"pin": "cut o'})
    shop.land({"row": 3, "value": None})
    shown = [row["value"] for row in story(shop, xid="x1").events.page.rows]
    assert shown == ['{"id": 1, "api_key": "***", "n": 1.50}', '{"pin": "***"', None]


def test_a_waiting_transaction_says_what_it_lacks_and_since_when(shop: Shop) -> None:
    shop.land({"row": 1}, {"row": 2, **METADATA, "expected": {"items": 1, "parts": 3}})
    shop.wait(pending(1, expected=[("items", 1), ("parts", 3)], received=[("items", 1)]))
    shown_story = story(shop, xid="x1")
    assert (shown_story.status, shown_story.cause, shown_story.cut, shown_story.written) == (
        "waits",
        "table short",
        None,
        [],
    )
    assert shown_story.waiting == {"since": at(1), "age_seconds": 540, "cause": "table short", "as_of": at(10)}
    assert shown_story.tables[0] == {"table": "parts", "expected": 3, "received": 0, "differs": True}
    assert said(shown_story)[-1] == ("waits", "Waits for its missing parts: table short.")
    assert shown_story.hint == (
        "The transaction waits for 3 rows of parts until the first cycle after 2026-01-01 14:01:00 UTC (2h of "
        "patience). If the source sends this by then, no action is needed: look whether its producer runs. Otherwise, "
        "the transaction becomes dead letters."
    )


@pytest.mark.parametrize(
    ("cause", "what"),
    [
        ("metadata never came", "its metadata until"),
        ("conflicting", "messages that resolve its cause: conflicting until"),
        (None, "the rest of its messages until"),
    ],
)
def test_only_a_dead_transaction_needs_a_redrive(shop: Shop, cause: str | None, what: str) -> None:
    shop.land({"row": 1})
    shop.wait(pending(1, cause=cause, expected=None, received=[("items", 1)]))
    hint = story(shop, xid="x1").hint
    assert hint is not None and hint.startswith(f"The transaction waits for {what}")
    assert "redrive" not in hint


def test_a_transaction_that_waits_for_a_partition_waits_without_a_limit(shop: Shop) -> None:
    shop.land({"row": 1})
    shop.wait(pending(1, cause="partition behind", expected=None, received=[("items", 1)]))
    hint = story(shop, xid="x1").hint
    assert hint is not None and hint.startswith("A partition of the source has not shown a later transaction yet")


def test_duplicates_conflicts_and_rows_that_nobody_watches_are_counted(shop: Shop) -> None:
    shop.land(
        {"row": 1, "identity": "a"},
        {"row": 2, "identity": "a"},
        {"row": 3, "identity": "a", "payload": 9},
        {"row": 4, "identity": "b"},
        {"row": 5, "identity": "c", "table": None, "source_table": "APP.AUDIT"},
    )
    shop.wait(pending(1, received=[("items", 2)]))
    events = story(shop, xid="x1").events
    assert [row["came"] for row in events.page.rows] == ["first", "again", "conflicting", "first", "first"]
    assert (events.duplicates, events.unwatched, events.received) == (1, 1, {"items": 2})


def test_a_dead_and_redriven_transaction_tells_both_decisions(shop: Shop) -> None:
    shop.land({"row": 1, "identity": "a"})
    shop.land({"row": 5, "identity": "a", "landing": 2, "landed_at": at(60)})
    shop.write("landed_files", {"landing": 1, "topic": "rows"}, {"landing": 2, "topic": "_txloom_redrive"})
    letter = {"transaction_id": "x1:1", "csn": 1, "kind": "row", "cause": "table short", "detail": "items 1/2"}
    shop.write(
        "dead_letters", letter | {"dead_at": at(30), "landing": 1, "topic": "rows", "file": "rows/1.jsonl", "line": 1}
    )
    shop.write("transactions", finished(1, "dead", cause="table short", finished_at=at(30)))
    dead = story(shop, xid="x1")
    assert (dead.status, dead.cause) == ("dead", "table short")
    assert [(row["cause"], row["detail"], row["events"], row["open"]) for row in dead.letters] == [
        ("table short", "items 1/2", 1, 1)
    ]
    shop.write("transactions", finished(1, "released", finished_at=at(60), release=2))
    shown_story = story(shop, xid="x1")
    assert (shown_story.status, shown_story.cause, shown_story.letters[0]["open"]) == ("released", None, 0)
    assert said(shown_story) == [
        ("landed", "1 event landed with landing 1."),
        ("dead", "Given up by release 1: table short."),
        ("redriven", "1 event landed with landing 2, redriven."),
        ("released", "2 rows released into history by release 2."),
        ("not shown", "No cut shows it yet."),
    ]
    assert [(row["redriven"], row["came"]) for row in shown_story.events.page.rows] == [
        (False, "first"),
        (True, "first"),
    ]
    assert (shown_story.events.duplicates, shown_story.events.received) == (0, {"items": 1})


def test_a_dead_transaction_that_is_complete_now_says_so(shop: Shop) -> None:
    dead = finished(1, "dead", cause="table short", finished_at=at(3))
    shop.write("transactions", dead, dead | {"cause": "complete now", "finished_at": at(8), "release": 2})
    shop.land({"row": 1})
    shown_story = story(shop, csn=1)
    assert (shown_story.status, shown_story.cause) == ("dead", "complete now")
    assert said(shown_story)[-1] == (
        "complete now",
        "What was missing has come (by release 2): it waits for a redrive.",
    )


def test_an_xid_that_wrapped_around_lists_its_transactions(shop: Shop) -> None:
    rows = [finished(n, "released", transaction_id=f"x1:{n}", xid="x1") for n in range(1, 61)]
    shop.write("transactions", *rows)
    shop.wait(pending(99, transaction_id="x1:99", xid="x1"))
    shown_story = transaction(shop.pipeline, shop.warehouse, TransactionName(xid="x1"))
    assert (shown_story.story, shown_story.total, len(shown_story.candidates)) == (None, 61, 50)
    assert [(row["transaction_id"], row["status"]) for row in shown_story.candidates[:2]] == [
        ("x1:1", "released"),
        ("x1:2", "released"),
    ]
    assert story(shop, csn=99).status == "waits"


def test_what_the_buffer_has_not_seen_and_what_nobody_watches_is_found_among_what_was_landed(shop: Shop) -> None:
    shop.land({"row": 1, "table": None, "source_table": "APP.AUDIT"}, {"row": 2, "xid": "x2", "csn": 2, "landing": 7})
    shop.wait(landing=6)
    assert (story(shop, xid="x1").status, story(shop, xid="x2").status) == ("unwatched", "landed")


def test_poison_that_tells_its_transaction_belongs_to_its_story(shop: Shop) -> None:
    shop.land(
        {"row": 1}, {"row": 2, "kind": "poison", "transaction_id": None, "cause": "broken JSON", "detail": "at 3"}
    )
    shop.write("transactions", finished(1, "released"))
    rows = story(shop, xid="x1").events.page.rows
    assert [(row["kind"], row["cause"]) for row in rows] == [("row", None), ("poison", "broken JSON")]


def test_a_large_transaction_comes_in_pages_with_the_right_totals(shop: Shop) -> None:
    shop.land(*({"row": number} for number in range(1_000)))
    shop.write("transactions", finished(1, "released"))
    shown_story = story(shop, xid="x1", number=4, size=300)
    assert (shown_story.events.page.total, shown_story.events.page.pages, len(shown_story.events.page.rows)) == (
        1_000,
        4,
        100,
    )
    assert (shown_story.events.received, shown_story.events.duplicates) == ({"items": 1_000}, 0)


def test_a_released_transaction_that_no_cut_shows_says_what_holds_it_up(shop: Shop) -> None:
    shop.land({"row": 1, "xid": "x5", "csn": 5})
    shop.write("transactions", finished(5, "released"))
    shop.wait(pending(3))
    shop.step("publish", 30)
    last = story(shop, xid="x5").said[-1]
    assert (last["what"], last["sentence"]) == ("not shown", "No cut shows it yet; the lowest that waits is csn 3.")


def test_nothing_is_known_of_what_never_came(shop: Shop) -> None:
    for query in ({"xid": "x' or 'a' = 'a"}, {"csn": 7}, {"transaction_id": ""}, {"xid": ""}):
        story = transaction(shop.pipeline, shop.warehouse, TransactionName(**query))  # type: ignore[arg-type]
        assert (story.story, story.candidates, story.total, story.as_of) == (None, [], 0, None)
    shop.land({"row": 1})
    shop.write("transactions", finished(1, "released"))
    assert transaction(shop.pipeline, shop.warehouse, TransactionName(xid="x' or 'a' = 'a")).total == 0


def test_one_name_of_a_transaction_is_asked_for(shop: Shop) -> None:
    for query in ({}, {"xid": "x1", "csn": 1}):
        with pytest.raises(ConfigurationError) as refused:
            transaction(shop.pipeline, shop.warehouse, TransactionName(**query))  # type: ignore[arg-type]
        assert str(refused.value) == "which transaction? give one of xid, csn and transaction_id"
