"""Landing: planned files become rows of change_events, in this process when they are small, else spread by Spark."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from txloom.config import identity, names
from txloom.errors import SourceUnavailable
from txloom.events import wal2json
from txloom.events.formats import Headers
from txloom.storage import books, evolution, file_positions, local, parts, spellings
from txloom.storage.file_positions import Position, to_json
from txloom.storage.files import FileUnreadable
from txloom.storage.finished import finished_before
from txloom.storage.ordered import Fronts, fronts, open_transaction
from txloom.storage.own import CHANGE_EVENTS, DEAD_LETTERS, FILE_POSITIONS, INSTANT, LANDED_FILES
from txloom.storage.place import Place
from txloom.storage.tasks import PLACE_BITS, Messages, Range, Task, line_bits
from txloom.transactions.events import holes, to_bytes
from txloom.transactions.frontier import Frontier
from txloom.transactions.hashes import hashed
from txloom.transactions.numbers import packed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from txloom.events.wal2json import Open

LINES_PER_FILE = 1 << 32
"""`row` is file number times this plus the line: unique in a landing, and the same when a landing is repeated."""
MOST_LANDINGS = 1 << 24
"""So many landings have positions of 63 bits, of which each landing has `tasks.PLACE_BITS` for its files and lines."""
CLOCK_ROW, NUMBERS_ROW = -1, -2
"""`row` of what did not come from the source."""
CHUNK = 20_000
"""Messages that the decoder gets at once."""
LOCAL_BYTES = 16 << 20
"""Up to so many bytes of files are decoded in this process: no JVM is needed for them."""
COORDINATES = ("partition", "offset", "file", "line")
PROPERTIES = {"delta.dataSkippingStatsColumns": "landing,row,kind,table,tx,csn"}
PART_BYTES = 128 << 20
"""Decoded events that a Spark task holds before it writes a file."""


class Decoder(Protocol):
    """What a source format offers: one row out for each message in, in order."""

    def decode(
        self, topic: str, values: Sequence[bytes | None], headers: Headers | None = None, first: int = 1
    ) -> pa.Table:
        """Decode messages of one topic; see `txloom.events`."""
        ...

    @property
    def declared(self) -> Sequence[str]:
        """Return the names of the source as they are declared."""
        ...

    @property
    def spellings(self) -> dict[str, str]:
        """Return how names of the source were spelled so far."""
        ...

    def resume(self, topic: str, left: "Open | None") -> None:
        """Go on in an ordered topic where an earlier landing left a transaction open."""
        ...

    def open(self, topic: str) -> "Open | None":
        """Return the transaction that is open behind what was decoded of an ordered topic."""
        ...


class Reader(Protocol):
    """What a transport offers: the messages of each task, in order, in blocks."""

    def messages(self, task: Task) -> Iterator[Messages]:
        """Yield what a task takes; raises SourceUnavailable where it cannot be read."""
        ...

    def confirm(self, tasks: Sequence[Task]) -> None:
        """Raise SourceLost where what was just read is not what was planned."""
        ...


NewDecoder = Callable[..., Decoder]
"""Makes a decoder on an executor, out of the spellings so far: compiled decoders do not travel."""


@dataclass(frozen=True)
class Landing:
    """One landing: its number, the run's clock, and the files it takes."""

    number: int
    at: datetime
    tasks: tuple[Task, ...]

    @property
    def bytes(self) -> int:
        """Return about how much there is to decode."""
        return sum(task.bytes for task in self.tasks)


def planned(path: str) -> list[dict[str, Any]]:
    """Return every planned file of every landing; a version that kept no positions wrote fewer columns."""
    rows = books.query(path, "select * from t order by landing, file_number")
    return [{name: row.get(name) for name in LANDED_FILES.names} for row in rows]


def newest(place: Place) -> int:
    """Return the number of the landing whose files were planned last, 0 before there was one."""
    found = books.query(place.landed_files, "select max(landing) as n from t")
    return int((found[0]["n"] if found else 0) or 0)


def write_plan(place: Place, number: int, rows: Sequence[dict[str, Any]]) -> None:
    """Write down what a new landing takes, once: from here on it is finished, by this run or the next."""
    write_id = names.write_id(place.pipeline, names.LANDED_FILES, 0)
    books.append(place.landed_files, rows, LANDED_FILES, once=(write_id, number))


