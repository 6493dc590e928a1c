"""Findings about transactions that several runs of their producer sent.

A transaction that was released and may lack rows, or that was given up, needs a snapshot of its tables. One that was
released and lacks nothing is a note.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from txloom.quality import findings as f
from txloom.quality.findings import Finding
from txloom.steps.buffer.give_up import Unfinished, describe
from txloom.steps.buffer.micro_batch import Batch
from txloom.storage.checks import findings
from txloom.storage.dead_letters.open_letters import released as released_before
from txloom.storage.delta import small_tables
from txloom.storage.delta.sql import int_list
from txloom.transactions.producer_runs import CONNECTED, ONE

POSITION = "case when starts_with(identity, '0') then null else try_cast(split_part(identity, ':', 1) as bigint) end"
"""The position of a row in the source's log, where it is a number: an LSN of PostgreSQL, an SCN, GoldenGate's pos."""
AT_ONCE = 1_000
"""Transactions that one query reads."""


@dataclass(frozen=True)
class Decided:
    """A transaction of several producer runs that a batch decided on.

    Args:
        tx: its hash.
        csn: its csn; negative where it is not known.
        runs: whether its runs are connected (`txloom.transactions.producer_runs`).
        first_landing: the first landing that has events of it.
        last_landing: the last one.
        cause: why it was given up; None where it was released.
    """

    tx: int
    csn: int
    runs: int
    first_landing: int
    last_landing: int
    cause: str | None = None


@dataclass
class Sent:
    """What was landed of one transaction.

    Args:
        transaction_id: its id.
        xid: its id at the source.
        csn: the highest csn of its rows.
        runs: by table, one row for each producer run: rows, and first and last position.
        shared: by table, how many rows several runs sent.
    """

    transaction_id: str = ""
    xid: str | None = None
    csn: int | None = None
    runs: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    shared: dict[str, int] = field(default_factory=dict)


def after_batch(batch: Batch, released: pa.Table, dead: Sequence[Unfinished], causes: Mapping[int, str]) -> None:
    """Record a finding or a note for each table of the transactions of several runs that a batch decided on.

    Args:
        batch: the batch.
        released: the released transactions, in the schema RELEASED_ROWS of `txloom.storage.buffer.buffer_stream`.
        dead: the transactions that were given up.
        causes: causes of the dead ones, by hash.
    """
    decided = [*_of_released(released), *_of_dead(batch, dead, causes)]
    named = list[Finding]()
    for start in range(0, len(decided), AT_ONCE):
        some = decided[start : start + AT_ONCE]
        sent = _sent(batch, some)
        gone = [sent[each.tx].transaction_id for each in some if each.cause]
        before = {name for name, _ in released_before(batch.paths, gone)}
        named += [
            finding
            for each in some
            if sent[each.tx].transaction_id not in before
            for finding in _named(each, sent[each.tx])
        ]
    findings.note(batch.paths, [each for each in named if each.code == f.RUNS_OVERLAP], batch.run_id)
    needed = [each for each in named if each.code == f.TWO_RUNS]
    findings.record(batch.paths, needed, batch.run_id, batch.pipeline.source.format)


def _of_released(released: pa.Table) -> list[Decided]:
    of_several = released.filter(pc.not_equal(released.column("runs"), pa.scalar(ONE, pa.int64())))
    columns = ["tx", "csn", "runs", "first_landing", "last_landing"]
    return [Decided(**row) for row in of_several.select(columns).to_pylist()]


def _of_dead(batch: Batch, dead: Sequence[Unfinished], causes: Mapping[int, str]) -> Iterator[Decided]:
    watched = batch.table_names()
    for row in dead:
        if row["runs"] != ONE:
            cause = ", ".join(part for part in (causes[row["tx"]], describe(row, watched)) if part)
            yield Decided(row["tx"], row["csn"], row["runs"], min(row["landings"]), max(row["landings"]), cause)


def _sent(batch: Batch, decided: Sequence[Decided]) -> dict[int, Sent]:
    """Return, by hash, what each producer run sent of some transactions, from change_events."""
    first, last = min(row.first_landing for row in decided), max(row.last_landing for row in decided)
    among = f"tx in ({int_list([row.tx for row in decided])}) and landing between {first} and {last}"
    rows = f"{among} and kind = 'row' and \"table\" is not null"
    path = batch.paths.change_events
    sent = {row.tx: Sent() for row in decided}
    columns = f"count(distinct identity) as rows, min({POSITION}) as first, max({POSITION}) as last"
    columns += ", max(xid) as xid, max(csn) as csn, max(transaction_id) as id, min(landing) as landing"
    by_run = f'select tx, "table", producer_run, {columns}'
    for row in small_tables.query(path, f"{by_run} from t where {rows} group by 1, 2, 3 order by 1, 2, landing, first"):
        one = sent[row["tx"]]
        one.transaction_id, one.xid, one.csn = row["id"], row["xid"], row["csn"] if row["csn"] is not None else one.csn
        one.runs.setdefault(row["table"], []).append(row)
    twice = f'select tx, "table", identity from t where {rows} group by 1, 2, 3 having count(distinct producer_run) > 1'
    for row in small_tables.query(path, f'select tx, "table", count(*) as n from ({twice}) group by 1, 2'):
        sent[row["tx"]].shared[row["table"]] = row["n"]
    return sent


def _named(decided: Decided, sent: Sent) -> Iterator[Finding]:
    """Yield a finding for each table of a transaction."""
    csn, cause = decided.csn if decided.csn >= 0 else sent.csn, decided.cause
    for table, runs in sent.runs.items():
        positions = [each["last"] for each in runs if each["last"] is not None]
        since = csn if csn is not None else max(positions, default=None)
        code = f.TWO_RUNS if cause is not None or decided.runs != CONNECTED else f.RUNS_OVERLAP
        yield Finding(code, table, None, since, sent.xid, _evidence(sent, table, cause))


def _evidence(sent: Sent, table: str, cause: str | None) -> str:
    runs = sent.runs[table]
    parts = [_run(number, each) for number, each in enumerate(runs, 1)]
    whose = "one of the transaction's runs" if len(runs) == 1 else f"{len(runs)} runs"
    shared = f", {sent.shared.get(table, 0)} rows came from both" if len(runs) > 1 else ""
    given_up = f"; given up: {cause}" if cause is not None else ""
    return f"rows of {sent.xid} in {table} come from {whose}: {', '.join(parts)}{shared}{given_up}"


def _run(number: int, run: Mapping[str, Any]) -> str:
    where = "" if run["first"] is None else f" at {run['first']} to {run['last']}"
    return f"run {number} sent {run['rows']}{where}"
