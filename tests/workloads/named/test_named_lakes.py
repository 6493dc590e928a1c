"""What random workloads found, each as the shortest workload that shows it."""

import json
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest

from oracle.capture import Image, Message
from oracle.declarations import Table
from txloom import read
from txloom.quality import findings as f
from txloom.steps.backfill.backfill import Range, backfill
from txloom.steps.snapshots.load_snapshot import Snapshot, load_snapshot
from txloom.storage.checks import findings
from txloom.storage.dead_letters import open_letters
from txloom.transactions import memory
from workloads.dimensions import Dimensions
from workloads.inbox import Producer
from workloads.judging import assert_every_version_is_a_state, assert_newest
from workloads.play import WRITERS, Play, declared
from workloads.small_lake import SmallLake
from workloads.sources.database import Change, Sent, State
from workloads.sources.debezium import Debezium
from workloads.sources.extracts import Extractor
from workloads.sources.shapes import Shape
from workloads.spark_lake import SparkLake

pytestmark = pytest.mark.long

PLAIN = Table("t", "APP.T", ("id",), {"id": "long", "v": "string"})
TWIN = Table("u", "APP.t", ("id",), {"id": "long", "v": "string"})
LOG = Table("log", "APP.LOG", (), {"id": "long", "v": "string"})


def lake_of(
    folder: Path, source: str, table: Table, seed: int = 1, *, more: Sequence[Table] = ()
) -> tuple[SmallLake, Play, Producer]:
    """Return a lake of one table of a source that has sent nothing yet; more: further tables of it."""
    dimensions, chance = Dimensions(source=source), Random(seed)
    shape = Shape({each.name: each for each in (table, *more)}, None, dimensions)
    writer = WRITERS.get(source, Debezium)(shape, chance)
    made = Play(seed, chance, dimensions, shape, writer, [], [])
    pipeline, producer = declared(folder, made)
    return SmallLake(folder, pipeline), made, producer


def commit(made: Play, csn: int, *changes: tuple[str, Image | None, Image | None]) -> Sent:
    """Commit changes of the one table: operation, row before, row after."""
    (table,) = made.made.tables.values()
    rows = dict(made.sent[-1].state[table.name]) if made.sent else {}
    for number, (op, before, after) in enumerate(changes):
        if op == "T":
            rows = {}
        if before is not None:
            del rows[_key(before, table)]
        if after is not None:
            rows[_key(after, table) or (f"#{csn}.{number}",)] = after
    made_changes = [Change(table, op, before, after, tuple(table.columns)) for op, before, after in changes]
    sent = Sent("", csn, [], None, {table.name: rows}, made_changes, len(made.sent))
    made.writer.write(sent)
    made.sent.append(sent)
    return sent


def inserted(made: Play, csn: int, state: State, image: Image) -> Sent:
    """Commit one insert into `t`, whatever other tables there are; state: of all of them behind it."""
    sent = Sent("", csn, [], None, state, [Change(PLAIN, "I", None, image, tuple(PLAIN.columns))], len(made.sent))
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


def compared(lake: SmallLake, **range_: Any) -> dict[str, int]:
    """Rebuild a range and compare; return the counts of both."""
    lake.runs += 1
    counts = lake.step(backfill, lake.session, "rebuild", Range(**range_))
    return counts | lake.step(backfill, lake.session, "compare")


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
    assert not findings.open_findings(lake.paths), "an END that comes again is no transaction id that came again"


def test_a_snapshot_that_begins_anew_finds_its_own_rows_there_and_that_is_no_contradiction(tmp_path: Path) -> None:
    lake, made, producer = lake_of(tmp_path, "debezium/postgresql", PLAIN)
    state: State = {"t": {("1",): row(1, "a"), ("2",): row(2, "b")}}
    made.sent.append(Sent("", 200, [], None, state, (), -1))
    part = made.writer.snapshot(state, 150, ["t"])[:1]
    whole = made.writer.snapshot(state, 200, ["t"])
    cycle(lake, producer, [message for group in [*part, *whole] for message in group], ())
    lake.run()
    assert_right(lake, made)
    assert lake.shown_through() == 200
    assert f.KEY_TWICE not in {each["code"] for each in findings.open_findings(lake.paths)}


