"""A connector is asked to read tables anew while the source is written to: what was wrong is right, and stays so."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest
from deltalake import DeltaTable, write_deltalake

from called import step_of
from cycles.test_live_debezium import DECLARED, SCHEMA, assert_equal, caught_up, in_database, in_lake, load_of
from lake import Lake
from services.broker import Broker
from services.connect import Connect
from services.process import wait_until
from txloom.config import load
from txloom.errors import ConfigurationError, SourceUnavailable
from txloom.quality import findings as f
from txloom.quality.findings import Finding
from txloom.steps.landing import follow_snapshots
from txloom.steps.snapshots.request_snapshot import give_up_request, request_snapshot
from txloom.storage.checks import findings
from txloom.storage.delta import arrow_tables
from txloom.storage.landing import requested_snapshots
from txloom.storage.paths import TablePaths
from txloom.storage.snapshots import rows_ahead
from txloom.storage.sources import connector_signals

pytestmark = pytest.mark.stream
SIGNALS = "signals: {topic: live-signals, notifications: live-notices}"
SETTINGS = {
    "signal.enabled.channels": "kafka",
    "signal.kafka.topic": "live-signals",
    "signal.poll.interval.ms": "500",
    "notification.enabled.channels": "sink",
    "notification.sink.topic.name": "live-notices",
    "incremental.snapshot.chunk.size": "7",
    "heartbeat.interval.ms": "500",
}
TOPICS = ("live-signals", "live-notices")
LOST, WRONG, EXTRA = 2, 3, 777_777
"""Keys of a row that the lake is to lack, of one with another value there, and of one that the source has not."""
WATERMARKS = "CREATE TABLE signals (id varchar(64) PRIMARY KEY, type varchar(32), data varchar(2048));"
READING = pytest.mark.parametrize(
    "settings",
    [
        {"read.only": "true"},
        {"signal.enabled.channels": "source,kafka", "signal.data.collection": "public.signals"},
    ],
    ids=["read only", "a table has the watermarks"],
)


@pytest.fixture
def fresh(connect: Connect) -> Iterator[Connect]:
    """Return a worker without a place, and take it away again."""
    yield connect
    connect.forget()


def create_topics(broker: Broker) -> None:
    """Create the topics of signals and notices, empty: a request of another test may have the same id."""
    for topic in TOPICS:
        if topic in broker.topics():
            broker.delete_topic(topic)
        broker.create_topic(topic)


def started(connect: Connect, spark: Any, folder: Path, **settings: str) -> Lake:
    connect.postgres.fresh_database(connect.database, SCHEMA + WATERMARKS)
    create_topics(connect.broker)
    about = {**SETTINGS, "signal.kafka.bootstrap.servers": connect.broker.address, **settings}
    connect.start(connector=about)
    wait_until(lambda: connect.place, "the end of the snapshot")
    connect.postgres.psql("UPDATE orders SET note = 'first' WHERE id = 1", connect.database)
    wait_until(lambda: "dev.transaction" in connect.broker.topics(), "the first transaction")
    file = folder / "live.yaml"
    declared = DECLARED.format(brokers=connect.broker.address)
    file.write_text(declared.replace("  transaction_topic", f"  {SIGNALS}\n  transaction_topic"))
    return Lake(spark, folder, load(file))


def damage(lake: Lake, wrong: dict[str, str]) -> set[int]:
    """Let the lake's orders lack a row, have wrong values, and a row that the source does not have; return the keys."""
    orders = DeltaTable(lake.path("orders"))
    orders.delete(f"id = {LOST}")
    orders.update(predicate=f"id = {WRONG}", updates=wrong)
    old = arrow_tables.select(lake.path("orders"), f"select * from t where id = {WRONG}")
    extra = old.set_column(old.schema.get_field_index("id"), "id", [[EXTRA]])
    write_deltalake(lake.path("orders"), extra.cast(old.schema), mode="append")
    return {LOST, WRONG, EXTRA}


