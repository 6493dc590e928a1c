"""Ordered topics: the transaction that is open in front of each input split, inside which its decoder goes on.

A topic of Kafka goes on where its last landing ended. A file goes on where it was read to, and a new file behind the
one that it follows; the transaction that was open there is stored with the file's position.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from txloom.config import names
from txloom.storage.delta import small_tables
from txloom.storage.delta.sql import text_literal
from txloom.storage.paths import TablePaths
from txloom.storage.sources.file_positions import Name, Position, from_json
from txloom.storage.sources.splits import Task

if TYPE_CHECKING:
    from txloom.events.wal2json.decoder import Open


class Resumes(Protocol):
    """The decoder of an ordered format."""

    def resume(self, topic: str, left: "Open | None") -> None:
        """Go on in a topic; left: the transaction that is open there, or None."""
        ...

    def open(self, topic: str) -> "Open | None":
        """Return the transaction that is open behind the last decoded message of a topic, or None."""
        ...


@dataclass
class OpenBefore:
    """The transactions that are open in front of the input splits of a landing."""

    topics: "dict[str, Open | None]" = field(default_factory=dict)
    """Of each topic of Kafka, until its first input split is entered."""
    ends: "dict[Name, Open | None]" = field(default_factory=dict)
    """Behind each file that was read, before the landing or by it so far."""

    def enter(self, decoder: Resumes, task: Task) -> None:
        """Let a decoder go on with what is open in front of an input split, before it decodes that."""
        if task.part is None:
            decoder.resume(task.topic, self._of_file(task))
        elif task.topic in self.topics:
            decoder.resume(task.topic, self.topics.pop(task.topic))

    def leave(self, decoder: Resumes, task: Task) -> None:
        """Keep what a decoder has open behind an input split that it decoded."""
        if task.part is None:
            self.ends[task.topic, task.file] = decoder.open(task.topic)

    def _of_file(self, task: Task) -> "Open | None":
        if task.follows is not None:
            return self.ends.get((task.topic, task.follows))
        if task.origin is None:
            return None
        return from_json(task.origin.open if task.start else task.origin.before)


def open_before(
    tasks: Sequence[Task],
    known: Mapping[Name, Position],
    unreadable: Collection[Name],
    last: "Callable[[str], Open | None]",
) -> OpenBefore:
    """Return what is open in front of the input splits of an ordered source's landing.

    Args:
        tasks: the input splits.
        known: how far files were read before the landing.
        unreadable: files that it cannot read: nothing goes on behind them.
        last: returns what is open behind the last event of a topic. It is called for Kafka, and for a file that was
            landed by a version of txloom that stored no positions.
    """
    result = OpenBefore(topics={task.topic: last(task.topic) for task in tasks if task.part is not None})
    for name in {(task.topic, task.follows) for task in tasks if task.follows is not None} - {*unreadable}:
        position = known.get(name)
        if position is None:
            result.ends[name] = last(name[0])
        elif position.problem is None:
            result.ends[name] = from_json(position.left)
    return result


POSITION = 'landing desc, "row" desc limit 1'


def open_transaction(paths: TablePaths, topic: str) -> "Open | None":
    """Return the transaction of which an ordered topic has landed the BEGIN and not the end; None where there is none.

    It is read from change_events: rows, and poison that may have been a row, have their position behind the BEGIN that
    came last. Behind records that an operator accepted as lost no transaction is open, because some may have been its.
    """
    from txloom.events.wal2json.decoder import Open

    of_topic = f"topic = {text_literal(topic)}"
    of_transactions = f"{of_topic} and kind in ('marker', 'row', 'metadata', 'poison') and csn is not null"
    newest = (_last(paths, of_transactions, landing) for landing in _landings(paths, of_topic))
    last = next((row for row in newest if row is not None), None)
    if last is None or (last["kind"] in ("metadata", "poison") and last["pos"] is None) or _is_cut_off(paths, last):
        return None
    inside = f"{of_topic} and csn = {last['csn']} and xid = {text_literal(last['xid'])}"
    begun = f"select landing, \"row\", committed_at from t where {inside} and kind = 'marker' order by {POSITION}"
    (begin,) = small_tables.query(paths.change_events, begun)
    since = f'(landing > {begin["landing"]} or landing = {begin["landing"]} and "row" > {begin["row"]})'
    counted = f'select "table", op, count(*) as n, max(pos) as pos from t where {inside} and {since} and pos > 0'
    rows = small_tables.query(paths.change_events, f'{counted} group by "table", op')
    counts: dict[str, int] = {}
    for row in rows:
        if row["table"] is not None:
            counts[row["table"]] = counts.get(row["table"], 0) + row["n"]
    unreadable = sum(row["n"] for row in rows if row["op"] is None)
    ordinal = max((row["pos"] for row in rows), default=0)
    return Open(last["xid"], last["csn"], begin["committed_at"], ordinal, counts, unreadable)


def _landings(paths: TablePaths, topic: str) -> list[int]:
    """Return the landings that read a topic from its source, newest first, without redrives; topic: a SQL condition."""
    read = {row["n"] for row in small_tables.query(paths.landed_files, f"select landing as n from t where {topic}")}
    offsets = paths.table(names.LANDED_OFFSETS)
    read |= {
        row["n"] for row in small_tables.query(offsets, f"select landing as n from t where {topic} and lost is null")
    }
    return sorted(read, reverse=True)


def _last(paths: TablePaths, condition: str, landing: int) -> dict[str, Any] | None:
    """Return the last event of a landing for which a SQL condition holds; None where there is none."""
    columns = 'landing, kind, xid, csn, pos, topic, partition, "offset"'
    sql = f"select {columns} from t where landing = {landing} and {condition} order by {POSITION}"
    return next(iter(small_tables.query(paths.change_events, sql)), None)


def _is_cut_off(paths: TablePaths, last: dict[str, Any]) -> bool:
    """Return whether records behind an event were accepted as lost, so that the next ones do not follow it."""
    if last["offset"] is None:
        return False
    of_partition = f"topic = {text_literal(last['topic'])} and partition = {last['partition']} and lost is not null"
    behind = f'landing >= {last["landing"]} and "first" > {last["offset"]}'
    sql = f"select count(*) as n from t where {of_partition} and {behind}"
    return any(row["n"] for row in small_tables.query(paths.table(names.LANDED_OFFSETS), sql))
