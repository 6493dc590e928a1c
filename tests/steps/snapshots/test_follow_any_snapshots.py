"""Snapshots that a connector is asked for, over any source: lost commits, late ENDs, rows that change while it reads.

The connector is played, because what it does has to come in an order that a real one seldom takes: it reads a table in
chunks, leaves out of a chunk what the stream changed between its two watermarks, gives a row the last commit before it,
says under the id of the last signal what it has read, and crashes where a second signal comes while it reads. It writes
its watermarks into a table, or only reads: then its stream may lag behind what it reads.
"""

import json
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest

from called import step_of
from lake import Lake
from services.broker import Broker
from txloom.config import load
from txloom.errors import ConfigurationError
from txloom.quality import findings as f
from txloom.quality.dead_letters import Selection
from txloom.steps.dead_letters.dismiss import dismiss
from txloom.steps.landing import follow_snapshots
from txloom.steps.snapshots.request_snapshot import give_up_request, request_snapshot
from txloom.storage.checks import findings
from txloom.storage.landing import name_spellings, requested_snapshots
from txloom.storage.landing.requested_snapshots import FAILED, LOADED, PLANNED, READ, SENT
from txloom.storage.paths import TablePaths

SEEDS = range(int(os.environ.get("TXLOOM_SNAPSHOTS", "1")))
TABLES = ("orders", "lines")
KEYS = range(1, 13)
CHUNK = 4
DECLARED = """
name: shop
source:
  format: debezium
  kafka: {{brokers: '{brokers}', topics: [{prefix}.public.orders, {prefix}.public.lines]}}
  signals:
    {{topic: {prefix}-signals, notifications: {prefix}-notices, prefix: {prefix}, watermarks: public.signals}}
  transaction_topic: {prefix}.transaction
completeness: {{rule: counts, patience: 2h}}
tables:
- {{name: orders, source: public.orders, key: [id], columns: {{id: long, n: int}}}}
- {{name: lines, source: public.lines, key: [id], columns: {{id: long, n: int}}}}
targets: {{mirrors: ["*"]}}
"""
Rows = dict[int, Any]


