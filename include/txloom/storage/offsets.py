"""Which records of Kafka's topics were planned for which landing, and which of them an operator gave up."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from txloom.config import names
from txloom.storage import books
from txloom.storage.kafka import Loss, Reached
from txloom.storage.own import LANDED_OFFSETS
from txloom.storage.place import Place
from txloom.storage.tasks import Range


def reached(place: Place) -> dict[tuple[str, int], Reached]:
    """Return by topic and partition up to where records were planned, or given up."""
    newest = 'row_number() over (partition by topic, partition order by landing desc, at desc, "until" desc) as n'
    sql = f'select topic, topic_id, partition, "until" from (select *, {newest} from t) where n = 1'
    found = books.query(place.table(names.LANDED_OFFSETS), sql)
    return {(row["topic"], row["partition"]): Reached(row["topic_id"], row["until"]) for row in found}


def planned(place: Place, landing: int) -> list[Range]:
    """Return what a landing takes."""
    columns = 'topic, topic_id, partition, "first", "until"'
    sql = f"select {columns} from t where landing = {landing} and lost is null order by topic, partition"
    return [Range(**row) for row in books.query(place.table(names.LANDED_OFFSETS), sql)]


def write_plan(place: Place, about: Mapping[str, Any], parts: Sequence[Range]) -> list[Range]:
    """Write down what a landing takes, once; return what it takes then. about: landing, run_id, at."""
    rows = [{**about, **vars(part)} for part in parts]
    write_id = names.write_id(place.pipeline, names.LANDED_OFFSETS, 0)
    books.append(place.table(names.LANDED_OFFSETS), rows, LANDED_OFFSETS, once=(write_id, about["landing"]))
    return planned(place, about["landing"])


def give_up(place: Place, lost: Sequence[Loss], run_id: str, at: datetime, reason: str) -> None:
    """Write down that an operator accepted losses: landing goes on behind them."""
    newest = books.query(place.landed_files, "select max(landing) as n from t")
    landing = (newest[0]["n"] if newest else 0) or 0
    rows = [
        {
            "landing": landing,
            "run_id": run_id,
            "at": at,
            "topic": loss.extent.topic,
            "topic_id": loss.extent.topic_id,
            "partition": loss.extent.partition,
            "first": loss.since,
            "until": loss.until,
            "lost": f"{loss}; accepted: {reason}",
        }
        for loss in lost
    ]
    books.append(place.table(names.LANDED_OFFSETS), rows, LANDED_OFFSETS)


def given_up(place: Place) -> list[dict[str, Any]]:
    """Return the losses that were accepted, oldest first."""
    columns = 'topic, partition, "first", "until", lost, at'
    sql = f"select {columns} from t where lost is not null order by at, topic, partition"
    return books.query(place.table(names.LANDED_OFFSETS), sql)
