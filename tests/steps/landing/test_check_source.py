"""The look at a source before it is landed: what is missing, what is lost, what waits; nothing is written."""

import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest

from called import step_of
from services.broker import Broker
from services.process import wait_until
from shop import Shop, insert
from steps.landing.nobody import as_nobody
from topics import TABLES, Topics
from txloom.errors import SourceLost, SourceUnavailable
from txloom.steps.landing.check_source import check_source
from txloom.steps.landing.land_events import land_events
from txloom.storage.landing import landing_tables

PROJECT = Path(__file__).resolve().parents[3]


def look(shop: Shop) -> dict[str, int]:
    """Look at the source, and see that nothing was written."""
    before = written(Path(shop.warehouse))
    try:
        return check_source(step_of(shop.pipeline, shop.warehouse, "look"))
    finally:
        assert written(Path(shop.warehouse)) == before


def written(warehouse: Path) -> set[tuple[str, int]]:
    return {(str(path), path.stat().st_mtime_ns) for path in warehouse.rglob("*")}


def dies(*_: Any, **__: Any) -> None:
    raise KeyboardInterrupt


def test_what_waits_is_counted_by_topic(tmp_path: Path, broker: Broker, capsys: pytest.CaptureFixture[str]) -> None:
    topics = Topics(None, tmp_path, broker)
    for csn in (10, 20):
        topics.commit(csn, insert("orders", id=csn, note="a"), insert("orders", id=csn + 1, note="a"))
    rows, metadata = f"waiting.{topics.rows_topic}", f"waiting.{topics.metadata_topic}"
    counts = {"topics": 2, "partitions": 2, "partitions_added": 0}
    assert look(topics) == {**counts, "waiting": 6, metadata: 2, rows: 4}
    assert list(look(topics)) == ["topics", "partitions", "partitions_added", "waiting", metadata, rows]
    topics.land()
    assert look(topics) == {**counts, "waiting": 0, metadata: 0, rows: 0}
    broker.add_partitions(topics.rows_topic, 3)
    broker.produce(topics.rows_topic, [(None, "x", None, 2)])
    capsys.readouterr()
    counts |= {"partitions": 4, "partitions_added": 2}
    assert look(topics) == {**counts, "waiting": 1, metadata: 0, rows: 1}
    assert capsys.readouterr().out == "".join(
        f"info: {topics.rows_topic}[{number}] is new: landing begins at its first record\n" for number in (1, 2)
    )