@dataclass
class Source:
    """A database and its connector; a commit moves the log on by ten, and the clock by twenty seconds.

    only_reads: it writes no watermarks, and its stream may lag. behind: commits that the stream has not reached.
    """

    broker: Broker
    prefix: str
    chance: Random
    lsn: int = 100
    heard: int = 100
    is_lost_before: bool = False
    only_reads: bool = False
    behind: list[Callable[[], None]] = field(default_factory=list)
    began: int = field(default_factory=lambda: int(time.time() * 1000))
    tables: dict[str, Rows] = field(default_factory=lambda: {name: {} for name in TABLES})
    states: dict[int, dict[str, Rows]] = field(default_factory=dict)
    withheld: list[dict[str, Any]] = field(default_factory=list)
    lost: set[tuple[str, int]] = field(default_factory=set)
    signal: str = ""
    unread: list[tuple[str, list[int]]] = field(default_factory=list)
    chunk: tuple[str, Rows] | None = None
    taken: int = 0
    notices: int = 0

    def commit(self, *, lose: bool = False, late: bool = False) -> None:
        """Change one or two rows; lose: the lake does not hear of it; late: its END comes later.

        is_lost_before: what is lost the connector does not hear of either, so that it counts on from the commit before.
        """
        changes = dict[tuple[str, int], Any]()
        for _ in range(self.chance.randint(1, 2)):
            place = self.chance.choice(TABLES), self.chance.choice(KEYS)
            changes[place] = self.chance.choice([self.lsn + 11, self.lsn + 12, None])
        self.change(changes, lose=lose, late=late)

    def change(self, changes: Mapping[tuple[str, int], Any], *, lose: bool = False, late: bool = False) -> None:
        """Commit values of rows by table and key, None for those that are deleted; lose, late: as of `commit`."""
        self.lsn += 10
        rows, counts = [], dict[str, int]()
        for order, ((table, key), value) in enumerate(changes.items(), 1):
            before = self.tables[table].get(key)
            now = self.lsn + order if before is None and value is None else value
            op = "c" if before is None else "d" if now is None else "u"
            rows.append((table, op, key, before, now, order))
            counts[table] = counts.get(table, 0) + 1
            self.tables[table] |= {key: now}
            if now is None:
                del self.tables[table][key]
            if lose:
                self.lost.add((table, key))
        self.states[self.lsn] = {name: dict(rows_of) for name, rows_of in self.tables.items()}
        self.behind.append(partial(self._hear, self.lsn, rows, counts, lose=lose, late=late))
        if not self.only_reads:
            self.catch_up()

    def catch_up(self, most: int = 1_000) -> None:
        """Let the stream send commits that it is behind."""
        for hear in self.behind[:most]:
            hear()
        del self.behind[:most]

    def _hear(self, lsn: int, rows: Sequence[Any], counts: Mapping[str, int], *, lose: bool, late: bool) -> None:
        """Send the messages of one commit."""
        if not lose or not self.is_lost_before:
            self.heard = lsn
        if lose:
            return
        for table, op, key, before, now, order in rows:
            if self.chunk is not None and self.chunk[0] == table:
                self.chunk[1].pop(key, None)
            images = {side: value and {"id": key, "n": value} for side, value in (("before", before), ("after", now))}
            transaction = {"id": f"{lsn}:{lsn}", "total_order": order, "data_collection_order": order}
            value = {**images, "op": op, "transaction": transaction}
            self._row(table, value, snapshot="false", lsn=lsn, ts_ms=self._time(lsn))
        self._end(lsn, counts)
        if not late:
            self.release()

    def _end(self, lsn: int, counts: Mapping[str, int]) -> None:
        parts = [{"data_collection": f"public.{table}", "event_count": count} for table, count in counts.items()]
        end = {"status": "END", "id": f"{lsn}:{lsn}", "ts_ms": self._time(lsn), "event_count": sum(counts.values())}
        self.withheld.append(end | {"data_collections": parts})

    def _time(self, lsn: int) -> int:
        return self.began + 2_000 * lsn

    def _watermark(self) -> None:
        """Write a row into the table of watermarks, and hear of it; its END comes behind those that are late."""
        self.lsn += 10
        self.states[self.lsn] = {name: dict(rows_of) for name, rows_of in self.tables.items()}
        is_late, self.heard = bool(self.withheld), self.lsn
        self._end(self.lsn, {"signals": 1})
        if not is_late:
            self.release()

    def release(self) -> None:
        """Send the ENDs that were late."""
        self.broker.produce(f"{self.prefix}.transaction", [(None, json.dumps(end)) for end in self.withheld])
        self.withheld.clear()

    def read(self) -> None:
        """Go on with snapshots: take signals, open a chunk, or close one and send its rows."""
        signals = self.broker.read(f"{self.prefix}-signals")[self.taken :]
        for record in signals:
            signal = json.loads(record.value)
            self.taken += 1
            if signal["type"] == "stop-snapshot":
                self.unread, self.chunk = [], None
                continue
            assert not self.unread and self.chunk is None, "a second signal while it reads"
            self.signal = signal["id"]
            for name in signal["data"]["data-collections"]:
                keys = list(KEYS)
                chunks = [keys[at : at + CHUNK] for at in range(0, len(keys), CHUNK)]
                self.unread += [(name.rsplit(".", 1)[-1], chunk) for chunk in chunks]
        if self.chunk is None and self.unread:
            table, keys = self.unread.pop(0)
            if not self.only_reads:
                self._watermark()
            self.chunk = table, {key: self.tables[table][key] for key in keys if key in self.tables[table]}
        elif self.chunk is not None:
            table, rows = self.chunk
            for key, value in rows.items():
                image = {"before": None, "after": {"id": key, "n": value}, "op": "r", "transaction": None}
                about = {"snapshot": "incremental", "lsn": None, "sequence": f'["{self.heard}","{self.lsn}"]'}
                self._row(table, image, **about, ts_ms=self._time(self.lsn))
            self.chunk = None
            if not self.only_reads:
                self._watermark()
            if all(name != table for name, _ in self.unread):
                self._notify("TABLE_SCAN_COMPLETED", scanned_collection=f"public.{table}", status="SUCCEEDED")
            if not self.unread:
                self._notify("COMPLETED")

    def _notify(self, kind: str, **about: str) -> None:
        notice = {"id": self.signal, "type": kind, "aggregate_type": "Incremental Snapshot", "additional_data": about}
        notice["timestamp"] = int(time.time() * 1000)
        self.broker.produce(f"{self.prefix}-notices", [(None, json.dumps(notice))])
        self.notices += 1

    def _row(self, table: str, value: dict[str, Any], **about: Any) -> None:
        source = {
            "connector": "postgresql",
            "db": "shop",
            "schema": "public",
            "table": table,
        }
        self._send(f"{self.prefix}.public.{table}", json.dumps(value | {"source": source | about}))

    def _send(self, topic: str, message: str) -> None:
        self.broker.produce(topic, [(None, message)])


