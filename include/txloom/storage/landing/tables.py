"""What a landing leaves in tables: its events, its poison, its clock, and how far landings came."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from txloom.config import names
from txloom.storage.buffer.finished_transactions import finished_before
from txloom.storage.delta import arrow_tables, data_files, schema_evolution, small_tables
from txloom.storage.landing import name_spellings
from txloom.storage.landing.change_events import Landing, as_before, placed_again, with_numbers
from txloom.storage.landing.decoding import Decoded, NewDecoder, Reader, decode
from txloom.storage.landing.open_transactions import Fronts, fronts, open_transaction
from txloom.storage.paths import Place
from txloom.storage.publishing import watermark
from txloom.storage.sources import file_positions
from txloom.storage.sources.file_positions import Position
from txloom.storage.system_tables import CHANGE_EVENTS, DEAD_LETTERS, FILE_POSITIONS, INSTANT, LANDED_FILES
from txloom.transactions.events import decided, holes, to_bytes
from txloom.transactions.low_watermark import Frontier

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CLOCK_ROW = -1
"""`row` of the clock, which did not come from the source."""
PROPERTIES = {"delta.dataSkippingStatsColumns": "landing,row,kind,table,tx,csn"}


def create_tables(place: Place) -> None:
    """Create the tables that landing writes."""
    schema_evolution.ensure(place.change_events, CHANGE_EVENTS, PROPERTIES)
    schema_evolution.ensure(place.landed_files, LANDED_FILES)
    schema_evolution.ensure(place.table(names.FILE_POSITIONS), FILE_POSITIONS)
    small_tables.ensure(place.dead_letters, DEAD_LETTERS)


def write_events(
    spark: "Callable[[], SparkSession]",
    new: NewDecoder,
    source: Reader,
    landing: Landing,
    place: Place,
    *,
    ordered: bool = False,
) -> None:
    """Decode a landing's files into change_events, once; ordered: those of one topic one after the other.

    A file that cannot be read is left out, and so is all that was read of it: its position says why.
    """
    if small_tables.last_written(place.change_events, _write_id(place)) >= landing.number:
        return
    unreadable: list[Position] = []
    while True:
        left_out = {position.name for position in unreadable}
        tasks = [task for task in landing.tasks if (task.topic, task.file) not in left_out or task.part is not None]
        queues, found = [[task] for task in tasks], Fronts()
        if ordered:
            queues = [
                [task for task in tasks if task.topic == topic] for topic in dict.fromkeys(t.topic for t in tasks)
            ]
            known = file_positions.newest(place, landing.number)
            found = fronts(tasks, known, left_out, partial(open_transaction, place))
        decoded = decode(spark, new, source, queues, found, landing, place)
        unreadable += [position for position in decoded.positions if position.problem is not None]
        if len(unreadable) == len(left_out):
            break
    source.confirm(tasks)
    name_spellings.learn(place, landing.number, decoded.spellings)
    file_positions.write(place, landing.number, [*decoded.positions, *unreadable])
    _append(decoded, landing, place)


def _append(decoded: Decoded, landing: Landing, place: Place) -> None:
    """Append what was decoded of a landing, once."""
    if decoded.events is None:
        append_parts(decoded.written, landing, place)
    else:
        known = finished_before(place, decoded.events)
        append(with_numbers(decoded.events, landing, known=known), landing, place)


def append(events: pa.Table, landing: Landing, place: Place) -> None:
    """Append a landing's events, once."""
    arrow_tables.append_once(events, place.change_events, _write_id(place), landing.number)


def append_parts(written: "Sequence[data_files.Part]", landing: Landing, place: Place) -> None:
    """Commit files that tasks wrote as a landing's events, once."""
    data_files.append_parts(written, place.change_events, _write_id(place), landing.number)


