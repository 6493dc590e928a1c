"""Say what the next cycle makes of a declaration that changed, by the functions that make it; nothing is written."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.compute as pc

from txloom.arrow_types import AnyColumn
from txloom.config.contents import digest_of, pipeline_content, watched_content
from txloom.config.models.pipeline import Pipeline
from txloom.steps.backfill.rebuild import count_rebuilt
from txloom.steps.backfill.scope import REBUILT, Scope
from txloom.steps.declarations.declare import new_records
from txloom.steps.settling import copying, remake
from txloom.steps.settling.computed import compare
from txloom.steps.settling.copy_sources import Copy, find_copies
from txloom.steps.settling.need import Need
from txloom.steps.settling.remake import Missing
from txloom.steps.settling.settle import completed_by_rows, needs_of, redriven_since, settled_by, taken_up_since
from txloom.storage.buffer.newest_batch import BufferState, buffer_state
from txloom.storage.declarations import records as r
from txloom.storage.declarations.incomplete import completing_loads, feeding, incomplete_tables
from txloom.storage.declarations.records import Pair, Record, State
from txloom.storage.declarations.undecided import Undecided
from txloom.storage.declarations.undeclared_columns import effective_pipeline
from txloom.storage.delta import arrow_tables, small_tables
from txloom.storage.delta.read_session import exists, opened
from txloom.storage.edits.refused_edits import RefusedEdit, refused_edits
from txloom.storage.landing import landing_plan
from txloom.storage.paths import TablePaths


@dataclass(frozen=True)
class Made:
    """What the next cycle makes of a history's member.

    Args:
        rows: how many rows it makes again, or copies.
        staying: how many rows the history has in addition to these after the cycle.
        replaced: how many rows the history has before the cycle, if these rows take their place.
        copied_from: the history that they are copied from; None: they are made of messages.
        transactions: how many transactions the rows are of that are made of messages.
        renamed: by column, its name in rows that are there.
        fields: by field of an aggregate's history, the name that it has there.
        missing: what cannot be made.
    """

    rows: int = 0
    staying: int = 0
    replaced: int = 0
    copied_from: str | None = None
    transactions: int = 0
    renamed: dict[str, str] = field(default_factory=dict)
    fields: dict[str, str] = field(default_factory=dict)
    missing: Missing = field(default_factory=Missing)


@dataclass(frozen=True)
class Forecast:
    """What the next cycle does because a declaration changed.

    Args:
        made: by history and member, what is made; only of those that an edit concerns.
        anew: the source tables whose rows are computed anew, and the current tables whose documents are.
        incomplete: the source tables that are not complete then.
        waiting: those of the incomplete tables whose missing messages may still arrive.
        completing: by incomplete table, the csn of the loaded snapshot that completes the table when the stream reaches
            that csn; a table without such a snapshot is left out.
        left_out: the histories and members that are not written any more.
        removed: by history, the columns of a mirror's one, and the fields of an aggregate's one, that the declaration
            does not have any more because of this edit. The history keeps them.
        decoded_again: how many undecided transactions are decoded again.
        refused: the edits that the next cycle refuses. There is nothing else then.
    """

    made: Mapping[Pair, Made] = field(default_factory=dict)
    anew: Collection[str] = ()
    incomplete: Collection[str] = ()
    waiting: Collection[str] = ()
    completing: Mapping[str, int] = field(default_factory=dict)
    left_out: Collection[Pair] = ()
    removed: Mapping[str, Collection[str]] = field(default_factory=dict)
    decoded_again: int = 0
    refused: Sequence[RefusedEdit] = ()


def forecast(pipeline: Pipeline, paths: TablePaths) -> Forecast:
    """Return what the next cycle makes of a declaration, as of what has been released; nothing is written.

    Args:
        pipeline: the declaration, without columns that tables took up.
        paths: the tables of the pipeline.
    """
    seen = buffer_state(paths)
    if seen is None:
        return Forecast()
    known = r.read(paths)
    if refused := refused_edits(pipeline, paths, known):
        return Forecast(refused=refused)
    new = new_records(pipeline, paths, known, seen)
    entered = [*known, *_numbered(new, known)]
    full, declared = effective_pipeline(pipeline, paths), r.declared_pairs(pipeline)
    following = watched_content(pipeline)
    entered += _numbered(taken_up_since(paths, full, r.states(entered), seen.release), entered)
    entered += _numbered(redriven_since(full, paths, r.states(entered)), entered)
    states = r.states(entered)
    needs = needs_of(paths, full, states, r.unsettled(states, declared), following)
    made = {
        pair: Made(staying=count_rows(paths, pair[0]), renamed={**need.renamed}, fields=_fields(states, need))
        for pair, need in needs.items()
        if not need.rereads
    }
    rereading = [need for pair, need in needs.items() if pair not in made]
    made |= _copied(full, paths, find_copies(full, paths, states, rereading))
    if left := [need for pair, need in needs.items() if pair not in made]:
        made |= _from_messages(remake.scope_of(full, paths, "plan", left, seen.release, following), states, left)
        missing_in = {need.pair: made[need.pair].missing for need in left}
        made |= _copied(full, paths, remake.copies_instead(full, paths, states, left, missing_in))
    for pair, missing in remake.undeclared(full, paths, seen, needs).items():
        made[pair] = replace(made[pair], missing=made[pair].missing | missing)
    now = datetime.now(UTC)
    settled = [
        record
        for pair, need in needs.items()
        if (record := settled_by(pipeline, states[pair], need, made[pair].missing, now)) is not None
    ]
    entered += _numbered(settled, entered)
    completed = completed_by_rows(full, paths, r.states(entered), declared, seen)
    after = r.states([*entered, *_numbered(completed, entered)])
    stamp = f"{digest_of(pipeline_content(pipeline))}:next" if settled or completed else seen.declared.stamp
    lacking, fed = tuple(incomplete_tables(full, after)), feeding(full)
    return Forecast(
        {pair: each for pair, each in made.items() if _is_concerned(needs[pair], each)},
        tuple(sorted(compare(full, paths, after, stamp).anew)),
        lacking,
        tuple(name for name in lacking if after[fed[name]].newest.status == r.WAITING),
        completing_loads(full, paths, after, lacking),
        tuple(sorted(pair for pair, state in after.items() if state.newest.status == r.LEFT_OUT)),
        _list_removed(full, new, states, needs),
        _decoded_again(pipeline, paths, seen),
    )


def _is_concerned(need: Need, made: Made) -> bool:
    """Return whether an edit concerns a history's member."""
    return not need.is_nothing or need.recomputes or bool(made.missing.transactions)