@pytest.fixture
def shop(spark: Any, tmp_path: Path, broker: Broker, monkeypatch: pytest.MonkeyPatch) -> tuple[Source, Lake]:
    """Return a source of two tables, and a lake that has a few commits of it."""
    monkeypatch.setattr(follow_snapshots, "AFTER", timedelta(0))
    prefix = tmp_path.name
    for name in (f"{prefix}-signals", f"{prefix}-notices", f"{prefix}.transaction"):
        broker.create_topic(name)
    for table in TABLES:
        broker.create_topic(f"{prefix}.public.{table}")
    file = tmp_path / "shop.yaml"
    file.write_text(DECLARED.format(brokers=broker.address, prefix=prefix))
    source = Source(broker, prefix, Random(tmp_path.name))
    return source, Lake(spark, tmp_path, load(file))


def request(lake: Lake, run: str, *tables: str) -> str:
    return str(request_snapshot(step_of(lake.pipeline, lake.warehouse, run), tables)["request"])


def give_up(lake: Lake, request_id: str) -> dict[str, Any]:
    return dict(give_up_request(step_of(lake.pipeline, lake.warehouse, "given-up"), request_id))


def silent(lake: Lake) -> list[dict[str, Any]]:
    """Return the open findings of requests that make no progress."""
    rows = findings.open_findings(TablePaths(lake.warehouse, "shop"))
    return [row for row in rows if row["code"] == f.UNANSWERED]


def shown(lake: Lake) -> dict[str, Rows]:
    return {name: {row["id"]: row["n"] for row in lake.rows(name)} for name in TABLES}


def assert_right(source: Source, lake: Lake) -> None:
    """Compare the tables with what the source had at the newest cut; rows of which a change was lost may be wrong."""
    cuts = lake.query("cuts", "select valid_through from t order by cut_id desc limit 1")
    reached = max(lsn for lsn in source.states if lsn <= cuts[0]["valid_through"])
    for name, rows in shown(lake).items():
        wrong = {key for table, key in source.lost if table == name}
        there = {key: value for key, value in rows.items() if key not in wrong}
        expected = {key: n for key, n in source.states[reached][name].items() if key not in wrong}
        assert there == expected, (name, reached)


@pytest.mark.long
@pytest.mark.parametrize("seed", SEEDS)
def test_a_requested_snapshot_makes_right_what_was_lost_and_nothing_wrong(shop: tuple[Source, Lake], seed: int) -> None:
    (source, lake), chance = shop, Random(seed)
    source.chance, paths = chance, TablePaths(lake.warehouse, "shop")
    for _ in range(8):
        source.commit()
    lake.run()
    assert_right(source, lake)
    source.is_lost_before = quiet = chance.random() < 0.5
    source.only_reads = not quiet and chance.random() < 0.7
    for _ in range(chance.randint(1, 3)):
        source.commit(lose=True)
    first = request(lake, "first", *(TABLES if chance.random() < 0.5 else TABLES[:1]))
    second, refused, given_up = None, 0, False
    for turn in range(60):
        if not quiet and (turn < 12 or source.only_reads) and chance.random() < 0.5:
            source.commit(late=chance.random() < 0.4)
        if chance.random() < 0.3 or turn > 24:
            source.catch_up(chance.randint(1, 4))
        if chance.random() < 0.7:
            source.read()
        under_way = requested_snapshots.open_requests(paths)
        if second is None and under_way and turn > 2 and chance.random() < 0.1:
            with pytest.raises(ConfigurationError, match="the connector reads for one at a time"):
                request(lake, "second", TABLES[1])
            refused += 1
        if second is None and under_way and turn > 4 and chance.random() < 0.05:
            given_up = bool(give_up(lake, first)["given_up"])
        if second is None and turn > 2 and not requested_snapshots.open_requests(paths):
            second = request(lake, "second", *(TABLES if given_up else TABLES[1:]))
        if chance.random() < 0.2 or turn > 24:
            source.release()
        if turn == 30 and not quiet:
            source.commit()
        if chance.random() < 0.45:
            lake.run()
            assert_right(source, lake)
        if second is not None and turn > 12 and not source.withheld and not requested_snapshots.open_requests(paths):
            break
    ended = {each.request: each for each in requested_snapshots.requests(paths)}
    assert second is not None and ended[second].status == LOADED, refused
    assert ended[first].status == (FAILED if given_up else LOADED)
    read = {name for each in ended.values() if each.status == LOADED for name in each.tables}
    assert set(ended[first].tables) <= read
    if not quiet:
        source.commit()
        source.catch_up()
        source.release()
    lake.run()
    for name in TABLES:
        wrong = {key for table, key in source.lost if table == name and name not in read}
        both = shown(lake)[name], source.tables[name]
        there, expected = ({key: n for key, n in rows.items() if key not in wrong} for rows in both)
        assert there == expected, (name, quiet)


