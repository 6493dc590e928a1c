"""redrive: land the messages of dead letters once more, so that the buffer decides on them again."""

import logging
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial, reduce
from typing import Any, NoReturn, cast

import pyarrow as pa
import pyarrow.compute as pc

from txloom.errors import ConfigurationError
from txloom.events import formats
from txloom.events.formats import SourceDecoder
from txloom.quality.dead_letters import RedriveEffect, Selection
from txloom.steps.dead_letters.list_dead_letters import refuse_no_choice
from txloom.steps.landing.close_landing import close
from txloom.steps.landing.land_events import finish_last
from txloom.steps.step import Counts, Step
from txloom.storage.dead_letters import deliveries, open_letters
from txloom.storage.dead_letters.listing import among
from txloom.storage.delta.read_session import reading
from txloom.storage.landing import landing_plan, landing_tables
from txloom.storage.paths import TablePaths
from txloom.storage.publishing.cuts import newest_cut
from txloom.storage.snapshots import dated_transactions
from txloom.storage.sources.splits import LandingPlan
from txloom.transactions import reused_ids

LOG = logging.getLogger(__name__)

IS_OF = "case when kind = 'poison' and xid is not null then concat(xid, ':', csn) end as is_of"
"""The transaction that a message which cannot be read may belong to."""
CAME_LATE = (
    "the rows came after their transactions were released, and a redrive does not bring them into the tables: load"
    " snapshots of their tables, then dismiss the dead letters"
)
"""Why late rows are not redriven."""


def redrive(step: Step, selection: Selection) -> Counts:
    """Land chosen dead transactions and poison again, in new landings.

    Of a transaction all events that were ever landed are landed again, with the newest of its metadata, decoded as
    declared now; several transactions with one id in landings one after the other. The next buffer_transactions
    releases what is whole, and gives up the rest at once. If a transaction was released without some poison,
    this poison is landed as late rows. Histories take these rows if their table was declared later. Dead letters that
    came after their transaction was released are left out. A repeated call does not change tables of rows again.

    Args:
        step: the pipeline, its tables and the run.
        selection: transactions by id, cause, position or all; poison by cause, position or all.

    Returns:
        transactions and events; landing and last_landing, where there are any.

    Raises:
        ConfigurationError: if no open dead letter has a given id, cause or position; if nothing was chosen; if all
            chosen dead letters came after their transaction was released; or if an unfinished landing must first be
            decoded by another machine's Spark.
    """
    paths = step.paths
    pipeline = landing_plan.as_landed(step.pipeline, paths)
    ids, events, _ = _messages(step, selection, open_letters.MESSAGE)
    if not events.num_rows:
        return {"transactions": 0, "events": 0}
    step = replace(step, session=_no_session)
    first = finish_last(step) + 1
    new = partial(SourceDecoder, pipeline, holds_ahead=True, again=True)
    turns = _in_turns(landing_tables.decode_again(new, events, first, paths))
    for number, turn in enumerate(turns, first):
        again = LandingPlan(number, datetime.now(UTC), ())
        planned = {"landing": number, "run_id": step.run_id, "at": again.at, "topic": open_letters.REDRIVE}
        landing_plan.write_plan(paths, number, [planned])
        landing_tables.land_again(turn, again, paths, _find_late(paths, turn, ids))
        close(step, again)
    landings = {"landing": first, "last_landing": first + len(turns) - 1}
    return {"transactions": len(ids), "events": events.num_rows, **landings}


