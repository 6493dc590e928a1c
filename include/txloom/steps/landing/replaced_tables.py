"""Empty the tables that the rows of a connector's snapshot replace, in front of these rows (ADR 24 and 52)."""

from collections.abc import Mapping, Sequence
from datetime import UTC

import pyarrow as pa
import pyarrow.compute as pc

from txloom.config import names
from txloom.config.models.pipeline import Pipeline
from txloom.events.source_names import SourceNames
from txloom.quality import findings as f
from txloom.quality.findings import Finding
from txloom.steps.landing.internal_transaction import InternalTransaction
from txloom.storage.checks import findings
from txloom.storage.declarations import records
from txloom.storage.declarations.source_samples import source_samples, watched_sources
from txloom.storage.declarations.undeclared_columns import effective_pipeline
from txloom.storage.delta import arrow_tables, small_tables
from txloom.storage.delta.sql import text_list, text_literal
from txloom.storage.landing import (
    change_events,
    connector_snapshots,
    landing_plan,
    name_spellings,
    requested_snapshots,
    retaken_snapshots,
)
from txloom.storage.landing.connector_snapshots import Advance
from txloom.storage.paths import TablePaths
from txloom.storage.sources.splits import LandingPlan
from txloom.storage.targets.row_tables import row_tables

FIRST = 0
"""The position of the rows of a snapshot within its csn; txloom's truncates lie in front of it."""


def replace_tables(pipeline: Pipeline, paths: TablePaths, planned: LandingPlan, advance: Advance, run_id: str) -> None:
    """Truncate what a snapshot replaces, and record of which tables that cannot be known; once for each landing.

    The truncates are appended to change_events when a landing closes the snapshot. They have its csn, so that no reader
    sees a table between the two, and lie in front of its rows. A repeated call appends nothing more.

    Args:
        pipeline: the declaration.
        paths: the tables of the pipeline.
        planned: the landing.
        advance: what it changes of snapshots.
        run_id: the run.
    """
    landed: list[tuple[int, Sequence[str]]] = [(each.csn, each.replaced) for each in advance.retaken]
    if advance.begun is not None:
        landed.insert(0, (advance.begun, connector_snapshots.given_up(paths, planned.number, advance.begun)))
    now = records.present_names(pipeline, records.read(paths)) if landed else {}
    replaced = [(csn, sorted({now[name] for name in tables if name in now})) for csn, tables in landed]
    replaced = [(csn, tables) for csn, tables in replaced if tables]
    if replaced:
        _truncate(pipeline, paths, planned, replaced)
    unsure = [
        Finding(f.READ_AGAIN, now[table], None, each.csn, None, why)
        for each in advance.retaken
        for table, why in each.unsure.items()
        if table in now
    ]
    back = [
        Finding(f.CSN_BACK, None, None, each.csn, None, each.went_back) for each in advance.retaken if each.went_back
    ]
    findings.record(paths, [*unsure, *back], run_id)


def replace_redeclared(pipeline: Pipeline, paths: TablePaths, landing: LandingPlan, run_id: str) -> None:
    """Truncate what earlier snapshots replace of tables that were not watched then, or were declared otherwise.

    The landing that closed a snapshot truncated the tables that were watched then. A table that is declared later gets
    the rows of the snapshot, and needs the truncate in front of them too. A repeated call appends nothing more.

    Args:
        pipeline: the declaration, with what its source was declared as before (`landing_plan.as_landed`).
        paths: the tables of the pipeline.
        landing: the landing that decodes undecided transactions by the declaration.
        run_id: the run.
    """
    bounds = connector_snapshots.closed_before(pipeline, paths, landing.number)
    since = landing_plan.decoded_since(paths)[1] if bounds is not None else {}
    redeclared = {name for name, first in since.items() if first == landing.number}
    if bounds is None or not redeclared:
        return
    samples = source_samples(paths, retaken_snapshots.OF_WHOLE_TABLES)
    sources = watched_sources(pipeline, samples, name_spellings.known(paths))
    went_back = {row["since_csn"] for row in findings.ever(paths, f.CSN_BACK) if row["xid"] is None}
    given_up = retaken_snapshots.given_up_before(paths, bounds[0], sources)
    retaken = retaken_snapshots.retaken_before(pipeline, paths, bounds, sources, went_back)
    source_names = SourceNames(pipeline.tables)
    truncates = connector_snapshots.truncates(paths)
    truncated = [(row["csn"], source_names.counted(row["source_table"])) for row in truncates]
    known = {(csn, table.name) for csn, table in truncated if table is not None}
    replaced = [
        (csn, sorted(name for name in {*tables} & redeclared if (csn, name) not in known))
        for csn, tables in ((bounds[0], given_up), *((each.csn, each.replaced) for each in retaken))
    ]
    replaced = [(csn, tables) for csn, tables in replaced if tables]
    if replaced:
        _truncate(pipeline, paths, landing, replaced)
    unsure = [
        Finding(f.READ_AGAIN, table, None, each.csn, None, why)
        for each in retaken
        for table, why in each.unsure.items()
        if table in redeclared and _is_older(paths, sources, table, each.csn)
    ]
    findings.record(paths, unsure, run_id)