def settled(source: Source, lake: Lake, turns: int = 8) -> str:
    """Let the connector read all, and cycles run, until the request ends; return how it ended, or is."""
    paths = TablePaths(lake.warehouse, "shop")
    for _ in range(turns):
        for _ in range(2 * len(KEYS)):
            source.read()
        lake.run()
        if not requested_snapshots.open_requests(paths):
            break
    return requested_snapshots.requests(paths)[0].status


def test_a_row_of_the_newest_commit_that_the_source_has_no_more_is_deleted(shop: tuple[Source, Lake]) -> None:
    source, lake = shop
    source.is_lost_before = True
    source.change({("orders", 1): 1, ("orders", 2): 2})
    lake.run()
    source.change({("orders", 2): None}, lose=True)
    request(lake, "asked", "orders")
    assert settled(source, lake) == LOADED
    assert shown(lake)["orders"] == {1: 1}


@pytest.mark.long
def test_a_row_whose_change_waits_while_the_connector_reads_is_not_deleted(shop: tuple[Source, Lake]) -> None:
    source, lake = shop
    source.change({("orders", 1): 1, ("orders", 2): 2})
    source.change({("lines", 1): 1})
    lake.run()
    request(lake, "asked", "orders")
    source.read()
    source.change({("orders", 1): 5}, late=True)
    assert settled(source, lake) == READ
    assert shown(lake)["orders"] == {1: 1, 2: 2}
    source.release()
    assert settled(source, lake) == LOADED
    assert shown(lake)["orders"] == {1: 5, 2: 2}


@pytest.mark.long
def test_a_request_whose_unreadable_row_is_dismissed_ends_and_deletes_nothing(shop: tuple[Source, Lake]) -> None:
    source, lake = shop
    source.is_lost_before = True
    source.change({("orders", 1): 1, ("orders", 2): 2, ("orders", 3): 3})
    lake.run()
    source.change({("orders", 1): "no number", ("orders", 2): None}, lose=True)
    request(lake, "asked", "orders")
    assert settled(source, lake) == READ
    paths = TablePaths(lake.warehouse, "shop")
    assert "are dead letters: redrive them" in (requested_snapshots.requests(paths)[0].detail or "")
    dismiss(step_of(lake.pipeline, lake.warehouse, "away"), Selection(everything=True), person="me", reason="known")
    assert settled(source, lake) == FAILED
    assert "were dismissed, so that nothing was deleted" in (requested_snapshots.requests(paths)[0].detail or "")
    assert shown(lake)["orders"] == {1: 1, 2: 2, 3: 3}
    source.change({("orders", 1): 4})
    lake.run()
    request(lake, "again", "orders")
    assert settled(source, lake) == LOADED
    assert shown(lake)["orders"] == {1: 4, 3: 3}


