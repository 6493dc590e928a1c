"""h. Stragglers: transactions that wait for their metadata or their last row, and one transaction of 1,000,000 rows.

For each number of waiting events a cycle brings 1,000 small transactions on top of them, and the next one whatever the
waiting transactions lack, so that all become whole. A cycle is a landing and a batch of the buffer. What a cycle costs
that has nothing to do is taken off before costs are given by event. `TXLOOM_BENCH_SCALE=0.01` scales the numbers down.
"""

import os
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

from benchmarks.data import goldengate
from benchmarks.data.goldengate import METADATA, ROWS, Change, Transaction
from benchmarks.measuring import Failed, Measured, copied, fresh, job, made, together
from benchmarks.report import Report
from txloom.config import load, names
from txloom.storage.delta import arrow_tables
from txloom.storage.paths import TablePaths

SCALE = float(os.environ.get("TXLOOM_BENCH_SCALE", "1"))
SIZES = tuple(max(round(size * SCALE), 100) for size in (10_000, 100_000, 1_000_000))
"""Waiting events: two of each waiting transaction."""
NEW = 1_000
"""Small transactions that come on top."""
ON_TOP = 10_000_000
"""The lowest csn of those."""
MILLION = max(round(1_000_000 * SCALE), 1_000)
NOTHING = 0


def measure(report: Report, rounds: int) -> None:
    """Measure each number of waiting events, the largest once, and the large transaction once."""
    for size in (NOTHING, *SIZES):
        prepared = made(f"stragglers/{size}", lambda folder, size=size: _prepare(folder, size))
        peaks = [_one(report, prepared, size) for _ in range(rounds if size < max(SIZES) else 1)]
        report.goal(f"{size:,} waiting events: largest peak of a process, MB", max(peaks), at_most=3072)
    _large(report)
    largest, least = max(SIZES), SIZES[1]  # the fewest cost less than a process's start varies
    for unit, of in (("seconds", _seconds), ("CPU seconds", _cpu_seconds)):
        ratio = _per_event(report, largest, of) / _per_event(report, least, of)
        report.goal(f"{unit} for an event that becomes whole: {largest:,} to {least:,}", ratio, at_most=1.3)


def _seconds(run: Measured) -> float:
    return run.seconds


def _cpu_seconds(run: Measured) -> float:
    return run.cpu_seconds


def _per_event(report: Report, size: int, of: Callable[[Measured], float]) -> float:
    """Return what one of so many waiting events costs in the cycle in which it is released."""
    whole, idle = (median(map(of, report.runs[_released(each), "txloom"])) for each in (size, NOTHING))
    if whole <= idle:
        raise Failed(f"{size:,} events took no longer than none: the machine is too busy to tell")
    return (whole - idle) / size


def _waiting(number: int) -> Transaction:
    """Return a waiting transaction: two inserted lines."""
    lines = [{"id": 2 * number + place, "order_id": number, "text": f"line {place}"} for place in range(2)]
    return Transaction(number + 1, [Change("lines", "I", line) for line in lines], datetime.now(UTC))


