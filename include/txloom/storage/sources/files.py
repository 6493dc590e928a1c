"""The `files` transport: folders, one per topic, to which a producer adds whole files.

A file is taken once it is finished (`Inbox.is_finished`); one with a temporary name is never taken. A file is read up
to a fixed length, so that a repeated landing reads the same bytes. What is appended later is read from there on
(`txloom.storage.sources.file_plan`).
"""

import logging
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import msgspec

from txloom.config.models.pipeline import Pipeline
from txloom.config.project import PROJECT
from txloom.errors import ConfigurationError, SourceUnavailable
from txloom.events import rejections
from txloom.events.formats import Headers
from txloom.events.goldengate.messages import NULL
from txloom.events.malformed import Refused
from txloom.events.wal2json import decoder
from txloom.events.wal2json.version_1 import VERSION_1, expanded
from txloom.storage.sources.file_lines import Lines, count_lines, digest, digests, first_line, last_line
from txloom.storage.sources.file_positions import Position
from txloom.storage.sources.row_files import has_lines, rows_as_json
from txloom.storage.sources.splits import Messages, Piece, Task
from txloom.storage.stores.places import Place, below, lies_in, listed, place

LOG = logging.getLogger(__name__)

TEMPORARY_PREFIXES = (".", "_")
TEMPORARY_SUFFIXES = (".tmp", ".part", ".partial", ".inprogress", ".filepart", ".crdownload", ".crc", ".swp", "~")


@dataclass(frozen=True)
class SourceFile:
    """One file of a source: its topic folder, its path relative to the source, bytes, and modification in ns."""

    topic: str
    file: str
    size: int
    modified: int


@dataclass(frozen=True)
class Unchanged:
    """How long a file must be unchanged before it counts as finished; now_ns: the current time in ns."""

    now_ns: int
    settle: timedelta
    patience: timedelta

    def for_settle(self, file: SourceFile) -> bool:
        """Return whether a file has not changed for `settle`."""
        return self._since(file, self.settle)

    def for_patience(self, file: SourceFile) -> bool:
        """Return whether a file has not changed for `patience` and for `settle`."""
        return self._since(file, max(self.settle, self.patience))

    def _since(self, file: SourceFile, wait: timedelta) -> bool:
        return self.now_ns - file.modified >= wait.total_seconds() * 1e9


