"""A pipeline with years behind it, written directly as tables, as its own steps and its nightly maintenance left them.

At full size: 500,000 landings, one every five minutes; 8,000,000 transactions; 1,000,000 dead letters, of which ten are
open; a ledger of 400 days; the messages of 30 days. `TXLOOM_BENCH_AGE=0.01` scales all of it down.

- The tables are created by the functions of the steps. Their rows lie in files of up to a gigabyte, in the order of
  landings, as OPTIMIZE joins them night after night; those of the last half day in a small file for each commit.
- Each table's log has the commits of as many days as maintenance keeps of it, and checkpoints at both ends
  (`data.delta_logs`).
- Events stay in change_events for ever, as the steps leave them; only messages are forgotten.
- The plan of the buffer's batches has a row for each landing, and the buffer's state the changelogs of a day
  (`data.aged_buffer`).
- The result files and reports of 400 days lie beside the tables.

What is simpler than in life: the history of lines and the aggregate's stream begin with the first real cycle; cuts do
not list what redrives amended; releases of the past have numbers below those of the first checkpoint. The first real
cycle comes behind all of it and is large, so that the buffer remembers as many transactions as it ever does.
`landed_offsets` and `source_partitions` are not there: the source is a folder of files, and metadata counts.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable, WriterProperties, write_deltalake

from benchmarks.data import aged_books, aged_past, aged_rows, delta_logs, goldengate
from benchmarks.data.aged_past import APART, BLOCKS, LANDINGS, LEDGER_CYCLES, ORDERS, TODAY, Past
from benchmarks.data.delta_logs import HOOKS, Entries
from txloom.config import names
from txloom.config.models.pipeline import Pipeline
from txloom.steps.maintenance.maintain_tables import tables_of
from txloom.storage import system_tables
from txloom.storage.dead_letters import open_letters
from txloom.storage.delta import arrow_tables, schema_evolution, small_tables
from txloom.storage.landing import landing_tables
from txloom.storage.landing.change_events import with_compact_events
from txloom.storage.maintenance.log_retention import KEPT, keep_log, properties_of
from txloom.storage.paths import TablePaths, run_folder
from txloom.storage.runs import lease as leases_of
from txloom.storage.sources.splits import LandingPlan
from txloom.storage.targets import history_tables, schemas
from txloom.storage.targets.row_tables import create, create_documents, row_tables

MORE = """\
  aggregates:
  - {name: whole, root: orders, children: [{table: lines, as: lines, relation: many, parent_key: [order_id]}]}
