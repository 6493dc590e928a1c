"""audit: compare the lake with the live database at one moment, row by row, and say exactly what differs."""

import logging
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from txloom.config import names
from txloom.config.models.audit import Audit
from txloom.config.secret_names import MASK, is_secret
from txloom.errors import ConfigurationError, TxloomError
from txloom.quality import findings as f
from txloom.quality import masking
from txloom.quality.findings import Finding
from txloom.steps.audit.compare_table import (
    CHANGED,
    EXTRA,
    MISSING,
    Compared,
    Difference,
    Handles,
    LakeTable,
    compare,
)
from txloom.steps.audit.declared_source import declared_source
from txloom.steps.step import Counts, Step
from txloom.storage.checks import findings
from txloom.storage.checks.audited_rows import DIFFERENT, EQUAL
from txloom.storage.databases.audit_source import AuditSource, Moment
from txloom.storage.databases.snapshot_folder import SnapshotFolder
from txloom.storage.delta import schema_evolution, small_tables
from txloom.storage.publishing import reader_holds
from txloom.storage.publishing.reader_holds import Cut
from txloom.storage.system_tables import AUDIT_RESULTS
from txloom.storage.targets.row_tables import RowTable, row_tables

LOG = logging.getLogger(__name__)

BEHIND, UNSETTLED = "behind", "unsettled"
ROUNDS = 5
"""How often rows are looked at that change all the time."""
OPERATIONS = {MISSING: "r", CHANGED: "U", EXTRA: "D"}
"""The change that makes a row equal, by what is wrong with it."""
LISTED = 10_000
"""The most rows of a table that differ and are kept."""
SHOWN = 20
"""The most differences of a table that are printed."""
LOOK = 2.0
"""Seconds between two looks at the newest cut."""
LONGEST = timedelta(hours=24)
"""How long vacuum keeps a cut for an audit that died."""


@dataclass(frozen=True)
class Choice:
    """What is compared.

    Args:
        tables: names of declared tables; empty: all that have a key, and are in the snapshot folder.
        wait: how long to wait until the lake shows the database's snapshot; None: as declared.
        snapshot: a snapshot folder to compare with, instead of the declared database.
        csn: as of which its rows are; None: of an extract of a date, the date's.
    """

    tables: Sequence[str] = ()
    wait: timedelta | None = None
    snapshot: str | None = None
    csn: int | None = None


@dataclass(frozen=True)
class Outcome:
    """What is known of a table at the end."""

    verdict: str
    compared: Compared
    moment: Moment
    cut: Cut


def audit(step: Step, choice: Choice) -> Counts:
    """Compare tables with the database, write what was found to audit_results, and open or close findings.

    Everything is read in one snapshot of the database. Of each key range both sides have the number of rows and the sum
    of digests; rows are read only where these differ. What transactions changed that the snapshot may not have is
    looked at again, in a new snapshot, up to ROUNDS times. The database gets an empty transaction into its log, and
    nothing else.

    Returns:
        tables, rows (of the source), differing, unsettled and behind rows, and source_seconds (rounded up).

    Raises:
        ConfigurationError: no database is declared, or it, or the snapshot folder, lacks a table or a column.
        SourceUnavailable: the database does not answer, or not in time.
        TxloomError: nothing was published yet.
    """
    declared = step.pipeline.audit
    chosen = _tables(step, choice)
    as_declared = Audit.model_fields["wait"].default if declared is None else declared.wait
    wait = as_declared if choice.wait is None else choice.wait
    until = time.monotonic() + wait.total_seconds()
    with _source(step, choice) as source:
        if isinstance(source, SnapshotFolder) and not choice.tables:
            chosen = _in_folder(source, chosen)
        outcomes = _looked_at(step, source, chosen, until)
        _write(step, outcomes, source.seconds, choice.snapshot)
        counts = [_reported(step, table, outcome) for table, outcome in outcomes.items()]
        return {
            "tables": len(outcomes),
            "rows": sum(each.compared.rows for each in outcomes.values()),
            **{name: sum(count[name] for count in counts) for name in ("differing", "unsettled", "behind")},
            "source_rows": source.rows,
            "source_seconds": int(source.seconds) + 1,
        }


@contextmanager
def _source(step: Step, choice: Choice) -> Iterator[AuditSource]:
    """Open what the lake is compared with."""
    if choice.snapshot is not None:
        yield SnapshotFolder(step.pipeline, choice.snapshot, choice.csn)
        return
    if choice.csn is not None:
        raise ConfigurationError("a csn is that of a snapshot folder: say --snapshot FOLDER with it")
    with declared_source(step.pipeline) as source:
        yield source