def landing_of(place: Place, plan: Sequence[dict[str, Any]], number: int, parts: Sequence[Range] = ()) -> Landing:
    """Pick one landing out of the plan; parts: what it takes from Kafka."""
    rows = [row for row in plan if row["landing"] == number]
    files = [row for row in rows if row["file"] is not None]
    before = file_positions.newest(place, number) if any(row["origin"] for row in files) else {}
    tasks = [_task(row, before) for row in files]
    tasks += tasks_of(parts)
    return Landing(number, rows[0]["at"].astimezone(UTC), tuple(tasks))


def planned_file(task: Task) -> dict[str, Any]:
    """Return the row of the plan that says what is taken of a file."""
    origin = None if task.origin is None else task.origin.file
    told = {name: getattr(task, name) for name in ("topic", "file", "size", "modified", "start", "follows")}
    return {"file_number": task.number, **told, "origin": origin}


def _task(row: Mapping[str, Any], before: Mapping[file_positions.Name, file_positions.Position]) -> Task:
    """Return a planned file; before: how far files were read when it was planned."""
    told = {name: row[name] for name in ("topic", "file", "size", "modified", "follows")}
    origin = before.get((row["topic"], row["origin"] or ""))
    return Task(row["file_number"], **told, start=row["start"] or 0, origin=origin)


def tasks_of(parts: Sequence[Range]) -> list[Task]:
    """Return the tasks of ranges of records."""
    return [Task(number, part.topic, "", 0, part) for number, part in enumerate(parts, 1)]


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
    if books.last_written(place.change_events, _write_id(place)) >= landing.number:
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
        decoded = _decode(spark, new, source, queues, found, landing, place)
        unreadable += [position for position in decoded.positions if position.problem is not None]
        if len(unreadable) == len(left_out):
            break
    source.confirm(tasks)
    spellings.learn(place, landing.number, decoded.spellings)
    file_positions.write(place, landing.number, [*decoded.positions, *unreadable])
    decoded.append(landing, place)


@dataclass(frozen=True)
class Decoded:
    """What was decoded of a landing, in this process or in files that no commit names yet, and how far files came.

    spellings: of the names that were met.
    """

    events: pa.Table | None
    written: "Sequence[parts.Part]"
    positions: Sequence[Position]
    spellings: dict[str, str]

    def append(self, landing: Landing, place: Place) -> None:
        """Append the events, once."""
        if self.events is None:
            append_parts(self.written, landing, place)
        else:
            known = finished_before(place, self.events)
            append(with_numbers(self.events, landing, known=known), landing, place)


def _decode(
    spark: "Callable[[], SparkSession]",
    new: NewDecoder,
    source: Reader,
    queues: Sequence[Sequence[Task]],
    found: Fronts,
    landing: Landing,
    place: Place,
) -> Decoded:
    """Decode queues of tasks; where a file cannot be read, what was decoded is not whole, and its position says so."""
    if landing.bytes > LOCAL_BYTES:
        return decode_files(spark(), new, source, queues, found, landing, place)
    decoder, chunks = new(spellings=spellings.known(place)), [CHANGE_EVENTS.empty_table()]
    reached = list[Position]()
    for queue in queues:
        chunks += decode_queue(decoder, source, queue, found, landing, reached)
    return Decoded(pa.concat_tables(chunks), (), reached, decoder.spellings)


def append(events: pa.Table, landing: Landing, place: Place) -> None:
    """Append a landing's events, once."""
    local.append_once(events, place.change_events, _write_id(place), landing.number)


def append_parts(written: "Sequence[parts.Part]", landing: Landing, place: Place) -> None:
    """Commit files that tasks wrote as a landing's events, once."""
    parts.append_parts(written, place.change_events, _write_id(place), landing.number)


def last_read(place: Place) -> int:
    """Return the number of the last landing of which nothing is to be read any more; -1 before there was one."""
    return max(last_finished(place), books.last_written(place.change_events, _write_id(place)))


def last_finished(place: Place) -> int:
    """Return the number of the last landing that has its line in the ledger; -1 before there was one."""
    return books.last_written(place.table(names.LEDGER), names.write_id(place.pipeline, "land_events", 0))


