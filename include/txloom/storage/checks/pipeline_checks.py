"""Check inputs on the pipeline itself: what waits, what is dead, the ledger, ages, findings."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

from txloom.config import names
from txloom.config.models.expectations import (
    DeadLetterExpectation,
    DriftExpectation,
    LedgerExpectation,
    SnapshotAgeExpectation,
    StuckExpectation,
    ValidThroughExpectation,
)
from txloom.config.secret_names import MASK, is_secret
from txloom.quality.checkpoint import Case
from txloom.quality.conditions import AtMost, Few, InSet
from txloom.quality.masking import MOST
from txloom.quality.verdicts import CheckInput
from txloom.storage.checks import findings
from txloom.storage.checks.check_input import asking, check_input
from txloom.storage.dead_letters import open_letters
from txloom.storage.delta import small_tables
from txloom.storage.delta.sql import text_literal
from txloom.storage.paths import TablePaths
from txloom.storage.snapshots import dated_transactions
from txloom.storage.stores.delta_tables import table_at

Versions = Mapping[str, int]
WHERE = 'topic, partition, "offset", file, line'


def waiting(paths: TablePaths, expectation: StuckExpectation, at: Versions) -> CheckInput:
    """Return the transactions that wait for longer than declared, longest first, with expected and received rows."""
    if names.PENDING_TRANSACTIONS not in at:
        return CheckInput(0)
    path = paths.table(names.PENDING_TRANSACTIONS)
    ask = asking({"t": table_at(path, version=at[names.PENDING_TRANSACTIONS])})
    longest = AtMost("age_seconds", int(expectation.older_than.total_seconds()))
    columns = "xid, csn, age_seconds, cause, expected, received"
    order = "age_seconds desc, csn"
    return check_input(expectation, ask, f"select {columns} from t", longest, order=order)


def dead_letters(paths: TablePaths, expectation: DeadLetterExpectation, at: Versions) -> CheckInput:
    """Return the open dead letters, the newest first, without their payloads."""
    if names.DEAD_LETTERS not in at:
        return CheckInput(0)
    select = partial(open_letters.open_dead_letters, paths, version=at[names.DEAD_LETTERS])
    few = Few(expectation.at_most)
    count = select("count(*) as n")["n"][0].as_py()
    case = Case(expectation, lambda: select("1 as row"), few)
    if not few.fails(count):
        return CheckInput(count, case=case)
    columns = f'xid, csn, "table", op, cause, {WHERE}, dead_at'
    sample = select(columns, f"order by dead_at desc, csn, {WHERE} limit {MOST}").to_pylist()
    limit = f"at most {expectation.at_most} may be open" if expectation.at_most else None
    return CheckInput(count, count, sample, limit, case)


def ledger(paths: TablePaths, expectation: LedgerExpectation, at: Versions) -> CheckInput:
    """Return the newest balance of the ledger; it fails where it does not come out even."""
    if names.LEDGER not in at:
        return CheckInput(0)
    path = paths.table(names.LEDGER)
    ask = asking({"t": table_at(path, version=at[names.LEDGER])})
    newest = (
        "select run_id, at, balanced, detail, counts from t where step = 'balance'"
        f" order by {small_tables.latest(path)} limit 1"
    )
    shown = "run_id, at, detail, counts"
    return check_input(expectation, ask, newest, InSet("balanced", (True,)), shown=shown)


def shown(
    paths: TablePaths, expectation: ValidThroughExpectation, valid_through: int | None, now: datetime
) -> CheckInput:
    """Return the age of the newest commit that readers see; where it is too old, also what waits.

    valid_through: its csn, None before the first merge or cut.
    """
    if valid_through is None:
        return CheckInput(0)
    committed = f"select committed_at from t where csn = {valid_through} and committed_at is not null limit 1"
    rows = small_tables.query(paths.table(names.TRANSACTIONS), committed)
    if not rows:
        return CheckInput(1, detail=f"nobody knows when csn {valid_through} was committed")
    waits = (
        "select count(*) as n, first_value(xid order by csn) as xid, first_value(cause order by csn) as cause from t"
    )
    first = next(iter(small_tables.query(paths.table(names.PENDING_TRANSACTIONS), waits)), {"n": 0})
    row = {"valid_through": valid_through, "committed_at": rows[0]["committed_at"]}
    row |= {"waiting": first["n"], "first_waiting": first.get("xid"), "cause": first.get("cause")}
    return _aged(row, rows[0]["committed_at"], expectation, now)


def dates(paths: TablePaths, expectation: SnapshotAgeExpectation, at: Versions, now: datetime) -> CheckInput:
    """Return the age of the newest date whose extracts were released."""
    if names.TRANSACTIONS not in at:
        return CheckInput(0)
    table = table_at(paths.table(names.TRANSACTIONS), version=at[names.TRANSACTIONS])
    dated = f"starts_with(xid, {text_literal(dated_transactions.XID)}) and status = 'released'"
    rows = small_tables.ask(table, f"select xid, csn from t where {dated} order by csn desc limit 1")
    if not rows:
        return CheckInput(0, detail="no date was released yet")
    day = datetime.strptime(str(rows[0]["csn"]), "%Y%m%d").replace(tzinfo=UTC)
    return _aged({"newest_date": day.date(), "xid": rows[0]["xid"]}, day, expectation, now)


def _aged(
    row: dict[str, Any], since: datetime, expectation: ValidThroughExpectation | SnapshotAgeExpectation, now: datetime
) -> CheckInput:
    age = int((now - since).total_seconds())
    oldest = AtMost("age_seconds", int(expectation.older_than.total_seconds()))
    result = check_input(expectation, asking({}), f"select cast({age} as bigint) as age_seconds", oldest)
    return replace(result, sample=[{**each, **row} for each in result.sample])


def drift(paths: TablePaths, expectation: DriftExpectation, at: Versions) -> CheckInput:
    """Return the open findings; those fail that need a snapshot, or that have one of the declared codes."""
    if names.FINDINGS not in at:
        return CheckInput(0)
    ask = asking({"t": table_at(paths.table(names.FINDINGS), version=at[names.FINDINGS])})
    codes = expectation.codes
    condition = InSet("code", codes, outside=True) if codes else InSet("needs_snapshot", (False,))
    columns = 'code, "table", "column", since_csn, xid, evidence, at'
    result = check_input(expectation, ask, findings.NEWEST, condition, shown=columns, order='since_csn, code, "table"')
    for row in result.sample:
        row["evidence"] = MASK if row["column"] and is_secret(row["column"]) else row["evidence"]
    return result
