"""Transactions that nothing counts, over real partitions: the gremlins' bank, idle time, what cannot be read."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from called import step_of
from lake import STEPS, Lake
from services.broker import Broker
from txloom.config import load
from txloom.quality.dead_letters import Selection
from txloom.steps.dead_letters.redrive import redrive
from txloom.steps.landing import land_events as landing_of_files
from txloom.storage.landing import partition_watermarks
from txloom.storage.paths import TablePaths
from txloom.transactions.completeness import BEHIND, UNREADABLE

TOTAL = Decimal("1818.11")
OPENED = [("I", 343, 51, "500.00"), ("I", 343, 105, "293.30"), ("I", 343, 1, "1000.00"), ("I", 343, 28, "24.81")]
PAID = [("U", 344, 51, "442.08"), ("U", 344, 105, "351.22"), ("U", 345, 1, "900.31"), ("U", 345, 28, "124.50")]
"""CDC Data Gremlins (tabular.io): op, tid, account, balance; the balances before are one way to get there."""
Change = tuple[str, int, int | None, str | None]

EXAMPLE = Path(__file__).resolve().parents[3] / "include" / "pipelines" / "examples" / "bank.yaml"
BANK = """
name: bank
source:
  format: change_sets
  change_sets: {{flag: op, timestamp: changed_at, transaction: tid}}
  kafka: {{brokers: '{brokers}', topics: [{topic}]}}
completeness: {{rule: progress{idle}}}
tables:
  - name: accounts
    source: {topic}
    key: [account_id]
    columns: {{account_id: long, balance: "decimal(12,2)"}}