@pytest.mark.long
def test_a_request_that_was_never_sent_ends_and_one_that_failed_is_made_again(
    shop: tuple[Source, Lake], monkeypatch: pytest.MonkeyPatch
) -> None:
    source, lake = shop
    paths = TablePaths(lake.warehouse, "shop")
    source.change({("orders", 1): 1})
    lake.run()
    with monkeypatch.context() as away:
        away.setattr(name_spellings, "known", lambda *_: sys.exit("killed"))
        with pytest.raises(SystemExit):
            request(lake, "asked", "orders")
    assert requested_snapshots.requests(paths)[0].status == PLANNED
    monkeypatch.setattr(follow_snapshots, "LOST_AFTER", timedelta(0))
    lake.run()
    (lost,) = requested_snapshots.requests(paths)
    assert (lost.status, lost.detail) == (FAILED, "its signal was not sent: ask again")
    assert request(lake, "asked", "orders") not in (lost.request, None)
    assert requested_snapshots.requests(paths)[0].status == SENT
    assert settled(source, lake) == LOADED


def silent_after(lake: Lake, seconds: float) -> None:
    """Let requests be silent after so many seconds."""
    signals = lake.pipeline.source.signals.model_copy(update={"answer_within": timedelta(seconds=seconds)})
    source = lake.pipeline.source.model_copy(update={"signals": signals})
    lake.pipeline = lake.pipeline.model_copy(update={"source": source})


@pytest.mark.long
def test_a_lost_signal_is_a_finding_until_the_request_is_given_up(shop: tuple[Source, Lake]) -> None:
    source, lake = shop
    source.change({("orders", 1): 1, ("lines", 1): 1})
    lake.run()
    first = request(lake, "asked", "orders")
    source.taken = 1
    lake.run()
    assert silent(lake) == [], "it may still be answered"
    silent_after(lake, 0)
    for _ in range(2):
        lake.run()
        (finding,) = silent(lake)
        assert (finding["severity"], finding["table"]) == ("error", "orders")
        assert f"the request {first} of orders is sent since" in finding["evidence"]
        assert "the connector has said nothing of it" in finding["evidence"] and "--give-up" in finding["hint"]
    with pytest.raises(ConfigurationError, match=f"request {first} of orders is open .*--give-up {first}"):
        request(lake, "another", "lines")
    with pytest.raises(ConfigurationError, match=f"no snapshot request elsewhere; open is: {first}"):
        give_up(lake, "elsewhere")
    assert (give_up(lake, first)["given_up"], give_up(lake, first)["given_up"]) == (1, 0)
    assert silent(lake) == []
    (ended,) = requested_snapshots.requests(TablePaths(lake.warehouse, "shop"))
    assert (ended.status, ended.detail) == (FAILED, "given up by run given-up, so that nothing was deleted")
    silent_after(lake, 3600)
    request(lake, "another", "lines")
    assert settled(source, lake) == LOADED


@pytest.mark.long
def test_a_connector_that_dies_while_it_reads_is_a_finding_until_it_goes_on(shop: tuple[Source, Lake]) -> None:
    source, lake = shop
    source.change({("orders", 1): 1, ("lines", 1): 1})
    lake.run()
    request(lake, "asked", *TABLES)
    while not source.notices:
        source.read()
    silent_after(lake, 0)
    lake.run()
    (finding,) = silent(lake)
    assert finding["table"] is None and "the connector fell silent" in finding["evidence"]
    silent_after(lake, 3600)
    lake.run()
    assert silent(lake) == [], "it said something within the time that is declared now"
    assert settled(source, lake) == LOADED


@pytest.mark.long
def test_a_request_whose_rows_are_not_merged_is_a_finding_that_says_why(shop: tuple[Source, Lake]) -> None:
    source, lake = shop
    source.is_lost_before = True
    source.change({("orders", 1): 1})
    lake.run()
    source.change({("orders", 1): "no number"}, lose=True)
    request(lake, "asked", "orders")
    assert settled(source, lake) == READ
    silent_after(lake, 0)
    lake.run()
    assert "its rows are not merged (1 rows that it may have read are dead letters" in silent(lake)[0]["evidence"]
    source.change({("orders", 1): 4})
    dismiss(step_of(lake.pipeline, lake.warehouse, "away"), Selection(everything=True), person="me", reason="known")
    lake.run()
    lake.run()
    assert silent(lake) == [] and not requested_snapshots.open_requests(TablePaths(lake.warehouse, "shop"))
