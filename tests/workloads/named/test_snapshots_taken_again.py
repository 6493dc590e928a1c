"""A connector takes its snapshot again beside the stream: the tables end as the source is, or a finding says so."""

import json
import os
import re
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest

from oracle.capture import Image, Message
from oracle.declarations import Table
from txloom import read
from txloom.config import load
from txloom.errors import BeforeHistory
from txloom.quality import findings as f
from txloom.quality.dead_letters import ALL
from txloom.steps.dead_letters.dismiss import dismiss
from txloom.steps.dead_letters.redrive import redrive
from txloom.steps.landing import pending_work
from txloom.storage.checks import findings
from txloom.storage.views.pipeline.overview import UNREAD, health
from workloads.inbox import Producer
from workloads.judging import assert_newest
from workloads.named.test_named_lakes import (
    LOG,
    PLAIN,
    assert_right,
    commit,
    cycle,
    inserted,
    lake_of,
    messages,
    row,
)
from workloads.play import Play
from workloads.small_lake import SmallLake
from workloads.sources.database import Sent, State

pytestmark = pytest.mark.long

KNOWN = ["debezium/postgresql", "debezium/mysql"]
"""Connectors whose rows tell a snapshot that begins the stream from one that somebody asked for."""
OTHER = Table("other", "APP.OTHER", ("id",), {"id": "long", "v": "string"})


def taken(
    made: Play, csn: int, state: State, *, on_demand: bool = False, names: Sequence[str] = ()
) -> list[list[Message]]:
    """Return the rows of a snapshot of a state, and let the source have had that state at its csn."""
    made.sent.append(Sent("", csn, [], None, state, (), -1))
    return list(made.writer.snapshot(state, csn, [*(names or state)], on_demand=on_demand))


def flat(*groups: Sequence[Sequence[Message]]) -> list[Message]:
    return [message for rows in groups for group in rows for message in group]


def rows_of(table: Table, *rows: Image) -> dict[tuple[str, ...], Image]:
    return {tuple(str(each[c]) for c in table.key) or (f"#{n}",): each for n, each in enumerate(rows)}


def needing(lake: SmallLake) -> list[tuple[str, str | None, int]]:
    """Return the open findings that need a snapshot: code, table, csn."""
    rows = findings.open_findings(lake.paths)
    return [(each["code"], each["table"], each["since_csn"]) for each in rows if each["needs_snapshot"]]


@pytest.mark.parametrize("source", KNOWN)
@pytest.mark.parametrize("table", [PLAIN, LOG], ids=["with a key", "without a key"])
@pytest.mark.parametrize("early", [2, 0, 1])
def test_it_replaces_the_table_at_once_and_what_was_deleted_meanwhile_is_gone(
    tmp_path: Path, source: str, table: Table, early: int
) -> None:
    """early: rows that come one landing before the others."""
    lake, made, producer = lake_of(tmp_path, source, table)
    first = commit(made, 1000, *[("I", None, row(n, "a")) for n in (1, 2, 3)])
    cycle(lake, producer, messages(first))
    assert_right(lake, made)
    rows = taken(made, 2000, {table.name: rows_of(table, row(2, "a"), row(3, "changed"), row(4, "new"))})
    for part in (rows[:early], rows[early:]):
        cycle(lake, producer, flat(part))
        assert lake.shown_through() == 1000
    cycle(lake, producer, ())
    assert lake.shown_through() == 2000
    last = commit(made, 3000, ("I", None, row(9, "later")))
    cycle(lake, producer, messages(last))
    assert lake.shown_through() == 3000
    assert_right(lake, made)
    assert needing(lake) == []
    if table.key:
        for csn, ids in ((1000, {1, 2, 3}), (1999, {1, 2, 3}), (2000, {2, 3, 4}), (2999, {2, 3, 4})):
            there = read.as_of(lake.pipeline, table.name, csn=csn, warehouse=lake.warehouse).to_pylist()
            assert {each["id"] for each in there} == ids, csn