def _write_id(place: Place) -> str:
    return names.write_id(place.pipeline, names.CHANGE_EVENTS, 0)


def decode_files(
    spark: "SparkSession",
    new: NewDecoder,
    source: Reader,
    queues: Sequence[Sequence[Task]],
    found: Fronts,
    landing: Landing,
    place: Place,
) -> Decoded:
    """Decode a landing's files into files of change_events, in one Spark task for each queue, the largest first.

    Where tasks met names in several spellings they decode once more, all with the same one.
    """
    queues = sorted(queues, key=lambda queue: sum(task.size for task in queue), reverse=True)
    path, told = place.change_events, spellings.known(place)

    def read(some: Iterable[Sequence[Task]]) -> "Iterable[parts.Part | Position | dict[str, str]]":
        decoder, reached = new(spellings=told), list[Position]()
        for queue in some:
            for events in gathered(decode_queue(decoder, source, queue, found, landing, reached)):
                numbered = with_numbers(events, landing, known=finished_before(place, events))
                yield parts.write_part(numbered, names.CHANGE_EVENTS, path)
        yield from reached
        yield decoder.spellings

    while queues:
        made = spark.sparkContext.parallelize(queues, len(queues)).mapPartitions(read).collect()
        told, is_one = spellings.agreed([each for each in made if isinstance(each, dict)], new().declared)
        if is_one:
            positions = [each for each in made if isinstance(each, Position)]
            return Decoded(None, [each for each in made if isinstance(each, parts.Part)], positions, told)
    return Decoded(None, (), (), told)


def gathered(chunks: Iterator[pa.Table]) -> Iterator[pa.Table]:
    """Put decoded chunks together until they are worth a file, ordered so that a release finds a transaction's rows."""
    held: list[pa.Table] = []
    size = 0
    for chunk in chunks:
        held.append(chunk)
        size += chunk.nbytes
        if size >= PART_BYTES:
            yield _by_transaction(held)
            held, size = [], 0
    if held:
        yield _by_transaction(held)


def _by_transaction(chunks: Sequence[pa.Table]) -> pa.Table:
    events = pa.concat_tables(chunks).combine_chunks()
    return events.take(pc.sort_indices(events.column("tx")))


def decode_queue(
    decoder: Decoder,
    source: Reader,
    queue: Sequence[Task],
    found: Fronts,
    landing: Landing,
    reached: "list[Position]",
) -> Iterator[pa.Table]:
    """Yield the messages of tasks, decoded, with their coordinates, in chunks.

    found: what is open in front of them. reached: takes how far each file was read, or why it could not be.
    """
    for task in queue:
        found.enter(decoder, task)
        try:
            yield from _decode_task(decoder, source, task, landing, reached)
        except FileUnreadable as error:
            reached.append(error.position)
            continue
        found.leave(decoder, task)


def _decode_task(
    decoder: Decoder, source: Reader, task: Task, landing: Landing, reached: "list[Position]"
) -> Iterator[pa.Table]:
    before, tail, inside, is_first = decoder.open(task.topic), list["Open | None"](), False, True
    for block in source.messages(task):
        if block.is_tail:
            tail.append(decoder.open(task.topic))
        for start in range(0, len(block.values), CHUNK):
            chunk = slice(start, start + CHUNK)
            headers = None if block.headers is None else block.headers[chunk]
            first = 1 if is_first and task.part is None else block.places[start]
            events = decoder.decode(task.topic, block.values[chunk], headers, first)
            inside, is_first = inside or (is_first and _begins_inside(events)), False
            if not block.landed:
                yield placed(events, task, block.places[chunk], landing)
        if block.reached is not None:
            left = decoder.open(task.topic)
            end = replace(block.reached, open=to_json([*tail, left][0]), left=to_json(left))
            reached.append(end if task.start else replace(end, before=to_json(before), begins_inside=inside))


def _begins_inside(events: pa.Table) -> bool:
    """Tell whether messages begin in a transaction that is not open."""
    causes = pa.array([wal2json.OUTSIDE, wal2json.ANOTHER])
    return bool(pc.any(pc.is_in(events.column("cause"), causes)).as_py())


