"""Make rows of histories again: out of other histories that have them, else out of landed messages."""

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from txloom.config import names
from txloom.config.contents import Content
from txloom.config.models.pipeline import Pipeline
from txloom.events import formats
from txloom.events.rejections import UNKNOWN_TABLE
from txloom.steps.backfill.apply import correct_history
from txloom.steps.backfill.compare import counts_of, refuse_repeated
from txloom.steps.backfill.rebuild import rebuild_histories
from txloom.steps.backfill.scope import HIGHEST, SHORT, Scope, Target, only
from txloom.steps.backfill.table_comparison import STAY, Comparison
from txloom.steps.settling import copying
from txloom.steps.settling.copy_sources import Copy, find_copies
from txloom.steps.settling.need import Need
from txloom.steps.settling.replacing import replace_rows, take_out_keyless, take_out_moved
from txloom.steps.step import Step
from txloom.storage.buffer.newest_batch import BufferState
from txloom.storage.declarations import history_rewriting
from txloom.storage.declarations.incomplete import GONE, NOT_ARRIVED, describe_csns
from txloom.storage.declarations.records import WAITING, Pair, Record, State
from txloom.storage.declarations.records import states as states_of
from txloom.storage.declarations.redeclared import declared_over
from txloom.storage.declarations.source_samples import find_rejected, read_rejected
from txloom.storage.declarations.undecided import Undecided
from txloom.storage.delta import arrow_tables, small_tables
from txloom.storage.paths import TablePaths
from txloom.storage.publishing.valid_through import valid_through
from txloom.storage.publishing.watermark import Watermark
from txloom.storage.snapshots import kept_columns
from txloom.storage.targets import schemas, shadow_tables

LOG = logging.getLogger(__name__)
REJECTED = f'rows are dead letters with the cause "{UNKNOWN_TABLE}": redrive these'
"""What is missing, in words, if a redrive may bring it."""
DISMISSED = f'rows are dead letters with the cause "{UNKNOWN_TABLE}", and some of these were dismissed'
"""What is missing, in words, if a redrive does not bring all of it because dead letters were dismissed."""
KINDS = ("may_come", "are_rejected", "are_dismissed", "is_undeclared")
"""The attributes of `Missing` that hold for several transactions only if they hold for each of them."""


@dataclass(frozen=True)
class Missing:
    """The transactions whose rows could not be made again.

    Args:
        transactions: how many.
        first_csn: the lowest of their csns.
        last_csn: the highest of their csns.
        may_come: whether all that is missing of them are messages that have not arrived yet.
        are_rejected: whether a redrive may bring all that is missing of them: open dead letters have rows that came
            before their table was declared.
        are_dismissed: whether all that is missing of them is in dead letters, and some of these were dismissed.
        from_history: whether the rows that were made came from another history.
        is_undeclared: whether extracts of dates had what is missing, and it was not kept because it was not declared.
    """

    transactions: int = 0
    first_csn: int = 0
    last_csn: int = 0
    may_come: bool = False
    are_rejected: bool = False
    are_dismissed: bool = False
    from_history: bool = False
    is_undeclared: bool = False

    def __or__(self, other: "Missing") -> "Missing":
        """Return what is missing of both; none of their transactions are the same."""
        if not (self.transactions and other.transactions):
            return self if self.transactions else other
        first, last = min(self.first_csn, other.first_csn), max(self.last_csn, other.last_csn)
        kinds = {each: getattr(self, each) and getattr(other, each) for each in KINDS}
        return Missing(self.transactions + other.transactions, first, last, **kinds)

    def __str__(self) -> str:
        """Return what is missing in words."""
        if not self.transactions:
            return "nothing"
        what = NOT_ARRIVED if self.may_come else GONE
        if self.are_rejected:
            what = REJECTED
        if self.are_dismissed:
            what = DISMISSED
        if self.is_undeclared:
            what = "tables and columns that were not declared yet were not kept"
        return f"of {self.transactions} transactions {describe_csns(self.first_csn, self.last_csn)}, {what}"


