"""Files and folders of sources: `pathlib.Path` on this machine, and the same few methods in another store."""

import gzip
import io
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, Union, cast

import pyarrow.parquet as pq
from pyarrow import fs

from txloom.storage.stores.access import FILE, scheme_of
from txloom.storage.stores.file_systems import filesystem_of

Place = Union[Path, "StorePath"]
"""A file or a folder."""


def place(*parts: str) -> Place:
    """Return the file or folder of a path or URI, and of names below it; a path is taken from the working folder.

    >>> str(place("/inbox", "topic/a.jsonl")), str(place("s3://bucket/inbox/", "topic"))
    ('/inbox/topic/a.jsonl', 's3://bucket/inbox/topic')
    """
    first, *below = parts
    if scheme_of(first) == FILE:
        return Path(first.removeprefix("file://"), *below)
    return StorePath("/".join([first.rstrip("/"), *below]))


def below(folder: Path, path: str) -> Place:
    """Return a path or URI as a declaration gives it: a relative path lies in a folder."""
    return folder / path.removeprefix("file://") if scheme_of(path) == FILE else place(path)


def parquet_file(path: str | Place, **choices: Any) -> pq.ParquetFile:
    """Open a Parquet file, with the choices of `pyarrow.parquet.ParquetFile`."""
    filesystem, inside = filesystem_of(str(path))
    return pq.ParquetFile(inside, filesystem=filesystem, **choices)


def listed(folder: Place) -> list[Place]:
    """Return what is in a folder, by name; raises FileNotFoundError where there is none."""
    entries: list[Place] = list(folder.iterdir())
    return sorted(entries, key=lambda entry: entry.name)


def lies_in(entry: Place, folder: Place) -> bool:
    """Return whether what a place leads to lies in a folder; in another store than this machine nothing is a link."""
    return isinstance(entry, StorePath) or entry.resolve().is_relative_to(Path(str(folder)).resolve())


@contextmanager
def unpacked(file: Place) -> Iterator[BinaryIO]:
    """Open a file to read its bytes, those that gzip packed where its name ends in .gz."""
    with file.open("rb") as raw:
        if file.suffix != ".gz":
            yield raw
            return
        with gzip.open(raw) as content:
            yield cast("BinaryIO", content)


@dataclass(frozen=True)
class Status:
    """Size of a file in bytes, and when it was changed, in nanoseconds since 1970; 0 where the store does not say."""

    st_size: int
    st_mtime_ns: int


@dataclass(frozen=True)
class StorePath:
    """A file or folder of a store, with those methods of `pathlib.Path` that sources need; nothing is a link there."""

    uri: str

    def __str__(self) -> str:
        """Return the URI."""
        return self.uri

    def __truediv__(self, name: str) -> "StorePath":
        """Return what a folder has under a name."""
        return StorePath(f"{self.uri}/{name}")

    @property
    def name(self) -> str:
        """Return the last part of the path."""
        return self.uri.rpartition("/")[2]

    @property
    def suffix(self) -> str:
        """Return the end of the name, from its last dot on."""
        return PurePosixPath(self.name).suffix

    def is_dir(self) -> bool:
        """Return whether it is a folder, that is whether something has a name below it."""
        return self._info().type == fs.FileType.Directory

    def is_file(self) -> bool:
        """Return whether it is a file."""
        return self._info().type == fs.FileType.File

    def is_symlink(self) -> bool:
        """Return False."""
        return False

    def iterdir(self) -> Iterator["StorePath"]:
        """Yield what is in a folder; raises FileNotFoundError where there is none."""
        filesystem, inside = filesystem_of(self.uri)
        for each in filesystem.get_file_info(fs.FileSelector(inside)):
            if each.base_name:  # some programs make a file without a name to keep an empty folder
                yield self / each.base_name

    def stat(self) -> Status:
        """Return size and time of change; raises FileNotFoundError where there is nothing."""
        info = self._info()
        if info.type == fs.FileType.NotFound:
            raise FileNotFoundError(2, "No such file", self.uri)
        return Status(info.size or 0, info.mtime_ns or 0)

    lstat = stat

    def open(self, mode: str) -> BinaryIO:  # noqa: ARG002  as Path has it; only "rb" is needed
        """Open a file to read its bytes; raises OSError where it cannot be read."""
        filesystem, inside = filesystem_of(self.uri)
        return cast("BinaryIO", io.BufferedReader(cast("io.RawIOBase", filesystem.open_input_file(inside))))

    def _info(self) -> fs.FileInfo:
        filesystem, inside = filesystem_of(self.uri)
        return filesystem.get_file_info(inside)