def _is_older(paths: TablePaths, sources: Mapping[str, str], table: str, csn: int) -> bool:
    """Return whether a row of a table was landed that is older than a csn; sources: as `watched_sources` returns."""
    names_of = text_list(sorted(source for source, name in sources.items() if name == table))
    of_table = f'"table" = {text_literal(table)}' + (f" or source_table in ({names_of})" if names_of else "")
    sql = f"select 1 as n from t where kind = 'row' and csn < {csn} and ({of_table}) limit 1"
    return bool(small_tables.query(paths.change_events, sql))


def _truncate(
    pipeline: Pipeline, paths: TablePaths, planned: LandingPlan, replaced: Sequence[tuple[int, Sequence[str]]]
) -> None:
    """Append the truncates of tables, by csn, as one transaction for each csn."""
    parts, line = list[pa.Table](), _first_line(paths, planned) if planned.redecodes else 1
    for csn, tables in replaced:
        xid = f"{connector_snapshots.REPLACES}{planned.number}"
        transaction = InternalTransaction(effective_pipeline(pipeline, paths), planned, xid, csn, _time(paths, csn))
        truncates = transaction.truncates(tables, FIRST, {}, line=line)
        in_front = pc.subtract(truncates.column("pos"), pa.scalar(FIRST + len(tables), pa.int64()))
        parts.append(truncates.set_column(truncates.schema.get_field_index("pos"), "pos", in_front))
        line += len(tables) + 1
    events = change_events.with_compact_events(pa.concat_tables(parts), planned)
    write_id = names.write_id(paths.pipeline, f"{names.CHANGE_EVENTS}.given_up", 0)
    arrow_tables.append_once(events, paths.change_events, write_id, planned.number)


def _first_line(paths: TablePaths, landing: LandingPlan) -> int:
    """Return the first line that no row of a landing of messages that were decoded again has."""
    sql = f'select max("row") as last from t where landing = {landing.number}'
    return int(small_tables.query(paths.change_events, sql)[0]["last"] or 0) + 1


def _time(paths: TablePaths, csn: int) -> str | None:
    """Return when a snapshot was taken, as messages have it."""
    sql = f"select max(committed_at) as at from t where {retaken_snapshots.OF_WHOLE_TABLES} and csn = {csn}"
    at = small_tables.query(paths.change_events, sql)[0]["at"]
    return None if at is None else at.astimezone(UTC).replace(tzinfo=None).isoformat(" ")


def note_read_beside(pipeline: Pipeline, paths: TablePaths, number: int, run_id: str) -> None:
    """Record the tables with rows that are older than those that the connector read beside its stream.

    If the connector's rows were not requested here, the older ones may be rows that the source no longer has.
    """
    requested = {name for each in requested_snapshots.open_requests(paths) for name in each.tables}
    current = {row_table.table.name: paths.table(row_table.current) for row_table in row_tables(pipeline)}
    why = "the connector read rows of it beside its stream, and nobody asked for that here"
    beside = [
        Finding(f.READ_AGAIN, name, None, csn, None, why)
        for name, csn in retaken_snapshots.read_beside(paths, number).items()
        if name in current and name not in requested
        if small_tables.query(current[name], f"select 1 as n from t where _txloom_csn < {csn} limit 1")
    ]
    findings.record(paths, beside, run_id)
