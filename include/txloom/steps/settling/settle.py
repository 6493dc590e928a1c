"""Make histories again that a changed declaration asks for, and record since when each of them is complete.

Rows of earlier releases come from another history that has them, else from the messages that were landed; what neither
has is missing, and the table needs a snapshot. Each history gets its rows in one commit. A run that dies is repeated:
rows that are there are not written again, and the record comes last.
"""

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from txloom.config.contents import Content
from txloom.config.models.pipeline import Pipeline
from txloom.quality import findings as f
from txloom.quality.findings import Finding
from txloom.steps.declarations.declare import by_source
from txloom.steps.settling import remake
from txloom.steps.settling.need import Need, need_of, renaming_of, values_before, with_redriven
from txloom.steps.settling.present_findings import follow_names
from txloom.steps.step import Step
from txloom.storage.buffer.newest_batch import BufferState
from txloom.storage.checks import findings
from txloom.storage.declarations import history_rewriting
from txloom.storage.declarations import records as r
from txloom.storage.declarations.incomplete import (
    current_tables_of,
    feeding,
    first_missing,
    insufficient_loads,
    present_hints,
)
from txloom.storage.declarations.loaded import completed_by
from txloom.storage.declarations.records import Pair, Record, State
from txloom.storage.declarations.source_samples import find_rejected
from txloom.storage.declarations.undeclared_columns import Adopted, adopted
from txloom.storage.landing import landing_plan, loaded_snapshots
from txloom.storage.paths import TablePaths
from txloom.storage.publishing.valid_through import valid_through
from txloom.storage.publishing.watermark import Watermark
from txloom.storage.snapshots import kept_columns

LOG = logging.getLogger(__name__)


def settle(step: Step, pipeline: Pipeline, seen: BufferState) -> tuple[dict[Pair, State], int]:
    """Make what is open of histories; return the state of every history's member, and how many findings were opened.

    Args:
        step: the declaration, the tables and the run.
        pipeline: the declaration with columns that tables took up.
        seen: the state of the buffer.
    """
    paths, known = step.paths, r.read(step.paths)
    declared = r.declared_pairs(pipeline)
    reopened = taken_up_since(paths, pipeline, r.states(known), seen.release)
    reopened += redriven_since(pipeline, paths, r.states(known))
    if reopened:
        r.append(paths, reopened, step.run_id)
        known = r.read(paths)
    states = r.states(known)
    open_pairs = r.unsettled(states, declared)
    needs = needs_of(paths, pipeline, states, open_pairs)
    _rename(paths, states, needs.values())
    now = datetime.now(UTC)
    made = remake.remake(step, pipeline, known, [need for need in needs.values() if need.rereads], seen.release, now)
    for pair, missing in remake.undeclared(pipeline, paths, seen, needs).items():
        made[pair] = made.get(pair, remake.Missing()) | missing
    settled = [
        record
        for pair, need in needs.items()
        if (record := settled_by(step.pipeline, states[pair], need, made.get(pair, remake.Missing()), now)) is not None
    ]
    follow_names(pipeline, paths, step.run_id)
    nulls = findings.record(paths, nulls_of(states, needs, made), step.run_id, step.pipeline.source.format)
    states = _enter(step, settled, states)
    states = _enter(step, completed_by_rows(pipeline, paths, states, declared, seen), states)
    return states, len(nulls) + _report(step, pipeline, states)


def _enter(step: Step, settled: Sequence[Record], states: dict[Pair, State]) -> dict[Pair, State]:
    """Enter records, and return the states with them."""
    r.append(step.paths, settled, step.run_id)
    return r.states(r.read(step.paths)) if settled else states


def needs_of(
    paths: TablePaths,
    pipeline: Pipeline,
    states: Mapping[Pair, State],
    open_pairs: Sequence[Pair],
    following: Content | None = None,
) -> dict[Pair, Need]:
    """Return what each open member of a history needs.

    Args:
        paths: the tables of the pipeline.
        pipeline: the declaration with columns that tables took up.
        states: of each history's member.
        open_pairs: those that are open, as `records.unsettled` returns them.
        following: how the next landing decodes, as `landing_plan.decoded_since` takes it.
    """
    if not open_pairs:
        return {}
    columns, (_, since) = adopted(paths), landing_plan.decoded_since(paths, following)
    needs = dict[Pair, Need]()
    for pair in open_pairs:
        state = states[pair]
        shown = _shown(pipeline, state, columns)
        needs[pair] = need_of(paths, state, _of_table(columns, state), since.get(pair[1], 0), shown)
    return with_redriven(paths, needs)


def _of_table(columns: Iterable[Adopted], state: State) -> list[Adopted]:
    """Return those of some columns that the table of a history's member took up, under any of its names."""
    return [each for each in columns if each.table in state.names]