@pytest.mark.parametrize("source", KNOWN)
@pytest.mark.parametrize("table", [PLAIN, LOG], ids=["with a key", "without a key"])
def test_it_replaces_one_that_ended_in_the_same_landing_before_any_change_came(
    tmp_path: Path, source: str, table: Table
) -> None:
    lake, made, producer = lake_of(tmp_path, source, table)
    first = taken(made, 1000, {table.name: rows_of(table, row(1, "a"), row(2, "b"))})
    second = taken(made, 2000, {table.name: rows_of(table, row(2, "b"), row(3, "c"))})
    cycle(lake, producer, flat(first, second), ())
    assert lake.shown_through() == 2000
    assert_right(lake, made)
    assert needing(lake) == []


def test_a_change_below_it_that_comes_late_changes_nothing(tmp_path: Path) -> None:
    lake, made, producer = lake_of(tmp_path, "debezium/postgresql", PLAIN)
    first = commit(made, 1000, ("I", None, row(1, "a")))
    late = commit(made, 1500, ("I", None, row(2, "late")))
    cycle(lake, producer, messages(first))
    cycle(lake, producer, flat(taken(made, 2000, {"t": rows_of(PLAIN, row(3, "b"))})), ())
    cycle(lake, producer, messages(late))
    assert lake.shown_through() == 2000
    assert_newest(lake, made)
    last = commit(made, 3000, ("U", row(3, "b"), row(3, "c")))
    cycle(lake, producer, messages(last))
    assert_newest(lake, made)


@pytest.mark.parametrize("source", KNOWN)
def test_one_that_was_given_up_and_begun_again_leaves_nothing_of_either(tmp_path: Path, source: str) -> None:
    lake, made, producer = lake_of(tmp_path, source, PLAIN, more=[OTHER])
    state: State = {"t": rows_of(PLAIN, row(1, "a"), row(2, "b")), "other": {}}
    cycle(lake, producer, messages(inserted(made, 1000, {"t": rows_of(PLAIN, row(1, "a")), "other": {}}, row(1, "a"))))
    given_up = made.writer.snapshot({**state, "other": rows_of(OTHER, row(5, "x"), row(6, "y"))}, 1500, ["other", "t"])
    cycle(lake, producer, flat(given_up[:3]))
    whole = taken(made, 2000, {"t": rows_of(PLAIN, row(2, "b")), "other": {}})
    cycle(lake, producer, flat(whole), ())
    assert lake.shown_through() == 2000
    assert_right(lake, made)
    assert needing(lake) == [], "the connector reads the other table, as the first attempt shows"
    as_of = partial(read.as_of, lake.pipeline, warehouse=lake.warehouse)
    for csn in (1500, 1999):
        with pytest.raises(BeforeHistory, match=f"as of csn {csn}: the connector gave up its snapshot at csn 1500 and"):
            as_of("t", csn=csn)
    assert [as_of("t", csn=csn).column("id").to_pylist() for csn in (1499, 2000)] == [[1], [2]]


def test_a_table_of_which_it_has_no_row_keeps_its_rows_and_a_finding_names_it(tmp_path: Path) -> None:
    """The connector sends nothing of an empty table, and nothing of one that it does not read."""
    lake, made, producer = lake_of(tmp_path, "debezium/postgresql", PLAIN, more=[OTHER])
    old: State = {"t": rows_of(PLAIN, row(1, "a"), row(2, "b")), "other": rows_of(OTHER, row(5, "x"))}
    cycle(lake, producer, flat(taken(made, 1000, old)), ())
    assert lake.shown_through() == 1000 and needing(lake) == []
    rows = made.writer.snapshot({"t": rows_of(PLAIN, row(2, "b"))}, 2000, ["t"])
    made.sent.append(Sent("", 2000, [], None, {**old, "t": rows_of(PLAIN, row(2, "b"))}, (), -1))
    cycle(lake, producer, flat(rows), ())
    assert lake.shown_through() == 2000
    assert_newest(lake, made)
    assert needing(lake) == [(f.READ_AGAIN, "other", 2000)]
    evidence = findings.open_findings(lake.paths)[0]["evidence"]
    assert evidence == "the connector took its snapshot again at csn 2000, which has no row of the table"
    whole = taken(made, 3000, {"t": rows_of(PLAIN, row(7, "c")), "other": rows_of(OTHER, row(8, "z"))})
    cycle(lake, producer, flat(whole), ())
    assert_newest(lake, made)
    assert needing(lake) == []