def _numbered(records: Sequence[Record], known: Sequence[Record]) -> list[Record]:
    """Return records with the numbers that they get when they are entered after those that are known."""
    first = r.newest_number(known) + 1
    numbered = [replace(record, number=number) for number, record in enumerate(records, first)]
    return [replace(each, basis=each.number) if each.basis is None else each for each in numbered]


def _list_removed(
    pipeline: Pipeline, new: Iterable[Record], states: Mapping[Pair, State], open_pairs: Iterable[Pair]
) -> dict[str, set[str]]:
    """Return `Forecast.removed`.

    Args:
        pipeline: the declaration with columns that tables took up.
        new: the records of the edit.
        states: of each history's member.
        open_pairs: the members that it concerns.
    """
    removed = dict[str, set[str]]()
    for record in new:
        if record.status == r.LEFT_OUT and "field" in record.declaration:
            removed.setdefault(record.table, set()).add(record.declaration["field"])
    for pair in open_pairs:
        state = states[pair]
        if state.settled is not None and "field" not in state.newest.declaration:
            columns = {*state.settled.declaration["columns"]} - {*pipeline.table(pair[1]).column_names}
            removed.setdefault(pair[0], set()).update(columns)
    return removed


def _copied(pipeline: Pipeline, paths: TablePaths, copies: Iterable[Copy]) -> dict[Pair, Made]:
    """Return what is made of each member of a history whose rows another history has."""
    made = dict[Pair, Made]()
    for copy in copies:
        rows = sum(part.num_rows for part in copying.copied_rows(pipeline, paths, copy))
        staying = count_rows(paths, copy.history, f"not ({copying.copied_sql(copy.needs[0])})")
        missing = Missing(from_history=True)
        made |= {
            need.pair: Made(rows, staying, copied_from=copy.source, renamed={**need.renamed}, missing=missing)
            for need in copy.needs
        }
    return made


def _fields(states: Mapping[Pair, State], need: Need) -> dict[str, str]:
    """Return `Made.fields` of a history's member."""
    return {} if need.field is None else {states[need.pair].newest.declaration["field"]: need.field}


def _from_messages(scope: Scope, states: Mapping[Pair, State], needs: Sequence[Need]) -> dict[Pair, Made]:
    """Return what is made of messages, by making it and forgetting it share by share."""
    rows, parts, outcomes = Counter[str](), list[AnyColumn](), list[dict[str, object]]()
    for rebuilt in count_rebuilt(scope):
        rows.update(rebuilt.rows)
        is_rebuilt = pc.equal(rebuilt.outcomes.column("fate"), pa.scalar(REBUILT))
        parts.append(rebuilt.outcomes.column("csn").filter(is_rebuilt))
        outcomes += rebuilt.outcomes.filter(pc.invert(is_rebuilt)).to_pylist()
    csns = pa.chunked_array([chunk for part in parts for chunk in part.chunks], pa.int64())
    targets, rejected = {target.name: target for target in scope.histories}, remake.rejected_in(scope, outcomes)
    return {
        need.pair: Made(
            rows[need.pair[0]],
            _count_others(scope.paths, need, csns, states[need.pair]),
            count_rows(scope.paths, need.pair[0]) if need.replaces else 0,
            transactions=len(csns),
            renamed={} if need.replaces else {**need.renamed},
            fields={} if need.replaces else _fields(states, need),
            missing=remake.missing_of(scope, need, targets[need.pair[0]], outcomes, rejected),
        )
        for need in needs
    }


def count_rows(paths: TablePaths, table: str, where: str = "true") -> int:
    """Return how many rows of a table meet an SQL condition; 0 if the table does not exist."""
    rows = small_tables.query(paths.table(table), f"select count(*) as n from t where {where}")
    return int(rows[0]["n"]) if rows else 0


def _count_others(paths: TablePaths, need: Need, csns: AnyColumn, state: State) -> int:
    """Return how many rows of a history stay that belong to other transactions than those with some csns."""
    if not exists(path := paths.table(need.pair[0])):
        return 0
    is_mirror = "field" not in state.newest.declaration
    kept = f"_txloom_release <= {-1 if need.kept is None else need.kept}" if need.replaces and is_mirror else "true"
    parts = arrow_tables.batches({"t": opened(path)}, f"select _txloom_csn from t where {kept}")
    return sum(part.filter(pc.invert(pc.is_in(part.column(0), value_set=csns))).num_rows for part in parts)


def _decoded_again(pipeline: Pipeline, paths: TablePaths, seen: BufferState) -> int:
    """Return how many undecided transactions the next landing decodes again."""
    if landing_plan.last_watched(paths) == digest_of(watched_content(pipeline)):
        return 0
    return len(Undecided(paths).transactions(seen))
