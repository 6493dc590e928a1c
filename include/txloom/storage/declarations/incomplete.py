"""The tables that are not complete, because a declaration changed and messages of before are not kept."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from txloom.config import names
from txloom.config.models.pipeline import Pipeline
from txloom.errors import BeforeHistory
from txloom.events.rejections import UNKNOWN_TABLE
from txloom.quality import findings as f
from txloom.storage.declarations import marks
from txloom.storage.declarations import records as r
from txloom.storage.declarations.loaded import completed_by
from txloom.storage.declarations.records import Pair, Record, State
from txloom.storage.declarations.source_samples import find_rejected
from txloom.storage.landing import loaded_snapshots
from txloom.storage.paths import TablePaths
from txloom.storage.publishing.watermark import Watermark
from txloom.storage.snapshots import kept_columns
from txloom.storage.targets import schemas
from txloom.storage.targets.row_tables import RowTable, row_tables

REDRIVE_HINT = (
    f'Redrive the dead letters with the cause "{UNKNOWN_TABLE}" that have rows of {{table}}: jobs/redrive.py '
    f'--pipeline {{pipeline}} --cause "{UNKNOWN_TABLE}", or the DAG {{dag}}. The next cycle takes the rows; if no row '
    "is missing then, that cycle shows the table and closes this finding. If you dismissed some of these dead letters, "
    "load a snapshot of {table} as of csn {csn} or a later one (jobs/load_snapshot.py)."
)
"""The hint for an incomplete history if open dead letters have rows of its table; csn: the last missing one."""
GONE, NOT_ARRIVED = "messages are not kept any more, or cannot be read", "rows have not arrived yet"
"""What an incomplete history lacks, in words."""
_CSNS = re.compile(r"\(csn (\d+) to \d+\)")


def incomplete_tables(pipeline: Pipeline, states: Mapping[Pair, State]) -> list[str]:
    """Return the source tables whose rows are computed from a history that is not complete.

    Args:
        pipeline: the declaration.
        states: of each history's member.
    """
    fed = feeding(pipeline)
    return sorted(name for name, pair in fed.items() if pair in states and not states[pair].is_complete)


def feeding(pipeline: Pipeline) -> dict[str, Pair]:
    """Return by source table the history and member that its rows are computed from."""
    return {each.table.name: (each.history, each.table.name) for each in row_tables(pipeline)}


def describe_begin(history: str, member: str, since_csn: int, feeding_history: str) -> str:
    """Describe a history that begins later for a member whose rows are read from another history.

    Args:
        history: the name of the history.
        member: the name of the member's source table.
        since_csn: the lowest csn from which the history has every change of the member.
        feeding_history: the name of the history from which the member's rows are computed.
    """
    return (
        f"{history} lacks changes of {member} below csn {since_csn}; no action is needed: documents are computed from "
        f"{feeding_history}, and are correct as of every csn that {feeding_history} covers"
    )


def awaited(csn: int) -> str:
    """Describe the condition that completes a table with a loaded snapshot; csn: the csn of the snapshot."""
    return f"the stream reaches csn {csn}, as of which a snapshot has been loaded"


def completing_loads(
    pipeline: Pipeline, paths: TablePaths, states: Mapping[Pair, State], lacking: Collection[str]
) -> dict[str, int]:
    """Return by incomplete table the csn of the loaded snapshot that will complete the table.

    A table without such a snapshot is left out.

    Args:
        pipeline: the declaration.
        paths: the tables of the pipeline.
        states: of each history's member.
        lacking: the names of the incomplete source tables.
    """
    fed = feeding(pipeline)
    known = {name: states[fed[name]] for name in lacking if fed[name] in states}
    first = {name: state.newest.since_csn for name, state in known.items() if state.is_lacking}
    if not first:
        return {}
    records = {fed[name]: states[fed[name]].newest for name in first}
    released = completed_by(pipeline, paths, records, Watermark(loaded_snapshots.ANY, loaded_snapshots.ANY))
    # A snapshot that is not released yet gets a later release than the record.
    loads = {pair[1]: csn for pair, csn in released.items()}
    for name, csn in loaded_snapshots.waiting(pipeline, paths, first).items():
        if csn >= first[name] - 1:
            loads[name] = max(csn, loads.get(name, csn))
    return loads


def describe_csns(first_csn: int, last_csn: int) -> str:
    """Describe between which csns a history lacks changes, as `first_missing` reads it."""
    return f"(csn {first_csn} to {last_csn})"


def first_missing(record: Record) -> int | None:
    """Return the first csn of which an incomplete history lacks changes; None: not known.

    `Record.since_csn` is the csn after the last missing one.

    >>> first_missing(Record("h", "t", "incomplete", {}, since_csn=131, missing="of 3 transactions (csn 110 to 130), "))
    110
    """
    csns = _CSNS.search(record.missing or "")
    return (int(csns[1]) or None) if csns is not None else None


def insufficient_loads(pipeline: Pipeline, paths: TablePaths, lacking: Mapping[str, Record]) -> dict[str, int]:
    """Return by incomplete table the csn of the newest snapshot that was loaded since the edit and is below its gap.

    Such a snapshot does not complete the table. A table without one is left out.

    Args:
        pipeline: the declaration.
        paths: the tables of the pipeline.
        lacking: by incomplete table, the newest record of its history.
    """
    loads = loaded_snapshots.waiting(pipeline, paths, lacking)
    for release in {record.release for record in lacking.values()}:
        released = loaded_snapshots.loaded(
            pipeline, paths, loaded_snapshots.ANY, loaded_snapshots.ANY, after=release
        ).items()
        since = {name: csn for name, csn in released if name in lacking and lacking[name].release == release}
        loads |= {name: max(csn, loads.get(name, csn)) for name, csn in since.items()}
    return {name: csn for name, csn in loads.items() if csn < lacking[name].since_csn - 1}


def present_hints(pipeline: Pipeline, paths: TablePaths, states: Mapping[Pair, State]) -> dict[str, str]:
    """Return by incomplete table what completes it now, in at most three sentences, the action first.

    A table whose missing messages may still arrive is left out.

    Args:
        pipeline: the declaration.
        paths: the tables of the pipeline.
        states: of each history's member.
    """
    fed = feeding(pipeline)
    chosen = {name: states[fed[name]] for name in incomplete_tables(pipeline, states)}
    lacking = {name: state.newest for name, state in chosen.items() if state.is_lacking}
    if not lacking:
        return {}
    loads, rejected = completing_loads(pipeline, paths, states, lacking), find_rejected(pipeline, paths)
    hints = dict[str, str]()
    for name, record in lacking.items():
        about = {"table": name, "pipeline": pipeline.name, "csn": record.since_csn - 1}
        if name in loads:
            reached = awaited(loads[name])
            hints[name] = f"No action is needed: the table is complete, and this finding closes, when {reached}."
        elif name in rejected and GONE not in (record.missing or ""):
            hints[name] = REDRIVE_HINT.format(**about, dag=names.dead_letters_dag_id(pipeline.name))
        else:
            hints[name] = _describe_load(pipeline, record)
    return hints


def _describe_load(pipeline: Pipeline, record: Record) -> str:
    """Return the hint for an incomplete history that a snapshot completes, or else later rows."""
    table, csn = record.pair[1], record.since_csn - 1
    command = f"jobs/load_snapshot.py --pipeline {pipeline.name} --table {table} --path FOLDER --csn CSN"
    load = f"load a snapshot of {table} as of csn {csn} or a later one: {command}, or the DAG "
    load += names.load_dag_id(pipeline.name)
    first = load.replace("load", "Load", 1)
    reached, refused = (
        "When the stream reaches the csn of the snapshot, cuts show the table",
        "read.as_of refuses every csn",
    )
    closes = f"{reached}, this finding closes, and {refused} below that of the snapshot."
    if kept_columns.is_full(pipeline):
        date = f"Let the next date that has {table} be compared: it completes the table, and closes this finding."
        return f"{date} To complete it earlier, {load}. After that, {refused} below that of the date or the snapshot."
    if pipeline.source.snapshots is not None:
        return f"{first}. If no earlier date had the table, its first extract also completes it. {closes}"
    if NOT_ARRIVED in (record.missing or ""):
        wait = "If the source can still send the missing rows, wait: the cycle that takes them completes the table."
        return f"{wait} Otherwise, {load}. {closes}"
    return f"{first}. {reached}, and this finding closes. After that, {refused} below that of the snapshot."


def with_present_hints(
    pipeline: Pipeline, paths: TablePaths, findings: Sequence[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Return open findings; the hint of an incomplete history says what completes it now, as `present_hints` does.

    Args:
        pipeline: the declaration.
        paths: the tables of the pipeline.
        findings: rows of `findings`.
    """
    if not any(row["code"] == f.INCOMPLETE for row in findings):
        return [*findings]
    hints = present_hints(pipeline, paths, r.states(r.read(paths)))
    return [
        row | ({"hint": hints[row["table"]]} if row["code"] == f.INCOMPLETE and row["table"] in hints else {})
        for row in findings
    ]