@pytest.mark.parametrize("source", [*KNOWN, "debezium/oracle", "debezium/sqlserver"])
def test_one_of_some_rows_takes_none_away_and_a_finding_says_that_they_may_be_gone(tmp_path: Path, source: str) -> None:
    """A connector that was asked may read some rows alone; of Oracle's and SQL Server's it cannot be told."""
    lake, made, producer = lake_of(tmp_path, source, PLAIN)
    first = commit(made, 1000, ("I", None, row(1, "a")), ("I", None, row(2, "b")))
    cycle(lake, producer, messages(first))
    state = dict(made.sent[-1].state)
    some = made.writer.snapshot({"t": rows_of(PLAIN, row(2, "b"))}, 2000, ["t"], on_demand=True)
    last = commit(made, 3000, ("I", None, row(9, "later")))
    cycle(lake, producer, flat(some), (), messages(last))
    assert lake.shown_through() == 3000
    assert_right(lake, made)
    assert needing(lake) == [(f.READ_AGAIN, "t", 2000)]
    every = made.writer.snapshot({"t": state["t"] | rows_of(PLAIN, row(9, "later"))}, 4000, ["t"], on_demand=True)
    end = commit(made, 5000, ("I", None, row(10, "end")))
    cycle(lake, producer, flat(every), (), messages(end))
    assert_right(lake, made)
    assert needing(lake) == [], "no row is older than what was read"


@pytest.mark.parametrize("source", KNOWN)
def test_one_whose_messages_were_removed_before_the_stream_went_on_replaces_the_table(
    tmp_path: Path, source: str
) -> None:
    """On an idle source, messages can expire before the next change: the restart of the stream was then unknown."""
    lake, made, producer = lake_of(tmp_path, source, PLAIN)
    cycle(lake, producer, messages(commit(made, 1000, ("I", None, row(1, "a")), ("I", None, row(2, "b")))))
    again = taken(made, 2000, {"t": rows_of(PLAIN, row(2, "b"))})
    cycle(lake, producer, flat(again))
    lake.forget()
    cycle(lake, producer, messages(commit(made, 3000, ("I", None, row(9, "later")))), ())
    assert lake.shown_through() == 3000
    assert_newest(lake, made)
    assert needing(lake) == []


def test_one_whose_end_is_lost_takes_no_row_away_and_names_all_tables(tmp_path: Path) -> None:
    lake, made, producer = lake_of(tmp_path, "debezium/postgresql", PLAIN, more=[OTHER])
    state: State = {"t": rows_of(PLAIN, row(1, "a"), row(2, "b")), "other": rows_of(OTHER, row(5, "x"))}
    cycle(lake, producer, flat(taken(made, 1000, state)), ())
    part = made.writer.snapshot({"t": rows_of(PLAIN, row(2, "b"), row(3, "c"))}, 2000, ["t"])[:1]
    last = inserted(made, 3000, {**state, "t": state["t"] | rows_of(PLAIN, row(9, "d"))}, row(9, "d"))
    cycle(lake, producer, flat(part), messages(last), ())
    assert lake.shown_through() == 3000
    assert_newest(lake, made)
    assert needing(lake) == [(f.READ_AGAIN, "other", 2000), (f.READ_AGAIN, "t", 2000)]


def test_one_below_what_is_shown_takes_no_row_away_and_a_finding_names_the_source(tmp_path: Path) -> None:
    """The log of a server that was restored begins lower: what follows cannot be put in order."""
    lake, made, producer = lake_of(tmp_path, "debezium/postgresql", PLAIN)
    cycle(lake, producer, flat(taken(made, 1000, {"t": rows_of(PLAIN, row(1, "a"), row(2, "b"))})), ())
    below = made.writer.snapshot({"t": rows_of(PLAIN, row(2, "b"))}, 500, ["t"])
    cycle(lake, producer, flat(below), ())
    assert_newest(lake, made)
    assert needing(lake) == [(f.CSN_BACK, None, 500)]