def decode_again(new: NewDecoder, events: pa.Table, number: int, place: Place) -> pa.Table:
    """Decode events that were landed before once more, as they are declared now.

    events: topic, partition, offset, file, line, value, headers, in the order in which they are to be taken. Returned
    are decoded events with the places that they had. number: the landing that they are decoded for.
    """
    decoder, chunks = new(spellings=name_spellings.known(place)), []
    for topic in events.column("topic").unique().to_pylist():
        own = events.filter(pc.equal(events.column("topic"), topic))
        headers = [None if told is None else dict(told) for told in own.column("headers").to_pylist()]
        decoded = decoder.decode(topic, [value.encode() for value in own.column("value").to_pylist()], headers)
        chunks.append(as_before(decoded, own))
    name_spellings.learn(place, number, decoder.spellings)
    return pa.concat_tables(chunks)


def land_again(decoded: pa.Table, landing: Landing, place: Place) -> None:
    """Land what was decoded again under a landing of its own: its transactions are decided again."""
    append(with_numbers(placed_again(decoded, landing), landing, reopen=True), landing, place)


def write_poison(landing: Landing, place: Place) -> None:
    """Append a landing's poison to the dead letters, once."""
    write_id = names.write_id(place.pipeline, f"{names.DEAD_LETTERS}.land", 0)
    poison = arrow_tables.select(
        place.change_events, f"select * from t where landing = {landing.number} and kind = 'poison'"
    )
    if poison.num_rows:
        dead = poison.append_column("dead_at", pa.repeat(pa.scalar(landing.at, INSTANT), poison.num_rows))
        arrow_tables.append_once(
            dead.append_column("release", pa.nulls(dead.num_rows, pa.int64())),
            place.dead_letters,
            write_id,
            landing.number,
        )


def write_clock(landing: Landing, place: Place, reached: Frontier | None) -> None:
    """Append the landing's clock row: a commit of its own, so that it follows all events of its landing.

    It tells up to which landing what was finished stands in `transactions`, where landings that follow look it up.
    reached: how far the source's partitions are, where transactions wait for all of them.
    """
    row: dict[str, Any] = {"landing": landing.number, "row": CLOCK_ROW, "kind": "clock", "landed_at": landing.at}
    if reached is not None:
        row |= {"csn": reached.csn}
    unreadable = holes(landing.number, reached.holes if reached is not None else ())
    seen = watermark.snapshot(place)
    until = decided(landing.number, seen.landing if seen is not None else 0)
    row |= {"numbers": to_bytes(np.concatenate([unreadable, until]))}
    write_id = names.write_id(place.pipeline, f"{names.CHANGE_EVENTS}.clock", 0)
    small_tables.append(place.change_events, [row], CHANGE_EVENTS, once=(write_id, landing.number))


def count(landing: Landing, place: Place) -> dict[str, int]:
    """Count what a landing took in, by what becomes of it."""
    counts = dict.fromkeys(("files", "landed", "rows", "metadata", "unwatched", "poison", "tombstones", "markers"), 0)
    counts["files"] = len(landing.tasks)
    sql = (
        'select kind, "table" is not null as watched, count(*) as n from t '
        f'where landing = {landing.number} and "row" >= 0 group by 1, 2'
    )
    names_of = {"metadata": "metadata", "poison": "poison", "tombstone": "tombstones", "marker": "markers"}
    for group in small_tables.query(place.change_events, sql):
        name = names_of.get(group["kind"]) or ("rows" if group["watched"] else "unwatched")
        counts[name] += group["n"]
        counts["landed"] += group["n"]
    return counts


def last_read(place: Place) -> int:
    """Return the number of the last landing of which nothing is to be read any more; -1 before there was one."""
    return max(last_finished(place), small_tables.last_written(place.change_events, _write_id(place)))


def last_finished(place: Place) -> int:
    """Return the number of the last landing that has its line in the ledger; -1 before there was one."""
    return small_tables.last_written(place.table(names.LEDGER), names.write_id(place.pipeline, "land_events", 0))


def _write_id(place: Place) -> str:
    return names.write_id(place.pipeline, names.CHANGE_EVENTS, 0)