def _shown(pipeline: Pipeline, state: State, columns: Iterable[Adopted]) -> list[Adopted]:
    """Return the columns that the table of a history's member took up and shows, and does not declare.

    Args:
        pipeline: the declaration with columns that tables took up.
        state: the state of the member.
        columns: the columns that tables took up.
    """
    declared = by_source(state.newest.declaration)
    there = {column.name: column.source for column in pipeline.table(state.newest.pair[1]).columns}
    return [
        each
        for each in _of_table(columns, state)
        if there.get(each.column) == each.source and each.source.casefold() not in declared
    ]


def taken_up_since(paths: TablePaths, pipeline: Pipeline, states: Mapping[Pair, State], release: int) -> list[Record]:
    """Return records of complete members whose tables took up a column that earlier rows lack; nothing is written.

    Args:
        paths: the tables of the pipeline.
        pipeline: the declaration with columns that tables took up.
        states: of each history's member.
        release: the newest release.
    """
    if not (columns := adopted(paths)):
        return []
    declared = sorted(r.declared_pairs(pipeline))
    complete = [states[pair] for pair in declared if pair in states and states[pair].is_complete]
    return [
        replace(state.newest, status=r.DECLARED, release=release, reason=r.TAKEN_UP, missing=None)
        for state in complete
        if values_before(paths, state, _shown(pipeline, state, columns))
    ]


def redriven_since(pipeline: Pipeline, paths: TablePaths, states: Mapping[Pair, State]) -> list[Record]:
    """Return records of members that lacked rows because these were dead letters, if a redrive brings none any more.

    The rows were redriven, or the dead letters were dismissed. Nothing is written.

    Args:
        pipeline: the declaration with columns that tables took up.
        paths: the tables of the pipeline.
        states: of each history's member.
    """
    declared = [pair for pair in sorted(r.declared_pairs(pipeline)) if pair in states]
    known = ((pair, states[pair]) for pair in declared)
    lacking = [pair for pair, state in known if state.is_lacking and remake.REJECTED in (state.newest.missing or "")]
    rejected = find_rejected(pipeline, paths) if lacking else ()
    members = {pair: {name for history, name in declared if history == pair[0]} for pair in lacking}
    return [
        replace(states[pair].newest, status=r.DECLARED, reason=r.ROWS_OF_BEFORE, missing=None)
        for pair in lacking
        if not members[pair] & {*rejected}
    ]


def _rename(paths: TablePaths, states: Mapping[Pair, State], needs: Collection[Need]) -> None:
    """Give values of earlier releases the new names of their columns, one history after the other."""
    by_write: dict[tuple[str, int], list[Need]] = {}
    for need in needs:
        if (need.renamed or need.field) and not need.replaces:
            by_write.setdefault((need.pair[0], need.until), []).append(need)
    for (history, _), of_history in by_write.items():
        numbers = history_rewriting.numbers_of(states[need.pair] for need in of_history)
        history_rewriting.rename(paths.table(history), renaming_of(states, of_history), numbers)


def settled_by(pipeline: Pipeline, state: State, need: Need, missing: remake.Missing, now: datetime) -> Record | None:
    """Return the record that settles a history's member; None while it waits and nothing is new.

    Args:
        pipeline: the declaration.
        state: the state of the member.
        need: what it needs.
        missing: what could not be made of that.
        now: the time at which `patience` is checked.
    """
    newest = state.newest
    basis = None if need.recomputes else state.basis
    newest = replace(newest, held=_keep_held(state, need), taken_up=need.taken_up)
    if missing.transactions and newest.reason == r.TAKEN_UP and state.settled is not None:
        # The declaration asks for no value of a column that a table took up: a finding names what is null.
        since, reason = state.settled.since_csn, state.settled.reason
        return replace(newest, status=r.COMPLETE, since_csn=since, reason=reason, missing=None, basis=basis)
    if not missing.transactions:
        reason = r.FROM_MESSAGES if need.rereads else r.FROM_HISTORY
        if missing.from_history:
            reason = r.FROM_HISTORY
        if need.is_nothing and state.settled is not None:
            reason = state.settled.reason or reason
        since = state.settled.since_csn if state.settled is not None and not need.everything else 0
        return replace(newest, status=r.COMPLETE, since_csn=since, reason=reason, missing=None, basis=basis)
    lacking = replace(newest, since_csn=missing.last_csn + 1, reason=r.ONLY_SINCE, missing=str(missing), basis=basis)
    if remake.is_waited_for(pipeline, newest, missing, now):
        same = newest.status == r.WAITING and newest.missing == str(missing)
        return None if same else replace(lacking, status=r.WAITING)
    return replace(lacking, status=r.INCOMPLETE)