def test_several_are_shown_one_after_the_other(tmp_path: Path) -> None:
    lake, made, producer = lake_of(tmp_path, "debezium/postgresql", PLAIN)
    cycle(lake, producer, flat(taken(made, 1000, {"t": rows_of(PLAIN, row(1, "a"), row(2, "b"))})), ())
    second = taken(made, 2000, {"t": rows_of(PLAIN, row(2, "b"), row(3, "c"))})
    third = taken(made, 3000, {"t": rows_of(PLAIN, row(3, "c"), row(4, "d"))})
    cycle(lake, producer, flat(second, third), ())
    assert lake.shown_through() == 3000
    assert_right(lake, made)
    there = read.as_of(lake.pipeline, "t", csn=2000, warehouse=lake.warehouse).to_pylist()
    assert {each["id"] for each in there} == {2, 3}


NUMBERED = Table("t", "APP.T", ("id",), {"id": "long", "n": "int"})


WRITTEN, UNREADABLE = "123454321", "99999999999"
"""A number of a row, and what the connector writes for it: one that is too large for the declared type."""


def numbered(key: int, n: int | str) -> Image:
    return {"id": str(key), "n": str(n)}


def held(folder: Path, *, is_first: bool) -> tuple[SmallLake, Play, Producer]:
    """Return a lake whose snapshot at csn 2000 has a row that cannot be read; is_first: nothing came before it."""
    lake, made, producer = lake_of(folder, "debezium/postgresql", NUMBERED, more=[OTHER])
    old: State = {"t": rows_of(NUMBERED, numbered(1, 1)), "other": rows_of(OTHER, row(5, "x"))}
    if not is_first:
        cycle(lake, producer, flat(taken(made, 1000, old)), ())
        assert lake.shown_through() == 1000
    new: State = {"t": rows_of(NUMBERED, numbered(2, WRITTEN), numbered(3, 3)), "other": rows_of(OTHER, row(6, "y"))}
    rows = taken(made, 2000, new)
    sent = [(topic, text.replace(WRITTEN, UNREADABLE)) for topic, text in flat(rows)]
    cycle(lake, producer, sent, (), ())
    assert (lake.shown_through() or 0) < 2000
    return lake, made, producer


def unread(lake: SmallLake) -> list[tuple[str, str]]:
    return [(each.severity, each.what) for each in health(lake.pipeline, lake.warehouse).reasons if each.kind == UNREAD]


@pytest.mark.parametrize("is_first", [True, False], ids=["the first", "taken again"])
def test_one_with_a_row_that_cannot_be_read_is_held_until_somebody_dismisses_it(tmp_path: Path, is_first: bool) -> None:
    lake, made, producer = held(tmp_path, is_first=is_first)
    if not is_first:
        assert_newest(lake, made)
    (letter,) = lake.rows("dead_letters")
    assert (letter["table"], letter["csn"], letter["op"]) == ("t", 2000, "r")
    what = "1 row of the source's snapshot at csn 2000 cannot be read (t: 1). Valid-through stays at most 1999."
    assert unread(lake) == [("error", what)]
    lake.step(dismiss, None, ALL, person="Ada", reason="known")
    assert "dead letters of the source's snapshot were dismissed" in pending_work.reasons(
        lake.pipeline, lake.warehouse, 0
    )
    cycle(lake, producer, ())
    assert lake.shown_through() == 2000 and unread(lake) == []
    assert {each["id"] for each in lake.rows("t")} == {3} and {each["id"] for each in lake.rows("other")} == {6}


@pytest.mark.parametrize("is_first", [True, False], ids=["the first", "taken again"])
def test_one_whose_row_is_redriven_as_it_was_stays_held(tmp_path: Path, is_first: bool) -> None:
    lake, _, producer = held(tmp_path, is_first=is_first)
    lake.step(redrive, None, ALL)
    assert unread(lake), "the buffer has not taken it yet"
    cycle(lake, producer, ())
    assert (lake.shown_through() or 0) < 2000 and unread(lake)


@pytest.mark.parametrize("is_first", [True, False], ids=["the first", "taken again"])
def test_one_whose_row_can_be_read_as_it_is_declared_now_is_shown_whole(tmp_path: Path, is_first: bool) -> None:
    lake, _, producer = held(tmp_path, is_first=is_first)
    file = tmp_path / "workload.yaml"
    text = file.read_text()
    file.write_text(re.sub(r"\bn: int", "n: long", text))
    assert file.read_text() != text
    lake.pipeline = load(file)
    lake.step(redrive, None, ALL)
    cycle(lake, producer, ())
    assert lake.shown_through() == 2000 and unread(lake) == []
    assert {each["id"]: each["n"] for each in lake.rows("t")} == {2: int(UNREADABLE), 3: 3}