targets: {{mirrors: [accounts]}}
"""


def row(op: str, tid: int, account: int | None, balance: str | None) -> str:
    source_fields = {"op": op, "tid": tid, "changed_at": "2023-06-01T14:12:01"}
    return json.dumps(source_fields | ({} if account is None else {"account_id": account, "balance": balance}))


class Bank(Lake):
    """A bank whose changes come over three partitions: 105 and 1, 51, 28."""

    def __init__(self, spark: Any, folder: Path, broker: Broker, idle: str = "") -> None:
        self.broker, self.topic = broker, f"{folder.name}.accounts"
        broker.create_topic(self.topic, 3)
        self.file = folder / "bank.yaml"
        self.file.write_text(BANK.format(brokers=broker.address, topic=self.topic, idle=idle))
        super().__init__(spark, folder, load(self.file))

    def declare(self, text: str) -> None:
        """Write another declaration, and load it for the next run."""
        self.file.write_text(text)
        self.pipeline = load(self.file)

    def send(self, *changes: Change, partition: int | None = None) -> None:
        sent = [(None, row(*c), None, (c[2] or 0) // 5 % 3 if partition is None else partition) for c in changes]
        self.broker.produce(self.topic, sent)

    def balances(self, version: int | None = None) -> dict[int, Decimal]:
        return {row["account_id"]: row["balance"] for row in self.rows("accounts", version)}

    def reached(self) -> int:
        cuts = self.query("cuts", "select valid_through from t order by cut_id desc limit 1")
        return int(cuts[0]["valid_through"]) if cuts else 0


@pytest.fixture
def bank(spark: Any, tmp_path: Path, broker: Broker) -> Bank:
    return Bank(spark, tmp_path, broker)


def heartbeats(tid: int) -> Sequence[tuple[Change, int]]:
    return [(("H", tid, None, None), partition) for partition in range(3)]


@pytest.mark.long
def test_the_total_is_the_same_in_every_version_that_a_reader_can_see(bank: Bank) -> None:
    """Both transfers are of two partitions, and each change comes alone."""
    bank.send(*OPENED)
    for change in PAID:
        bank.send(change)
        bank.run()
    waiting = bank.query("pending_transactions", "select csn, cause from t order by csn")
    assert [(row["csn"], row["cause"]) for row in waiting] == [(344, BEHIND), (345, BEHIND)]
    for tid in (345, 346):
        for beat, partition in heartbeats(tid):
            bank.send(beat, partition=partition)
            bank.run()
    seen = [bank.balances(version) for version, _ in bank.marks("accounts")]
    assert {sum(balances.values()) for balances in seen if balances} == {TOTAL}
    before = {account: Decimal(balance or 0) for _, _, account, balance in OPENED}
    after = {account: Decimal(balance or 0) for _, _, account, balance in PAID}
    half = before | {51: after[51], 105: after[105]}
    assert [balances for balances in seen if balances] == [before, half, after]
    assert bank.reached() == 345


def test_what_comes_again_is_dropped_and_counted_before_and_after_its_release(bank: Bank) -> None:
    counts = []
    for _ in range(2):
        bank.send(*OPENED, *PAID)
        counts.append(bank.run()["buffer_transactions"])
    assert [(each["released"], each["duplicates"]) for each in counts] == [(4, 0), (0, 8)], "343 is past"
    for beat, partition in heartbeats(346):
        bank.send(beat, partition=partition)
    assert bank.run()["buffer_transactions"]["released"] == 4
    bank.send(*PAID)
    counts.append(bank.run()["buffer_transactions"])
    assert (counts[-1]["duplicates"], counts[-1]["dead"], bank.reached()) == (4, 0, 345)
    assert sum(bank.balances().values()) == TOTAL


def test_a_partition_that_is_silent_holds_up_the_rest_until_its_idle_time_is_over(
    spark: Any, tmp_path: Path, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    bank = Bank(spark, tmp_path, broker, idle=", idle_after: 1h")
    clock = at(monkeypatch, datetime(2026, 1, 1, tzinfo=UTC))
    bank.send(*[change for change in [*OPENED, *PAID] if change[2] != 28])
    bank.run()
    assert bank.reached() == 0, "partition 2 has shown nothing"
    clock.now += timedelta(minutes=59)
    bank.send(("H", 346, None, None), partition=1)
    bank.run()
    assert bank.reached() == 0
    clock.now += timedelta(minutes=1)
    bank.run()
    assert bank.reached() == 345, "the others are idle, and partition 1 has shown 346"


class Clock:
    """What landing takes for the time."""

    def __init__(self, now: datetime) -> None:
        self.now = now


def at(monkeypatch: pytest.MonkeyPatch, now: datetime) -> Clock:
    clock = Clock(now)

    class Now(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> Any:
            return clock.now.astimezone(tz)

    monkeypatch.setattr(landing_of_files, "datetime", Now)
    return clock


@pytest.fixture
def lake(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lake:
    """Return an empty lake of the example, whose partitions are folders."""
    (tmp_path / "inbox" / "accounts").mkdir(parents=True)
    monkeypatch.setenv("TXLOOM_INBOX", str(tmp_path / "inbox"))
    return Lake(spark, tmp_path, load(EXAMPLE))


def deliver(lake: Lake, *lines: str) -> dict[str, dict[str, int]]:
    (lake.inbox / "accounts" / f"{lake.runs:03}.jsonl").write_text("".join(f"{line}\n" for line in lines))
    return lake.run(STEPS)


@pytest.mark.long
@pytest.mark.stream
def test_transactions_beside_an_unreadable_row_die_by_name_and_go_on_after_a_redrive(lake: Lake) -> None:
    """Nobody can know whose the broken row was; a later landing tells up to which transaction it may have been."""
    deliver(lake, *(row(*change) for change in [*OPENED, *PAID[:1]]), '{"op": "U", "tid": 344, "acc')
    deliver(lake, *(row(*change) for change in PAID[2:]), row("H", 346, None, None))
    dead = lake.query("transactions", "select xid, cause from t where status = 'dead' order by csn")
    assert [(row["xid"], row["cause"]) for row in dead] == [("344", UNREADABLE), ("345", UNREADABLE)]
    assert {r["account_id"]: r["balance"] for r in lake.rows("accounts")}[51] == Decimal("500.00")
    (cut,) = lake.query("cuts", "select gaps, valid_through from t order by cut_id desc limit 1")
    assert ([gap["xid"] for gap in cut["gaps"]], cut["valid_through"]) == (["344", "345"], 345)
    counts = deliver(lake, row(*PAID[1]))
    assert counts["buffer_transactions"]["dead"] == 1, "what was missing joins the dead"
    step = step_of(lake.pipeline, lake.warehouse, "redrive")
    assert redrive(step, Selection(transactions=["344", "345"]))["transactions"] == 2
    lake.run()
    balances = {row["account_id"]: row["balance"] for row in lake.rows("accounts")}
    assert (sum(balances.values()), balances[105]) == (TOTAL, Decimal("351.22"))
    (cut,) = lake.query("cuts", "select gaps from t order by cut_id desc limit 1")
    assert cut["gaps"] == []


def test_a_row_whose_transaction_is_known_takes_no_other_with_it(lake: Lake) -> None:
    deliver(lake, *(row(*change) for change in [*OPENED, *PAID[:1]]), row("?", 344, 105, "351.22"))
    deliver(lake, *(row(*change) for change in PAID[2:]), row("H", 346, None, None))
    assert [d["xid"] for d in lake.query("transactions", "select * from t where status = 'dead' order by csn")] == [
        "344"
    ]
    (letter,) = lake.query("dead_letters", "select xid, csn, cause from t where kind = 'poison'")
    assert (letter["xid"], letter["csn"], letter["cause"]) == ("344", 344, "unknown operation")


def test_a_topic_that_is_not_declared_any_more_holds_nothing_up(bank: Bank) -> None:
    other = f"{bank.topic}.branches"
    bank.broker.create_topic(other, 1)
    text = bank.file.read_text()
    bank.declare(text.replace(f"topics: [{bank.topic}]", f"topics: [{bank.topic}, {other}]"))
    bank.send(*OPENED, *PAID)
    bank.run()
    assert bank.reached() == 0
    bank.declare(text)
    for change, partition in heartbeats(347):
        bank.send(change, partition=partition)
    bank.run()
    assert bank.reached() == 345
    paths = TablePaths(bank.warehouse, "bank")
    assert {each["topic"] for each in partition_watermarks.as_rows(paths, bank.pipeline)} == {bank.topic}
    assert other in {each["topic"] for each in partition_watermarks.as_rows(paths)}


def test_how_far_each_partition_is_stands_in_a_table(bank: Bank) -> None:
    bank.send(*OPENED)
    bank.run()
    paths = TablePaths(bank.warehouse, "bank")
    assert [(each["partition"], each["csn"]) for each in partition_watermarks.as_rows(paths)] == [
        (0, 343),
        (1, 343),
        (2, 343),
    ]
    written = DeltaTable(bank.path("source_partitions")).to_pyarrow_dataset().count_rows()
    bank.run()
    assert DeltaTable(bank.path("source_partitions")).to_pyarrow_dataset().count_rows() == written
