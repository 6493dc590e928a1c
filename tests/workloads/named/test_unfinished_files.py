"""A file that is still written while later files of its topic are whole: no cut passes what it may hold."""

import json
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from txloom.config import load
from workloads.judging import assert_newest
from workloads.named.test_named_lakes import PLAIN, commit, lake_of, row
from workloads.named.test_snapshots_taken_again import flat, rows_of, taken
from workloads.small_lake import SmallLake

PROGRESS = """
name: shop
source:
  format: change_sets
  files: {{path: {inbox}}}
  change_sets: {{flag: flag, timestamp: at, transaction: tid}}
completeness: {{rule: progress}}
tables: [{{name: people, source: APP.PEOPLE, key: [id], columns: {{id: long}}}}]
targets: {{mirrors: [people]}}
"""
SINGLE = """
name: shop
source: {{format: change_events, files: {{path: {inbox}}}}}
completeness: {{rule: single}}
tables: [{{name: people, source: APP.PEOPLE, key: [id], columns: {{id: long}}}}]
targets: {{mirrors: [people]}}
"""


def put(folder: Path, topic: str, name: str, *lines: str, cut: int = 0, age: int = 0) -> None:
    """Write a file; cut: how many bytes at its end are not written yet; age: how many seconds ago it was written."""
    (folder / "inbox" / topic).mkdir(parents=True, exist_ok=True)
    content, path = "".join(f"{line}\n" for line in lines).encode(), folder / "inbox" / topic / name
    path.write_bytes(content[: len(content) - cut])
    os.utime(path, (time.time() - age, time.time() - age))


AGES = pytest.mark.parametrize("age", [0, 90], ids=["written just now", "silent for longer than settle"])


@AGES
@pytest.mark.parametrize("source", ["goldengate", "debezium/postgresql", "debezium/mysql", "debezium/oracle"])
def test_no_cut_passes_a_transaction_whose_metadata_is_still_written(tmp_path: Path, source: str, age: int) -> None:
    lake, made, _ = lake_of(tmp_path, source, PLAIN)
    made.writer.steps = (1, 1)
    sent = [commit(made, 100 * n, ("I", None, row(n, "x"))) for n in (1, 2, 3)]
    topic = sent[0].metadata[0]
    for number, each in enumerate(sent, 1):
        put(tmp_path, topic, f"part-{number}.jsonl", each.metadata[1], cut=20 if number == 2 else 0, age=age)
        put(tmp_path, each.rows[0][0], f"part-{number}.jsonl", each.rows[0][1], cut=20 if number == 2 else 0, age=age)
    lake.run()
    assert lake.shown_through() == sent[0].csn
    assert_newest(lake, made)
    for number, (name, line) in enumerate([sent[1].metadata, sent[1].rows[0]]):
        put(tmp_path, name, "part-2.jsonl", line)
        lake.run()
        assert lake.shown_through() == (sent[0].csn if number == 0 else sent[2].csn)
        assert_newest(lake, made)


def test_metadata_that_was_cut_off_is_a_dead_letter_once_patience_is_over(tmp_path: Path) -> None:
    lake, made, _ = lake_of(tmp_path, "goldengate", PLAIN)
    sent = [commit(made, 100 * n, ("I", None, row(n, "x"))) for n in (1, 2)]
    silent = int(lake.pipeline.completeness.patience.total_seconds())
    for number, each in enumerate(sent, 1):
        put(tmp_path, each.rows[0][0], f"part-{number}.jsonl", each.rows[0][1])
        left = 20 if number == 1 else 0
        put(tmp_path, each.metadata[0], f"part-{number}.jsonl", each.metadata[1], cut=left, age=silent)
    lake.run()
    assert [each["kind"] for each in lake.rows("dead_letters")] == ["poison"]
    assert [each["csn"] for each in lake.rows("transactions")] == [200]
    put(tmp_path, sent[0].metadata[0], "part-1.jsonl", sent[0].metadata[1])
    lake.run()
    assert_newest(lake, made)


