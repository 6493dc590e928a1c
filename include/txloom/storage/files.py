"""The `files` transport: folders, one per topic, that a producer appends whole files to.

A file is taken once it is whole. Temporary names are never taken. A file that ends in a newline (or whose gzip stream
ends properly) is whole; any other is once it has not changed for `settle`. A file that changes after it was taken is
taken again: its messages are redeliveries, which the buffer drops and counts, so that nothing appended is lost.
"""

import gzip
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec

from txloom.config.models import Pipeline
from txloom.config.places import PROJECT
from txloom.errors import ConfigurationError, SourceUnavailable
from txloom.events import causes, wal2json
from txloom.events.formats import Headers
from txloom.events.goldengate_messages import NULL
from txloom.events.poison import Refused
from txloom.events.wal2json_v1 import VERSION_1, expanded
from txloom.storage.row_files import rows_as_json
from txloom.storage.tasks import Messages, Task

TEMPORARY_PREFIXES = (".", "_")
TEMPORARY_SUFFIXES = (".tmp", ".part", ".partial", ".inprogress", ".filepart", ".crdownload", ".crc", ".swp", "~")
BLOCK = 4 << 20
"""Bytes read at once: large enough for the decoder's batches, small enough for any executor."""


@dataclass(frozen=True)
class SourceFile:
    """One file of a source: its topic folder, its path relative to the source, bytes, and modification in ns."""

    topic: str
    file: str
    size: int
    modified: int


@dataclass(frozen=True)
class Inbox:
    """The folder of a files source, and what its lines hold: `values` or `records`."""

    root: str
    layout: str = "values"
    format: str = "goldengate"

    @classmethod
    def of(cls, pipeline: Pipeline) -> "Inbox":
        """Return the inbox of a pipeline; a relative folder is relative to the project."""
        files = pipeline.source.files
        assert files is not None
        if pipeline.source.format == "snapshots":
            raise ConfigurationError(f"{pipeline.name}: extracts are landed by jobs/diff_snapshot.py --date YYYY-MM-DD")
        return cls(str(PROJECT / files.path), files.layout, pipeline.source.format)

    def messages(self, task: Task) -> Iterator[Messages]:
        """Yield the messages of a file in blocks."""
        try:
            first = 1
            for lines in self._lines(task):
                places = range(first, first + len(lines))
                first += len(lines)
                yield Messages(places, lines) if self.layout == "values" else Messages(places, *records(lines))
        except (OSError, EOFError) as error:
            message = f"{self.root}/{task.file}: planned for landing but cannot be read now: {error}"
            raise SourceUnavailable(message) from error

    def confirm(self, tasks: Sequence[Task]) -> None:
        """Take files as they are: one that changed is taken again."""

    def _lines(self, task: Task) -> Iterator[list[bytes]]:
        """Yield a file's lines, or its rows as JSON objects, in blocks; rows and expanded lines count as lines."""
        if self.format == "change_sets":
            yield from (rows for _, rows in rows_as_json(Path(self.root, task.file)))
            return
        for _, lines in read_lines(self.root, task.file):
            yield lines if self.format != "wal2json" else _expanded(task, lines)


def list_files(root: str) -> list[SourceFile]:
    """List the files of all topic folders below a source's folder, oldest name first.

    Links that leave the source's folder are not followed (faults.md 46). Raises SourceUnavailable that names a folder
    which is not there or cannot be read.
    """
    try:
        return list(_files(root))
    except OSError as error:
        raise SourceUnavailable(f"{root}: the source's folder cannot be read: {error}") from error


def _files(root: str) -> Iterator[SourceFile]:
    base = Path(root).resolve()
    for topic in _folders(root):
        for entry in sorted(topic.iterdir()):
            if _is_public(entry.name) and entry.is_file() and entry.resolve().is_relative_to(base):
                status = entry.stat()
                yield SourceFile(topic.name, f"{topic.name}/{entry.name}", status.st_size, status.st_mtime_ns)


