"""Rows of snapshots that a connector gave up: the one that it then took from the beginning replaces them (ADR 24)."""

from txloom.config import names
from txloom.config.models import Pipeline
from txloom.pipelines.own_transaction import BEHIND, OwnTransaction
from txloom.storage import evolution, landing, local, source_snapshots
from txloom.storage.landing import Landing
from txloom.storage.place import Place


def clear_given_up(pipeline: Pipeline, place: Place, planned: Landing) -> None:
    """Empty, in front of the snapshot that a landing closed, the tables of which one that was given up had rows.

    What went between the two is in no message. Nothing of either was shown yet, and the stream has nothing below.
    """
    found = source_snapshots.given_up(pipeline, place, planned.number)
    if found is None or not found[1]:
        return
    csn, tables = found
    xid = f"{names.OWN_PREFIX}snapshot:{planned.number}"
    own = OwnTransaction(evolution.effective(pipeline, place), planned, xid, csn - 1, None)
    events = landing.with_numbers(own.truncates(tables, BEHIND, {}), planned)
    write_id = names.write_id(place.pipeline, f"{names.CHANGE_EVENTS}.given_up", 0)
    local.append_once(events, place.change_events, write_id, planned.number)