expectations:
- {kind: dead_letters, id: few, at_most: 1000, severity: warn, sentence: Few., hint: Look.}
alerts: {valid_through_age: 30m, source_quiet: 2h, stuck_after: 10m, dead_letters: 0}
maintenance: {change_events: {keep: 60d}, reports: {keep: 430d}}
"""
"""A month more is kept than there is: expire finds nothing old enough, also a while after the tables were made."""
LINES_OF_AN_ORDER = 5
FIRST_CSN = BLOCKS * aged_past.NEW + 1
"""The lowest csn that no old transaction has."""
LARGE = 1 << 30
RETAIN = timedelta(days=7)
"""How long old versions stay readable, by default."""
WRITER = WriterProperties(max_row_group_size=200_000, compression="SNAPPY")
TASKS = ("land_events", "buffer_transactions", "merge_current", "check_expectations.few", "publish")


@dataclass(frozen=True)
class Growing:
    """A table that grows with each landing.

    Args:
        name: its name.
        make: returns its rows of a block of landings.
        column: the column with the landing of a row, or with the release that took the landing.
        write_ids: the write ids that the last landing left in it, each with its number.
    """

    name: str
    make: Callable[[aged_past.Block], pa.Table]
    column: str
    write_ids: Mapping[str, int] = field(default_factory=dict)


def declared(folder: Path) -> Path:
    """Write the declaration of the pipeline, with the inbox in the same folder, and return its file."""
    return goldengate.declared(folder, "aged", folder / "inbox", more=MORE)


def write_current(pipeline: Pipeline, paths: TablePaths, csn: int) -> None:
    """Create the current tables, with rows that the transactions up to a csn left; 0: as of a load before any."""
    orders = _orders(csn)
    ids = np.arange(ORDERS * LINES_OF_AN_ORDER, dtype=np.int64)
    texts = aged_past.joined("text ", pa.array(ids))
    lines = pa.table({"id": ids, "order_id": ids // LINES_OF_AN_ORDER, "text": texts})
    for row_table, table in zip(row_tables(pipeline), (orders, _placed(lines)), strict=True):
        create(row_table, paths)
        _append(paths.table(row_table.current), table)
    (aggregate,) = pipeline.targets.aggregates
    create_documents(pipeline, aggregate, paths)
    nested = pa.StructArray.from_arrays(
        [lines.column(name).combine_chunks() for name in lines.column_names], lines.column_names
    )
    offsets = pa.array(np.arange(ORDERS + 1, dtype=np.int32) * LINES_OF_AN_ORDER)
    _append(paths.table(aggregate.current), orders.append_column("lines", pa.ListArray.from_arrays(offsets, nested)))


def _orders(csn: int) -> pa.Table:
    """Return the orders, each as its last transaction up to a csn left it."""
    ids = np.arange(ORDERS, dtype=np.int64)
    last = np.maximum(csn - (csn - ids) % ORDERS, 0) if csn else np.zeros(ORDERS, np.int64)
    columns = aged_rows.orders_as_of(last) | {"id": ids}
    return _placed(pa.table(columns), last)


def _placed(table: pa.Table, csn: aged_past.Ints | None = None) -> pa.Table:
    last = np.zeros(table.num_rows, np.int64) if csn is None else csn
    table = table.append_column("_txloom_csn", pa.array(last)).append_column("_txloom_pos", pa.array(last * 1_000_000))
    return table.append_column("_txloom_xid", aged_past.joined("7.", pa.array(last % 101), ".", pa.array(last)))


def _append(path: str, table: pa.Table) -> None:
    delta = DeltaTable(path)
    write_deltalake(delta, arrow_tables.conform(table, arrow_tables.schema_of(delta)), mode="append")


def write_past(pipeline: Pipeline, paths: TablePaths) -> None:
    """Write everything that lies behind the pipeline; the next real landing has the number LANDINGS + 1."""
    landing_tables.create_tables(paths)
    history_tables.create(pipeline, paths)
    schema_evolution.ensure(paths.table(names.CUTS), system_tables.CUTS)
    schema_evolution.ensure(paths.table(names.EXPECTATION_RESULTS), system_tables.EXPECTATION_RESULTS)
    write_current(pipeline, paths, FIRST_CSN - 1)
    past = _past(pipeline, paths)
    for growing in _growing(pipeline):
        _write_growing(paths, growing, past)
        _age(paths, growing.name, 2 if growing.name == names.CHANGE_EVENTS else 1, past, newest=TODAY)
    dismissed = paths.table(names.DISMISSALS)
    small_tables.ensure(dismissed, system_tables.DISMISSALS)
    _write_large(dismissed, (aged_rows.dismissals(past.block(number)) for number in range(BLOCKS)), {})
    _write_runs(paths, past)
    _write_replaced(paths, past)
    _write_folders(paths, past)


def maintain(pipeline: Pipeline, paths: TablePaths) -> None:
    """Say how long each log is kept, and write down what is open, as the nightly maintenance does.

    Files that no version needs are not there, so that nothing is left of a vacuum.
    """
    for name in tables_of(pipeline):
        if DeltaTable.is_deltatable(paths.table(name)):
            keep_log(paths.table(name), properties_of(name, RETAIN))
    open_letters.remember(paths)


def _past(pipeline: Pipeline, paths: TablePaths) -> Past:
    current = [paths.table(name) for name in pipeline.current_tables]
    ids = {Path(path).name: str(DeltaTable(path).metadata().id) for path in current}
    clocks = pa.array([aged_books.clock_numbers(number) for number in range(1, aged_past.POOL + 1)])
    now = datetime.now(UTC).replace(microsecond=0) - APART
    return Past(now, _compact(now), clocks, ids)


def _compact(now: datetime) -> "pa.Array[Any]":
    """Return what landings packed for the buffer, of as many landings as give POOL values."""
    bare = Past(now, pa.array([b""] * aged_past.POOL), pa.array([b""] * aged_past.POOL), {})
    events, packed_numbers = aged_rows.change_events(bare.block(0)), list[bytes]()
    events = events.filter(pc.is_in(events.column("kind"), pa.array(["row", "metadata"])))
    for landing in events.column("landing").unique().to_pylist():
        of_landing = events.filter(pc.equal(events.column("landing"), landing))
        packed = with_compact_events(of_landing, LandingPlan(landing, now, ()))
        packed_numbers += packed.column("numbers").drop_null().to_pylist()
        if len(packed_numbers) >= aged_past.POOL:
            break
    return pa.array((packed_numbers * (aged_past.POOL // len(packed_numbers) + 1))[: aged_past.POOL])


def _growing(pipeline: Pipeline) -> Sequence[Growing]:
    def id_of(table: str) -> str:
        return names.write_id(pipeline.name, table, 0)

    history = next(each.history for each in pipeline.targets.mirrors if each.table == "orders")
    changes = partial(aged_rows.changes, schema=schemas.changes_schema(pipeline.table("orders")))
    events = {id_of(names.CHANGE_EVENTS): LANDINGS, id_of(f"{names.CHANGE_EVENTS}.clock"): LANDINGS}
    return [
        Growing(names.CHANGE_EVENTS, aged_rows.change_events, "landing", events),
        Growing(names.LANDED_FILES, aged_books.landed_files, "landing", {id_of(names.LANDED_FILES): LANDINGS}),
        Growing(names.FILE_POSITIONS, aged_books.file_positions, "landing"),
        Growing(names.TRANSACTIONS, aged_rows.transactions, "release"),
        Growing(history, changes, "_txloom_release"),
        Growing(names.DEAD_LETTERS, aged_rows.dead_letters, "landing", {id_of(f"{names.DEAD_LETTERS}.land"): LANDINGS}),
        Growing(names.CUTS, aged_books.cuts, "cut_id", {id_of(names.CUTS): LANDINGS}),
    ]


def _landing_of(table: pa.Table, column: str) -> aged_past.Ints:
    """Return the landing in which each row was written; column: has the landing, or the release that took it."""
    numbers: aged_past.Ints = table.column(column).to_numpy()
    return numbers - aged_past.FIRST_RELEASE if column.endswith("release") else numbers


def _write_growing(paths: TablePaths, growing: Growing, past: Past) -> None:
    """Write a table: one commit of all rows but those of TODAY landings, then a commit for each part of these."""
    path, recent = paths.table(growing.name), list[pa.Table]()

    def older() -> Iterator[pa.Table]:
        for number in range(BLOCKS):
            block = growing.make(past.block(number))
            is_recent = _landing_of(block, growing.column) > LANDINGS - TODAY
            if is_recent.any():
                recent.append(block.filter(pa.array(is_recent)))
                block = block.filter(pa.array(~is_recent))
            yield block

    _write_large(path, older(), growing.write_ids)
    for each in recent:
        _write_small(path, each, growing.column)


def _write_large(path: str, blocks: Iterator[pa.Table], write_ids: Mapping[str, int]) -> None:
    delta = DeltaTable(path)
    schema = arrow_tables.plain_schema(arrow_tables.schema_of(delta))
    batches = (batch for block in blocks for batch in arrow_tables.conform(block, schema).combine_chunks().to_batches())
    write_deltalake(
        delta,
        pa.RecordBatchReader.from_batches(schema, batches),
        mode="append",
        target_file_size=LARGE,
        writer_properties=WRITER,
        commit_properties=delta_logs.written_under(write_ids),
        post_commithook_properties=HOOKS,
    )


def _write_small(path: str, recent: pa.Table, column: str) -> None:
    """Write rows of the last landings, in a commit for each; clock rows of change_events in one of their own."""
    delta, landings = DeltaTable(path), _landing_of(recent, column)
    schema = arrow_tables.schema_of(delta)
    clock = np.zeros(recent.num_rows, bool)
    if path.endswith(names.CHANGE_EVENTS):
        clock = pc.equal(recent.column("kind"), "clock").to_numpy()
    for landing in range(LANDINGS - TODAY + 1, LANDINGS + 1):
        for chosen in ((landings == landing) & ~clock, (landings == landing) & clock):
            part = arrow_tables.conform(recent.filter(pa.array(chosen)), schema)
            if part.num_rows or path.endswith(names.CHANGE_EVENTS):
                write_deltalake(delta, part, mode="append", post_commithook_properties=HOOKS)


def _age(
    paths: TablePaths,
    table: str,
    commits: int,
    past: Past,
    newest: int = 0,
    about: Callable[[int], Mapping[str, Any]] | None = None,
) -> None:
    """Give a table the log that maintenance keeps of it.

    Args:
        paths: where the tables are.
        table: its name.
        commits: how many a cycle makes.
        past: what lies behind the pipeline.
        newest: cycles whose commits are there already.
        about: the userMetadata of a commit, see `Entries`.
    """
    version, path = DeltaTable(paths.table(table)).version(), paths.table(table)
    recent = max(min(newest * commits, version - 1), 0)
    cycles = log_cycles(table)
    count, before = max((cycles - newest) * commits, 1), (LANDINGS - cycles) * commits
    last = past.until - APART * newest - timedelta(seconds=1)
    delta_logs.age(path, Entries(count, before, last, APART / commits, about), recent)


def log_cycles(table: str) -> int:
    """Return of how many cycles the log of a table has the commits."""
    hours = int(properties_of(table, RETAIN)[KEPT].split()[1])
    return min(max(round(hours / 24 * aged_past.DAY * aged_past.SCALE), 10), LANDINGS)


def _write_runs(paths: TablePaths, past: Past) -> None:
    """Write the tables of 400 days: the ledger, with what expire carried forward, and results of expectations."""
    path, since, until = paths.table(names.LEDGER), LANDINGS - LEDGER_CYCLES, LANDINGS - TODAY
    small_tables.ensure(path, system_tables.LEDGER)
    write_ids = {names.write_id(paths.pipeline, "land_events", 0): LANDINGS}
    parts = [aged_books.carried(past, since)] if since else []
    parts.append(aged_books.expired(past, LANDINGS - aged_past.MESSAGE_CYCLES, until))
    _write_large(path, iter([*parts, aged_books.ledger(past, since + 1, until)]), write_ids)
    _write_each(path, aged_books.ledger(past, until + 1, LANDINGS))
    _age(paths, names.LEDGER, len(aged_books.STEPS), past, newest=TODAY)
    path = paths.table(names.EXPECTATION_RESULTS)
    _write_large(path, iter([aged_books.results(past, since + 1, until)]), {})
    _write_each(path, aged_books.results(past, until + 1, LANDINGS))
    _age(paths, names.EXPECTATION_RESULTS, 1, past, newest=TODAY)


def _write_each(path: str, table: pa.Table) -> None:
    """Write each row in a commit of its own."""
    delta = DeltaTable(path)
    conformed = arrow_tables.conform(table, arrow_tables.schema_of(delta))
    for number in range(table.num_rows):
        write_deltalake(delta, conformed.slice(number, 1), mode="append", post_commithook_properties=HOOKS)


def _write_replaced(paths: TablePaths, past: Past) -> None:
    """Write the tables that each cycle replaces or merges into, and the findings, whose logs say how far they are."""
    now = past.until

    def shown(follow: int) -> dict[str, int]:
        landing = LANDINGS - follow
        return {
            "valid_through": int(aged_books.valid_through(np.array([landing]))[0]),
            "release": aged_past.release_of(landing),
        }

    def buffered(follow: int) -> dict[str, int]:
        landing = LANDINGS - follow
        return {"release": aged_past.release_of(landing), "landing": landing, "reached": 2**63 - 1}

    for table in ("orders", "lines", "whole_current"):
        _age(paths, table, 1, past, 0, shown)
    pending, leases, incidents = (paths.table(n) for n in (names.PENDING_TRANSACTIONS, names.LEASES, names.INCIDENTS))
    follow = log_cycles(names.PENDING_TRANSACTIONS)
    small_tables.replace(pending, [], system_tables.PENDING_TRANSACTIONS, buffered(follow))
    _age(paths, names.PENDING_TRANSACTIONS, 1, past, 0, buffered)
    lease = {"epoch": LANDINGS * 5, "run_id": "scheduled__before", "step": "publish", "host": "host", "pid": 4711}
    lease |= {"began": "", "acquired_at": now - APART, "released_at": now - APART}
    small_tables.ensure(leases, system_tables.LEASES, leases_of.SHORT_LOG)
    small_tables.replace(leases, [lease], system_tables.LEASES, {})
    write_deltalake(
        DeltaTable(leases),
        pa.Table.from_pylist([lease], system_tables.LEASES),
        mode="overwrite",
        commit_properties=delta_logs.written_under({names.LEASES: lease["epoch"]}),
    )
    _age(paths, names.LEASES, 2 * len(TASKS), past)
    small_tables.replace(incidents, [_incident(past, n) for n in range(500)], system_tables.INCIDENTS, {})
    _age(paths, names.INCIDENTS, 1, past, 0, lambda follow: {"looked_at": (now - APART * follow).isoformat()})
    findings = [_finding(past, number, status) for number in range(200) for status in ("open", "closed")]
    small_tables.append(paths.table(names.FINDINGS), findings, system_tables.FINDINGS)


def _incident(past: Past, number: int) -> dict[str, Any]:
    opened = past.until - timedelta(hours=number + 1)
    return {
        "kind": "dead letters", "subject": "", "opened_at": opened, "closed_at": opened + APART, "since": opened,
        "severity": "error", "what": "3 dead letters are open; 0 may be.", "todo": "Look.", "total": 3,
        "rows": [aged_rows.CAUSE], "page": "dags/aged_dead_letters", "opened_to": ["log"], "closed_to": ["log"],
        "is_over": True,
    }  # fmt: skip


def _finding(past: Past, number: int, status: str) -> dict[str, Any]:
    at = past.until - timedelta(days=number, hours=status == "open")
    return {
        "code": "column added", "severity": "warn", "table": "orders", "column": f"c{number}", "since_csn": number + 1,
        "xid": "7.1.1", "evidence": f"c{number} is not declared", "needs_snapshot": False, "hint": "Declare it.",
        "status": status, "run_id": "scheduled__before", "at": at,
    }  # fmt: skip


def _write_folders(paths: TablePaths, past: Past) -> None:
    """Write the folders of runs of 400 days: a result file for each task, and the reports of expectations."""
    at = past.at(np.arange(LANDINGS - LEDGER_CYCLES + 1, LANDINGS + 1, dtype=np.int64))
    folders = [run_folder(name) for name in aged_books.runs(at).to_pylist()]
    result = paths.table(names.RUNS), [f"{task}.json" for task in TASKS], '{"counts": {}, "exit_code": 0}'
    report = paths.table(names.REPORTS), ["report.html", "report.md"], "<p>Few: passed.</p>" * 50
    for root, files, text in (result, report):
        base = Path(root)
        base.mkdir()
        content = base.parent / "content.unfinished"
        content.write_text(text)
        for folder in folders:
            (base / folder).mkdir()
        delta_logs.linked(base, content, [f"{folder}/{file}" for folder in folders for file in files])
        content.unlink()
