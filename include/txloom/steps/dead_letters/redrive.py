"""redrive: land what became dead letters once more, so that the same buffer decides on it again."""

import logging
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial, reduce
from typing import NoReturn

import pyarrow as pa
import pyarrow.compute as pc

from txloom.errors import ConfigurationError
from txloom.events import formats
from txloom.events.formats import SourceDecoder
from txloom.quality.dead_letters import Selection
from txloom.steps.dead_letters.list_dead_letters import refuse_no_choice
from txloom.steps.landing.land_events import close, finish_last
from txloom.steps.step import Counts, Step
from txloom.storage.dead_letters import deliveries, open_letters
from txloom.storage.dead_letters.listing import among
from txloom.storage.landing import plan as landing_plan
from txloom.storage.landing import tables
from txloom.storage.paths import TablePaths
from txloom.storage.snapshots import dated_transactions
from txloom.storage.sources.splits import LandingPlan
from txloom.transactions import reused_ids

LOG = logging.getLogger(__name__)

IS_OF = "case when kind = 'poison' and xid is not null then concat(xid, ':', csn) end as is_of"
"""The transaction that a message which cannot be read may be of."""


def redrive(step: Step, selection: Selection) -> Counts:
    """Land dead transactions (by id, cause, position, or all) and poison (by cause, position, or all) again.

    It is one landing, and transactions of one id one after the other. All that was ever landed of a transaction goes
    along, with the newest of its metadata, decoded as declared now. The next buffer_transactions releases what is whole
    and gives up the rest at once. Done twice it changes nothing more. Raises ConfigurationError for an id, a cause or a
    position that no open dead letter has.
    """
    refuse_no_choice(selection)
    pipeline, paths = step.pipeline, step.paths
    at = [among(Selection(messages=[each])) for each in selection.messages]
    there = [f"coalesce({condition}, false) as lies_{number}" for number, condition in enumerate(at)]
    columns = ", ".join(['transaction_id, kind, cause, landing, "row"', IS_OF, open_letters.MESSAGE, *there])
    dead_letters = open_letters.open_dead_letters(paths, columns, version=selection.version)
    ids, chosen, poison = _chosen(dead_letters, selection)
    ids = _without_superseded(paths, ids, selection.transactions)
    if formats.is_ordered(pipeline):
        ids, poison = _with_their_poison(paths, ids, poison)
        events = _in_order(paths, ids, poison)
    else:
        events = open_letters.events_of(paths, ids, poison, chosen)
    if not events.num_rows:
        return {"transactions": 0, "events": 0}
    plan = landing_plan.planned(paths.landed_files)
    step = replace(step, session=_no_session)
    first = finish_last(step, plan) + 1
    turns = _in_turns(tables.decode_again(partial(SourceDecoder, pipeline), events, first, paths))
    for number, turn in enumerate(turns, first):
        again = LandingPlan(number, datetime.now(UTC), ())
        planned = {"landing": number, "run_id": step.run_id, "at": again.at, "topic": open_letters.REDRIVE}
        landing_plan.write_plan(paths, number, [planned])
        tables.land_again(turn, again, paths)
        close(step, again)
    landings = {"landing": first, "last_landing": first + len(turns) - 1}
    return {"transactions": len(ids), "events": events.num_rows, **landings}


def _in_turns(events: pa.Table) -> list[pa.Table]:
    """Return the events of one landing after the other: transactions that have one id are not landed together."""
    metadata = events.filter(pc.equal(events.column("kind"), "metadata")).group_by(["transaction_id"])
    ends = metadata.aggregate([("csn", "count_distinct")]).column("csn_count_distinct")
    if (pc.max(ends).as_py() or 0) < 2:
        return [events]
    turn = pa.array(reused_ids.turns(events.select(reused_ids.COLUMNS).to_pylist()))
    return [events.filter(pc.equal(turn, each)) for each in range(pc.max(turn).as_py() + 1)]


def _with_their_poison(paths: TablePaths, ids: Sequence[str], poison: pa.Table) -> tuple[list[str], pa.Table]:
    """Redrive the dead transactions that poison is of, as a whole, and no poison of one that still waits."""
    if not poison.num_rows:
        return list(ids), poison
    of = {*poison.column("is_of").to_pylist()} - {None}
    gone = {row["transaction_id"] for row in open_letters.given_up(paths)} & of
    apart = of - {name for name, _ in open_letters.released(paths, sorted(of))} | {*ids}
    alone = pc.invert(pc.fill_null(pc.is_in(poison.column("is_of"), pa.array(sorted(apart), pa.string())), False))
    return sorted({*ids} | gone), poison.filter(alone)


def _in_order(paths: TablePaths, ids: Sequence[str], poison: pa.Table) -> pa.Table:
    """Return what is landed again of an ordered source: what is of no transaction first, so that it joins none."""
    parts = [poison, deliveries.of_transactions(paths, ids)]
    columns = [name.strip('" ') for name in open_letters.MESSAGE.split(",")]
    chosen = [part.select(columns) for part in parts if part.num_rows]
    return pa.concat_tables(chosen) if chosen else pa.table({})


def _without_superseded(paths: TablePaths, ids: Sequence[str], named: Sequence[str]) -> list[str]:
    """Leave out what was compared on dates before the newest: the dates after it were compared without it."""
    old = dated_transactions.superseded(paths, ids)
    for each in old:
        refusal = f"{each}: a newer date was compared without it, so that it cannot be redriven"
        if each in named:
            raise ConfigurationError(refusal)
        LOG.warning(f"note: {refusal}")
    return [each for each in ids if each not in old]


def _no_session() -> NoReturn:
    raise ConfigurationError("a large landing was planned and not finished: run land_events first, then redrive")


def _chosen(dead_letters: pa.Table, selection: Selection) -> tuple[list[str], pa.Table, pa.Table]:
    """Return the ids of chosen transactions, their dead letters (one id may have several), and chosen poison."""
    if not dead_letters.num_rows:
        return [], dead_letters, dead_letters
    is_poison = pc.equal(dead_letters.column("kind"), "poison")
    ids = dead_letters.filter(pc.invert(is_poison)).column("transaction_id").unique().to_pylist()
    known = dead_letters.column("cause").unique().to_pylist()
    _refuse_unknown("transaction", selection.transactions, ids)
    _refuse_unknown("cause", selection.causes, known)
    lie = [dead_letters.column(f"lies_{number}") for number in range(len(selection.messages))]
    for each, column in zip(selection.messages, lie, strict=True):
        if not pc.any(column).as_py():
            raise ConfigurationError(f"no open dead letter has the place {each!r}")
    if selection.everything:
        return ids, dead_letters, dead_letters.filter(is_poison)
    by_cause = reduce(pc.or_, lie, pc.is_in(dead_letters.column("cause"), pa.array(selection.causes, pa.string())))
    by_id = pc.is_in(dead_letters.column("transaction_id"), pa.array(selection.transactions, pa.string()))
    chosen = dead_letters.filter(pc.and_(pc.invert(is_poison), pc.or_(by_cause, by_id)))
    poison = dead_letters.filter(pc.and_(is_poison, by_cause))
    return sorted(chosen.column("transaction_id").unique().to_pylist()), chosen, poison


def _refuse_unknown(what: str, named: Sequence[str], known: Sequence[str]) -> None:
    there = set(known)
    for each in named:
        if each not in there:
            some = ", ".join(sorted(known)[:10]) or "none"
            raise ConfigurationError(f"no open dead letter has the {what} {each!r}; there are: {some}")
