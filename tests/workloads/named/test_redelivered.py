"""Rows that came again, and of which the message of an earlier delivery was removed."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from oracle.declarations import Table
from txloom.config import load
from txloom.steps.backfill import rebuild
from txloom.storage.dead_letters import open_letters
from txloom.storage.delta import data_files
from txloom.storage.spark import tasks
from txloom.transactions import memory
from workloads.named.test_edited_lakes import GTIDS, OTHER, declared, ids_of, insert, insert_both
from workloads.named.test_named_lakes import PLAIN, compared, cycle, lake_of, messages
from workloads.named.test_snapshots_taken_again import needing
from workloads.operations import OPERATE
from workloads.play import impatient
from workloads.small_lake import SmallLake

pytestmark = pytest.mark.long

NUMBERED = """
name: shop
source: {{format: change_sets, files: {{path: {inbox}, settle: 0s}}, change_sets: {{transaction: TX}}}}
completeness: {{rule: progress}}
tables: [{{name: a, source: APP.A, key: none, columns: {{id: long{more}}}}}]
targets: {{mirrors: [a]}}
"""


@pytest.mark.parametrize("source", ["change_events", "change_sets"])
def test_rows_whose_messages_are_gone_are_made_again_of_those_that_came_again(tmp_path: Path, source: str) -> None:
    lake, made, producer = lake_of(tmp_path, source, PLAIN)
    text = declared(tmp_path, made, [replace(PLAIN, key=())]).read_text()
    (tmp_path / "workload.yaml").write_text(text.replace("      v: string\n", ""))
    lake.pipeline = load(tmp_path / "workload.yaml")
    changes = messages(insert(made, 1000, PLAIN, 1), insert(made, 1010, PLAIN, 2))
    cycle(lake, producer, changes)
    lake.forget()
    cycle(lake, producer, changes)
    (tmp_path / "workload.yaml").write_text(text)
    lake.pipeline = load(tmp_path / "workload.yaml")
    cycle(lake, producer, ())
    assert needing(lake) == []
    assert sorted((each["id"], each["v"]) for each in lake.rows("t")) == [(1, "a"), (2, "a")]


@pytest.mark.parametrize("source", ["change_events", "change_sets"])
def test_a_backfill_of_rows_that_came_again_finds_them_where_they_are(tmp_path: Path, source: str) -> None:
    lake, made, producer = lake_of(tmp_path, source, PLAIN)
    lake.pipeline = load(declared(tmp_path, made, [replace(PLAIN, key=())]))
    changes = messages(insert(made, 1000, PLAIN, 1), insert(made, 1010, PLAIN, 2))
    for sent in (changes, [*changes, *messages(insert(made, 1020, PLAIN, 3))]):
        producer.deliver(sent)
        lake.land()
    lake.run()
    lake.forget("landing = 1")
    counts = compared(lake)
    assert (counts["transactions"], counts["rebuilt"], counts["changes"]) == (3, 3, 0)


@pytest.mark.parametrize("source", ["change_events", "change_sets"])
@pytest.mark.parametrize("removed", ["kind = 'row'", "kind = 'row' and landing = 2"], ids=["all gone", "some kept"])
def test_a_row_has_the_position_that_it_was_released_under_and_not_that_of_an_unwatched_delivery(
    tmp_path: Path, source: str, removed: str
) -> None:
    lake, made, producer = lake_of(tmp_path, source, PLAIN, more=[OTHER])
    without_key = replace(OTHER, key=())
    lake.pipeline = load(declared(tmp_path, made, [PLAIN]))
    changes = messages(insert(made, 1000, OTHER, 1), insert(made, 1010, OTHER, 2))
    cycle(lake, producer, changes)
    lake.pipeline = load(declared(tmp_path, made, [PLAIN, without_key]))
    cycle(lake, producer, ())
    assert {each["_txloom_landing"] for each in lake.rows("other_changes")} == {2}
    lake.forget(removed)
    cycle(lake, producer, changes)
    counts = compared(lake)
    assert counts["changes"] == 0
    assert sorted(each["id"] for each in lake.rows("other")) == [1, 2]


@pytest.mark.parametrize("is_redeclared", [False, True], ids=["as it was", "with another column"])
def test_parts_of_a_large_transaction_have_the_positions_that_it_was_released_under(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_redeclared: bool
) -> None:
    def declare_with(more: str) -> None:
        (tmp_path / "shop.yaml").write_text(NUMBERED.format(inbox=tmp_path / "inbox", more=more))
        lake.pipeline = load(tmp_path / "shop.yaml")

    def send(name: str, numbers: Sequence[int], *after: dict[str, object]) -> None:
        row = {"FLAG": "I", "CDC_TIMESTAMP": "2026-01-01T00:00:01Z", "TX": 1, "ID": 1}
        lines = [json.dumps(each) for each in [*({**row, "N": number} for number in numbers), *after]]
        (tmp_path / "inbox" / "APP.A" / f"{name}.jsonl").write_text("".join(f"{line}\n" for line in lines))
        lake.land()

    (tmp_path / "inbox" / "APP.A").mkdir(parents=True)
    (tmp_path / "shop.yaml").write_text(NUMBERED.format(inbox=tmp_path / "inbox", more=""))
    lake = SmallLake(tmp_path, load(tmp_path / "shop.yaml"))
    declare_with("" if is_redeclared else ", n: long")
    monkeypatch.setattr(data_files, "ROW_GROUP", 2)
    send("1", range(10, 14))
    send("2", range(9, 14), {"FLAG": "H", "TX": 2})
    lake.run()
    released = sorted(each["_txloom_pos"] for each in lake.rows("a_changes"))
    lake.forget("kind = 'row' and landing = 1")
    monkeypatch.setattr(tasks, "in_tasks", lambda _, items, work: [made for each in items for made in work([each])])
    monkeypatch.setattr(rebuild, "SHARE", 2)
    in_shares = rebuild._histories_in_shares
    monkeypatch.setattr(rebuild, "_histories", lambda scope, chosen: in_shares(lambda: None, scope, chosen, 100))
    if is_redeclared:
        declare_with(", n: long")
        lake.run()
        assert needing(lake) == []
    else:
        counts = compared(lake)
        assert (counts["transactions"], counts["rebuilt"], counts["changes"]) == (1, 1, 0)
    assert sorted(each["_txloom_pos"] for each in lake.rows("a_changes")) == released
    assert len(released) == len(lake.rows("a")) == 5


@pytest.mark.parametrize("source", ["debezium/mysql", "debezium/oracle"])
@pytest.mark.parametrize("watched", [[PLAIN], []], ids=["one table watched", "no table of it watched"])
@pytest.mark.parametrize("came", ["again whole", "a row again", "a row late"])
def test_a_transaction_that_came_again_after_an_edit_is_released_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, watched: Sequence[Table], came: str
) -> None:
    """Released without its csn, or with a lower one, and again with that of the row that is watched since."""
    monkeypatch.setattr(memory, "REMEMBERED", 1)
    third = replace(OTHER, name="third", source="APP.THIRD")
    lake, made, producer = lake_of(tmp_path, source, PLAIN, GTIDS, more=[OTHER, third])
    lake.pipeline = load(declared(tmp_path, made, [third, *watched]))
    sent = insert_both(made, 1000)
    of_other = [message for message in messages(sent) if "APP.OTHER" in message[0]]
    first = [message for message in messages(sent) if came != "a row late" or message not in of_other]
    cycle(lake, producer, first, *(messages(insert(made, 900 + 10 * n, third, n)) for n in range(4)))
    lake.pipeline = impatient(load(declared(tmp_path, made, [third, PLAIN, OTHER])))
    cycle(lake, producer, ())
    cycle(lake, producer, messages(sent) if came == "again whole" else of_other)
    OPERATE["redrive"](lake, made)
    cycle(lake, producer, messages(insert(made, 1010, third, 5)))
    assert (ids_of(lake, "t"), ids_of(lake, "other"), needing(lake)) == ([1], [1], [])
    assert [len(lake.rows(name)) for name in ("t_changes", "other_changes")] == [1, 1]
    assert not open_letters.open_dead_letters(lake.paths, "kind").num_rows
    assert came == "a row late" or compared(lake)["changes"] == 0


def test_metadata_that_counted_by_an_earlier_declaration_is_closed_with_its_transaction(tmp_path: Path) -> None:
    """An END of MySQL has no csn, and a redrive lands the newest one: the older one stayed an open dead letter."""
    lake, made, producer = lake_of(tmp_path, "debezium/mysql", PLAIN, GTIDS, more=[OTHER])
    lake.pipeline = impatient(load(declared(tmp_path, made, [PLAIN, OTHER])))
    sent = insert_both(made, 1000)
    assert sent.metadata is not None
    cycle(lake, producer, [sent.metadata])
    lake.pipeline = impatient(load(declared(tmp_path, made, [PLAIN])))
    cycle(lake, producer, messages(sent))
    OPERATE["redrive"](lake, made)
    assert ids_of(lake, "t") == [1]
    assert not open_letters.open_dead_letters(lake.paths, "kind").num_rows


@pytest.mark.parametrize("content", [{"after": {"ID": 1, "V": "forged"}}, {"pos": "9" * 18}], ids=["values", "place"])
def test_a_backfill_does_not_take_a_row_that_came_late_for_one_whose_message_is_gone(
    tmp_path: Path, content: dict[str, object]
) -> None:
    lake, made, producer = lake_of(tmp_path, "goldengate", PLAIN)
    sent = insert(made, 1000, PLAIN, 1)
    cycle(lake, producer, messages(sent))
    topic, text = sent.rows[0]
    forged = (topic, json.dumps(json.loads(text) | content))
    cycle(lake, producer, [forged, *messages(insert(made, 1010, PLAIN, 2))])
    assert open_letters.open_dead_letters(lake.paths, "kind").num_rows == 1
    lake.forget("kind = 'row' and landing = 1")
    counts = compared(lake)
    assert (counts["gone"], counts["rebuilt"], counts["changes"]) == (1, 1, 0)