def refuse_incomplete(states: Mapping[Pair, State], read_tables: Iterable[RowTable], csn: int) -> None:
    """Raise BeforeHistory where a history lacks changes at or below a csn, because the declaration changed.

    Args:
        states: of each history's member.
        read_tables: the tables whose histories are read.
        csn: the csn.
    """
    for row_table in read_tables:
        if (state := r.find_state(states, row_table.history, row_table.table)) is not None:
            _refuse(row_table.table.name, state, csn)


def _refuse(name: str, state: State, csn: int) -> None:
    """Raise BeforeHistory where the history of a table lacks changes at or below a csn."""
    if state.is_complete and state.newest.since_csn <= csn:
        return
    if state.is_complete:
        since = state.newest.since_csn
        raise BeforeHistory(
            f"as of csn {csn}: the history of {name} is complete since csn {since} only, because its declaration "
            "changed after messages were removed; from there on every state can be read"
        )
    raise BeforeHistory(
        f"as of csn {csn}: the history of {name} is not complete, because its declaration changed: {_missing(state)}. "
        "The finding of the table says whether it needs a snapshot"
    )


def _missing(state: State) -> str:
    return state.newest.missing or "the next cycle makes its rows again"


def describe_lacking(paths: TablePaths, read_tables: Iterable[RowTable]) -> list[str]:
    """Describe each history that lacks changes because the declaration changed, in one sentence for each table.

    Args:
        paths: the tables of the pipeline.
        read_tables: the tables whose histories are read.
    """
    states, sentences = r.states(r.read(paths)), list[str]()
    for row_table in read_tables:
        name = row_table.table.name
        state = r.find_state(states, row_table.history, row_table.table)
        if state is None or (state.is_complete and not state.newest.since_csn):
            continue
        if state.is_complete:
            sentences.append(f"The history of {name} has no change below csn {state.newest.since_csn}.")
        else:
            sentences.append(f"The history of {name} is not complete: {_missing(state)}.")
    return sentences


