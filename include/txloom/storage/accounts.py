"""What expectations of the pipeline itself look at: who waits, what is dead, the ledger, ages, findings."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable

from txloom.config import names
from txloom.config.expectations import (
    DeadLetterExpectation,
    DriftExpectation,
    LedgerExpectation,
    SnapshotAgeExpectation,
    StuckExpectation,
    ValidThroughExpectation,
)
from txloom.config.models import Pipeline
from txloom.quality.masking import MASK, MOST, is_secret
from txloom.quality.verdicts import Evidence
from txloom.storage import books, dated, dead, findings, local
from txloom.storage.place import Place
from txloom.storage.progress import merged

Versions = Mapping[str, int]
WHERE = 'topic, partition, "offset", file, line'


def waiting(place: Place, expectation: StuckExpectation, at: Versions) -> Evidence:
    """Return the transactions that wait for longer than declared, longest first: what came of what is expected."""
    if names.PENDING_TRANSACTIONS not in at:
        return Evidence(0)
    path = place.table(names.PENDING_TRANSACTIONS)
    table = {"t": DeltaTable(path, version=at[names.PENDING_TRANSACTIONS])}
    checked = local.ask(table, "select count(*) as n from t")["n"][0].as_py()
    stuck = f"from t where age_seconds > {int(expectation.older_than.total_seconds())}"
    found = local.ask(table, f"select age_seconds {stuck}")
    columns = "xid, csn, age_seconds, cause, expected, received"
    order = f"order by age_seconds desc, csn limit {MOST}"
    sample = local.ask(table, f"select {columns} {stuck} {order}") if found.num_rows else found
    return Evidence(checked, found, sample.to_pylist(maps_as_pydicts="strict"))


def letters(place: Place, expectation: DeadLetterExpectation, at: Versions) -> Evidence:
    """Return the open dead letters, the newest first; what they hold stays where it is."""
    if names.DEAD_LETTERS not in at:
        return Evidence(0)
    version = at[names.DEAD_LETTERS]
    count = dead.open_letters(place, "count(*) as n", version=version)["n"][0].as_py()
    if count <= expectation.at_most:
        return Evidence(count)
    columns = f'xid, csn, "table", op, cause, {WHERE}, dead_at'
    order = f"order by dead_at desc, csn, {WHERE} limit {MOST}"
    sample = dead.open_letters(place, columns, order, version=version).to_pylist()
    told = f"at most {expectation.at_most} may be open" if expectation.at_most else None
    return Evidence(count, pa.table({"row": pa.nulls(count)}), sample, told)


def ledger(place: Place, _: LedgerExpectation, at: Versions) -> Evidence:
    """Return the newest balance where it does not come out even."""
    if names.LEDGER not in at:
        return Evidence(0)
    table = DeltaTable(place.table(names.LEDGER), version=at[names.LEDGER])
    order = books.latest(place.table(names.LEDGER))
    newest = f"select run_id, at, balanced, detail, counts from t where step = 'balance' order by {order} limit 1"
    rows = books.ask(table, newest)
    bad = [row for row in rows if row["balanced"] is False]
    judged = pa.table({"balanced": pa.array([False] * len(bad), pa.bool_())})
    return Evidence(len(rows), judged, [{name: row[name] for name in row if name != "balanced"} for row in bad])


def shown(
    pipeline: Pipeline, place: Place, expectation: ValidThroughExpectation, at: Versions, now: datetime
) -> Evidence:
    """Return how old the newest commit is that publish would show, and who waits below it, where it is too old."""
    reached = merged(place, pipeline.current_tables) if at else None
    if reached is None:
        return Evidence(0)
    committed = f"select committed_at from t where csn = {reached.valid_through} and committed_at is not null limit 1"
    found = books.query(place.table(names.TRANSACTIONS), committed)
    if not found:
        return Evidence(1, detail=f"nobody knows when csn {reached.valid_through} was committed")
    waits = (
        "select count(*) as n, first_value(xid order by csn) as xid, first_value(cause order by csn) as cause from t"
    )
    first = next(iter(books.query(place.table(names.PENDING_TRANSACTIONS), waits)), {"n": 0})
    row = {"valid_through": reached.valid_through, "committed_at": found[0]["committed_at"]}
    row |= {"waiting": first["n"], "first_waiting": first.get("xid"), "cause": first.get("cause")}
    return _aged(row, found[0]["committed_at"], expectation, now)


def dates(place: Place, expectation: SnapshotAgeExpectation, at: Versions, now: datetime) -> Evidence:
    """Return the newest date whose extracts the tables hold, where it is too old."""
    if names.TRANSACTIONS not in at:
        return Evidence(0)
    table = DeltaTable(place.table(names.TRANSACTIONS), version=at[names.TRANSACTIONS])
    own = f"starts_with(xid, {local.quoted(dated.XID)}) and status = 'released'"
    rows = books.ask(table, f"select xid, csn from t where {own} order by csn desc limit 1")
    if not rows:
        return Evidence(0, detail="no date was released yet")
    day = datetime.strptime(str(rows[0]["csn"]), "%Y%m%d").replace(tzinfo=UTC)
    return _aged({"newest_date": day.date(), "xid": rows[0]["xid"]}, day, expectation, now)


def _aged(
    row: dict[str, Any], since: datetime, expectation: ValidThroughExpectation | SnapshotAgeExpectation, now: datetime
) -> Evidence:
    age = int((now - since).total_seconds())
    if age <= int(expectation.older_than.total_seconds()):
        return Evidence(1)
    return Evidence(1, pa.table({"age_seconds": pa.array([age], pa.int64())}), [{"age_seconds": age, **row}])


def drift(place: Place, expectation: DriftExpectation, at: Versions) -> Evidence:
    """Return the open findings that fail it, the oldest csn first."""
    found = findings.open_findings(place) if at else []
    bad = [row for row in found if (row["code"] in expectation.codes if expectation.codes else row["needs_snapshot"])]
    columns = ("code", "table", "column", "since_csn", "xid", "evidence", "at")
    sample = [{name: row[name] for name in columns} for row in bad[:MOST]]
    for row in sample:
        row["evidence"] = MASK if row["column"] and is_secret(row["column"]) else row["evidence"]
    return Evidence(len(found), pa.table({"row": pa.nulls(len(bad))}), sample)