def _in_folder(source: SnapshotFolder, chosen: Sequence[RowTable]) -> list[RowTable]:
    for row_table in chosen:
        if row_table.table.name not in source.tables:
            LOG.warning(f"[audit] {row_table.table.name} has no folder in {source.path}, and is not compared")
    return [row_table for row_table in chosen if row_table.table.name in source.tables]


def _looked_at(step: Step, source: AuditSource, chosen: Sequence[RowTable], until: float) -> dict[str, Outcome]:
    """Compare tables, and rows that change meanwhile again; until: the moment up to which cuts are waited for."""
    outcomes = dict[str, Outcome]()
    again: dict[str, Handles | None] = dict.fromkeys(row_table.table.name for row_table in chosen)
    tables = [row_table.table for row_table in chosen]
    newest = partial(reader_holds.published, step.paths)
    if source.as_of is not None:
        current = [row_table.current for row_table in chosen]
        retain = step.pipeline.maintenance.vacuum.retain
        newest = partial(reader_holds.first_from, step.paths, source.as_of, retain, current)
    for _ in range(ROUNDS if source.as_of is None else 1):
        moment = source.begin()
        source.mark()
        with _cut(step, newest, partial(source.shows, moment, tables=tables), until) as (cut, is_shown):
            for row_table in chosen:
                name = row_table.table.name
                if name in again:
                    relation = source.relation(row_table.table)
                    lake = LakeTable(step.paths, row_table, cut.versions[row_table.current], cut.valid_through)
                    known = outcomes.get(name)
                    seen = compare(source, relation, moment, lake, again[name])
                    LOG.info(
                        f"[audit] {name}: {seen.rows} rows, {len(seen.differences)} differ, {len(seen.in_flight)} again"
                    )
                    outcomes[name] = _joined(known, Outcome(EQUAL if is_shown else BEHIND, seen, moment, cut))
        again = {name: each.compared.in_flight for name, each in outcomes.items() if each.compared.in_flight}
        if not again or not is_shown:
            break
    return outcomes


def _joined(known: Outcome | None, look: Outcome) -> Outcome:
    """Add a look at some rows to those before; its verdict is BEHIND where the lake does not show its moment.

    Rows that differ prove nothing then: what looks before proved stays, and these rows stay unsettled.
    """
    seen = look.compared
    is_behind = look.verdict == BEHIND and bool(seen.differences or seen.in_flight)
    if known is not None and known.compared.differences and is_behind:
        return known
    if known is not None:
        seen = replace(seen, rows=known.compared.rows, differences=[*known.compared.differences, *seen.differences])
    verdict = BEHIND if is_behind else DIFFERENT if seen.differences else UNSETTLED if seen.in_flight else EQUAL
    return replace(look, verdict=verdict, compared=seen)


@contextmanager
def _cut(
    step: Step, newest: Callable[[], Cut | None], shows: Callable[[int], bool], until: float
) -> Iterator[tuple[Cut, bool]]:
    """Wait for a cut that shows all that a snapshot may have, and keep its files; the newest, where none comes.

    newest: the newest cut, or the one that is best. shows: whether a lake does that which shows everything up to a csn.
    Yields with the cut whether it does.
    """
    reader = f"audit {step.run_id}"
    cut = newest()
    while not (is_shown := cut is not None and shows(cut.valid_through)) and time.monotonic() < until:
        time.sleep(LOOK)
        cut = newest()
    if cut is None:
        raise TxloomError(f"{step.pipeline.name} has published nothing yet that could be compared")
    reader_holds.hold(step.paths, reader, cut, datetime.now(UTC) + LONGEST)
    try:
        yield cut, is_shown
    finally:
        reader_holds.release(step.paths, reader, cut)


def _tables(step: Step, choice: Choice) -> list[RowTable]:
    known = {row_table.table.name: row_table for row_table in row_tables(step.pipeline)}
    if unknown := sorted(set(choice.tables) - known.keys()):
        raise ConfigurationError(f"no table {', '.join(unknown)} is in the lake; it has {', '.join(sorted(known))}")
    chosen = [known[name] for name in choice.tables or sorted(known)]
    for row_table in chosen:
        if row_table.table.insert_only:
            LOG.warning(
                f"[audit] {row_table.table.name} has no key: its rows cannot be told apart, and are not compared"
            )
    return [row_table for row_table in chosen if not row_table.table.insert_only]