def placed(events: pa.Table, task: Task, places: Sequence[int], landing: Landing) -> pa.Table:
    """Return decoded events as rows of change_events; places: their lines or offsets."""
    return identified(_with_coordinates(events, task, places, landing))


def _with_coordinates(events: pa.Table, task: Task, places: Sequence[int], landing: Landing) -> pa.Table:
    """Add the coordinates to decoded events, in the order of change_events."""
    size, part = events.num_rows, task.part
    place = pa.array(places, pa.int64())
    line = pc.subtract(place, part.first - 1 if part else 0)
    _refuse_beyond(line, LINES_PER_FILE, task)
    nothing = pa.nulls(size, pa.int64())
    own = {
        "landing": pa.repeat(pa.scalar(landing.number, pa.int64()), size),
        "row": pc.add(line, task.number * LINES_PER_FILE),
        "topic": pa.repeat(pa.scalar(task.topic, pa.string()), size),
        "partition": pa.repeat(pa.scalar(part.partition if part else None, pa.int32()), size),
        "offset": nothing if part is None else place,
        "file": pa.repeat(pa.scalar(task.file if part is None else None, pa.string()), size),
        "line": place if part is None else nothing,
        "landed_at": pa.repeat(pa.scalar(landing.at, INSTANT), size),
        "pos": _positions(events, line, task, landing),
        "tx": pa.nulls(size, pa.int64()),
        "bucket": pa.nulls(size, pa.int32()),
        "numbers": pa.nulls(size, pa.binary()),
    }
    return pa.table(
        {name: own[name] if name in own else events.column(name) for name in CHANGE_EVENTS.names}, CHANGE_EVENTS
    )


def identified(events: pa.Table) -> pa.Table:
    """Complete what rows are known by: one that has nothing of its own is known by the place that it was sent at."""
    unknown = pc.and_(pc.equal(events.column("kind"), "row"), pc.is_null(events.column("identity")))
    if pc.any(unknown).as_py():
        for name in ("transaction_id", "xid"):
            known = pc.binary_join_element_wise(events.column(name), _sent_at(events), identity.SENT_AT)
            events = _with(events, name, pc.if_else(unknown, known, events.column(name)))
        own = pc.if_else(unknown, events.column("transaction_id"), events.column("identity"))
        events = _with(events, "identity", own)
    return _with(events, "tx", hashed(events.column("transaction_id")))


def _sent_at(events: pa.Table) -> pa.ChunkedArray:
    """Return the place of each message as text: that of its record in Kafka, or of its line in a file."""
    topic, partition, offset, file, line = (
        events.column(name).cast(pa.string()) for name in ("topic", "partition", "offset", "file", "line")
    )
    record = pc.binary_join_element_wise(topic, partition, offset, ":")
    return pc.coalesce(record, pc.binary_join_element_wise(file, line, ":"))


def _with(events: pa.Table, name: str, column: pa.Array) -> pa.Table:
    return events.set_column(events.schema.get_field_index(name), CHANGE_EVENTS.field(name), column)


def _positions(events: pa.Table, line: pa.Array, task: Task, landing: Landing) -> pa.ChunkedArray:
    """Return where events stand in their transaction; rows that do not say it stand where they were landed.

    That orders events of one moment: by landing, then file, then line.
    """
    silent = pc.and_(pc.equal(events.column("kind"), "row"), pc.is_null(events.column("pos")))
    if not pc.any(silent).as_py():
        return events.column("pos")
    bits = line_bits(max(len(landing.tasks), task.number))
    _refuse_beyond(line, 1 << bits, task)
    if landing.number >= MOST_LANDINGS:
        raise SourceUnavailable(
            f"landing {landing.number}: rows that say nothing of their order have no positions left"
        )
    base = (landing.number << PLACE_BITS) + (task.number << bits)
    return pc.if_else(silent, pc.add(line, base), events.column("pos"))


def _refuse_beyond(line: pa.Array, limit: int, task: Task) -> None:
    """Refuse a message that would stand where another one does."""
    highest = pc.max(line).as_py()
    if highest is not None and highest >= limit:
        name = task.file if task.part is None else str(task.part)
        raise SourceUnavailable(
            f"{name}: message {highest} has no position of its own, at most {limit - 1} have: split it"
        )


