"""The pipeline in memory: the same rules as the jobs, without Spark and Delta, landing by landing."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from oracle.capture import Message
from txloom.config.models.pipeline import Aggregate, Pipeline, Table
from txloom.current.documents.compose import documents
from txloom.current.documents.document_versions import document_intervals
from txloom.current.folding.fold import fold
from txloom.current.versions import intervals, versions
from txloom.events.formats import SourceDecoder
from txloom.steps.buffer.declared_rules import rules_of
from txloom.steps.buffer.release import events_of, made_of
from txloom.storage.buffer import buffer_stream
from txloom.storage.buffer.buffer_stream import pack, unpack
from txloom.storage.landing import change_events
from txloom.storage.sources.splits import LandingPlan, Task
from txloom.storage.targets.row_tables import member_of
from txloom.storage.targets.schemas import changes_schema, current_schema, document_fields
from txloom.transactions import buffer, memory
from txloom.transactions import events as ev
from txloom.transactions.compact_events import BUCKETS, packed
from txloom.transactions.low_watermark import LowWatermark, Partition, advanced, low_watermark
from workloads import unfinished

BEGUN = datetime(2026, 1, 1, tzinfo=UTC)
STEP = timedelta(minutes=15)
Rows = dict[str, dict[tuple[Any, ...], dict[str, Any]]]


class Core:
    """One pipeline's state between runs, as plain values."""

    def __init__(self, pipeline: Pipeline) -> None:
        self.pipeline = pipeline
        self.tables = {table.name: table for table in pipeline.tables}
        self.events: list[pa.Table] = []
        self.held = {bucket: buffer.Held() for bucket in range(BUCKETS)}
        self.history: dict[str, list[pa.Table]] = {name: [] for name in self.tables}
        self.rows = {name: current_schema(table).empty_table() for name, table in self.tables.items()}
        self.finished: set[int] = set()
        self.entered: dict[int, int] = {}
        self.valid_through = 0
        self.landings = self.decided = 0
        self.counts = dict.fromkeys(("rows", "released", "dead", "duplicates", "late"), 0)
        self.waiting: list[unfinished.Unfinished] = []
        self.dead: list[unfinished.Unfinished] = []
        self.evidence: list[str] = []
        self._shown = 0
        self.partitions: dict[str, Partition] = {}

    def wait_for(self, topics: Sequence[str]) -> None:
        """Learn the partitions of a source whose transactions wait for all of them; each topic is one."""
        self.partitions = dict.fromkeys(topics, Partition(None, _micros(BEGUN)))

    def run(self, *landings: Sequence[Message], batches: Sequence[int] = ()) -> None:
        """Land, take landings through the buffer, merge; every batch begins with what was packed away.

        batches: how many of the landings the buffer takes in one after the other; then the rest together.
        """
        landed = [self._landed(messages) for messages in landings]
        for size in [*batches, len(landed)]:
            taken, landed = landed[:size], landed[size:]
            if taken:
                self._take_in(taken)
        self._merge()

    def _landed(self, messages: Sequence[Message]) -> dict[int, list[np.ndarray]]:
        self.landings += 1
        at = LandingPlan(self.landings, BEGUN + self.landings * STEP, ())
        numbers, clock = self._land(messages, at), self._clock(messages, at)
        return {bucket: [*compact, clock, ev.decided(at.number, self.decided)] for bucket, compact in numbers.items()}

    def _take_in(self, landed: Sequence[dict[int, list[np.ndarray]]]) -> None:
        self.decided += len(landed)
        rules = rules_of(self.pipeline)
        released, repeated, self.waiting = [], [], []
        for bucket in range(BUCKETS):
            arrived = ev.concatenate([part for each in landed for part in each[bucket]])
            held, decisions = buffer.decide(_restarted(self.held[bucket]), arrived, rules)
            self.held[bucket] = held
            released.append(buffer_stream.released(decisions))
            repeated.append(buffer_stream.repeated(decisions))
            self.waiting += unfinished.each(decisions.waiting)
            self.dead += (dead := unfinished.each(decisions.dead))
            for part in decisions.released:
                self.entered |= dict(zip(part.tx.tolist(), part.csn.tolist(), strict=True))
            self.entered |= {standing.tx: standing.csn for standing in dead}
            self.counts["rows"] += decisions.rows
            self.counts["duplicates"] += decisions.duplicates
            self.counts["late"] += sum(len(part) for part in decisions.late)
            self.counts["released"] += sum(int(part.rows.sum()) for part in decisions.released)
            self.counts["dead"] += sum(standing.rows for standing in dead)
        self._release(pa.concat_tables(released), pa.concat_tables(repeated))

    def balanced(self) -> bool:
        """Tell whether every row that came in is somewhere, and every released one in history once."""
        held = sum(int(np.count_nonzero(held.events["kind"] == ev.ROW)) for held in self.held.values())
        out = held + sum(count for name, count in self.counts.items() if name != "rows")
        changes_merged = sum(changes.num_rows for history in self.history.values() for changes in history)
        return out == self.counts["rows"] and changes_merged == self.counts["released"]

    def _clock(self, messages: Sequence[Message], at: LandingPlan) -> np.ndarray:
        now, idle = _micros(at.at), self.pipeline.completeness.idle_after
        reached, holes = LowWatermark(ev.ANYWHERE), list[tuple[int, int]]()
        for topic in dict(messages) if self.partitions else ():
            csns = [_csn(message) for name, message in messages if name == topic]
            self.partitions[topic], new_ranges = advanced(self.partitions[topic], csns, now)
            holes += new_ranges
        if self.partitions:
            idle_after = None if idle is None else int(idle.total_seconds() * 1_000_000)
            reached = low_watermark(self.partitions.values(), now, idle_after, inclusive=False, unreadable_ranges=holes)
        clock = ev.clocks(np.array([at.number]), np.array([now]), reached.csn)
        return np.concatenate([ev.unreadable_ranges(at.number, reached.unreadable_ranges), clock])

    def _land(self, messages: Sequence[Message], at: LandingPlan) -> dict[int, list[np.ndarray]]:
        numbers: dict[int, list[np.ndarray]] = {bucket: [] for bucket in range(BUCKETS)}
        decoder = SourceDecoder(self.pipeline)
        topics: dict[str, list[bytes]] = {}
        for topic, message in messages:
            topics.setdefault(topic, []).append(message.encode())
        for file, (topic, values) in enumerate(topics.items(), 1):
            places = range(1, len(values) + 1)
            events = change_events.with_position(decoder.decode(topic, values), Task(file, topic, topic, 0), places, at)
            self.events.append(events)
            transactions = events.column("tx").drop_null().unique().to_pylist()
            known = np.array([(tx, self.entered[tx]) for tx in transactions if tx in self.entered], memory.AT_POSITION)
            for bucket, each in packed(events, known=known):
                numbers[bucket].append(ev.from_bytes(each, ev.EVENT))
        return numbers

    def _release(self, chosen: pa.Table, repeated: pa.Table) -> None:
        if not chosen.num_rows:
            return
        events = pa.concat_tables(self.events)
        events = events.filter(pc.is_valid(events.column("tx")))
        events = events_of(events, chosen, repeated)
        watched = pc.or_(pc.equal(events.column("kind"), "metadata"), pc.is_valid(events.column("table")))
        release = made_of(self.pipeline, events.filter(watched), chosen, self.landings)
        assert not release.unreadable, release.unreadable
        for mirror in self.pipeline.targets.mirrors:
            if mirror.history in release.history:
                self.history[mirror.table].append(release.history[mirror.history])
        self.finished |= set(chosen.column("csn").to_pylist())

    def _merge(self) -> None:
        lowest = min((standing.csn for standing in self.waiting), default=None)
        below = [csn for csn in self.finished if lowest is None or csn < lowest]
        target = max([self.valid_through, *below])
        for name, table in self.tables.items():
            if not self.history[name]:
                continue
            history = pa.concat_tables(self.history[name])
            csn, release = history.column("_txloom_csn"), history.column("_txloom_release")
            late = pc.and_(pc.less_equal(csn, self.valid_through), pc.greater(release, self._shown))
            if pc.any(late).as_py():
                upto, base = history.filter(pc.less_equal(csn, target)), current_schema(table).empty_table()
            else:
                new = pc.and_(pc.greater(csn, self.valid_through), pc.less_equal(csn, target))
                upto, base = history.filter(new), self.rows[name]
            self.rows[name], evidence = _applied(base, upto, table)
            self.evidence += [] if pc.any(late).as_py() else evidence
        self.valid_through, self._shown = target, self.landings

    def intervals(self, name: str, untracked: Sequence[str] = ()) -> list[dict[str, Any]]:
        """Return when each row of a table was what it was."""
        table = self.tables[name]
        if not self.history[name]:
            return []
        changes, schema = pa.concat_tables(self.history[name]), current_schema(table)
        versions_of = versions(changes, key=table.key, columns=table.column_names, schema=schema)
        rows: list[dict[str, Any]] = intervals(
            versions_of, key=table.key, columns=table.column_names, untracked=untracked
        ).to_pylist()
        return rows

    def document_intervals(self) -> list[dict[str, Any]]:
        """Return when each document of the aggregate was what it was."""
        (aggregate,) = self.pipeline.targets.aggregates
        by_document = {}
        for name in (aggregate.root, *(child.table for child in aggregate.children)):
            table, schema = self.tables[name], current_schema(self.tables[name])
            changes = self.history[name] or [changes_schema(table).empty_table()]
            by_document[name] = versions(
                pa.concat_tables(changes), key=table.key, columns=table.column_names, schema=schema
            )
        root = self.tables[aggregate.root]
        children = [
            (member_of(self.tables[child.table], child), by_document[child.table]) for child in aggregate.children
        ]
        schema = pa.schema(document_fields(self.pipeline, aggregate))
        rows: list[dict[str, Any]] = document_intervals(
            by_document[root.name], root.key, root.column_names, children, schema
        ).to_pylist()
        return rows

    def shown(self) -> Rows:
        """Return every table's rows under their keys, and the documents."""
        tables: Rows = {}
        for name, table in self.tables.items():
            tables[name] = {_key(row, table.key): _declared(row, table) for row in self.rows[name].to_pylist()}
        for aggregate in self.pipeline.targets.aggregates:
            tables[aggregate.current] = self._documents(aggregate)
        return tables

    def _documents(self, aggregate: Aggregate) -> dict[tuple[Any, ...], dict[str, Any]]:
        root = self.tables[aggregate.root]
        children = [
            (member_of(self.tables[child.table], child), self.rows[child.table]) for child in aggregate.children
        ]
        composed = documents(self.rows[root.name], children, root.key, root.column_names)
        return {
            _key(row, root.key): {name: value for name, value in row.items() if not name.startswith("_txloom_")}
            for row in composed.to_pylist()
        }