def _arrived(size: int, topic: str, *, late: bool) -> Iterator[str]:
    """Yield the messages of a topic that come at first, or those that come late.

    Of every second transaction the metadata is late, of the others the last row.
    """
    for number in range(size // 2):
        transaction, lacks_metadata = _waiting(number), number % 2 == 0
        if topic == METADATA:
            if lacks_metadata == late:
                yield goldengate.metadata_of(transaction)
            continue
        first, last = goldengate.rows_of(transaction)
        yield from ([] if lacks_metadata else [last]) if late else ([first, last] if lacks_metadata else [first])


def _prepare(folder: Path, size: int) -> None:
    """Let transactions wait, and write what they lack into the folder `late`."""
    declaration = goldengate.declared(folder, "bench", folder / "inbox", patience="30d")
    for late, inbox in ((False, "inbox"), (True, "late")):
        for topic in (ROWS, METADATA):
            goldengate.write_lines(folder / inbox, topic, 1 + 2 * late, _arrived(size, topic, late=late))
    for step in ("land_events", "buffer_transactions"):
        job(step, declaration, folder / "warehouse")
    _check(declaration, folder / "warehouse", waiting=size // 2, released=0, lines=0)


def _one(report: Report, prepared: Path, size: int) -> float:
    """Measure a cycle beside waiting events, and the one that makes them whole; return the largest peak."""
    folder = copied(prepared, "stragglers/run")
    declaration = goldengate.declared(folder, "bench", folder / "inbox", patience="30d")
    transactions = [_small(ON_TOP + number) for number in range(NEW)]
    goldengate.write(folder / "inbox", 2, transactions)
    peak = _cycle(report, f"{NEW:,} new beside {size:,} waiting events", declaration, folder / "warehouse")
    _check(declaration, folder / "warehouse", waiting=size // 2, released=NEW, lines=NEW)
    if size:
        for file in (folder / "late").glob("*/*.jsonl"):
            file.rename(folder / "inbox" / file.parent.name / file.name)
    peak = max(peak, _cycle(report, _released(size), declaration, folder / "warehouse"))
    _check(declaration, folder / "warehouse", waiting=0, released=NEW + size // 2, lines=NEW + 2 * (size // 2))
    return peak


def _released(size: int) -> str:
    return f"{size:,} waiting events become whole" if size else "nothing to do"


def _small(csn: int) -> Transaction:
    order = {"id": csn, "status": "new", "amount": "1.2500"}
    changes = [Change("orders", "I", order), Change("lines", "I", {"id": csn, "order_id": csn, "text": "line"})]
    return Transaction(csn, changes, datetime.now(UTC))


def _cycle(report: Report, case: str, declaration: Path, warehouse: Path, *more: str) -> float:
    """Land and buffer, and run more steps; enter each, and the whole; return the largest peak of a process."""
    steps = ("land_events", "buffer_transactions", *more)
    runs = [report.add(case, f"txloom: {step}", job(step, declaration, warehouse)) for step in steps]
    whole = together(runs)
    return report.add(case, "txloom", whole).largest_mb


def _large(report: Report) -> None:
    """Measure a transaction of MILLION rows from its landing to the current table."""
    prepared = made(f"stragglers/one-{MILLION}", lambda folder: _write_large(folder / "inbox"))
    case = f"a transaction of {MILLION:,} rows"
    warehouse, declaration = fresh("stragglers/run"), goldengate.declared(prepared, "bench", prepared / "inbox")
    peak = _cycle(report, case, declaration, warehouse, "merge_current")
    _check(declaration, warehouse, waiting=0, released=1, lines=MILLION)
    sql = "select count(*) as n, count(distinct id) as ids, min(id) as first, max(id) as last from t"
    shown = arrow_tables.select(str(warehouse / "bench" / "lines"), sql).to_pylist()[0]
    if shown != {"n": MILLION, "ids": MILLION, "first": 0, "last": MILLION - 1}:
        raise Failed(f"{warehouse}: lines shows {shown}")
    report.goal(f"{case}: largest peak of a process, MB", peak, at_most=3072)


def _write_large(inbox: Path) -> None:
    lines = ({"id": number, "order_id": number // 10, "text": f"line {number}"} for number in range(MILLION))
    goldengate.write(inbox, 1, [Transaction(1, [Change("lines", "I", line) for line in lines], datetime.now(UTC))])


def _check(declaration: Path, warehouse: Path, *, waiting: int, released: int, lines: int) -> None:
    """Refuse tables in which not as many transactions wait or are released, or history has not as many lines."""
    paths = TablePaths(str(warehouse), load(declaration).name)
    queries = {
        "waiting": (names.PENDING_TRANSACTIONS, "select count(*) as n from t"),
        "released": (names.TRANSACTIONS, "select count(*) as n from t where status = 'released'"),
        "dead": (names.TRANSACTIONS, "select count(*) as n from t where status <> 'released'"),
        "lines": ("lines_changes", "select count(*) as n from t"),
    }
    counted = {what: arrow_tables.select(paths.table(t), sql).to_pylist()[0]["n"] for what, (t, sql) in queries.items()}
    expected = {"waiting": waiting, "released": released, "dead": 0, "lines": lines}
    if counted != expected:
        raise Failed(f"{warehouse}: {counted}, not {expected}")