def test_one_whose_last_message_is_cut_off_for_longer_than_patience_is_held(tmp_path: Path) -> None:
    """The file of a topic ends inside a message."""
    lake, made, producer = lake_of(tmp_path, "debezium/postgresql", PLAIN, more=[OTHER])
    state: State = {"t": rows_of(PLAIN, row(1, "a"), row(2, "b")), "other": rows_of(OTHER, row(5, "x"))}
    (topic, first), (_, last), of_other = flat(taken(made, 1000, state, names=["t", "other"]))
    producer.deliver([of_other])
    file = tmp_path / "inbox" / topic / "1.jsonl"
    file.parent.mkdir()
    file.write_text(f"{first}\n{last[:40]}")
    os.utime(file, (0, 0))
    lake.run()
    lake.run()
    assert lake.shown_through() is None
    what = "1 row of the source's snapshot at csn 1000 cannot be read (?: 1). Valid-through stays at most 999."
    assert unread(lake) == [("error", what)]
    lake.step(redrive, None, ALL)
    lake.run()
    assert lake.shown_through() is None
    file.write_text(f"{first}\n{last}\n")
    lake.run()
    lake.run()
    assert lake.shown_through() == 1000 and unread(lake) == []
    assert {each["id"] for each in lake.rows("t")} == {1, 2}


def beside(made: Play, state: State, sequence: str) -> list[Message]:
    """Return rows of an incremental snapshot, as PostgreSQL's connector sends them."""
    rows = flat(made.writer.snapshot(state, 2000, [*state]))
    return [(topic, as_incremental(text, sequence)) for topic, text in rows]


def as_incremental(text: str, sequence: str, seconds: int = -30) -> str:
    """Return a row of a snapshot as one that was read beside the stream, so many seconds behind the commits."""
    message = json.loads(text)
    record = message if isinstance(message.get("value"), str) else None
    inner = json.loads(record["value"]) if record else message
    payload = inner.get("payload", inner)
    at = payload["source"]["ts_ms"] + 1_000 * seconds
    payload["source"] |= {"snapshot": "incremental", "sequence": sequence, "lsn": None, "ts_ms": at}
    return json.dumps({**record, "value": json.dumps(inner)} if record else inner)


def test_rows_that_nobody_asked_for_leave_older_ones_and_a_finding_names_their_table(tmp_path: Path) -> None:
    lake, made, producer = lake_of(tmp_path, "debezium/postgresql", PLAIN)
    cycle(lake, producer, messages(commit(made, 1000, *[("I", None, row(n, "a")) for n in (1, 2)])))
    cycle(lake, producer, beside(made, {"t": rows_of(PLAIN, row(2, "a"))}, '["1000","1008"]'))
    cycle(lake, producer, ())
    assert_right(lake, made)
    assert needing(lake) == [], "no row is older: both are of this commit"
    cycle(lake, producer, messages(commit(made, 2000, ("I", None, row(3, "b")))))
    cycle(lake, producer, beside(made, {"t": rows_of(PLAIN, row(3, "b"))}, '["2000","2008"]'))
    cycle(lake, producer, ())
    assert_right(lake, made)
    assert needing(lake) == [(f.READ_AGAIN, "t", 2000)]


def test_an_attempt_that_was_given_up_is_not_shown_while_the_next_one_waits(tmp_path: Path) -> None:
    """Of MySQL the first transaction behind a snapshot has its csn, and valid-through stays below what waits."""
    lake, made, producer = lake_of(tmp_path, "debezium/mysql", PLAIN)
    cycle(lake, producer, messages(commit(made, 1000, ("I", None, row(1, "a")))))
    given_up = made.writer.snapshot({"t": rows_of(PLAIN, row(1, "a"), row(2, "b"))}, 1500, ["t"])[:1]
    whole = taken(made, 2000, {"t": rows_of(PLAIN, row(2, "b"))})
    behind = commit(made, 2000, ("I", None, row(3, "c")))
    cycle(lake, producer, [*flat(given_up, whole), *behind.rows], ())
    assert lake.shown_through() == 1000
    assert_newest(lake, made)
    cycle(lake, producer, messages(behind))
    assert lake.shown_through() == 2000
    assert_right(lake, made)
