"""Extracts of a source's tables: a folder for each date, in it one for each table, in it files of rows.

`<source.files.path>/<YYYY-MM-DD>/<table>/*.parquet|.csv|.jsonl`, as `txloom.storage.snapshots.snapshot_files` reads
them. A date is complete when its folder, or that of every watched table, holds `_SUCCESS`, or when nothing in it has
changed for `settle` and nothing in it has a temporary name. A table without a folder has no extract of that date.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from hashlib import blake2b

from txloom.config.models.pipeline import Pipeline
from txloom.config.project import PROJECT
from txloom.errors import ConfigurationError, SourceUnavailable
from txloom.storage.snapshots import snapshot_files as snapshots_files
from txloom.storage.snapshots.snapshot_files import SnapshotFile
from txloom.storage.sources.file_lines import BLOCK
from txloom.storage.sources.files import TEMPORARY_SUFFIXES
from txloom.storage.stores.places import Place, below, lies_in, listed, place

MARKER = "_SUCCESS"
TEMPORARY_FOLDER = "_temporary"
LEFT_BEHIND = (".crc", ".swp", "~")
"""Temporary suffixes of files that may stay beside complete ones forever."""
UNFINISHED = tuple(suffix for suffix in TEMPORARY_SUFFIXES if suffix not in LEFT_BEHIND)

Stamp = tuple[str, int, int]


@dataclass(frozen=True)
class Day:
    """The extracts of one date: the files by table, and the tables whose folder holds a marker."""

    folder: str
    tables: Mapping[str, Sequence[SnapshotFile]]
    marked: frozenset[str]

    @property
    def files(self) -> list[SnapshotFile]:
        """Return the files of all tables."""
        return [file for files in self.tables.values() for file in files]

    def stamp(self) -> list[Stamp]:
        """Return path, size and time of change of all files: it differs once somebody writes into the extracts."""
        return [(file.path, *_stamp(place(file.path))) for file in self.files]

    def fingerprint(self) -> str:
        """Return a hash of all files by name and content."""
        digest = blake2b(digest_size=16)
        for file in self.files:
            digest.update(f"{file.table}/{place(file.path).name}\0".encode() + _content(place(file.path)))
        return digest.hexdigest()


def day_of(pipeline: Pipeline, day: date) -> Day:
    """Return the extracts of a date.

    Raises:
        SourceUnavailable: there are none, or they are not complete yet.
        ConfigurationError: a file or folder is no extract of a watched table, or a link leaves the source's folder.
    """
    files = pipeline.source.files
    assert files is not None
    root = below(PROJECT, files.path)
    folder = root / day.isoformat()
    if not folder.is_dir():
        raise SourceUnavailable(f"{folder}: there is no extract of this date")
    entries = list(_entries(folder))
    _refuse_links(entries, root)
    if not _is_marked(pipeline, folder):
        _refuse_unfinished(folder, entries, files.settle)
    tables = snapshots_files.tables_of(pipeline, str(folder))
    return Day(str(folder), tables, frozenset(name for name in tables if (folder / name / MARKER).is_file()))


def _entries(folder: Place) -> Iterator[Place]:
    """Yield a folder and everything in it; linked folders are not entered."""
    yield folder
    for entry in listed(folder):
        if entry.is_dir() and not entry.is_symlink():
            yield from _entries(entry)
        else:
            yield entry


def _refuse_links(entries: Sequence[Place], root: Place) -> None:
    for entry in entries:
        if not lies_in(entry, root):
            raise ConfigurationError(f"{entry}: a link that leaves the source's folder")


def _is_marked(pipeline: Pipeline, folder: Place) -> bool:
    markers = [folder / table.name / MARKER for table in pipeline.tables]
    return (folder / MARKER).is_file() or all(marker.is_file() for marker in markers)


def _refuse_unfinished(folder: Place, entries: Sequence[Place], settle: timedelta) -> None:
    for entry in entries:
        if entry.name.endswith(UNFINISHED) or entry.name == TEMPORARY_FOLDER:
            raise SourceUnavailable(f"{entry}: a temporary name; the extract is not whole until it is gone")
    age = (time.time_ns() - max(_stamp(entry)[1] for entry in entries)) / 1e9
    if age < settle.total_seconds():
        raise SourceUnavailable(
            f"{folder}: it changed {max(age, 0):.0f} seconds ago; the extract is whole once nothing in it has changed "
            f"for {settle.total_seconds():.0f} seconds, or at once with a file {MARKER} in it"
        )


def _stamp(entry: Place) -> tuple[int, int]:
    """Return size and time of change in ns; both 0 for a file that has been removed."""
    try:
        status = entry.lstat()
    except FileNotFoundError:
        return 0, 0
    return status.st_size, status.st_mtime_ns


def _content(path: Place) -> bytes:
    digest = blake2b(digest_size=16)
    try:
        with path.open("rb") as stream:
            while block := stream.read(BLOCK):
                digest.update(block)
    except OSError as error:
        raise SourceUnavailable(f"{path}: cannot be read: {error}") from error
    return digest.digest()