def remake(
    step: Step, pipeline: Pipeline, known: Sequence[Record], needs: Sequence[Need], release: int, now: datetime
) -> dict[Pair, Missing]:
    """Make rows of histories again, and return what is missing by history and member.

    Args:
        step: the declaration, the tables and the run.
        pipeline: the declaration with columns that tables took up.
        known: the records, in order.
        needs: what is needed, of each history's member.
        release: the newest release.
        now: the time at which `patience` is checked.
    """
    states = states_of(known)
    made = _copy(step, pipeline, find_copies(pipeline, step.paths, states, needs))
    left = [need for need in needs if need.pair not in made]
    if not left:
        return made
    scope = scope_of(pipeline, step.paths, step.run_id, left, release)
    tables = [need.pair[1] for need in left]
    shadow_tables.note_edit(step.paths, step.run_id, "rebuilding", tables)
    rebuild_histories(step.session, scope)
    outcomes = _outcomes(scope)
    rejected = rejected_in(scope, outcomes)
    by_history, targets = dict[str, list[Need]](), {target.name: target for target in scope.histories}
    for need in left:
        by_history.setdefault(need.pair[0], []).append(need)
    lacked = {need.pair: missing_of(scope, need, targets[need.pair[0]], outcomes, rejected) for need in left}
    copies = copies_instead(pipeline, step.paths, states, left, lacked)
    made |= lacked
    copied = {copy.history for copy in copies}
    for target in scope.histories:
        if target.name not in copied and (of_history := by_history.get(target.name)):
            missing = {need.pair: lacked[need.pair] for need in of_history}
            if not (replaced := [need for need in of_history if need.replaces]):
                is_compared = _write(step, scope, target)
                if is_compared and (fields := _find_fields(pipeline, target.name)):
                    take_out_moved(scope, target, fields)
                lacking = [need for need in of_history if missing[need.pair].transactions]
                take_out_keyless(scope, target, states, lacking)
                continue
            newest = {need.pair: states[need.pair].newest for need in replaced}
            if not all(is_waited_for(pipeline, newest[pair], missing[pair], now) for pair in newest):
                replace_rows(scope, target, states, replaced)
    shadow_tables.drop(step.paths, [names.TRANSACTIONS, *(target.name for target in scope.histories)])
    shadow_tables.note_edit(step.paths, step.run_id, "dropped", tables)
    return made | _copy(step, pipeline, copies)


def copies_instead(
    pipeline: Pipeline,
    paths: TablePaths,
    states: Mapping[Pair, State],
    needs: Sequence[Need],
    missing: Mapping[Pair, Missing],
) -> list[Copy]:
    """Return the copies that bring histories the rows of cleaned histories, because messages are missing.

    Args:
        pipeline: the declaration with columns that tables took up.
        paths: the tables of the pipeline.
        states: of each history's member.
        needs: what is needed, of each history's member.
        missing: what cannot be made of messages, by history and member.
    """
    histories = {pair[0] for pair, each in missing.items() if each.transactions}
    lacking = [need for need in needs if need.pair[0] in histories]
    return find_copies(pipeline, paths, states, lacking, are_cleaned=True)


def _copy(step: Step, pipeline: Pipeline, copies: Iterable[Copy]) -> dict[Pair, Missing]:
    """Copy rows out of other histories, and return by history and member that nothing is missing."""
    made = dict[Pair, Missing]()
    for copy in copies:
        copying.copy_rows(step, pipeline, copy)
        made |= {need.pair: Missing(from_history=True) for need in copy.needs}
    return made


def scope_of(
    pipeline: Pipeline,
    paths: TablePaths,
    run_id: str,
    needs: Sequence[Need],
    release: int,
    following: Content | None = None,
) -> Scope:
    """Return the rebuild of all histories of which rows are needed.

    Args:
        pipeline: the declaration with columns that tables took up.
        paths: the tables of the pipeline.
        run_id: the run.
        needs: what is needed, of each history's member.
        release: the newest release.
        following: how the next landing decodes, as `landing_plan.decoded_since` takes it.
    """
    chosen = only(pipeline, sorted({need.pair[1] for need in needs}))
    conditions = " or ".join(dict.fromkeys(need.transactions for need in needs))
    redeclared = declared_over(pipeline, paths, following)
    return Scope(chosen, paths, run_id, 0, HIGHEST, release, redeclared, conditions, restores=True)


def undeclared(pipeline: Pipeline, paths: TablePaths, seen: BufferState, pairs: Iterable[Pair]) -> dict[Pair, Missing]:
    """Return what members of histories lack because extracts of dates had it before it was declared.

    A later date may have brought the missing rows to the current tables since (`settle.completed_by_rows`).

    Args:
        pipeline: the declaration with columns that tables took up.
        paths: the tables of the pipeline.
        seen: the state of the buffer.
        pairs: the members to check; the result leaves out those that lack nothing.
    """
    if pipeline.source.snapshots is None or not (chosen := [*pairs]):
        return {}
    lacked = kept_columns.lacks(pipeline, paths, Watermark(valid_through(paths, seen), seen.release))
    return {
        pair: Missing(lack.dates, lack.first_csn, lack.last_csn, is_undeclared=True)
        for pair in chosen
        if (lack := lacked.get(pair[1])) is not None
    }


def is_waited_for(pipeline: Pipeline, newest: Record, missing: Missing, now: datetime) -> bool:
    """Return whether the messages that a history's member lacks may still arrive, and `patience` has not elapsed.

    `patience` counts from the last message that arrived: from then on, each cycle finds the same transactions missing.

    Args:
        pipeline: the declaration.
        newest: the newest record of the member.
        missing: what could not be made again.
        now: the time at which `patience` is checked.
    """
    if newest.status != WAITING or newest.missing != str(missing) or newest.at is None:
        return missing.may_come
    return missing.may_come and now - newest.at < pipeline.completeness.patience