@dataclass(frozen=True)
class Inbox:
    """The folder of a files source; layout: what its lines hold, `values` or `records`; limit: bytes of a message."""

    root: str
    layout: str = "values"
    format: str = "goldengate"
    limit: int = 32 << 20

    @classmethod
    def of(cls, pipeline: Pipeline) -> "Inbox":
        """Return the inbox of a pipeline; a relative folder is relative to the project."""
        files = pipeline.source.files
        assert files is not None
        if pipeline.source.format == "snapshots":
            raise ConfigurationError(f"{pipeline.name}: extracts are landed by jobs/diff_snapshot.py --date YYYY-MM-DD")
        limit = pipeline.source.max_message_bytes
        return cls(str(below(PROJECT, files.path)), files.layout, pipeline.source.format, limit)

    def messages(self, task: Task) -> Iterator[Messages]:
        """Yield the messages of a file in blocks, and at last how far it was read; raises FileUnreadable."""
        try:
            yield from self._lines(task) if self._has_lines(task.file) else self._rows(task)
        except (OSError, EOFError, zlib.error, ConfigurationError, SourceUnavailable) as error:
            raise FileUnreadable(task, error) from error

    def confirm(self, tasks: Sequence[Task]) -> None:
        """Accept files as they are: one that changed is taken again by the next landing."""

    def has_pieces(self, task: Task) -> bool:
        """Say whether a file can be read from the middle: a compressed one, or one with a header, cannot."""
        return task.file.endswith((".json", ".jsonl")) and self.format != "change_sets"

    def count_lines(self, task: Task, start: int, until: int) -> tuple[int, int] | None:
        """Return how many lines end in some bytes of a file, and the position behind the last; None: unreadable."""
        try:
            return count_lines(place(self.root, task.file), start, until)
        except (OSError, EOFError, SourceUnavailable):
            return None

    def joined(self, task: Task, pieces: Sequence[Position]) -> Position:
        """Return how far a file was read, of how far its pieces were, in their order.

        Where it holds something else than what was read, the position has the problem.
        """
        first, *_, last = pieces
        path, ends = place(self.root, task.file), [*(each.start for each in pieces[1:]), last.end]
        try:
            whole, parts = digests(path, first.start, ends)
        except (OSError, EOFError, SourceUnavailable) as error:
            return FileUnreadable(task, error).position
        if parts != [each.digest for each in pieces]:
            return FileUnreadable(task, EOFError("its content changed while it was read")).position
        return replace(last, start=first.start, digest=whole, read_again=any(each.read_again for each in pieces))

    def is_finished(self, unchanged: Unchanged, file: SourceFile, may_end: bool) -> bool:  # noqa: FBT001
        """Return whether a producer has finished a file.

        A file is finished if it ends in a newline, if its gzip stream ends properly, or if it has not changed for
        `settle`. If it ends in a line that is not valid JSON, that line was cut off, and the file must be unchanged for
        `patience` too. A file that cannot be read is finished once it has not changed for `settle`: its landing reports
        the error.

        Args:
            unchanged: how long a file must be unchanged.
            file: the file.
            may_end: whether a final newline, or the end of a gzip stream, shows that the file is finished.
        """
        if unchanged.for_patience(file):
            return True
        path, is_settled = place(self.root, file.file), unchanged.for_settle(file)
        try:
            if path.suffix == ".gz":
                return is_settled or (may_end and _ends_properly(path, file.size))
            line = last_line(path, file.size, self.limit)
        except (EOFError, OSError, zlib.error):
            return is_settled
        if line == b"" and file.size and may_end:
            return True
        return is_settled and (not line or not self._has_lines(file.file) or _is_json(line))

    def _has_lines(self, file: str) -> bool:
        return self.format != "change_sets" or has_lines(file)

    def _rows(self, task: Task) -> Iterator[Messages]:
        """Yield the rows of a file without lines, as JSON objects: all, or none where the file was only touched."""
        path, count = place(self.root, task.file), 0
        if path.stat().st_size != task.size:
            raise EOFError(f"it had {task.size} bytes when it was planned, and has {path.stat().st_size} now")
        for first, rows in () if task.start else rows_as_json(path):
            yield Messages(range(first, first + len(rows)), rows)
            count += len(rows)
        fingerprint, size = digest(path, task.size, 0)
        reached = replace(task.position, start=0, until=size, digest=fingerprint)
        yield Messages((), (), reached=reached if task.start else replace(reached, lines=count))

    def _lines(self, task: Task) -> Iterator[Messages]:
        """Yield a file's lines from where it was read to; what follows the last newline comes in a separate block.

        A line whose beginning an earlier landing took, because nothing followed it for long, is read again.
        """
        path, before = place(self.root, task.file), task.position
        piece = task.piece or Piece(task.start, task.size, 0)
        if task.is_begun:
            _refuse_unreadable(path, task)
        lines = Lines(path, piece.until, piece.start, self.limit)
        count, taken, again = before.lines + piece.lines, before.tail if task.is_begun else 0, before.read_again
        for block in lines.blocks():
            done = 1 if taken else 0
            if taken:
                is_same = len(block[0]) == taken
                count, messages = self._block(task, count, block[:1])
                yield messages._replace(landed=is_same)
                again, taken = again or not is_same, 0
            count, messages = self._block(task, count, block[done:])
            yield messages
        if lines.tail is not None:
            _, messages = self._block(task, count, [lines.tail])
            again = again or (taken > 0 and lines.tail_bytes > taken)
            yield messages._replace(landed=lines.tail_bytes == taken, is_tail=True)
        yield Messages((), (), reached=_reached(path, before, lines, count, again=again))

    def _block(self, task: Task, count: int, lines: list[bytes]) -> tuple[int, Messages]:
        """Return the number of lines up to a block, and its messages; a line of wal2json's version 1 can be several."""
        values = _expanded(task, lines) if self.format == "wal2json" else lines
        positions = range(count + 1, count + 1 + len(values))
        count += len(values)
        return count, Messages(positions, values) if self.layout == "values" else Messages(positions, *records(values))


class FileUnreadable(SourceUnavailable):
    """A planned file cannot be read; position: how far it was read before, and the problem."""

    def __init__(self, task: Task, error: Exception) -> None:
        """Take the split that was planned; error: what reading it raised."""
        cause = error.__cause__ if isinstance(error, SourceUnavailable) and error.__cause__ else error
        is_access = isinstance(cause, OSError) and cause.errno is not None
        problem = cause.strerror if isinstance(cause, OSError) and is_access else str(cause)
        self.position = replace(task.position, problem=problem, is_access=is_access, read_again=False)
        super().__init__(f"{task.file}: planned for landing but cannot be read now: {problem}")


def _refuse_unreadable(path: Place, task: Task) -> None:
    """Raise an error for a damaged or changed file before any of its messages is taken: none of them may be landed."""
    if path.suffix == ".gz":
        digest(path, task.size, 0)
    if task.start and not continues(path, task.size, task.position):
        raise EOFError("its content is not what it was when the landing was planned")