def _micros(at: datetime) -> int:
    return int(at.timestamp() * 1_000_000)


def _csn(message: str) -> int | None:
    """Return the id of an event's transaction, None for what cannot be read."""
    try:
        return int(json.loads(message)["csn"])
    except ValueError:
        return None


def _restarted(held: buffer.Held) -> buffer.Held:
    return unpack(pack(held))


def _applied(rows: pa.Table, changes: pa.Table, table: Table) -> tuple[pa.Table, list[str]]:
    """Merge the net effect of changes into rows, as a MERGE by key does; return the contradictions too."""
    if not changes.num_rows:
        return rows, []
    effects = fold(rows, changes, key=table.key, columns=table.column_names, evidence=True)
    kept = {_key(row, table.key): row for row in rows.to_pylist()}
    for row in effects.to_pylist():
        kept.pop(_key(row, table.key), None)
        if not row["_txloom_deleted"]:
            kept[_key(row, table.key)] = {name: row[name] for name in rows.column_names}
    evidence = effects.column("_txloom_evidence").drop_null().to_pylist()
    return pa.Table.from_pylist(list(kept.values()), rows.schema), evidence


def _key(row: dict[str, Any], key: Sequence[str]) -> tuple[Any, ...]:
    return tuple(row[name] for name in key)


def _declared(row: dict[str, Any], table: Table) -> dict[str, Any]:
    return {name: row[name] for name in table.column_names}
