"""What landings write down of a connector's snapshot, and the bound that their clocks carry; no Spark."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NoReturn

import pyarrow as pa
import pytest

from called import step_of
from services.broker import Broker
from txloom.config import load, names
from txloom.config.models.source import Kafka
from txloom.steps.landing import pending_work
from txloom.steps.landing.land_events import close, finish_last, land_events
from txloom.storage.delta import small_tables
from txloom.storage.delta.read_session import exists
from txloom.storage.landing import connector_snapshots, landing_plan, landing_tables
from txloom.storage.paths import TablePaths
from txloom.storage.sources.splits import LandingPlan
from txloom.storage.system_tables import CHANGE_EVENTS
from txloom.storage.views.pipeline.overview import SNAPSHOT, WAITS, health

DECLARED = """
name: shop
source:
  format: debezium
  files: {{path: {inbox}, settle: 1h}}
  transaction_topic: dev.transaction
completeness: {{rule: counts, patience: 2h}}
tables:
- {{name: notes, source: public.notes, key: [id], columns: {{id: long}}}}
targets: {{mirrors: [notes]}}
"""
OPEN = "select csn from t where kind = 'clock' order by landing desc limit 1"
ENDS = "a snapshot of the source has ended, and is shown by one more landing"


def row(key: int, lsn: int, snapshot: Any, table: str = "notes", op: str = "r") -> dict[str, Any]:
    source = {"connector": "postgresql", "db": "shop", "schema": "public", "table": table, "lsn": lsn}
    source_fields = source if snapshot is None else {**source, "snapshot": snapshot}
    return {"before": None, "after": {"id": key}, "source": source_fields, "transaction": None, "op": op}


def end(lsn: int) -> dict[str, Any]:
    return {"status": "END", "id": f"7:{lsn}", "event_count": 0, "data_collections": []}


def no_spark() -> NoReturn:
    raise AssertionError("a small landing needs no Spark")


class Landed:
    """A pipeline that is landed from files."""

    def __init__(self, folder: Path, key: str = "[id]") -> None:
        self.inbox, self.files, self.runs = folder / "inbox", 0, 0
        self.inbox.mkdir()
        file = folder / "shop.yaml"
        file.write_text(DECLARED.format(inbox=self.inbox).replace("key: [id]", f"key: {key}"))
        self.pipeline, self.warehouse = load(file), str(folder / "lake")
        self.paths = TablePaths(self.warehouse, "shop")

    def deliver(self, *messages: dict[str, Any], topic: str = "dev.public.notes", ended: str = "\n") -> Path:
        self.files += 1
        file = self.inbox / topic / f"{self.files}.jsonl"
        file.parent.mkdir(exist_ok=True)
        file.write_text("\n".join(json.dumps(each) for each in messages) + ended)
        return file

    def land(self, *messages: dict[str, Any], topic: str = "dev.public.notes") -> int | None:
        """Land messages; return the bound that the clock carries."""
        if messages:
            self.deliver(*messages, topic=topic)
        self.runs += 1
        land_events(step_of(self.pipeline, self.warehouse, f"run-{self.runs}", no_spark))
        return self.bound()

    def land_internal(self, csn: int) -> int | None:
        """Land what a load brings, which reads no source."""
        number = landing_plan.newest(self.paths) + 1
        landing = LandingPlan(number, datetime.now(UTC), ())
        landing_plan.write_plan(self.paths, number, [{"landing": number, "at": landing.at, "topic": names.LOAD}])
        event = {"landing": number, "row": 1, "kind": "metadata", "topic": names.LOAD_METADATA, "csn": csn}
        landing_tables.append(pa.Table.from_pylist([event], CHANGE_EVENTS), landing, self.paths)
        close(step_of(self.pipeline, self.warehouse, f"load-{number}"), landing)
        return self.bound()

    def finish(self) -> int | None:
        """Finish the landing in which a run died."""
        finish_last(step_of(self.pipeline, self.warehouse, "again", no_spark))
        return self.bound()

    def bound(self) -> int | None:
        (clock,) = small_tables.query(self.paths.change_events, OPEN)
        bound: int | None = clock["csn"]
        return bound

    @property
    def initial(self) -> int | None:
        return connector_snapshots.progress(self.paths).initial


@pytest.fixture
def shop(tmp_path: Path) -> Landed:
    return Landed(tmp_path)


def test_the_clock_stays_below_a_snapshot_until_one_landing_after_its_last_row(shop: Landed) -> None:
    assert shop.land(row(1, 40, "first"), row(2, 40, True), row(3, 40, None)) == 39
    assert shop.land() == 39
    assert shop.initial is None
    assert shop.land(row(4, 40, "last", table="nobody_watches")) == 39
    assert shop.land() is None
    assert [connector_snapshots.progress(shop.paths, before).initial for before in (4, 5)] == [None, 40]
    assert shop.land(row(5, 40, "true")) is None


def test_rows_that_are_read_beside_the_stream_hold_nothing_and_cost_no_table(shop: Landed) -> None:
    assert shop.land(row(1, 40, "incremental"), end(50)) is None
    assert shop.land(end(60), topic="dev.transaction") is None
    assert not exists(shop.paths.table("source_snapshots"))


def test_the_stream_behind_a_snapshot_ends_it_and_the_one_before_it_does_not(shop: Landed) -> None:
    assert shop.land(end(40), topic="dev.transaction") is None
    assert shop.land(row(1, 50, "first")) == 49
    assert shop.land(end(50), topic="dev.transaction") == 49
    assert shop.land() == 49
    assert shop.land(end(51), topic="dev.transaction") == 49
    assert shop.land() is None
    assert shop.initial == -1


def test_a_landing_that_leaves_out_a_file_which_is_still_written_does_not_end_a_snapshot(shop: Landed) -> None:
    assert shop.land(row(1, 40, "first"), row(2, 40, "last")) == 39
    unfinished = shop.deliver(row(3, 40, "true"), ended="")
    assert shop.land() == 39
    unfinished.write_text(unfinished.read_text() + "\n")
    assert shop.land() is None


def test_what_txloom_lands_itself_neither_ends_a_snapshot_nor_stands_for_the_next_landing(shop: Landed) -> None:
    assert shop.land(row(1, 40, "first")) == 39
    assert shop.land_internal(90) == 39
    assert [shop.land(), shop.land()] == [39, 39]
    assert shop.land(row(2, 40, "last")) == 39
    assert shop.land_internal(91) == 39
    assert shop.land() is None


@pytest.mark.parametrize("dies_at", ["write_clock", "write_poison", "count"])
def test_a_landing_that_died_decides_the_same_when_it_is_repeated(
    shop: Landed, monkeypatch: pytest.MonkeyPatch, dies_at: str
) -> None:
    def dies(*_: Any) -> NoReturn:
        raise KeyboardInterrupt

    bounds = [39, 39, 39, None]
    sent = [[row(1, 40, "first")], [row(2, 40, "true")], [row(3, 40, "last")], []]
    for messages, bound in zip(sent, bounds, strict=True):
        with monkeypatch.context() as patched:
            patched.setattr(landing_tables, dies_at, dies)
            with pytest.raises(KeyboardInterrupt):
                shop.land(*messages)
        assert shop.finish() == bound
    written = small_tables.query(shop.paths.table("source_snapshots"), "select landing, rows from t order by landing")
    assert [(each["landing"], each["rows"]) for each in written] == [(1, 1), (2, 2), (3, 3), (4, 0)]


def test_on_call_reads_why_valid_through_stands_still_and_a_cycle_is_not_skipped(shop: Landed) -> None:
    shop.land(row(1, 40, "first"))
    since = connector_snapshots.progress(shop.paths).since
    shop.land(row(2, 40, "true"), row(3, 40, "true"))
    what = "The source sends a snapshot; 3 rows have landed. Valid-through stays at most 39."
    assert reasons_of(shop) == [(SNAPSHOT, "warn", what, WAITS, since, 3)]
    assert ENDS not in pending_work.reasons(shop.pipeline, shop.warehouse, 0)
    shop.land(row(4, 40, "last"))
    assert [each[2] for each in reasons_of(shop)] == [
        "The source sends a snapshot; 4 rows have landed. Valid-through stays at most 39. "
        "It has ended; the next landing shows it."
    ]
    assert ENDS in pending_work.reasons(shop.pipeline, shop.warehouse, 0)
    shop.land()
    assert reasons_of(shop) == []
    assert ENDS not in pending_work.reasons(shop.pipeline, shop.warehouse, 0)


def test_landings_that_take_a_share_of_each_partition_do_not_end_a_snapshot(shop: Landed, broker: Broker) -> None:
    topics = [f"{shop.paths.warehouse.replace('/', '.')[-60:]}.{name}" for name in ("notes", "transaction")]
    broker.create_topic(topics[0], 2)
    broker.create_topic(topics[1])
    kafka = Kafka(brokers=broker.address, topics=topics[:1], messages_per_run=4)
    changed = {"files": None, "kafka": kafka, "transaction_topic": topics[1]}
    shop.pipeline = shop.pipeline.model_copy(update={"source": shop.pipeline.source.model_copy(update=changed)})
    rows = [(None, json.dumps(row(key, 40, "true")), None, 0) for key in range(19)]
    broker.produce(topics[0], [*rows, (None, json.dumps(row(19, 40, "last")), None, 1)])
    broker.produce(topics[1], [(None, json.dumps(end(50)))])
    bounds, landed = list[int | None](), list[int]()
    while not bounds or bounds[-1] is not None:
        bounds.append(shop.land())
        count = "select count(*) as n from t where kind = 'row'"
        landed.append(small_tables.query(shop.paths.change_events, count)[0]["n"])
    assert (landed, bounds) == ([5, 10, 15, 20], [39, 39, 39, None])


def reasons_of(shop: Landed) -> list[tuple[Any, ...]]:
    finding = health(shop.pipeline, shop.warehouse).reasons
    return [(each.kind, each.severity, each.what, each.todo, each.since, each.total) for each in finding]
