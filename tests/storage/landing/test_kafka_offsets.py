"""Whatever happens to a topic, every record is landed once or given up by name: against a log in plain Python."""

import tempfile
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from drawn import examples
from txloom.config.models.source import Kafka
from txloom.errors import SourceLost
from txloom.storage.landing import kafka_offsets, landing_plan, landing_tables
from txloom.storage.paths import TablePaths
from txloom.storage.runs.ledger import Entry, write_ledger
from txloom.storage.sources import kafka
from txloom.storage.sources.splits import Range

BROKERS = Kafka(brokers="localhost:9092", topics=("rows",), messages_per_run=7)


@dataclass
class Log:
    """What one topic holds: by partition its first offset and its records; a record is a number that no other has."""

    topic_id: str
    firsts: list[int]
    records: list[list[int]]

    def extents(self) -> list[Range]:
        both = enumerate(zip(self.firsts, self.records, strict=True))
        return [Range("rows", self.topic_id, n, first, first + len(held)) for n, (first, held) in both]


@dataclass
class Run:
    """A pipeline that lands the topic, and what became of every record."""

    paths: TablePaths
    log: Log
    made: int = 0
    landings: int = 0
    landed: list[int] = field(default_factory=list)
    gone: set[int] = field(default_factory=set)
    given_up: set[int] = field(default_factory=set)

    def produce(self, partition: int, count: int) -> None:
        held = self.log.records[partition % len(self.log.records)]
        held += range(self.made, self.made + count)
        self.made += count

    def age(self, partition: int, count: int) -> None:
        partition %= len(self.log.records)
        held = self.log.records[partition]
        if ("rows", partition) in kafka_offsets.reached(self.paths):
            self.gone |= set(held[:count])
        else:
            self.given_up |= set(held[:count])
        self.log.firsts[partition] += len(held[:count])
        del held[:count]

    def make_again(self, partitions: int, count: int) -> None:
        self.gone |= {record for held in self.log.records for record in held}
        self.log = Log(f"id-{self.made}-{self.log.topic_id[:20]}", [0] * partitions, [[] for _ in range(partitions)])
        self.produce(0, count)

    def lose_end(self, partition: int, count: int) -> None:
        """An end that was lost shows only until others have been written there: it is looked at at once.

        Of what lay behind the last plan nobody ever knew.
        """
        partition %= len(self.log.records)
        held, known = self.log.records[partition], kafka_offsets.reached(self.paths).get(("rows", partition))
        kept = max(len(held) - count, 0)
        planned = known is not None and known.topic_id == self.log.topic_id
        seen = known.until - self.log.firsts[partition] if known is not None and planned else 0
        self.gone |= set(held[kept:])
        self.given_up |= set(held[max(kept, seen) :])
        del held[kept:]
        self.accept()

    def losses(self) -> list[kafka.Loss]:
        return kafka.losses(self.log.extents(), kafka_offsets.reached(self.paths))

    def land(self, *, dies: bool) -> None:
        """Finish what was planned, then plan anew, as land_events does; dies: before the new plan is read."""
        try:
            if parts := kafka_offsets.unread(self.paths):
                kafka.refuse_losses("shop", self.losses())
                self.read(parts)
            kafka.refuse_losses("shop", self.losses())
        except SourceLost:
            return
        self.end()
        self.landings += 1
        about = {"landing": self.landings, "run_id": "r", "at": datetime.now(UTC)}
        taken = kafka.ranges(self.log.extents(), kafka_offsets.reached(self.paths), BROKERS)
        parts = kafka_offsets.write_plan(self.paths, about, taken)
        landing_plan.write_plan(self.paths, self.landings, [about])
        if not dies:
            self.read(parts)
            self.end()

    def read(self, parts: list[Range]) -> None:
        for part in parts:
            first, held = self.log.firsts[part.partition], self.log.records[part.partition]
            assert part.topic_id == self.log.topic_id, "no record of another topic"
            assert first <= part.first < part.until <= first + len(held), "no record that is gone"
            self.landed += held[part.first - first : part.until - first]

    def end(self) -> None:
        entry = Entry("r", "land_events", datetime.now(UTC), {}, batch=self.landings)
        write_ledger(self.paths.warehouse, "shop", entry) if self.landings else None

    def accept(self) -> None:
        if lost := self.losses():
            self.given_up |= self.gone
            kafka_offsets.give_up(self.paths, lost, "accepted", datetime.now(UTC), "CHG-7")
        assert self.losses() == []


COUNT, PARTITION = st.integers(0, 4), st.integers(0, 2)
LOSSES = st.one_of(
    st.tuples(st.just("age"), PARTITION, COUNT),
    st.tuples(st.just("age"), PARTITION, st.integers(1, 2)),
    st.tuples(st.just("make_again"), st.integers(1, 3), COUNT),
    st.tuples(st.just("lose_end"), PARTITION, COUNT),
)
ROUNDS = st.lists(
    st.tuples(
        st.lists(st.tuples(PARTITION, COUNT), max_size=3), st.booleans(), st.lists(LOSSES, max_size=2), st.booleans()
    ),
    min_size=1,
    max_size=4,
)
"""What is produced, whether the run that lands it dies before it read, what is lost then, and is it accepted."""


@pytest.mark.long
@example([([(0, 4)], True, [("age", 0, 2)], True)], 1)
@example([([(0, 4)], True, [("make_again", 1, 4)], True)], 1)
@example([([(0, 4)], True, [("lose_end", 0, 2)], True)], 1)
@example([([(0, 1), (0, 4), (0, 4)], False, [("lose_end", 0, 1)], False)], 1)
@example([([(0, 2), (1, 2)], False, [], False), ([(1, 2)], True, [("make_again", 1, 0)], False)], 2)
@example([([], False, [("make_again", 1, 3), ("make_again", 1, 2)], False)], 1)
@settings(max_examples=examples(40))
@given(rounds=ROUNDS, partitions=st.integers(1, 3))
def test_every_record_is_landed_once_or_given_up(rounds: list[Any], partitions: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        paths = TablePaths(str(Path(folder)), "shop")
        landing_tables.create_tables(paths)
        run = Run(paths, Log("id-0", [0] * partitions, [[] for _ in range(partitions)]))
        run.land(dies=False)
        for produced, dies, lost, accepted in rounds:
            for partition, count in produced:
                run.produce(partition, count)
            run.land(dies=dies)
            for kind, *what in lost:
                getattr(run, kind)(*what)
            if accepted:
                run.accept()
        run.accept()
        while kafka_offsets.unread(paths) or waits(run):
            before = len(run.landed)
            run.land(dies=False)
            assert len(run.landed) > before, "every run goes on"
    assert len(run.landed) == len(set(run.landed)), "no record twice"
    missing = set(range(run.made)) - set(run.landed)
    assert missing <= run.given_up, "nothing is skipped that nobody gave up"


def waits(run: Run) -> bool:
    """Tell whether records are there that no landing took."""
    taken = kafka.ranges(run.log.extents(), kafka_offsets.reached(run.paths), BROKERS)
    return any(part.first < part.until for part in taken)