def _write(step: Step, outcomes: dict[str, Outcome], seconds: float, folder: str | None) -> None:
    path, at = step.paths.table(names.AUDIT_RESULTS), datetime.now(UTC)
    rows = [
        {
            "run_id": step.run_id,
            "at": at,
            "table": name,
            "verdict": outcome.verdict,
            "rows": outcome.compared.rows,
            "differing": len(outcome.compared.differences),
            "unsettled": len(outcome.compared.in_flight),
            "source_position": outcome.moment.at_most,
            "cut_id": outcome.cut.cut_id,
            "valid_through": outcome.cut.valid_through,
            "source_seconds": seconds,
            "differences": [row for each in outcome.compared.differences[:LISTED] for row in _rows(each)],
            "repairs": [_repair(each) for each in outcome.compared.differences[:LISTED]],
            "folder": folder,
        }
        for name, outcome in outcomes.items()
    ]
    schema_evolution.ensure(path, AUDIT_RESULTS)
    small_tables.append(path, rows, AUDIT_RESULTS)


def _rows(difference: Difference) -> list[dict[str, Any]]:
    base = {"key": list(difference.key.items()), "kind": difference.kind, "csn": difference.csn}
    if not difference.columns:
        return [{**base, "column": None, "lake": None, "source": None}]
    return [{**base, "column": name, "lake": a, "source": b} for name, (a, b) in difference.columns.items()]


def _repair(difference: Difference) -> dict[str, Any]:
    """Return what makes a row equal: the operation, the source's row, and as of when."""
    dated = {"csn": difference.as_of, "at": difference.at}
    return {"op": OPERATIONS[difference.kind], "image": difference.image, **dated}


def _reported(step: Step, table: str, outcome: Outcome) -> dict[str, int]:
    """Print what differs in a table, open or close its finding, and return counts."""
    compared, secret = outcome.compared, masking.secret_names(step.pipeline)
    for difference in compared.differences[:SHOWN]:
        LOG.info(f"[audit] {table}: {shown(difference, secret)}")
    if len(compared.differences) > SHOWN:
        LOG.info(f"[audit] {table}: {len(compared.differences) - SHOWN} more; audit_results lists {LISTED}")
    open_rows = [r for r in findings.open_findings(step.paths) if r["code"] == f.DIFFERS and r["table"] == table]
    if outcome.verdict == DIFFERENT:
        first, count = compared.differences[0], len(compared.differences)
        since = min((each.csn for each in compared.differences if each.csn), default=outcome.cut.valid_through)
        evidence = (
            f"{count} of {compared.rows} rows differ as of cut {outcome.cut.cut_id}, the first: {shown(first, secret)}"
        )
        findings.record(step.paths, [Finding(f.DIFFERS, table, None, since, None, evidence)], step.run_id)
    elif outcome.verdict == EQUAL:
        findings.close(step.paths, open_rows, step.run_id, "an audit found every row equal")
    differing = len(compared.differences)
    is_behind = outcome.verdict == BEHIND
    return {
        "differing": 0 if is_behind else differing,
        "unsettled": len(compared.in_flight),
        "behind": differing if is_behind else 0,
    }


def shown(difference: Difference, secret: Collection[str] = ()) -> str:
    """Return a difference on one line; values of secret columns, and of those that are named like one, are masked.

    >>> shown(Difference({"id": "7"}, "changed", {"note": ("a", None)}, 1002))
    "id=7 since csn 1002: note is 'a' in the lake and null in the source"
    >>> shown(Difference({"id": "8"}, "missing"))
    'id=8 is in the source and not in the lake'
    >>> shown(Difference({"id": "9"}, "changed", {"api_token": ("a", None)}, 7))
    'id=9 since csn 7: api_token is *** in the lake and null in the source'
    >>> shown(Difference({"pin": "0815"}, "missing"))
    'pin=*** is in the source and not in the lake'
    """
    key = masking.key_text(difference.key, secret)
    if difference.kind == "missing":
        return f"{key} is in the source and not in the lake"
    if difference.kind == "extra":
        return f"{key} is in the lake since csn {difference.csn} and not in the source"
    hidden = {name for name in difference.columns if name in secret or is_secret(name)}
    values = [
        (name, *(MASK if name in hidden and each is not None else _value(each) for each in both))
        for name, both in difference.columns.items()
    ]
    columns = ", ".join(f"{name} is {a} in the lake and {b} in the source" for name, a, b in values)
    return f"{key} since csn {difference.csn}: {columns}"


def _value(text: str | None) -> str:
    return "null" if text is None else repr(text)