def _outcomes(scope: Scope) -> list[dict[str, Any]]:
    """Return the transactions that could not be made again."""
    path = scope.paths.table(names.shadow_table(names.TRANSACTIONS))
    return small_tables.query(path, f"select * from t where {STAY}")


def rejected_in(scope: Scope, outcomes: Iterable[Mapping[str, Any]]) -> Collection[str]:
    """Return the tables whose missing rows may be dead letters, because they came before the table was declared.

    Args:
        scope: the rebuild.
        outcomes: the transactions that could not be made again.
    """
    return find_rejected(scope.pipeline, scope.paths) if any(row["fate"] == SHORT for row in outcomes) else ()


def missing_of(
    scope: Scope, need: Need, target: Target, outcomes: Sequence[Mapping[str, Any]], rejected: Collection[str]
) -> Missing:
    """Return what a history's member lacks: transactions, and rows that nobody watched before they were removed.

    Args:
        scope: the rebuild.
        need: what the member needs.
        target: the history.
        outcomes: the transactions that could not be made again.
        rejected: as `rejected_in` returns them.
    """
    return _lacking(need, target, outcomes, rejected) | _removed(scope, need) | _rejected(scope, need)


def _lacking(need: Need, target: Target, outcomes: Sequence[Mapping[str, Any]], rejected: Collection[str]) -> Missing:
    """Return what a history's member lacks: of a document's history, transactions of which some member is not there."""
    lacking = [
        row
        for row in outcomes
        if need.concerns(row["csn"], row["release"], row["landing"])
        and (row["tables"] is None or {*row["tables"]} & {*target.members})
    ]
    if not lacking:
        return Missing()
    csns = [row["csn"] for row in lacking]
    are_short = all(row["fate"] == SHORT for row in lacking)
    are_rejected = are_short and any({*(row["tables"] or ())} & {*target.members} & {*rejected} for row in lacking)
    number = len({(row["xid"], row["csn"]) for row in lacking})
    return Missing(number, min(csns), max(csns), are_short and not are_rejected, are_rejected)


def _removed(scope: Scope, need: Need) -> Missing:
    """Return the transactions of a table's rows that nobody watched, and whose messages are not kept any more.

    No transaction that was finished has such a row: a connector's snapshot, and changes that stand alone, are decided
    only where a table of theirs is watched.
    """
    looks_back = need.everything or need.gap is not None
    if scope.redeclared is None or not (scope.redeclared.border and looks_back):
        return Missing()
    sources = [source for source, table in scope.redeclared.sources.items() if table == need.pair[1]]
    rows = Undecided(scope.paths).removed(sorted(sources))
    if not rows:
        return Missing()
    csns = [row["csn"] for row in rows]
    return Missing(len({row["transaction_id"] for row in rows}), min(csns), max(csns))


def _rejected(scope: Scope, need: Need) -> Missing:
    """Return the transactions of a table's rows that are dead letters, because they came before it was declared.

    If metadata counts rows, nothing is returned: `_lacking` finds these transactions by the counts. Rows of an ordered
    source cannot be decoded without their transaction. So no redrive brings such rows into a released transaction.
    """
    counts = scope.pipeline.completeness.rule == "counts"
    if counts or scope.redeclared is None or not (need.everything or need.gap is not None):
        return Missing()
    if not (rejected := read_rejected(scope.pipeline, scope.paths, need.pair[1])).csns:
        return Missing()
    return Missing(
        len({*rejected.transactions}),
        min(rejected.csns),
        max(rejected.csns),
        are_rejected=rejected.are_open and not formats.is_ordered(scope.pipeline),
        are_dismissed=not rejected.are_open,
    )


def _find_fields(pipeline: Pipeline, history: str) -> list[str]:
    """Return the fields with changes of an aggregate's history.

    Return [] for the history of a mirror, which identifies changes otherwise than by the key of a root.
    """
    aggregates = [each for each in pipeline.targets.aggregates if each.history == history]
    return [field for each in aggregates for _, field in schemas.members_of(each)]


def _write(step: Step, scope: Scope, target: Target) -> bool:
    """Write the rows that were made again to a history, in one commit; return whether the history had rows before."""
    path, shadow = scope.paths.table(target.name), scope.paths.table(names.shadow_table(target.name))
    key = [name for name in target.key if name in target.schema.names]
    if history_rewriting.fill_empty(path, key, arrow_tables.parts_of(shadow, target.schema)):
        return False
    Comparison(scope, target).write(step.session)
    refuse_repeated(scope, target)
    counts = counts_of(scope, target)
    if counts["missing"] or counts["different"]:
        correct_history(step.session, scope, target)
    return True