def test_what_a_batch_planned_and_did_not_read_waits(
    tmp_path: Path, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    topics = Topics(None, tmp_path, broker)
    topics.commit(10, insert("orders", id=1, note="a"))
    with monkeypatch.context() as broken:
        broken.setattr(landing_tables, "append", dies)
        with pytest.raises(KeyboardInterrupt):
            topics.land()
    assert look(topics)["waiting"] == 2
    broker.delete_records(topics.rows_topic, 0, 1)
    with pytest.raises(SourceLost) as seen:
        look(topics)
    with pytest.raises(SourceLost) as refused:
        topics.land()
    assert str(seen.value) == str(refused.value)
    assert f"{topics.rows_topic}[0]: the records 0 to 0 aged out before they were landed" in str(seen.value)


def test_a_topic_that_was_made_again_is_named(tmp_path: Path, broker: Broker) -> None:
    topics = Topics(None, tmp_path, broker)
    topics.land()
    broker.delete_topic(topics.metadata_topic)
    broker.create_topic(topics.metadata_topic)
    with pytest.raises(SourceLost, match=re.escape(f"{topics.metadata_topic}[0]: the topic was deleted and created")):
        look(topics)


def test_a_transaction_topic_that_is_missing_is_named_where_it_is_declared(tmp_path: Path, broker: Broker) -> None:
    topics = Topics(None, tmp_path, broker)
    broker.delete_topic(topics.metadata_topic)
    with pytest.raises(SourceUnavailable) as refused:
        look(topics)
    assert str(refused.value) == (
        f"topic {topics.metadata_topic} does not exist at {broker.address}: create it, or correct "
        "source.transaction_topic"
    )


@pytest.mark.long
def test_brokers_that_do_not_answer_are_named_in_time(tmp_path: Path) -> None:
    with Broker(tmp_path / "broker") as broker:
        topics = Topics(None, tmp_path, broker)
        broker.pause()
        begun = time.monotonic()
        with pytest.raises(SourceUnavailable, match=broker.address):
            look(topics)
        assert time.monotonic() - begun < 60, "brokers that hang are given up, not waited for"
        broker.resume()
        wait_until(lambda: looked(topics), "brokers that go on to be looked at again")


def looked(shop: Shop) -> bool:
    """Say whether a look found the brokers and nothing that waits; a broker that goes on is let in again first."""
    try:
        return look(shop)["waiting"] == 0
    except SourceUnavailable:
        return False


def test_files_that_wait_are_counted(tmp_path: Path) -> None:
    shop = Shop(None, tmp_path, TABLES)
    assert look(shop) == {"topics": 0, "waiting": 0, "bytes": 0}
    shop.commit(10, insert("orders", id=1, note="a"))
    size = sum(path.stat().st_size for path in shop.inbox.rglob("*.jsonl"))
    assert look(shop) == {"topics": 2, "waiting": 2, "bytes": size}
    shop.run((land_events,))
    assert look(shop) == {"topics": 2, "waiting": 0, "bytes": 0}


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    shop = Shop(None, tmp_path, TABLES)
    shop.inbox.rmdir()
    with pytest.raises(SourceUnavailable) as refused:
        look(shop)
    assert str(refused.value) == (
        f"{shop.inbox}: the source's folder does not exist; create it or correct source.files.path"
    )


def test_a_folder_that_cannot_be_read_is_named() -> None:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        shop = Shop(None, Path(folder), TABLES)
        shop.commit(10, insert("orders", id=1, note="a"))
        closed = shop.inbox / "rows"
        closed.chmod(0)
        try:
            with as_nobody(), pytest.raises(SourceUnavailable) as refused:
                look(shop)
        finally:
            closed.chmod(0o755)
    denied = f"[Errno 13] Permission denied: '{closed}'"
    assert str(refused.value) == f"{shop.inbox}: the source's folder cannot be read: {denied}"


def test_a_planned_file_that_vanished_is_named_and_holds_up_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shop = Shop(None, tmp_path, TABLES)
    shop.commit(10, insert("orders", id=1, note="a"))
    with monkeypatch.context() as broken:
        broken.setattr(landing_tables, "append", dies)
        with pytest.raises(KeyboardInterrupt):
            shop.run((land_events,))
    assert look(shop)["waiting"] == 0
    (shop.inbox / "rows" / "001.jsonl").unlink()
    shop.run((land_events,))
    capsys.readouterr()
    assert look(shop)["waiting"] == 0
    assert capsys.readouterr().out == "warn: rows/001.jsonl cannot be read: No such file or directory\n"


RUN = """
import runpy, sys
sys.argv = sys.argv[1:]
try:
    runpy.run_path(sys.argv[0], run_name="__main__")
finally:
    assert "pyspark" not in sys.modules and "py4j" not in sys.modules
"""


def test_the_job_says_what_waits_and_loads_no_spark(tmp_path: Path, broker: Broker) -> None:
    topics = Topics(None, tmp_path, broker)
    topics.commit(10, insert("orders", id=1, note="a"))
    job = [PROJECT / "jobs" / "check_source.py", "--pipeline", tmp_path / "shop.yaml", "--warehouse", topics.warehouse]
    environment = {**os.environ, "PYTHONPATH": str(PROJECT / "include")}
    command = [sys.executable, "-c", RUN, *map(str, job), "--run-id", "r"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.splitlines()[-1]) == (
        0,
        "txloom check_source: pipeline=shop run_id=r topics=2 partitions=2 partitions_added=0 waiting=2 "
        f"waiting.{topics.metadata_topic}=1 waiting.{topics.rows_topic}=1",
    ), done.stderr
    broker.delete_topic(topics.rows_topic)
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 12
    assert done.stderr.splitlines()[-1].startswith(
        f"txloom check_source failed (SourceUnavailable, exit code 12): topic {topics.rows_topic} does not exist"
    )