def topics(root: str) -> list[str]:
    """Return the names of the topic folders below a source's folder, those without files too."""
    return [folder.name for folder in _folders(root)]


def _folders(root: str) -> list[Path]:
    folder = Path(root)
    if not folder.is_dir():
        raise SourceUnavailable(f"{root}: the source's folder does not exist; create it or correct source.files.path")
    return sorted(entry for entry in folder.iterdir() if entry.is_dir() and _is_public(entry.name))


def _is_public(name: str) -> bool:
    return not name.startswith(TEMPORARY_PREFIXES) and not name.endswith(TEMPORARY_SUFFIXES)


def is_whole(root: str, file: SourceFile, now_ns: int, settle: timedelta) -> bool:
    """Say whether a producer has finished a file."""
    if now_ns - file.modified >= settle.total_seconds() * 1e9:
        return True
    path = Path(root, file.file)
    return _ends_properly(path) if path.suffix == ".gz" else _ends_in_newline(path)


def _ends_in_newline(path: Path) -> bool:
    with path.open("rb") as stream:
        if not stream.seek(0, 2):
            return False
        stream.seek(-1, 2)
        return stream.read(1) == b"\n"


def _ends_properly(path: Path) -> bool:
    try:
        with gzip.open(path) as stream:
            while stream.read(BLOCK):
                pass
    except (EOFError, OSError, zlib.error):
        return False
    return True


def _expanded(task: Task, lines: list[bytes]) -> list[bytes]:
    """Turn lines of wal2json's format-version 1 into those of version 2, with a warning; others stay as they are."""
    if not any(b'"change"' in line for line in lines):
        return lines
    found: list[bytes] = []
    for line in lines:
        try:
            found += expanded(line)
        except ValueError as error:
            raise ConfigurationError(f"{task.file}: {error}") from error
    if len(found) > len(lines):
        print(f"warn: {task.file}: {wal2json.HINTS[VERSION_1]}", flush=True)
    return found


class _Record(msgspec.Struct):
    value: msgspec.Raw
    headers: msgspec.Raw = NULL


RECORD = msgspec.json.Decoder(_Record)


def records(lines: Sequence[bytes]) -> tuple[list[bytes | None], Headers]:
    """Read records of a topic that were copied into a file; what is none stays as it is, for its decoder to judge.

    value: text, null, or the message itself. headers: pairs, a mapping, or names and values by turns (kcat).
    """
    found = [_record(line) for line in lines]
    return [value for value, _ in found], [headers for _, headers in found]


def _record(line: bytes) -> tuple[bytes | None, Mapping[str, str] | None]:
    if isinstance(line, Refused) or not line.strip():
        return line if line.strip() else None, None
    try:
        found = RECORD.decode(line)
        raw = bytes(found.value)
        value = msgspec.json.decode(raw, type=str | None) if raw[:1] in b'"n' else raw
        content = value.encode() if isinstance(value, str) else value
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return line, None
    try:
        return content, _headers(msgspec.json.decode(found.headers))
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        return Refused(line, causes.HEADERS, f"`headers` cannot be read: {error}"), None


def _headers(told: Any) -> dict[str, str] | None:
    if told is None:
        return None
    pairs = list(told.items()) if isinstance(told, dict) else told
    if isinstance(told, list) and told and not isinstance(told[0], list):
        pairs = [told[at : at + 2] for at in range(0, len(told), 2)]
    named = msgspec.convert(pairs, list[tuple[str, str | None]])
    return {name: value for name, value in named if value is not None} or None


def read_lines(root: str, file: str) -> Iterator[tuple[int, list[bytes]]]:
    """Yield (number of the first line, lines) in blocks; a last line without newline counts as a line."""
    path = Path(root, file)
    number, rest = 1, b""
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as stream:
        while block := stream.read(BLOCK):
            lines = (rest + block).split(b"\n")
            rest = lines.pop()
            if lines:
                yield number, lines
                number += len(lines)
    if rest:
        yield number, [rest]
