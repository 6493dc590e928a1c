"""What random workloads found, each as the shortest workload that shows it."""

from collections.abc import Sequence
from pathlib import Path
from random import Random

import pytest

from oracle.capture import Image, Message
from oracle.declarations import Table
from txloom.quality import findings as f
from txloom.storage import findings
from workloads.database import Change, Sent, State
from workloads.debezium import Debezium
from workloads.dimensions import Dimensions
from workloads.inbox import Producer
from workloads.judging import assert_every_version_is_a_state, assert_newest
from workloads.play import WRITERS, Play, declared
from workloads.shapes import Shape
from workloads.small_lake import SmallLake

PLAIN = Table("t", "APP.T", ("id",), {"id": "long", "v": "string"})
LOG = Table("log", "APP.LOG", (), {"id": "long", "v": "string"})


def lake_of(folder: Path, source: str, table: Table, seed: int = 1) -> tuple[SmallLake, Play, Producer]:
    """Return a lake of one table of a source that has sent nothing yet."""
    dimensions, chance = Dimensions(source=source), Random(seed)
    shape = Shape({table.name: table}, None, dimensions)
    writer = WRITERS.get(source, Debezium)(shape, chance)
    made = Play(seed, chance, dimensions, shape, writer, [], [])
    pipeline, producer = declared(folder, made)
    return SmallLake(folder, pipeline), made, producer


def commit(made: Play, csn: int, *changes: tuple[str, Image | None, Image | None]) -> Sent:
    """Commit changes of the one table: operation, row before, row after."""
    (table,) = made.made.tables.values()
    rows = dict(made.sent[-1].state[table.name]) if made.sent else {}
    for number, (_, before, after) in enumerate(changes):
        if before is not None:
            del rows[_key(before, table)]
        if after is not None:
            rows[_key(after, table) or (f"#{csn}.{number}",)] = after
    own = [Change(table, op, before, after, tuple(table.columns)) for op, before, after in changes]
    sent = Sent("", csn, [], None, {table.name: rows}, own, len(made.sent))
    made.writer.write(sent)
    made.sent.append(sent)
    return sent


def _key(row: Image, table: Table) -> tuple[str, ...]:
    return tuple(str(row[column]) for column in table.key)


def messages(*sent: Sent) -> list[Message]:
    return [message for each in sent for message in [*each.rows, *([each.metadata] if each.metadata else [])]]


def row(number: int, value: str | None) -> Image:
    return {"id": str(number), "v": value}


def assert_right(lake: SmallLake, made: Play) -> None:
    assert_newest(lake, made)
    assert_every_version_is_a_state(lake, made)
    assert not lake.rows("dead_letters")


def cycle(lake: SmallLake, producer: Producer, *sent: Sequence[Message]) -> None:
    for each in sent:
        producer.deliver(each)
        lake.run()


@pytest.mark.parametrize("source", ["debezium/oracle", "debezium/mysql"])
@pytest.mark.parametrize("seed", [1, 2])
def test_ends_without_a_commit_position_are_landed_run_after_run(tmp_path: Path, source: str, seed: int) -> None:
    """Oracle's, and MySQL's with GTIDs, do not say where their transaction was committed: its rows do."""
    lake, made, producer = lake_of(tmp_path, source, PLAIN, seed)
    first = commit(made, 1000, ("I", None, row(1, "a")), ("I", None, row(2, None)))
    second = commit(made, 1010, ("U", row(1, "a"), row(1, "b")))
    cycle(lake, producer, messages(first), messages(second), messages(first, second))
    assert_right(lake, made)
    assert lake.shown_through() == 1010
    assert not findings.open_findings(lake.place), "an END that comes again is no transaction id that came again"


def test_a_snapshot_that_begins_anew_finds_its_own_rows_there_and_that_is_no_contradiction(tmp_path: Path) -> None:
    lake, made, producer = lake_of(tmp_path, "debezium/postgresql", PLAIN)
    state: State = {"t": {("1",): row(1, "a"), ("2",): row(2, "b")}}
    made.sent.append(Sent("", 200, [], None, state, (), -1))
    part = made.writer.snapshot(state, 150, ["t"])[:1]
    whole = made.writer.snapshot(state, 200, ["t"])
    cycle(lake, producer, [message for own in [*part, *whole] for message in own], ())
    lake.run()
    assert_right(lake, made)
    assert lake.shown_through() == 200
    assert f.KEY_TWICE not in {each["code"] for each in findings.open_findings(lake.place)}


