"""The rows that a landing writes: its events, its poison and its clock row; and which landings are finished."""

from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from txloom.config import names
from txloom.storage.buffer.finished_transactions import finished_before
from txloom.storage.buffer.newest_batch import buffer_state
from txloom.storage.delta import arrow_tables, data_files, schema_evolution, small_tables
from txloom.storage.landing import name_spellings
from txloom.storage.landing.change_events import as_before, landed_again, with_compact_events, with_reopened
from txloom.storage.landing.decoding import Decoded, Decoding, NewDecoder, Reader, decode, decode_by_topic
from txloom.storage.landing.open_transactions import OpenBefore, open_before, open_transaction
from txloom.storage.paths import TablePaths
from txloom.storage.sources import file_positions
from txloom.storage.sources.file_positions import Position
from txloom.storage.sources.splits import LandingPlan
from txloom.storage.system_tables import (
    CHANGE_EVENTS,
    DEAD_LETTERS,
    FILE_POSITIONS,
    INSTANT,
    LANDED_FILES,
    REDECODES,
)
from txloom.transactions.events import decided, to_bytes, unreadable_ranges
from txloom.transactions.low_watermark import LowWatermark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CLOCK_ROW = -1
"""`row` of a clock row, which did not come from the source."""
PROPERTIES = {"delta.dataSkippingStatsColumns": "landing,row,kind,table,tx,csn"}


def create_tables(paths: TablePaths) -> None:
    """Create the tables that landing writes, or bring them to the schemas of this version."""
    schema_evolution.ensure(paths.change_events, CHANGE_EVENTS, PROPERTIES)
    schema_evolution.ensure(paths.landed_files, LANDED_FILES)
    schema_evolution.ensure(paths.table(names.FILE_POSITIONS), FILE_POSITIONS)
    small_tables.ensure(paths.dead_letters, DEAD_LETTERS)


def write_events(
    spark: "Callable[[], SparkSession]",
    new: NewDecoder,
    source: Reader,
    landing: LandingPlan,
    paths: TablePaths,
    *,
    ordered: bool = False,
) -> None:
    """Read and decode a landing, and append its rows to change_events; does nothing where they were appended before.

    A file that cannot be read is left out with all its rows, and its position says why.

    Args:
        spark: opens the Spark session; called only where there is much to decode.
        new: makes a decoder.
        source: reads the input splits.
        landing: the landing.
        paths: where the tables are.
        ordered: whether the input splits of one topic are decoded one after the other.

    Raises:
        SourceUnavailable: the source cannot be read now.
        SourceLost: what was read is not what was planned.
    """
    if small_tables.last_written(paths.change_events, _write_id(paths)) >= landing.number:
        return
    unreadable: list[Position] = []
    while True:
        left_out = {position.name for position in unreadable}
        tasks = [task for task in landing.splits if (task.topic, task.file) not in left_out or task.part is not None]
        queues, before = [[task] for task in tasks], OpenBefore()
        if ordered:
            queues = [
                [task for task in tasks if task.topic == topic] for topic in dict.fromkeys(t.topic for t in tasks)
            ]
            before = open_before(tasks, landing.followed, left_out, partial(open_transaction, paths))
        decoded = decode(spark, Decoding(landing, source, new, before, ordered=ordered), queues, paths)
        unreadable += [position for position in decoded.positions if position.problem is not None]
        if len(unreadable) == len(left_out):
            break
    source.confirm(tasks)
    name_spellings.learn(paths, landing.number, decoded.spellings)
    file_positions.write(paths, landing.number, [*decoded.positions, *unreadable])
    _append(decoded, landing, paths)


def _append(decoded: Decoded, landing: LandingPlan, paths: TablePaths) -> None:
    """Append the decoded rows of a landing, or commit the files with them, once."""
    if decoded.events is None:
        append_files(decoded.written, landing, paths)
    else:
        known = finished_before(paths, decoded.events)
        append(with_compact_events(decoded.events, landing, known=known), landing, paths)


def append(events: pa.Table, landing: LandingPlan, paths: TablePaths) -> None:
    """Append a landing's rows to change_events; a repeated call writes nothing."""
    arrow_tables.append_once(events, paths.change_events, _write_id(paths), landing.number)


def append_files(written: "Sequence[data_files.DataFile]", landing: LandingPlan, paths: TablePaths) -> None:
    """Commit files that Spark's tasks wrote as a landing's rows of change_events; a repeated call writes nothing."""
    data_files.append_files(written, paths.change_events, _write_id(paths), landing.number)


def decode_again(new: NewDecoder, events: pa.Table, number: int, paths: TablePaths) -> pa.Table:
    """Decode landed messages again, by the present declaration.

    Args:
        new: makes a decoder.
        events: topic, partition, offset, file, line, value and headers, in the order in which they are to be decoded.
        number: the landing that they are decoded for.
        paths: where the tables are.

    Returns:
        rows of the envelope with the coordinates of the earlier landing, by topic.
    """
    decoder, chunks = new(spellings=name_spellings.known(paths)), []
    for messages, decoded in decode_by_topic(decoder, events, by_file=decoder.counts_places):
        chunks.append(as_before(decoded, messages))
    name_spellings.learn(paths, number, decoder.spellings)
    return pa.concat_tables(chunks)


