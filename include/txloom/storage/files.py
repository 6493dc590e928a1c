"""The `files` transport: folders, one per topic, that a producer appends whole files to.

A file is taken once it is whole. Temporary names are never taken. A file that ends in a newline (or whose gzip stream
ends properly) is whole; any other is once it has not changed for `settle`. A file that changes after it was taken is
taken again: its messages are redeliveries, which the buffer drops and counts, so that nothing appended is lost.
"""

import gzip
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from txloom.config.models import Pipeline
from txloom.config.places import PROJECT
from txloom.errors import SourceUnavailable

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


def root(pipeline: Pipeline) -> str:
    """Return the folder of a files source; a relative one is relative to the project."""
    return str(PROJECT / pipeline.source.files.path)


def list_files(root: str) -> list[SourceFile]:
    """List the files of all topic folders below a source's folder, oldest name first.

    Links that leave the source's folder are not followed (faults.md 46).
    """
    folder = Path(root)
    if not folder.is_dir():
        raise SourceUnavailable(f"{root}: the source's folder does not exist; create it or correct source.files.path")
    base = folder.resolve()
    found = []
    for topic in sorted(entry for entry in folder.iterdir() if entry.is_dir() and _is_public(entry.name)):
        for entry in sorted(topic.iterdir()):
            if _is_public(entry.name) and entry.is_file() and entry.resolve().is_relative_to(base):
                status = entry.stat()
                name = f"{topic.name}/{entry.name}"
                found.append(SourceFile(topic.name, name, status.st_size, status.st_mtime_ns))
    return found


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
