"""redrive: land what became dead letters once more, so that the same buffer decides on it again."""

from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from typing import NoReturn

import pyarrow as pa
import pyarrow.compute as pc

from txloom.config.models import Pipeline
from txloom.errors import ConfigurationError
from txloom.events.formats import SourceDecoder
from txloom.pipelines.land import close, finish_last
from txloom.storage import dated, dead, landing
from txloom.storage.landing import Landing
from txloom.storage.place import Place


def redrive(
    _spark: object,
    pipeline: Pipeline,
    *,
    warehouse: str,
    run_id: str,
    transactions: Sequence[str] = (),
    causes: Sequence[str] = (),
    everything: bool = False,
    version: int | None = None,
) -> dict[str, int]:
    """Land dead transactions (by id, by cause, or all) and poison (by cause, or all) again, as a landing of its own.

    All that was ever landed of a transaction goes along, with the newest of its metadata, decoded as declared now. The
    next buffer_transactions releases what is whole and gives up the rest at once. Done twice it changes nothing more.
    version: only what this version of dead_letters has, which somebody approved. Raises ConfigurationError for an id or
    a cause that no open dead letter has.
    """
    if not (transactions or causes or everything):
        raise ConfigurationError("nothing was chosen: pass --transaction, --cause or --all")
    place = Place(warehouse, pipeline.name)
    letters = dead.open_letters(place, f"transaction_id, kind, cause, {dead.MESSAGE}", version=version)
    ids, poison = _chosen(letters, transactions, causes, everything=everything)
    ids = _without_superseded(place, ids, transactions)
    events = dead.events_of(place, ids, poison)
    if not events.num_rows:
        return {"transactions": 0, "events": 0}
    plan = landing.planned(place.landed_files)
    number = finish_last(_no_spark, pipeline, plan, place, run_id) + 1
    again = Landing(number, datetime.now(UTC), ())
    planned = {"landing": number, "run_id": run_id, "at": again.at, "topic": dead.REDRIVE}
    landing.write_plan(place, number, [planned])
    landing.land_again(partial(SourceDecoder, pipeline), events, again, place)
    close(pipeline, again, place, run_id)
    return {"transactions": len(ids), "events": events.num_rows, "landing": number}


def _without_superseded(place: Place, ids: Sequence[str], asked: Sequence[str]) -> list[str]:
    """Leave out what was compared on dates before the newest: the dates after it were compared without it."""
    old = dated.superseded(place, ids)
    for each in old:
        told = f"{each}: a newer date was compared without it, so that it cannot be redriven"
        if each in asked:
            raise ConfigurationError(told)
        print(f"note: {told}", flush=True)
    return [each for each in ids if each not in old]


def _no_spark() -> NoReturn:
    raise ConfigurationError("a large landing was planned and not finished: run land_events first, then redrive")


def _chosen(
    letters: pa.Table, transactions: Sequence[str], causes: Sequence[str], *, everything: bool
) -> tuple[list[str], pa.Table]:
    """Return the ids of chosen transactions, and chosen poison."""
    if not letters.num_rows:
        return [], letters
    rows = pc.not_equal(letters.column("kind"), "poison")
    ids = letters.filter(rows).column("transaction_id").unique().to_pylist()
    known = letters.column("cause").unique().to_pylist()
    _refuse_unknown("transaction", transactions, ids)
    _refuse_unknown("cause", causes, known)
    if not everything:
        by_cause = letters.filter(pc.is_in(letters.column("cause"), pa.array(causes, pa.string())))
        letters = by_cause
        named = by_cause.filter(pc.not_equal(by_cause.column("kind"), "poison")).column("transaction_id")
        ids = sorted({*transactions, *named.to_pylist()})
    return ids, letters.filter(pc.equal(letters.column("kind"), "poison"))


def _refuse_unknown(what: str, asked: Sequence[str], known: Sequence[str]) -> None:
    there = set(known)
    for each in asked:
        if each not in there:
            some = ", ".join(sorted(known)[:10]) or "none"
            raise ConfigurationError(f"no open dead letter has the {what} {each!r}; there are: {some}")