@AGES
@pytest.mark.parametrize("source", ["debezium/postgresql", "debezium/mysql"])
def test_no_cut_is_published_while_the_first_rows_of_a_snapshot_are_still_written(
    tmp_path: Path, source: str, age: int
) -> None:
    lake, made, _ = lake_of(tmp_path, source, PLAIN)
    made.writer.steps = (1, 1)
    ((topic, line),) = flat(taken(made, 100, {"t": rows_of(PLAIN, row(1, "a"))}))
    empty, later = (commit(made, csn, *changes) for csn, changes in ((200, ()), (300, [("I", None, row(2, "b"))])))
    put(tmp_path, empty.metadata[0], "part-1.jsonl", empty.metadata[1])
    put(tmp_path, topic, "part-1.jsonl", line, cut=20, age=age)
    lake.run()
    assert [each["csn"] for each in lake.rows("transactions")] == [200] and not lake.rows("cuts")
    put(tmp_path, topic, "part-1.jsonl", line)
    lake.run()
    put(tmp_path, empty.metadata[0], "part-2.jsonl", later.metadata[1])
    put(tmp_path, topic, "part-2.jsonl", later.rows[0][1])
    for _ in range(2):
        lake.run()
    assert lake.shown_through() == later.csn
    assert_newest(lake, made)


def shop(folder: Path, declared: str) -> SmallLake:
    (folder / "inbox").mkdir()
    (folder / "shop.yaml").write_text(declared.format(inbox=folder / "inbox"))
    return SmallLake(folder, load(folder / "shop.yaml"))


def of_progress(csn: int) -> str:
    return json.dumps({"flag": "I", "at": "2026-01-01 00:00:00", "tid": csn, "id": csn})


def of_single(csn: int) -> str:
    return json.dumps({"changeType": "insert", "timestamp": csn, "columnNames": ["id"], "columnValues": [csn]})


@AGES
@pytest.mark.parametrize(
    ("declared", "line", "shown"), [(PROGRESS, of_progress, 4), (SINGLE, of_single, 5)], ids=["progress", "single"]
)
def test_no_cut_passes_rows_that_are_still_written_where_nothing_counts_them(
    tmp_path: Path, declared: str, line: Callable[[int], str], shown: int, age: int
) -> None:
    lake = shop(tmp_path, declared)
    for number in range(1, 6):
        put(tmp_path, "people", f"part-{number}.jsonl", line(number), cut=9 if number == 3 else 0, age=age)
    lake.run()
    assert sorted(each["id"] for each in lake.rows("people")) == list(range(1, shown - 2)), "3 may hold what is lower"
    put(tmp_path, "people", "part-3.jsonl", line(3))
    lake.run()
    assert sorted(each["id"] for each in lake.rows("people")) == list(range(1, shown + 1))


def test_rows_that_metadata_counts_do_not_wait_for_an_earlier_file(tmp_path: Path) -> None:
    lake, made, _ = lake_of(tmp_path, "goldengate", PLAIN)
    sent = [commit(made, 100 * n, ("I", None, row(n, "x"))) for n in (1, 2)]
    for each in sent:
        put(tmp_path, each.metadata[0], f"{each.csn}.jsonl", each.metadata[1])
    topic = sent[0].rows[0][0]
    put(tmp_path, topic, "a.jsonl", sent[0].rows[0][1], cut=5)
    put(tmp_path, topic, "b.jsonl", sent[1].rows[0][1])
    lake.run()
    assert [(each["csn"], dict(each["received"] or {})) for each in lake.rows("pending_transactions")] == [(100, {})]
    assert [each["csn"] for each in lake.rows("transactions")] == [200], "it is released, and no cut passes the first"
    assert not lake.shown_through()


def test_a_log_of_metadata_that_is_appended_for_ever_holds_up_no_file_before_it(tmp_path: Path) -> None:
    lake, made, _ = lake_of(tmp_path, "goldengate", PLAIN)
    sent = [commit(made, 100 * n, ("I", None, row(n, "x"))) for n in range(1, 5)]
    for each in sent:
        put(tmp_path, each.rows[0][0], f"{each.csn}.jsonl", each.rows[0][1])
    topic, log = sent[0].metadata[0], "log.jsonl"
    put(tmp_path, topic, log, sent[0].metadata[1])
    lake.run()
    for each in sent[1:3]:
        (tmp_path / "inbox" / topic / log).rename(tmp_path / "inbox" / topic / f"{log}.{1000 - each.csn}")
        put(tmp_path, topic, log, each.metadata[1], cut=4)
        lake.run()
        assert lake.shown_through() == each.csn - 100, "what was rotated is read, what is written waits"
        put(tmp_path, topic, log, each.metadata[1])
    put(tmp_path, topic, log, sent[2].metadata[1], sent[3].metadata[1], cut=4)
    lake.run()
    assert lake.shown_through() == 200
    os.utime(tmp_path / "inbox" / topic / log, (0, 0))
    put(tmp_path, topic, log, sent[2].metadata[1], sent[3].metadata[1])
    lake.run()
    assert lake.shown_through() == 400
    assert_newest(lake, made)