@pytest.mark.long
@READING
def test_what_was_wrong_is_right_once_the_connector_read_it_and_nothing_else_was_ever_wrong(
    fresh: Connect, spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: dict[str, str]
) -> None:
    monkeypatch.setattr(follow_snapshots, "AFTER", timedelta(seconds=2))
    lake, chance = started(fresh, spark, tmp_path, **settings), Random(20261127)
    caught_up(fresh, lake, 1_000_000)
    assert_equal(fresh, lake)
    wrong, paths = damage(lake, {"note": "'wrong'"}), TablePaths(lake.warehouse, "live")
    findings.record(paths, [Finding(f.UNKNOWN_ROW, "orders", None, 1, None, "planted")], "planted")
    first_run = step_of(lake.pipeline, lake.warehouse, "asked")
    first = request_snapshot(first_run, [])
    assert first["tables"] == 1 and request_snapshot(first_run, []) == first, "a repeated call asks once"
    keys = list(range(5, 21))
    try:
        while requested_snapshots.open_requests(paths):
            fresh.postgres.psql(load_of(chance, keys, 3), fresh.database)
            keys = [row[0] for row in in_database(fresh, "orders", 1) if row[0] not in wrong and row[0] < 1_000_000]
            lake.run()
            there = {row["id"]: row["note"] for row in lake.rows("orders")}
            assert there.get(2) in (None, "was there") and there[3] in ("wrong", "was there")
    finally:
        print(requested_snapshots.requests(paths))
    (request,) = requested_snapshots.requests(paths)
    assert (request.status, request.removed, request.tables) == ("loaded", 1, ("orders",))
    caught_up(fresh, lake, 2_000_000)
    assert_equal(fresh, lake)
    assert findings.open_findings(paths) == []
    assert lake.query("dead_letters", "select cause, detail from t") == []
    assert all(line["balanced"] for line in lake.query("ledger", "select balanced from t where step = 'balance'"))
    assert in_lake(lake, "orders", 1).keys().isdisjoint({(777_777,)})
    with pytest.raises(ConfigurationError, match="no finding says that a table with a key needs a snapshot"):
        request_snapshot(step_of(lake.pipeline, lake.warehouse, "again"), [])


TRANSACTIONS = 6_000
NUMBERED = f"""
    DO $$ BEGIN FOR n IN 1..{TRANSACTIONS} LOOP
        UPDATE orders SET amount = n WHERE id = n % 25;
        UPDATE lines SET qty = n WHERE order_id = 1;
        COMMIT;
        PERFORM pg_sleep(0.001);
    END LOOP; END $$;
"""
"""Transactions, each of which writes its number into an order, and into a line that no request reads."""


@pytest.mark.long
@READING
@pytest.mark.parametrize("is_declared", [False, True], ids=["", "declared"])
def test_no_state_shows_a_row_that_the_connector_read_before_its_commit(
    fresh: Connect,
    spark: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    settings: dict[str, str],
    *,
    is_declared: bool,
) -> None:
    """Without a table of watermarks the connector sent rows that were hundreds of commits ahead of their position."""
    monkeypatch.setattr(follow_snapshots, "AFTER", timedelta(seconds=2))
    lake, shown = started(fresh, spark, tmp_path, **settings), list[tuple[int, int]]()
    if is_declared:
        signals = lake.pipeline.source.signals.model_copy(update={"watermarks": "public.signals"})
        source = lake.pipeline.source.model_copy(update={"signals": signals})
        lake.pipeline = lake.pipeline.model_copy(update={"source": source})
    fresh.postgres.psql("UPDATE orders SET amount = 0; UPDATE lines SET qty = 0;", fresh.database)
    caught_up(fresh, lake, 1_000_000)
    paths = TablePaths(lake.warehouse, "live")
    request_snapshot(step_of(lake.pipeline, lake.warehouse, "asked"), ["orders"])
    with ThreadPoolExecutor() as writer:
        written = writer.submit(fresh.postgres.psql, NUMBERED, fresh.database)
        while (newest_request := requested_snapshots.requests(paths)[0]).status != requested_snapshots.LOADED:
            if newest_request.status == requested_snapshots.FAILED:
                assert "SQL_EXCEPTION" in (newest_request.detail or ""), newest_request
                request_snapshot(step_of(lake.pipeline, lake.warehouse, f"{newest_request.request} again"), ["orders"])
            lake.run()
            newest = max(row["amount"] for row in lake.rows("orders") if row["amount"] is not None)
            shown.append((newest, max(row["qty"] for row in lake.rows("lines"))))
            if written.done():
                fresh.postgres.psql("UPDATE lines SET item = 'later' WHERE order_id = 2", fresh.database)
        written.result()
    caught_up(fresh, lake, 2_000_000)
    assert_equal(fresh, lake)
    assert [each for each in shown if each[0] > each[1]] == []
    assert len({number for _, number in shown}) > 2, "too few states were looked at"
    landed = lake.query("rows_ahead", "select sum(rows) as rows, count(of_landing) as landings from t")
    assert landed[0]["rows"] > 0 and landed[0]["landings"] > 0 and rows_ahead.waiting(lake.pipeline, paths) == []