@pytest.mark.parametrize("source", ["debezium/postgresql", "debezium/mysql", "debezium/sqlserver"])
def test_a_snapshot_of_a_table_without_a_key_has_every_row_equal_ones_too(tmp_path: Path, source: str) -> None:
    lake, made, producer = lake_of(tmp_path, source, LOG)
    state: State = {"log": {(f"#{number}",): row(number // 2, "same") for number in range(5)}}
    made.sent.append(Sent("", 200, [], None, state, (), -1))
    rows = [message for own in made.writer.snapshot(state, 200, ["log"]) for message in own]
    last = commit(made, 300, ("I", None, row(9, "later")))
    cycle(lake, producer, rows[:2], rows[2:], messages(last))
    lake.run()
    assert_right(lake, made)
    assert lake.shown_through() == 300


@pytest.mark.parametrize("source", ["debezium/postgresql", "debezium/mysql", "debezium/oracle", "debezium/sqlserver"])
@pytest.mark.parametrize("table", [PLAIN, LOG], ids=["with a key", "without a key"])
def test_what_a_snapshot_that_was_given_up_had_and_the_next_one_has_not_is_gone(
    tmp_path: Path, source: str, table: Table
) -> None:
    """What was deleted in between is in no message: the connector listened to nothing yet."""
    lake, made, producer = lake_of(tmp_path, source, table)
    rows = {_key(row(n, "a"), table) or (f"#{n}",): row(n, "a") for n in range(4)}
    left = dict(list(rows.items())[1:3])
    made.sent.append(Sent("", 200, [], None, {table.name: left}, (), -1))
    part, whole = (
        made.writer.snapshot({table.name: rows}, 150, [table.name])[:3],
        made.writer.snapshot({table.name: left}, 200, [table.name]),
    )
    cycle(lake, producer, *[[message for own in each for message in own] for each in (part, whole)], ())
    assert lake.shown_through() == 200
    assert_right(lake, made)
    last = commit(made, 300, ("I", None, row(9, "later")))
    cycle(lake, producer, messages(last), ())
    assert lake.shown_through() == 300
    assert_right(lake, made)


def test_a_snapshot_taken_beside_the_stream_takes_no_row_away(tmp_path: Path) -> None:
    """It may be of some rows alone, and what is deleted the stream tells."""
    lake, made, producer = lake_of(tmp_path, "debezium/postgresql", PLAIN)
    first = commit(made, 100, ("I", None, row(1, "a")), ("I", None, row(2, "b")))
    state = dict(made.sent[-1].state)
    part = made.writer.snapshot(state, 150, ["t"])[:1]
    some = made.writer.snapshot({"t": dict(list(state["t"].items())[1:])}, 200, ["t"])
    last = commit(made, 300, ("I", None, row(9, "later")))
    cycle(
        lake,
        producer,
        messages(first),
        *[[m for own in each for m in own] for each in (part, some)],
        (),
        messages(last),
    )
    assert lake.shown_through() == 300
    assert_right(lake, made)


@pytest.mark.parametrize("source", ["goldengate", "wal2json", "change_events", "change_sets", "debezium/postgresql"])
def test_rows_without_a_key_are_as_many_as_were_inserted(tmp_path: Path, source: str) -> None:
    lake, made, producer = lake_of(tmp_path, source, LOG)
    first = commit(made, 1000, *[("I", None, row(number // 2, "same")) for number in range(5)])
    second = commit(made, 1010, ("I", None, row(0, "same")))
    cycle(lake, producer, messages(first), messages(second))
    assert_right(lake, made)


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("source", ["debezium/oracle", "debezium/mysql"])
def test_nothing_behind_an_end_whose_rows_did_not_come_is_shown(tmp_path: Path, source: str, seed: int) -> None:
    """Of such a transaction nobody knows yet where it was committed; but those behind it were committed later."""
    lake, made, producer = lake_of(tmp_path, source, PLAIN, seed)
    sent = [commit(made, csn, ("I", None, row(csn, "a"))) for csn in (990, 1000, 1010)]
    assert sent[1].metadata is not None
    cycle(lake, producer, messages(sent[0]), [sent[1].metadata, *messages(sent[2])])
    assert lake.shown_through() == 990
    assert_right(lake, made)
    cycle(lake, producer, sent[1].rows)
    assert lake.shown_through() == 1010
    assert_right(lake, made)