def without_incomplete(pipeline: Pipeline, paths: TablePaths, tables: Iterable[str]) -> list[str]:
    """Return tables without those that `incomplete_among` returns."""
    chosen = list(tables)
    left_out = incomplete_among(pipeline, paths, chosen)
    return [name for name in chosen if name not in left_out]


def incomplete_among(pipeline: Pipeline, paths: TablePaths, tables: Iterable[str]) -> list[str]:
    """Return the tables that are not complete: current tables, and row tables of documents.

    Records are read only if the newest commit of one of the tables says that a merge left something incomplete.

    Args:
        pipeline: the declaration.
        paths: the tables of the pipeline.
        tables: names of tables; of other tables, such as histories and system tables, none is named.
    """
    of_rows = {row_table.current: row_table.table.name for row_table in row_tables(pipeline)}
    chosen = [name for name in tables if name in of_rows or name in pipeline.current_tables]
    marked = [marks.read_mark(paths.table(name)) for name in chosen]
    if all(each.stamp or each.mark is None for each in marked):
        return []
    lacking = incomplete_tables(pipeline, r.states(r.read(paths)))
    left_out = {*current_tables_of(pipeline, lacking), *(name for name, table in of_rows.items() if table in lacking)}
    return [name for name in chosen if name in left_out]


def incomplete_current(pipeline: Pipeline, paths: TablePaths) -> list[str]:
    """Return the current tables that hold rows of a source table which is not complete.

    Args:
        pipeline: the declaration.
        paths: the tables of the pipeline.
    """
    return current_tables_of(pipeline, incomplete_tables(pipeline, r.states(r.read(paths))))


def current_tables_of(pipeline: Pipeline, tables: Iterable[str]) -> list[str]:
    """Return the current tables that hold rows of some source tables.

    Args:
        pipeline: the declaration.
        tables: names of source tables.
    """
    lacking = {*tables}
    mirrors = [mirror.current for mirror in pipeline.targets.mirrors if mirror.table in lacking]
    documents = [
        aggregate.current
        for aggregate in pipeline.targets.aggregates
        if lacking & {name for name, _ in schemas.members_of(aggregate)}
    ]
    return [*documents, *mirrors]