def land_again(decoded: pa.Table, landing: LandingPlan, paths: TablePaths, late: Collection[str] = ()) -> None:
    """Append events that were decoded again as another landing; transactions are decided again, except those in `late`.

    A repeated call writes nothing.

    Args:
        decoded: rows of the envelope with the coordinates of their earlier landings, as `decode_again` returns them.
        landing: the landing.
        paths: where the tables are.
        late: ids of transactions that stay as they were released. Their rows are late rows, as if the source had
            sent them now.
    """
    events = landed_again(decoded, landing)
    of_late = events.filter(pc.is_in(events.column("transaction_id"), pa.array(sorted(late), pa.string())))
    append(with_reopened(events, landing, late, finished_before(paths, of_late)), landing, paths)


def land_redecoded(chunks: Iterable[pa.Table], landing: LandingPlan, paths: TablePaths) -> int:
    """Append events that were decoded again as another landing, in one commit; return how many there are.

    They replace what the buffer holds of their transactions. A repeated call writes nothing.

    Args:
        chunks: rows of the envelope with the coordinates of their earlier landings, as `decode_again` returns them.
        landing: the landing.
        paths: where the tables are.
    """
    written, count = list[data_files.DataFile](), 0
    for decoded in chunks:
        rows = landed_again(decoded, landing, count)
        rows = with_compact_events(rows, landing, redecoded=True, known=finished_before(paths, rows))
        written.append(data_files.write_file(rows, names.CHANGE_EVENTS, paths.change_events))
        count += decoded.num_rows
    append_files(written, landing, paths)
    return count


def write_poison(landing: LandingPlan, paths: TablePaths) -> None:
    """Append a landing's poison to the dead letters; a repeated call writes nothing."""
    write_id = names.write_id(paths.pipeline, f"{names.DEAD_LETTERS}.land", 0)
    poison = arrow_tables.select(
        paths.change_events, f"select * from t where landing = {landing.number} and kind = 'poison'"
    )
    if poison.num_rows:
        dead = poison.append_column("dead_at", pa.repeat(pa.scalar(landing.at, INSTANT), poison.num_rows))
        arrow_tables.append_once(
            dead.append_column("release", pa.nulls(dead.num_rows, pa.int64())),
            paths.dead_letters,
            write_id,
            landing.number,
        )


def write_clock(landing: LandingPlan, paths: TablePaths, reached: LowWatermark | None) -> None:
    """Append a landing's clock row, in a separate commit behind its events; a repeated call writes nothing.

    The row also says up to which landing the buffer's finished transactions are in the table `transactions`.

    Args:
        landing: the landing.
        paths: where the tables are.
        reached: the low watermark over the source's partitions; None where transactions do not wait for it.
    """
    row: dict[str, Any] = {"landing": landing.number, "row": CLOCK_ROW, "kind": "clock", "landed_at": landing.at}
    row |= {"detail": REDECODES} if landing.redecodes else {}
    if reached is not None:
        row |= {"csn": reached.csn}
    unreadable = unreadable_ranges(landing.number, reached.unreadable_ranges if reached is not None else ())
    seen = buffer_state(paths)
    until = decided(landing.number, seen.landing if seen is not None else 0)
    row |= {"numbers": to_bytes(np.concatenate([unreadable, until]))}
    write_id = names.write_id(paths.pipeline, f"{names.CHANGE_EVENTS}.clock", 0)
    small_tables.append(paths.change_events, [row], CHANGE_EVENTS, once=(write_id, landing.number))


def count(landing: LandingPlan, paths: TablePaths) -> dict[str, int]:
    """Return a landing's counts: its input splits, and its messages by kind, rows of unwatched tables apart."""
    counts = dict.fromkeys(("files", "landed", "rows", "metadata", "unwatched", "poison", "tombstones", "markers"), 0)
    counts["files"] = len(landing.splits)
    sql = (
        'select kind, "table" is not null as watched, count(*) as n from t '
        f'where landing = {landing.number} and "row" >= 0 group by 1, 2'
    )
    names_of = {"metadata": "metadata", "poison": "poison", "tombstone": "tombstones", "marker": "markers"}
    for group in small_tables.query(paths.change_events, sql):
        name = names_of.get(group["kind"]) or ("rows" if group["watched"] else "unwatched")
        counts[name] += group["n"]
        counts["landed"] += group["n"]
    return counts


def last_read(paths: TablePaths) -> int:
    """Return the number of the last landing whose messages were all read; -1 before there was one."""
    return max(last_finished(paths), small_tables.last_written(paths.change_events, _write_id(paths)))


def last_finished(paths: TablePaths) -> int:
    """Return the number of the last landing that the ledger has a row of; -1 before there was one."""
    return small_tables.last_written(paths.table(names.LEDGER), names.write_id(paths.pipeline, "land_events", 0))


def _write_id(paths: TablePaths) -> str:
    return names.write_id(paths.pipeline, names.CHANGE_EVENTS, 0)