def nulls_of(
    states: Mapping[Pair, State], needs: Mapping[Pair, Need], made: Mapping[Pair, remake.Missing]
) -> list[Finding]:
    """Return a finding for each column that a table took up and whose earlier values no message has any more."""
    nulls = dict[tuple[str, str], Finding]()
    for pair, missing in made.items():
        if missing.transactions and states[pair].newest.reason == r.TAKEN_UP:
            for column in needs[pair].values:
                evidence = f"the column was left out before it was taken up, and its values are null: {missing}"
                nulls[pair[1], column] = Finding(f.CHANGED, pair[1], column, missing.last_csn, None, evidence)
    return list(nulls.values())


def _keep_held(state: State, need: Need) -> dict[str, str]:
    """Return the undeclared columns whose values all earlier rows have.

    Rebuilt rows lack undeclared columns. A column stays if it was left out before all rebuilt releases, so that their
    rows lacked it before. Rows of a document's member that got another field have only the columns of that field.
    """
    if need.everything or need.field is not None:
        return {}
    declaration = state.newest.declaration
    columns, sources = declaration["columns"], by_source(declaration)
    return {
        name: source
        for name, source in state.held.items()
        if name not in columns
        and source not in sources
        and (need.gap is None or state.left_out.get(source, need.gap + 1) <= need.gap)
    }


def completed_by_rows(
    pipeline: Pipeline,
    paths: TablePaths,
    states: Mapping[Pair, State],
    declared: Collection[Pair],
    seen: BufferState,
) -> list[Record]:
    """Return the records of incomplete members whose tables a snapshot or the extracts of a date complete.

    Only snapshots and dates whose rows this merge shows count.

    Args:
        pipeline: the declaration with columns that tables took up.
        paths: the tables of the pipeline.
        states: of each history's member.
        declared: the members that are declared.
        seen: the state of the buffer.
    """
    lacking = {pair: states[pair].newest for pair in declared if states[pair].is_lacking}
    if not lacking:
        return []
    reached = Watermark(valid_through(paths, seen), seen.release)
    loaded = completed_by(pipeline, paths, lacking, reached)
    by_csn = sorted(lacking.items(), key=lambda item: item[1].since_csn)
    since = {table: record.since_csn for (_, table), record in by_csn}
    dates = kept_columns.completing(pipeline, paths, since, reached)
    by_date = {pair: dates[pair[1]] for pair in lacking if pair not in loaded and pair[1] in dates}
    of_operators = loaded_snapshots.loaded(pipeline, paths, reached.valid_through, reached.release)
    reasons = {
        pair: r.FROM_LOAD if of_operators.get(pair[1]) == csn else r.FROM_CONNECTOR for pair, csn in loaded.items()
    }
    return [
        replace(lacking[pair], status=r.COMPLETE, since_csn=csn, reason=reasons.get(pair, r.FROM_DATE), missing=None)
        for pair, csn in (loaded | by_date).items()
    ]


def _report(step: Step, pipeline: Pipeline, states: Mapping[Pair, State]) -> int:
    """Record a finding for each table that needs a snapshot because its history is not complete; count new findings.

    Those of tables that are not declared any more, or whose messages have come, are closed; a load closes its ones.
    """
    newest = {name: states[pair].newest for name, pair in feeding(pipeline).items() if pair in states}
    still = {name for name, record in newest.items() if record.status == r.INCOMPLETE or record.reason in r.LOADED}
    known = [row for row in findings.open_findings(step.paths) if row["code"] == f.INCOMPLETE]
    gone = [row for row in known if row["table"] not in still]
    findings.close(step.paths, gone, step.run_id, "its missing rows have come, or no declared table has this history")
    lacking = {name: record for name, record in newest.items() if record.status == r.INCOMPLETE}
    if not lacking:
        return 0
    hints, loads = present_hints(pipeline, step.paths, states), insufficient_loads(pipeline, step.paths, lacking)
    seen: Sequence[Finding] = [
        Finding(
            *(f.INCOMPLETE, name, None, first_missing(record), None),
            _describe_effect(pipeline, name, record, loads.get(name)),
            hints[name],
        )
        for name, record in lacking.items()
    ]
    recorded = findings.record(step.paths, seen, step.run_id, step.pipeline.source.format)
    return len({each.table for each in recorded} - {row["table"] for row in known})


def _describe_effect(pipeline: Pipeline, name: str, record: Record, loaded: int | None) -> str:
    """Describe what a source table lacks, and which tables readers do not see because of it.

    loaded: the csn of a snapshot that was loaded, and that does not reach the last missing csn; None: there is none.
    """
    left_out = ", ".join(current_tables_of(pipeline, [name]))
    effect = f"cuts leave out {left_out}"
    if pipeline.targets.incomplete == "hold":
        effect = f"no cut is published until {left_out} can be shown (targets.incomplete: hold)"
    parts = [f"{record.table}: {record.missing}", f"it has every change from csn {record.since_csn} on", effect]
    if loaded is not None:
        parts.append(f"the snapshot that was loaded as of csn {loaded} does not reach csn {record.since_csn - 1}")
    return "; ".join(parts)