def effect(step: Step, selection: Selection) -> RedriveEffect:
    """Return what a redrive of this choice would do, by the functions that do it; nothing is written.

    Raises ConfigurationError as `redrive` does.
    """
    paths = step.paths
    with reading():
        ids, events, letters = _messages(step, selection, open_letters.POSITION)
        named = letters.filter(pc.is_in(letters.column("transaction_id"), pa.array(ids, pa.string())))
        rows = named.filter(pc.equal(named.column("kind"), pa.scalar("row")))
        csns = dict(zip(*(named.column(name).to_pylist() for name in ("transaction_id", "csn")), strict=True))
        cut = newest_cut(paths, "valid_through") or {}
        return RedriveEffect(
            transactions=len(ids),
            events=events.num_rows,
            tables=tuple(sorted(Counter(name or "?" for name in rows.column("table").to_pylist()).items())),
            csns=tuple(sorted(csn for csn in csns.values() if csn is not None)),
            complete=len({*ids} & {*open_letters.complete_now(paths)}),
            valid_through=cut.get("valid_through"),
        )


def _messages(step: Step, selection: Selection, message: str) -> tuple[list[str], pa.Table, pa.Table]:
    """Return the ids of chosen transactions, the messages to land again, and the open dead letters.

    message: the columns of messages, as SQL.
    """
    refuse_no_choice(selection)
    paths = step.paths
    conditions = [among(Selection(messages=[each])) for each in selection.messages]
    flags = [f"coalesce({condition}, false) as is_at_{number}" for number, condition in enumerate(conditions)]
    columns = ", ".join(['transaction_id, kind, cause, landing, "row", "table", csn', IS_OF, message, *flags])
    dead_letters = open_letters.open_dead_letters(paths, columns, version=selection.version)
    ids, chosen, poison = _chosen(dead_letters, selection)
    in_time = _without_late(paths, ids, chosen)
    if late := chosen.num_rows - in_time.num_rows:
        ids, chosen = sorted({*ids} & {*_distinct(in_time, "transaction_id")}), in_time
        if not (ids or poison.num_rows or selection.everything):
            raise ConfigurationError(CAME_LATE)
        LOG.warning(f"note: {late} dead letters are left out: {CAME_LATE}")
    ids = _without_superseded(paths, ids, selection.transactions)
    if formats.is_ordered(step.pipeline):
        ids, poison = _with_their_poison(paths, ids, poison)
        return ids, _in_order(paths, ids, poison, message), dead_letters
    return ids, open_letters.events_of(paths, ids, poison, chosen, message), dead_letters


def _in_turns(events: pa.Table) -> list[pa.Table]:
    """Return the events of one landing after the other: transactions with one id are in different landings."""
    metadata = events.filter(pc.equal(events.column("kind"), pa.scalar("metadata"))).group_by(["transaction_id"])
    ends = metadata.aggregate([("csn", "count_distinct")]).column("csn_count_distinct")
    if (pc.max(ends).as_py() or 0) < 2:
        return [events]
    turn = pa.array(reused_ids.turns(events.select(reused_ids.COLUMNS).to_pylist()))
    return [events.filter(pc.equal(turn, pa.scalar(each))) for each in range(pc.max(turn).as_py() + 1)]


def _find_late(paths: TablePaths, events: pa.Table, chosen: Collection[str]) -> set[str]:
    """Return the ids of transactions that were released without some of the events; chosen: ids that are redriven."""
    by_id = dict[str, list[dict[str, Any]]]()
    for row in events.select(reused_ids.COLUMNS).to_pylist():
        if row["kind"] in ("row", "metadata") and row["transaction_id"] not in chosen:
            by_id.setdefault(row["transaction_id"], []).append(row)
    ends = dict(sorted(open_letters.released(paths, sorted(by_id))))
    return {each for each, end in ends.items() if not reused_ids.is_behind(by_id[each], end)}


def _with_their_poison(paths: TablePaths, ids: Sequence[str], poison: pa.Table) -> tuple[list[str], pa.Table]:
    """Return the ids with those of dead transactions that chosen poison belongs to, and the poison to land by itself.

    Poison of a transaction that still waits is left out.
    """
    if not poison.num_rows:
        return list(ids), poison
    of = {name for name in poison.column("is_of").to_pylist() if name is not None}
    gone = {row["transaction_id"] for row in open_letters.given_up(paths)} & of
    apart = of - {name for name, _ in open_letters.released(paths, sorted(of))} | {*ids}
    is_apart = pc.is_in(poison.column("is_of"), pa.array(sorted(apart), pa.string())).fill_null(False)
    return sorted({*ids} | gone), poison.filter(pc.invert(cast("pa.BooleanArray", is_apart)))