def continues(path: Place, size: int, position: Position) -> bool:
    """Return whether a file's content holds what was last read of it, at the same position."""
    return digest(path, size, position.start, position.end) == (position.digest, position.end - position.start)


def _reached(path: Place, before: Position, lines: Lines, count: int, *, again: bool) -> Position:
    """Return how far a file was read; the hash of what was read last identifies it later."""
    if lines.until == lines.start and lines.tail is None:
        return before
    head = before.head or first_line(path, before.size)
    end = replace(before, until=lines.until, tail=lines.tail_bytes, lines=count)
    return replace(end, start=lines.start, digest=lines.digest, head=head, read_again=again)


def list_files(root: str) -> list[SourceFile]:
    """Return the files of all topic folders below a source's folder, sorted by name.

    Links that leave the source's folder are not followed (docs/faults.md 46). Raises SourceUnavailable that names a
    folder which does not exist or cannot be read.
    """
    try:
        return list(_files(root))
    except OSError as error:
        raise SourceUnavailable(f"{root}: the source's folder cannot be read: {error}") from error


def _files(root: str) -> Iterator[SourceFile]:
    base = place(root)
    for topic in _folders(root):
        for entry in listed(topic):
            if _is_public(entry.name) and entry.is_file() and lies_in(entry, base):
                with suppress(FileNotFoundError):
                    status = entry.stat()
                    yield SourceFile(topic.name, f"{topic.name}/{entry.name}", status.st_size, status.st_mtime_ns)


def topics(root: str) -> list[str]:
    """Return the names of the topic folders below a source's folder, also of those without files."""
    return [folder.name for folder in _folders(root)]


def _folders(root: str) -> list[Place]:
    folder = place(root)
    if not folder.is_dir():
        raise SourceUnavailable(f"{root}: the source's folder does not exist; create it or correct source.files.path")
    return [entry for entry in listed(folder) if entry.is_dir() and _is_public(entry.name)]


def _is_public(name: str) -> bool:
    return not name.startswith(TEMPORARY_PREFIXES) and not name.endswith(TEMPORARY_SUFFIXES)


def _ends_properly(path: Place, size: int) -> bool:
    digest(path, size, 0)
    return True


def _is_json(line: bytes) -> bool:
    try:
        ANY_JSON.decode(line)
    except msgspec.MsgspecError:
        return not line.strip()
    return True


def _expanded(task: Task, lines: list[bytes]) -> list[bytes]:
    """Return lines of wal2json's format-version 1 as lines of version 2, with a warning; others stay as they are."""
    if not any(b'"change"' in line for line in lines):
        return lines
    expanded_lines = [each for line in lines for each in expanded(line)]
    if len(expanded_lines) > len(lines):
        LOG.warning(f"warn: {task.file}: {decoder.HINTS[VERSION_1]}")
    return expanded_lines


class _Record(msgspec.Struct):
    value: msgspec.Raw
    headers: msgspec.Raw = NULL


RECORD = msgspec.json.Decoder(_Record)
ANY_JSON = msgspec.json.Decoder(msgspec.Raw)


def records(lines: Sequence[bytes]) -> tuple[list[bytes | None], Headers]:
    """Parse records of a topic that were copied into a file; a line that is no record stays, for its decoder to reject.

    value: text, null, or the message itself. headers: pairs, a mapping, or alternating names and values (kcat).
    """
    decoded = [_record(line) for line in lines]
    return [value for value, _ in decoded], [headers for _, headers in decoded]


def _record(line: bytes) -> tuple[bytes | None, Mapping[str, str] | None]:
    if isinstance(line, Refused) or not line.strip():
        return line if line.strip() else None, None
    try:
        record = RECORD.decode(line)
        raw = bytes(record.value)
        value = msgspec.json.decode(raw, type=str | None) if raw[:1] in b'"n' else raw
        content = value.encode() if isinstance(value, str) else value
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return line, None
    try:
        return content, _headers(msgspec.json.decode(record.headers))
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        return Refused(line, rejections.HEADERS, f"`headers` cannot be read: {error}"), None


def _headers(raw: Any) -> dict[str, str] | None:
    if raw is None:
        return None
    pairs = list(raw.items()) if isinstance(raw, dict) else raw
    if isinstance(raw, list) and raw and not isinstance(raw[0], list):
        pairs = [raw[at : at + 2] for at in range(0, len(raw), 2)]
    named = msgspec.convert(pairs, list[tuple[str, str | None]])
    return {name: value for name, value in named if value is not None} or None