@pytest.mark.parametrize("source", ["debezium/postgresql", "debezium/mysql", "debezium/sqlserver"])
def test_a_snapshot_of_a_table_without_a_key_has_every_row_equal_ones_too(tmp_path: Path, source: str) -> None:
    lake, made, producer = lake_of(tmp_path, source, LOG)
    state: State = {"log": {(f"#{number}",): row(number // 2, "same") for number in range(5)}}
    made.sent.append(Sent("", 200, [], None, state, (), -1))
    rows = [message for group in made.writer.snapshot(state, 200, ["log"]) for message in group]
    last = commit(made, 300, ("I", None, row(9, "later")))
    cycle(lake, producer, rows[:2], rows[2:], messages(last))
    lake.run()
    assert_right(lake, made)
    assert lake.shown_through() == 300


@pytest.mark.parametrize("source", ["debezium/postgresql", "debezium/mysql", "debezium/oracle", "debezium/sqlserver"])
@pytest.mark.parametrize("table", [PLAIN, LOG], ids=["with a key", "without a key"])
@pytest.mark.parametrize("early", [1, 3, 0])
def test_what_a_snapshot_that_was_given_up_had_and_the_next_one_has_not_is_gone(
    tmp_path: Path, source: str, table: Table, early: int
) -> None:
    """What was deleted in between is in no message: the connector listened to nothing yet.

    early: rows that do not come with the landing which closes it, because their partition is slow.
    """
    lake, made, producer = lake_of(tmp_path, source, table)
    rows = {_key(row(n, "a"), table) or (f"#{n}",): row(n, "a") for n in range(4)}
    left = dict(list(rows.items())[1:3])
    made.sent.append(Sent("", 200, [], None, {table.name: left}, (), -1))
    part, whole = (
        made.writer.snapshot({table.name: rows}, 150, [table.name])[:3],
        made.writer.snapshot({table.name: left}, 200, [table.name]),
    )
    cycle(lake, producer, *[[m for group in each for m in group] for each in (part[:early], whole, part[early:])])
    assert lake.shown_through() == 200
    assert_right(lake, made)
    last = commit(made, 300, ("I", None, row(9, "later")))
    cycle(lake, producer, messages(last), ())
    assert lake.shown_through() == 300
    assert_right(lake, made)


@pytest.mark.parametrize("declared", [(PLAIN, TWIN), (TWIN, PLAIN)], ids=["APP.T first", "APP.t first"])
def test_a_snapshot_that_was_given_up_is_gone_from_tables_whose_names_differ_in_case_alone(
    tmp_path: Path, declared: tuple[Table, Table]
) -> None:
    """What txloom counts itself counts for the table of exactly that name: else it would wait for the other's rows."""
    lake, made, producer = lake_of(tmp_path, "debezium/postgresql", declared[0], more=declared[1:])
    names = [table.name for table in declared]
    old, new = ({name: {(str(n),): row(n, name) for n in some} for name in names} for some in ((1, 2), (2,)))
    made.sent.append(Sent("", 200, [], None, new, (), -1))
    part, whole = made.writer.snapshot(old, 150, names)[:3], made.writer.snapshot(new, 200, names)
    cycle(lake, producer, *[[message for group in each for message in group] for each in (part, whole)], ())
    assert lake.shown_through() == 200
    assert_right(lake, made)


@pytest.mark.parametrize("loaded", ["t", "u"])
def test_a_table_whose_name_differs_from_anothers_in_case_alone_is_loaded_by_itself(
    tmp_path: Path, loaded: str
) -> None:
    lake, made, producer = lake_of(tmp_path, "wal2json", PLAIN, more=[TWIN])
    state: State = {"t": {("1",): row(1, "a")}, "u": {}}
    first = inserted(made, 100, state, row(1, "a"))
    cycle(lake, producer, messages(first))
    folder = tmp_path / "rows" / loaded
    folder.mkdir(parents=True)
    (folder / "rows.jsonl").write_text(f"{json.dumps(row(7, 'loaded'))}\n")
    lake.step(load_snapshot, lake.session, Snapshot(str(folder.parent), 150))
    state = {**state, loaded: {("7",): row(7, "loaded")}}
    made.sent.append(Sent("", 150, [], None, state, (), 1))
    last = inserted(made, 200, {**state, "t": state["t"] | {("9",): row(9, "b")}}, row(9, "b"))
    cycle(lake, producer, messages(last))
    assert lake.shown_through() == 200
    assert_right(lake, made)


@pytest.mark.parametrize("source", ["goldengate", "wal2json", "change_events", "change_sets", "debezium/postgresql"])
def test_rows_without_a_key_are_as_many_as_were_inserted(tmp_path: Path, source: str) -> None:
    lake, made, producer = lake_of(tmp_path, source, LOG)
    first = commit(made, 1000, *[("I", None, row(number // 2, "same")) for number in range(5)])
    second = commit(made, 1010, ("I", None, row(0, "same")))
    cycle(lake, producer, messages(first), messages(second))
    assert_right(lake, made)


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("source", ["debezium/mysql", "debezium/oracle"])
def test_rows_of_a_transaction_show_at_its_one_csn_wherever_they_lie_in_the_log(
    tmp_path: Path, source: str, seed: int
) -> None:
    """With GTIDs MySQL's rows say where they lie themselves: as of a csn in between half of them were there."""
    lake, made, producer = lake_of(tmp_path, source, PLAIN, seed)
    first = commit(made, 1000, *[("I", None, row(number, "a")) for number in range(4)])
    second = commit(made, 1020, ("U", row(0, "a"), row(0, "b")), ("D", row(1, "a"), None))
    cycle(lake, producer, messages(first), messages(second))
    for csn in range(990, 1021):
        rows = read.as_of(lake.pipeline, "t", csn=csn, warehouse=lake.warehouse).to_pylist()
        assert len(rows) == (0 if csn < 1000 else 4 if csn < 1020 else 3), f"as of {csn}"
    assert {each["_txloom_csn"] for each in lake.rows("t_changes")} == {1000, 1020}
    counts = compared(lake, csns=(1000, 1000))
    assert counts["rebuilt"] == 1 and not counts["changes"] and not counts["surplus"]


@pytest.mark.parametrize(
    ("source", "seed", "first"),
    [
        *(("debezium/mysql", 2, 0), ("debezium/mysql", 2, 1), ("debezium/mysql", 1, 1)),
        *(("debezium/oracle", 1, 0), ("debezium/oracle", 1, 1), ("debezium/postgresql", 1, 1), ("goldengate", 1, 1)),
    ],
)
def test_what_was_given_up_and_came_whole_at_last_is_no_gap(tmp_path: Path, source: str, seed: int, first: int) -> None:
    """Neither an END nor a part of its rows need tell the csn that a transaction is then released at."""
    lake, made, producer = lake_of(tmp_path, source, PLAIN, seed)
    impatient = lake.pipeline.completeness.model_copy(update={"patience": timedelta(0)})
    lake.pipeline = lake.pipeline.model_copy(update={"completeness": impatient})
    before = commit(made, 900, ("I", None, row(9, "a")))
    sent = commit(made, 1000, *[("I", None, row(number, "a")) for number in range(3)])
    assert sent.metadata is not None
    cycle(lake, producer, messages(before), [*sent.rows[:first], sent.metadata], sent.rows[first:], ())
    assert open_letters.given_up(lake.paths) == []
    assert not open_letters.open_dead_letters(lake.paths, "*").num_rows
    assert lake.shown_through() == 1000
    assert_newest(lake, made)


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


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("source", ["debezium/oracle", "debezium/mysql", "debezium/postgresql"])
def test_a_late_duplicate_of_what_was_forgotten_holds_nothing_back(
    tmp_path: Path, monkeypatch: Any, source: str, seed: int
) -> None:
    """An END, and a row, come again alone: neither need tell a csn, and a row with a GTID has one of its own."""
    monkeypatch.setattr(memory, "REMEMBERED", 1)
    lake, made, producer = lake_of(tmp_path, source, PLAIN, seed)
    sent = [commit(made, csn, *(("I", None, row(csn + n, "a")) for n in range(3))) for csn in range(100, 900, 20)]
    ends = [each.metadata for each in sent[:12:2] if each.metadata is not None]
    late = [*ends, *(each.rows[0] for each in sent[1:12:2])]
    cycle(lake, producer, messages(*sent[:-1]), [*late, *messages(sent[-1])])
    assert not lake.rows("pending_transactions")
    assert lake.shown_through() == sent[-1].csn
    assert_right(lake, made)


@pytest.mark.parametrize("seed", [1, 2])
def test_a_truncate_that_comes_before_the_metadata_of_earlier_transactions_is_not_shown_before_them(
    tmp_path: Path, seed: int
) -> None:
    """MySQL's stands alone: no END counts it, so that it says nothing of what was committed before it."""
    lake, made, producer = lake_of(tmp_path, "debezium/mysql", PLAIN, seed)
    first, late = (commit(made, csn, ("I", None, row(csn, "a"))) for csn in (990, 1000))
    gone, last = commit(made, 1010, ("T", None, None)), commit(made, 1020, ("I", None, row(1, "b")))
    assert gone.metadata is None
    for sent, through in ((messages(first, gone), 990), (messages(late), 1000), (messages(last), 1020)):
        cycle(lake, producer, sent)
        assert lake.shown_through() == through
        assert_newest(lake, made)
    assert_right(lake, made)


def test_a_truncate_that_comes_after_a_later_transaction_is_shown_amends_the_cuts_without_it(tmp_path: Path) -> None:
    lake, made, producer = lake_of(tmp_path, "debezium/mysql", PLAIN)
    first, gone = commit(made, 990, ("I", None, row(1, "a"))), commit(made, 1010, ("T", None, None))
    last = commit(made, 1020, ("I", None, row(2, "b")))
    cycle(lake, producer, messages(first), messages(last), messages(gone))
    assert_newest(lake, made)
    cuts = sorted(lake.rows("cuts"), key=lambda cut: cut["cut_id"])
    amended = [{each["cut_id"]: each["csn"] for each in cut["amends"]} for cut in cuts]
    assert [cut["valid_through"] for cut in cuts] == [990, 1020, 1020]
    assert amended == [{}, {}, {2: 1010}]


def test_what_txloom_counts_itself_does_not_say_where_an_end_without_rows_was_committed(tmp_path: Path) -> None:
    """A snapshot that was given up showed, because the END that takes its rows away came behind one that waits."""
    lake, made, producer = lake_of(tmp_path, "debezium/oracle", PLAIN)
    old, new = ({"t": {(str(n),): row(n, "a") for n in some}} for some in ((1, 2), (2,)))
    made.sent.append(Sent("", 200, [], None, new, (), -1))
    part, whole = made.writer.snapshot(old, 150, ["t"])[:1], made.writer.snapshot(new, 200, ["t"])
    late, last = commit(made, 300, ("I", None, row(3, "b"))), commit(made, 310, ("I", None, row(4, "b")))
    assert late.metadata is not None
    snapshots = [message for group in (*part, *whole) for message in group]
    for sent in ([*snapshots, late.metadata, *messages(last)], (), late.rows, ()):
        cycle(lake, producer, sent)
        assert_newest(lake, made)
    assert lake.shown_through() == 310
    assert_right(lake, made)


def test_extracts_go_on_behind_a_load_of_nothing_into_nothing(tmp_path: Path) -> None:
    lake, made, _ = lake_of(tmp_path, "snapshots", PLAIN)
    inbox = Extractor(tmp_path / "inbox", made.made, Random(1))
    inbox.deliver([("2026-11-01/t", "")])
    lake.run()
    (tmp_path / "load" / "t").mkdir(parents=True)
    lake.step(load_snapshot, lake.session, Snapshot(str(tmp_path / "load"), 20261101, ahead=True))
    lake.run()
    inbox.deliver([("2026-11-02/t", '{"id": 1, "v": "a"}')])
    lake.run()
    assert [each["v"] for each in lake.rows("t")] == ["a"]


@pytest.mark.parametrize("rebuilt", [False, True])
def test_what_was_landed_before_the_buffer_finished_what_comes_again_in_it_is_a_duplicate(
    tmp_path: Path, monkeypatch: Any, *, rebuilt: bool
) -> None:
    """The landing cannot say that it was finished: the buffer remembers it until that landing is taken in."""
    monkeypatch.setattr(memory, "REMEMBERED", 1)
    lake, made, producer = lake_of(tmp_path, "debezium/sqlserver", PLAIN)
    sent = [commit(made, csn, *(("I", None, row(csn + n, "a")) for n in range(3))) for csn in range(100, 900, 20)]
    cycle(lake, producer, messages(*sent[:10]))
    for batch in (messages(*sent[10:30]), [sent[12].rows[0], *messages(*sent[30:-1])]):
        producer.deliver(batch, last=False)
        lake.land()
    if not rebuilt:
        lake.at_once = 1
    cycle(lake, producer, messages(sent[-1]))
    if rebuilt:
        lake.lose_checkpoint()
        lake.at_once = 1
        lake.run()
    assert not lake.rows("pending_transactions")
    assert lake.shown_through() == sent[-1].csn
    assert_right(lake, made)


@pytest.mark.parametrize("writes", [1, 2, 3])
def test_what_a_batch_wrote_that_died_and_lost_its_checkpoint_is_not_there_twice(tmp_path: Path, writes: int) -> None:
    _die_and_lose(*lake_of(tmp_path, "goldengate", PLAIN), writes)


@pytest.mark.stream
def test_the_jobs_write_it_once_too(tmp_path: Path, spark: Any) -> None:
    lake, made, producer = lake_of(tmp_path, "goldengate", PLAIN)
    _die_and_lose(SparkLake(tmp_path, lake.pipeline, spark=spark), made, producer, 1)


def _die_and_lose(lake: SmallLake, made: Play, producer: Producer, writes: int) -> None:
    first, second = (commit(made, 100 * n, ("I", None, row(n, "v"))) for n in (1, 2))
    producer.deliver(messages(first), last=False)
    lake.run()
    producer.deliver(messages(second), last=True)
    lake.dies_after = writes
    lake.run()
    assert sorted(each["_txloom_csn"] for each in lake.rows("t_changes")) == [100, 200]
    assert_newest(lake, made)
    assert lake.shown_through() == 200