def silent_after(lake: Lake, seconds: float) -> None:
    """Let requests be silent after so many seconds."""
    signals = lake.pipeline.source.signals.model_copy(update={"answer_within": timedelta(seconds=seconds)})
    source = lake.pipeline.source.model_copy(update={"signals": signals})
    lake.pipeline = lake.pipeline.model_copy(update={"source": source})


@pytest.mark.long
def test_a_connector_that_does_not_run_or_dies_while_it_reads_is_a_finding_with_a_way_out(
    fresh: Connect, spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follow_snapshots, "AFTER", timedelta(seconds=2))
    lake = started(fresh, spark, tmp_path, **{"read.only": "true"})
    more = "INSERT INTO orders (id, note) SELECT n, 'many' FROM generate_series(10000, 13000) n"
    fresh.postgres.psql(more, fresh.database)
    caught_up(fresh, lake, 1_000_000)
    wrong, paths = damage(lake, {"note": "'wrong'"}), TablePaths(lake.warehouse, "live")

    def silent() -> list[str]:
        rows = findings.open_findings(paths)
        return [row["evidence"] for row in rows if (row["code"], row["severity"]) == (f.UNANSWERED, "error")]

    fresh.kill()
    lost = str(request_snapshot(step_of(lake.pipeline, lake.warehouse, "lost"), ["orders"])["request"])
    silent_after(lake, 0)
    lake.run()
    assert "the connector has said nothing of it" in silent()[0]
    with pytest.raises(ConfigurationError, match=f"--give-up {lost}"):
        request_snapshot(step_of(lake.pipeline, lake.warehouse, "beside"), ["lines"])
    assert give_up_request(step_of(lake.pipeline, lake.warehouse, "given-up"), lost)["given_up"] == 1
    assert silent() == []
    fresh.start()
    silent_after(lake, 3600)
    wait_until(lambda: connector_signals.state_of(lake.pipeline, lost).is_over, "the connector to stop")
    second = str(request_snapshot(step_of(lake.pipeline, lake.warehouse, "asked"), ["orders"])["request"])
    wait_until(lambda: connector_signals.state_of(lake.pipeline, second).said > 3, "the connector to read")
    fresh.kill()
    silent_after(lake, 0)
    lake.run()
    assert "the connector fell silent" in silent()[0]
    fresh.start()
    silent_after(lake, 3600)
    # A connector that was killed may read its signals once more, the stop among them: then it says ABORTED.
    for attempt in range(3):
        while requested_snapshots.open_requests(paths):
            lake.run()
            fresh.postgres.psql("UPDATE lines SET qty = qty", fresh.database)
        ended = requested_snapshots.requests(paths)[0]
        if ended.status == "loaded":
            break
        assert (ended.status, ended.detail) == ("failed", "the connector says ABORTED: ask again")
        request_snapshot(step_of(lake.pipeline, lake.warehouse, f"again-{attempt}"), ["orders"])
    every = requested_snapshots.requests(paths)
    assert every[0].status == "loaded" and {each.status for each in every if each.request == lost} == {"failed"}, every
    caught_up(fresh, lake, 2_000_000)
    assert_equal(fresh, lake)
    assert silent() == [] and wrong


def test_brokers_that_are_not_there_take_no_signal_and_the_retry_sends_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "live.yaml"
    declared = DECLARED.format(brokers="127.0.0.1:9")
    file.write_text(declared.replace("  transaction_topic", f"  {SIGNALS}\n  transaction_topic"))
    pipeline, paths = load(file), TablePaths(str(tmp_path / "lake"), "live")
    monkeypatch.setattr(connector_signals, "SECONDS", 1.0)
    for _ in range(2):
        with pytest.raises(SourceUnavailable, match="the signal was not taken"):
            request_snapshot(step_of(pipeline, tmp_path / "lake", "asked"), ["lines"])
        (request,) = requested_snapshots.requests(paths)
        assert (request.status, request.tables) == ("planned", ("lines",))
    with pytest.raises(ConfigurationError, match="elsewhere: expected declared tables with a key: orders, lines"):
        request_snapshot(step_of(pipeline, tmp_path / "lake", "asked"), ["elsewhere"])