def _in_order(paths: TablePaths, ids: Sequence[str], poison: pa.Table, message: str) -> pa.Table:
    """Return the messages to land of an ordered source: those of no transaction first, so that they join none."""
    parts = [poison, deliveries.of_transactions(paths, ids, message)]
    columns = [name.strip('" ') for name in message.split(",")]
    chosen = [part.select(columns) for part in parts if part.num_rows]
    return pa.concat_tables(chosen) if chosen else pa.table({})


def _without_superseded(paths: TablePaths, ids: Sequence[str], named: Sequence[str]) -> list[str]:
    """Leave out the differences of dates before the newest: later dates were compared without them."""
    old = dated_transactions.superseded(paths, ids)
    for each in old:
        refusal = f"{each}: a newer date was compared without it, so that it cannot be redriven"
        if each in named:
            raise ConfigurationError(refusal)
        LOG.warning(f"note: {refusal}")
    return [each for each in ids if each not in old]


def _without_late(paths: TablePaths, ids: Sequence[str], chosen: pa.Table) -> pa.Table:
    """Leave out dead letters that came after their transaction was released: no transaction is released twice."""
    ends = open_letters.released(paths, ids)
    if not ends:
        return chosen
    letters = zip(*(chosen.column(name).to_pylist() for name in ("transaction_id", "csn")), strict=True)
    return chosen.filter(pa.array([letter not in ends for letter in letters], pa.bool_()))


def _no_session() -> NoReturn:
    raise ConfigurationError("a large landing was planned and not finished: run land_events first, then redrive")


def _chosen(dead_letters: pa.Table, selection: Selection) -> tuple[list[str], pa.Table, pa.Table]:
    """Return the ids of chosen transactions, their dead letters (one id may be that of several), and chosen poison."""
    if not dead_letters.num_rows:
        return [], dead_letters, dead_letters
    is_poison = pc.equal(dead_letters.column("kind"), pa.scalar("poison"))
    ids = _distinct(dead_letters.filter(pc.invert(is_poison)), "transaction_id")
    _refuse_unknown("transaction", selection.transactions, ids)
    _refuse_unknown("cause", selection.causes, _distinct(dead_letters, "cause"))
    is_at = [dead_letters.column(f"is_at_{number}") for number in range(len(selection.messages))]
    for each, column in zip(selection.messages, is_at, strict=True):
        if not pc.any(column).as_py():
            raise ConfigurationError(f"no open dead letter is at position {each!r}")
    if selection.everything:
        return ids, dead_letters, dead_letters.filter(is_poison)
    by_cause = reduce(pc.or_, is_at, pc.is_in(dead_letters.column("cause"), pa.array(selection.causes, pa.string())))
    by_id = pc.is_in(dead_letters.column("transaction_id"), pa.array(selection.transactions, pa.string()))
    chosen = dead_letters.filter(pc.and_(pc.invert(is_poison), pc.or_(by_cause, by_id)))
    poison = dead_letters.filter(pc.and_(is_poison, by_cause))
    return sorted(_distinct(chosen, "transaction_id")), chosen, poison


def _distinct(rows: pa.Table, column: str) -> list[str]:
    return cast("list[str]", rows.column(column).unique().to_pylist())


def _refuse_unknown(what: str, named: Sequence[str], known: Sequence[str]) -> None:
    there = set(known)
    for each in named:
        if each not in there:
            some = ", ".join(sorted(known)[:10]) or "none"
            raise ConfigurationError(f"no open dead letter has the {what} {each!r}; there are: {some}")
