"""A lake without a JVM: every step of a cycle in this process, over real files and real Delta tables.

Landing, merging, publishing, backfills, redrives and snapshots are the product's own. The buffer is the product's rule
(`transactions.buffer`) and release, called bucket by bucket as the stream would; only what writes dead letters, which
is Spark's there, is written once more here.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from itertools import count
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError
from pyspark.errors import StreamingQueryException

from called import step_of
from landed import landed_between
from txloom.config import names
from txloom.config.models.pipeline import Pipeline
from txloom.errors import BeyondValidThrough
from txloom.quality.dead_letters import Selection
from txloom.steps.buffer.buffer_transactions import KINDS, check_balance, known_before
from txloom.steps.buffer.declared_rules import rules_of
from txloom.steps.buffer.give_up import cause_of, describe
from txloom.steps.buffer.late_events import CURABLE, completed_of
from txloom.steps.buffer.micro_batch import Batch
from txloom.steps.buffer.pending import list_waiting, named
from txloom.steps.buffer.producer_checks import Operations
from txloom.steps.buffer.release_batch import Released, release_small
from txloom.steps.buffer.rows_of_before import take_rows_of_before
from txloom.steps.dead_letters.redrive import redrive
from txloom.steps.declarations.declare import declare, declare_redecoded
from txloom.steps.landing.land_events import land_events
from txloom.steps.merge.merge_current import merge_current
from txloom.steps.publish.publish import publish
from txloom.steps.snapshots.diff_snapshot import diff_snapshot
from txloom.storage.buffer import batch_plan, buffer_stream
from txloom.storage.buffer.newest_batch import buffer_state
from txloom.storage.dead_letters import open_letters
from txloom.storage.declarations.undeclared_columns import effective_pipeline
from txloom.storage.delta import arrow_tables, sql
from txloom.storage.delta.sql import int_list
from txloom.storage.paths import TablePaths
from txloom.storage.rewriting import pieces, rewrite
from txloom.storage.snapshots import dated_transactions
from txloom.storage.system_tables import DEAD_LETTERS, TRANSACTIONS
from txloom.storage.targets import history_tables
from txloom.transactions import buffer, causes, completeness, reused_ids
from txloom.transactions import events as ev
from txloom.transactions.causes import UNREADABLE
from txloom.transactions.completeness import UNFINISHED_ROWS

BOOKS = (names.LEDGER, names.CHANGE_EVENTS, names.LANDED_FILES, names.FILE_POSITIONS, names.TRANSACTIONS, names.CUTS)
"""Tables that get a file with every run."""
Event = dict[str, Any]
Outcomes = Mapping[str, list[dict[str, Any]]]


class Died(Exception):
    """The process is gone."""


@contextmanager
def dying(writes: int) -> Iterator[None]:
    """Let the buffer die after so many writes."""
    left = count(writes, -1)

    def once(write: Any) -> Any:
        def written(*given: Any) -> Any:
            done = write(*given)
            if next(left) <= 1:
                raise Died
            return done

        return written

    with ExitStack() as patches:
        for name in ("append", "append_local", "append_files"):
            patches.enter_context(patch.object(Batch, name, once(getattr(Batch, name))))
        yield


AT_ONCE = (1, 10, 60, batch_plan.ROWS_AT_ONCE)
"""Rows of change_events with which a batch is large enough, to draw from: a landing each, some, all."""


LISTED = 10
"""Values that a condition lists before it becomes a join: more than the kinds and flags that code lists."""


@dataclass
class SmallLake:
    """One pipeline with an inbox and a warehouse of its own, and the state that its buffer's stream would keep.

    at_once: rows of change_events with which a batch is large enough. spark: a session, for lakes that have one.
    dies_after: so many writes into its tables the buffer dies at next, and its checkpoint is lost with it.
    """

    folder: Path
    pipeline: Pipeline
    runs: int = 0
    generation: int = 1
    batches: int = 0
    seen: int = 0
    held: dict[int, buffer.Held] = field(default_factory=dict)
    at_once: int = batch_plan.ROWS_AT_ONCE
    spark: Any = None
    dies_after: int = 0

    @property
    def warehouse(self) -> str:
        return str(self.folder / "warehouse")

    @property
    def paths(self) -> TablePaths:
        return TablePaths(self.warehouse, self.pipeline.name)

    def run(self) -> None:
        """Run one cycle; of extracts one for each date that was not landed yet."""
        with patch.object(sql, "MOST_LISTED", (LISTED, sql.MOST_LISTED)[self.runs % 2]):
            self._run()

    def _run(self) -> None:
        self._cycle()
        while days := self._days():
            for _ in range(2):
                self._cycle()
            assert len(self._days()) < len(days), f"{days[0]} is not landed"

    def _cycle(self) -> None:
        self.land()
        self.buffer()
        with self.in_pieces():
            self.step(merge_current, self.session)
        self.step(publish, None)
        if self.runs % 3 == 0:
            self._compact_books()

    def _compact_books(self) -> None:
        """Do for the books what maintenance does: with each file and commit, all that reads them takes longer."""
        for name in BOOKS:
            with suppress(TableNotFoundError):
                table = DeltaTable(self.paths.table(name))
                table.optimize.compact()
                table.create_checkpoint()

    @contextmanager
    def in_pieces(self) -> Iterator[None]:
        """Cut what is large into pieces of another size in every run; none of them is large by itself."""
        small = self.runs % 3
        with (
            patch.object(pieces, "PIECE_BYTES", (300, 5_000, pieces.PIECE_BYTES)[small]),
            patch.object(pieces, "AT_ONCE_BYTES", (300, 5_000, pieces.AT_ONCE_BYTES)[small]),
            patch.object(rewrite, "FILE_BYTES", (500, rewrite.FILE_BYTES, 5_000)[small]),
        ):
            yield

    def session(self) -> Any:
        """Return the session of steps that are too large for this process: there is none."""
        raise AssertionError("a step of a small lake asked for a JVM")

    def forget(self, where: str = "kind = 'row'") -> None:
        """Remove the messages of landed rows, as maintenance does with old ones; where: of which rows, as SQL."""
        DeltaTable(self.paths.change_events).update(predicate=where, updates={"value": "null"})

    def shown_through(self) -> int | None:
        """Return up to where the newest cut shows the source."""
        cuts = self.rows("cuts")
        return max(cuts, key=lambda cut: cut["cut_id"])["valid_through"] if cuts else None

    def land(self) -> None:
        """Land what is new; of extracts the next date, unless one that was landed before does not show yet."""
        self.runs += 1
        if self.pipeline.source.snapshots is None:
            self.step(land_events, self.session)
        for day in self._days()[:1]:
            with suppress(BeyondValidThrough):
                self.step(diff_snapshot, self.session, day=day)

    def _days(self) -> list[date]:
        """Return the dates that have extracts which were not landed yet."""
        if self.pipeline.source.snapshots is None or self.pipeline.source.files is None:
            return []
        newest = dated_transactions.newest(self.paths)
        days = [date.fromisoformat(folder.name) for folder in Path(self.pipeline.source.files.path).iterdir()]
        return sorted(day for day in days if newest is None or dated_transactions.csn(day) > newest.csn)

    def step(self, step: Any, spark: Any, *choices: Any, **more: Any) -> dict[str, int]:
        """Run one step of the product."""
        counts: dict[str, int] = step(
            step_of(self.pipeline, self.warehouse, f"run-{self.runs}", spark), *choices, **more
        )
        return counts

    def lose_checkpoint(self) -> None:
        """Begin the buffer anew, from change_events."""
        self.generation, self.batches, self.seen, self.held = self.generation + 1, 0, 0, {}

    def buffer(self) -> None:
        """Take in what was landed, release what is whole, redrive what came to be."""
        if self.dies_after:
            with suppress(Died, StreamingQueryException), dying(self.dies_after):
                self.take_in()
            self.dies_after = 0
            self.lose_checkpoint()
        self.take_in()

    def take_in(self) -> None:
        """Do what the buffer's job does."""
        self._batch()
        complete = open_letters.complete_now(self.paths)
        if complete and self.pipeline.completeness.complete_now == "redrive":
            self.step(redrive, None, Selection(transactions=complete))
            self._batch()

    def rows(self, table: str, version: int | None = None) -> list[dict[str, Any]]:
        """Return a table's rows; instants in UTC."""
        rows: list[dict[str, Any]] = arrow_tables.select(
            self.paths.table(table), "select * from t", version
        ).to_pylist()
        return rows

    # The buffer.

    def _batch(self) -> None:
        """Take in what was landed since, in as many batches as are planned for it."""
        declared = declare(self.pipeline, self.paths, f"run-{self.runs}")
        if declared is None:
            return
        pipeline = effective_pipeline(self.pipeline, self.paths)
        history_tables.create(pipeline, self.paths)
        history_tables.take_back(pipeline, self.paths, self.generation)
        seen = buffer_state(self.paths)
        known = known_before(seen, self.generation)
        with patch.object(batch_plan, "ROWS_AT_ONCE", self.at_once):
            planned = batch_plan.ends(self.paths, self.seen, known)
        if planned and batch_plan.has_redecoded(self.paths, seen):
            declared = declare_redecoded(declared, self.pipeline, self.paths, f"run-{self.runs}")
        if declared is None:
            return
        for end in planned:
            run_id = f"run-{self.runs}"
            batch = Batch(None, pipeline, self.paths, self.generation, self.batches, run_id, known, declared=declared)  # type: ignore[arg-type]
            self._write(batch.up_to(end.landing), self._decided(end.landing))
            self.batches += 1
        if planned:
            check_balance(self.paths, self.generation, f"run-{self.runs}")

    def _write(self, batch: Batch, outcomes: Outcomes) -> None:
        counts = Counter[str]()
        for row in outcomes["counts"]:
            counts.update(row["received"])
        landings = {row["landing"] for row in outcomes["place"]}
        whole = pa.Table.from_pylist(outcomes["released"], buffer_stream.RELEASED_ROWS)
        repeated = pa.Table.from_pylist(outcomes["repeated"], buffer_stream.REPEATED_ROWS)
        released = release_small(batch, whole, repeated, landings) if landings else Released()
        books = Letters(batch, counts)
        unfinished = {
            what: buffer_stream.packed_rows(outcomes[what], what, UNFINISHED_ROWS)  # type: ignore[arg-type]
            for what in ("dead", "waiting")
        }
        dead = unfinished["dead"].to_pylist(maps_as_pydicts="strict")
        books.give_up(dead)
        books.refuse(released)
        of_before = take_rows_of_before(batch, outcomes["late"])
        batch = of_before.record_in(batch)
        counts.update({"released": of_before.new, "duplicates": of_before.again})
        books.judge(of_before.without(outcomes["late"]), {row["tx"] for row in dead})
        books.write(released)
        if not batch.is_known:
            known = named(batch, pa.concat_tables(list(unfinished.values())))
            clock = max(outcomes["counts"], key=lambda row: row["landing"])
            list_waiting(batch, unfinished["waiting"], known, clock)  # type: ignore[arg-type]
        counts["buffered_change"] = counts["buffered"] - counts.pop("buffered_before")
        batch.enter(dict(counts))

    def _decided(self, until: int) -> Outcomes:
        """Decide on the landings since the last batch up to another, bucket by bucket, from packed state."""
        landed = landed_between(self.paths, self.seen, until)
        self.seen = until
        by_kind: dict[str, list[dict[str, Any]]] = {
            what: [] for what in (*KINDS, "released", "repeated", "dead", "waiting")
        }
        rules = rules_of(self.pipeline)
        for bucket, arrived in landed.items():
            before = buffer_stream.unpack(buffer_stream.pack(self.held.get(bucket, buffer.Held())))
            waiting = int(np.count_nonzero(before.events["kind"] == ev.ROW))
            self.held[bucket], decisions = buffer.decide(before, arrived, rules)
            for what, columns in _outcomes(waiting, self.held[bucket], decisions):
                by_kind[what] += [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
        return by_kind


def _outcomes(
    before: int, held: buffer.Held, decisions: buffer.Decisions
) -> Iterator[tuple[str, dict[str, list[Any]]]]:
    """Yield what a bucket decided, as columns by kind of outcome."""
    for released in decisions.released:
        yield "released", {name: getattr(released, name).tolist() for name in buffer_stream.RELEASED}
    yield "place", {"landing": [landing for landing, _ in decisions.repeated_in]}
    for what, parts in (("repeated", decisions.repeated), ("late", [*decisions.late, *decisions.late_metadata])):
        events = ev.concatenate(parts)
        yield what, {name: events[name].tolist() for name in ("tx", "landing", "row")}
    for what, standings in (("dead", decisions.dead), ("waiting", decisions.waiting)):
        yield what, {"what": [what], "packed": [ev.pack_rows(standings)]}
    counts = {
        "rows": decisions.rows,
        "metadata": decisions.metadata,
        "duplicates": decisions.duplicates,
        **({"redecoded": decisions.redecoded} if decisions.redecoded else {}),
        "repeated_metadata": decisions.repeated_metadata,
        "released": sum(int(part.rows.sum()) for part in decisions.released),
        "transactions": sum(len(part.tx) for part in decisions.released),
        "dead": sum(decisions.dead.column("rows").to_pylist()),
        "buffered": int(np.count_nonzero(held.events["kind"] == ev.ROW)),
        "buffered_before": before,
    }
    clock = {"first_at": [decisions.now or 0], "landing": [decisions.landing], "csn": [decisions.low_watermark]}
    yield "counts", {"received": [counts], **clock}


class Letters:
    """What a batch cannot release, as dead letters; `counts` are corrected as they are made."""

    def __init__(self, batch: Batch, counts: Counter[str]) -> None:
        self._batch, self._counts = batch, counts
        self._letters: list[Event] = []
        self._dead: list[Event] = []
        self._completed = TRANSACTIONS.empty_table()
        self._landed: dict[int, list[Event]] = {}

    def give_up(self, standings: Sequence[Mapping[str, Any]], operations: Operations | None = None) -> None:
        """Make dead letters of transactions that waited too long; what was released long ago is judged as late."""
        events = self._of([row["tx"] for row in standings])
        before = open_letters.released(self._batch.paths, list({event["transaction_id"] for event in events}))
        ends = dict(sorted(before))
        watched = self._batch.table_names()
        for row in standings:
            given_up = [e for e in events if e["tx"] == row["tx"] and e["landing"] in row["landings"]]
            if (
                given_up
                and (end := ends.get(given_up[0]["transaction_id"])) is not None
                and not reused_ids.is_behind(given_up, end)
            ):
                self._counts["dead"] -= row["rows"]
                self._late([event for event in _distinct(given_up) if event["kind"] == "row"], {})
                continue
            cause = cause_of(row, watched, operations or {})
            self._inter(given_up, row["first_at"], row["rows"], cause, describe(row, watched))

    def refuse(self, released: Released) -> None:
        """Make dead letters of transactions with a value that is not of its type."""
        for tx, problem in released.unreadable.items():
            rows, first_at, first, last = released.sizes[tx]
            refused = [event for event in self._of([tx]) if first <= event["landing"] <= last]
            self._inter(refused, first_at, rows, UNREADABLE, problem)
            self._counts["dead"] += rows
            self._counts["released"] -= rows

    def judge(self, late: Sequence[Mapping[str, Any]], now_dead: set[int]) -> None:
        """Judge what came for finished transactions: duplicates, or dead letters."""
        dead_before = open_letters.dead_by_hash(self._batch.paths) if late else {}
        known = {tx: cause for tx, (_, cause) in dead_before.items()}
        known |= {tx: self._dead_cause(tx) for tx in now_dead}
        places = {(row["landing"], row["row"]) for row in late}
        events = [e for e in self._of([row["tx"] for row in late]) if (e["landing"], e["row"]) in places]
        self._late([event for event in events if event["kind"] == "row"], known)
        for event in events:
            if event["kind"] == "metadata" and event["tx"] in known and self._is_new(event, "expected"):
                self._letters.append(event | {"cause": known[event["tx"]], "detail": "late"})
        ids = {event["transaction_id"] for event in events if known.get(event["tx"]) in CURABLE}
        self._completed = completed_of(self._batch, sorted(ids))

    def write(self, released: Released) -> None:
        """Write dead letters, then transactions."""
        at, number = datetime.now(UTC), self._batch.release
        if self._letters:
            rows = [letter | {"dead_at": at, "release": number} for letter in self._letters]
            self._batch.append_local(pa.Table.from_pylist(rows, DEAD_LETTERS), names.DEAD_LETTERS)
        gone = pa.Table.from_pylist([row | {"finished_at": at, "release": number} for row in self._dead], TRANSACTIONS)
        finished = pa.concat_tables([released.transactions, gone, self._completed])
        if finished.num_rows:
            self._batch.append_local(finished, names.TRANSACTIONS)

    def _dead_cause(self, tx: int) -> str:
        return next((row["cause"] for row in self._dead if row["tx"] == tx), causes.LATE)

    def _of(self, transactions: Sequence[int]) -> list[Event]:
        """Return all that was landed of transactions, in order."""
        unknown = [tx for tx in transactions if tx not in self._landed]
        if unknown:
            self._landed |= {tx: [] for tx in unknown}
            for event in self._ask(unknown):
                self._landed[event["tx"]].append(event)
        events = [event for tx in set(transactions) for event in self._landed[tx]]
        return sorted(events, key=lambda event: (event["landing"], event["row"]))

    def _ask(self, transactions: Sequence[int]) -> list[Event]:
        watched = "(kind = 'metadata' or kind = 'row' and \"table\" is not null)"
        sql = f"select * from t where {watched} and tx in ({int_list(transactions)})"
        rows = arrow_tables.select(self._batch.paths.change_events, f'{sql} order by landing, "row"').to_pylist()
        return list(rows)

    def _inter(self, events: Sequence[Event], first_at: int, rows: int, cause: str, detail: str) -> None:
        """Make dead letters of all distinct events of a transaction."""
        self._letters += [event | {"cause": cause, "detail": detail} for event in _distinct(events)]
        about = {name: events[0][name] for name in ("tx", "transaction_id", "xid")}
        csn = max((event["csn"] for event in events if event["csn"] is not None), default=None)
        first = datetime.fromtimestamp(first_at / 1e6, UTC)
        about["committed_at"] = min((e["committed_at"] for e in events if e["committed_at"] is not None), default=None)
        self._dead.append(
            about | {"csn": csn, "status": "dead", "cause": cause, "rows": rows, "first_landed_at": first}
        )

    def _late(self, events: Sequence[Event], known: Mapping[int, str]) -> None:
        for event in events:
            fate = self._fate(event, known)
            if fate is None:
                self._counts["duplicates"] += 1
            else:
                self._counts["dead"] += 1
                detail = f"transaction {event['transaction_id']}"
                self._letters.append(event | {"cause": fate, "detail": detail})

    def _fate(self, event: Event, known: Mapping[int, str]) -> str | None:
        earlier = [e for e in self._of([event["tx"]]) if _is_before(e, event) and e["kind"] == "row"]
        same = [e for e in earlier if all(e[name] == event[name] for name in ("source_table", "identity"))]
        if any(e["payload"] == event["payload"] for e in same):
            return None
        return completeness.CONFLICT if same else known.get(event["tx"], causes.LATE)

    def _is_new(self, event: Event, column: str) -> bool:
        earlier = [e for e in self._of([event["tx"]]) if _is_before(e, event) and e["kind"] == event["kind"]]
        return all(e[column] != event[column] for e in earlier)


def _distinct(events: Sequence[Event]) -> list[Event]:
    names = ("tx", "kind", "source_table", "identity", "payload")
    return list({tuple(event[name] for name in names): event for event in reversed(events)}.values())[::-1]


def _is_before(one: Event, other: Event) -> bool:
    return (one["landing"], one["row"]) < (other["landing"], other["row"])