def with_numbers(
    events: pa.Table, landing: Landing, *, reopen: bool = False, known: np.ndarray | None = None
) -> pa.Table:
    """Add to landed events the rows that the buffer reads instead of them.

    reopen: to decide on them again. known: hashes of transactions that were finished before they came.
    """
    rows = [
        {"landing": landing.number, "row": NUMBERS_ROW, "kind": "numbers", "bucket": bucket, "numbers": numbers}
        for bucket, numbers in packed(events, reopen=reopen, known=known)
    ]
    return pa.concat_tables([events, pa.Table.from_pylist(rows, CHANGE_EVENTS)])


def write_poison(landing: Landing, place: Place) -> None:
    """Append a landing's poison to the dead letters, once."""
    write_id = names.write_id(place.pipeline, f"{names.DEAD_LETTERS}.land", 0)
    poison = local.select(place.change_events, f"select * from t where landing = {landing.number} and kind = 'poison'")
    if poison.num_rows:
        dead = poison.append_column("dead_at", pa.repeat(pa.scalar(landing.at, INSTANT), poison.num_rows))
        local.append_once(
            dead.append_column("release", pa.nulls(dead.num_rows, pa.int64())),
            place.dead_letters,
            write_id,
            landing.number,
        )


def write_clock(landing: Landing, place: Place, reached: Frontier | None) -> None:
    """Append the landing's clock row: a commit of its own, so that it follows all events of its landing.

    reached: how far the source's partitions are, where transactions wait for all of them.
    """
    row = {"landing": landing.number, "row": CLOCK_ROW, "kind": "clock", "landed_at": landing.at}
    if reached is not None:
        row |= {"csn": reached.csn}
        row |= {"numbers": to_bytes(holes(landing.number, reached.holes))} if reached.holes else {}
    write_id = names.write_id(place.pipeline, f"{names.CHANGE_EVENTS}.clock", 0)
    books.append(place.change_events, [row], CHANGE_EVENTS, once=(write_id, landing.number))


def count(landing: Landing, place: Place) -> dict[str, int]:
    """Count what a landing took in, by what becomes of it."""
    counts = dict.fromkeys(("files", "landed", "rows", "metadata", "unwatched", "poison", "tombstones", "markers"), 0)
    counts["files"] = len(landing.tasks)
    sql = (
        'select kind, "table" is not null as watched, count(*) as n from t '
        f'where landing = {landing.number} and "row" >= 0 group by 1, 2'
    )
    names_of = {"metadata": "metadata", "poison": "poison", "tombstone": "tombstones", "marker": "markers"}
    for group in books.query(place.change_events, sql):
        name = names_of.get(group["kind"]) or ("rows" if group["watched"] else "unwatched")
        counts[name] += group["n"]
        counts["landed"] += group["n"]
    return counts


def land_again(new: NewDecoder, events: pa.Table, landing: Landing, place: Place) -> None:
    """Decode events that were landed before once more, as they are declared now, and land them under a new landing.

    events: topic, file, line, value, headers, in the order in which they are to be taken. Their transactions are
    decided again.
    """
    decoder, chunks, first = new(spellings=spellings.known(place)), [CHANGE_EVENTS.empty_table()], 0
    for topic in events.column("topic").unique().to_pylist():
        own = events.filter(pc.equal(events.column("topic"), topic))
        headers = [None if told is None else dict(told) for told in own.column("headers").to_pylist()]
        decoded = decoder.decode(topic, [value.encode() for value in own.column("value").to_pylist()], headers)
        places = range(first, first + own.num_rows)
        found = _with_coordinates(decoded, Task(0, topic, "", 0), places, landing)
        for name in COORDINATES:
            found = _with(found, name, own.column(name))
        chunks.append(identified(found))
        first += own.num_rows
    spellings.learn(place, landing.number, decoder.spellings)
    append(with_numbers(pa.concat_tables(chunks), landing, reopen=True), landing, place)


def create_tables(place: Place) -> None:
    """Create the tables that landing writes."""
    evolution.ensure(place.change_events, CHANGE_EVENTS, PROPERTIES)
    evolution.ensure(place.landed_files, LANDED_FILES)
    evolution.ensure(place.table(names.FILE_POSITIONS), FILE_POSITIONS)
    books.ensure(place.dead_letters, DEAD_LETTERS)
