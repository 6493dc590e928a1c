"""The content of a source's files, read to a fixed length, from the end of the last landing, in linear time.

Positions are those of the content: for a file that ends in `.gz`, of the uncompressed content, so that a file which was
compressed after it was read counts as the same file.
"""

import gzip
import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from hashlib import blake2b
from typing import BinaryIO

from txloom.events.malformed import KEPT, cut
from txloom.storage.stores.places import Place

BLOCK = 4 << 20
"""Bytes read at once: large enough for the decoder's batches, small enough for any executor."""

END = 64 << 10
"""Bytes that are read first at the end of a file to find its last line."""


class _Bounded(io.RawIOBase):
    """The first bytes of a file, as if it ended there."""

    def __init__(self, stream: BinaryIO, size: int) -> None:
        self._stream, self._left = stream, max(size, 0)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        block = self._stream.read(min(len(buffer), self._left))
        buffer[: len(block)] = block
        self._left -= len(block)
        return len(block)


@contextmanager
def content(path: Place, size: int, start: int = 0) -> Iterator[BinaryIO]:
    """Open the content of a file's first `size` bytes, from a position in the content on.

    Raises OSError or EOFError where the file is shorter, or a compressed stream is damaged.
    """
    with path.open("rb") as raw:
        if path.stat().st_size < size:
            raise EOFError(f"it has {path.stat().st_size} bytes, fewer than the {size} that it had")
        if path.suffix != ".gz":
            raw.seek(start)
            yield io.BufferedReader(_Bounded(raw, size - start), BLOCK)
            return
        with gzip.GzipFile(fileobj=io.BufferedReader(_Bounded(raw, size), BLOCK)) as stream:
            _skip(stream, start)
            yield stream  # type: ignore[misc]


def _skip(stream: gzip.GzipFile, size: int) -> None:
    while size > 0 and (block := stream.read(min(size, BLOCK))):
        size -= len(block)


def digest(path: Place, size: int, start: int, end: int | None = None) -> tuple[str, int]:
    """Return the hash of a part of a file's content, and its number of bytes; end: None for the end of the content."""
    hashed, left = blake2b(digest_size=16), -1 if end is None else end - start
    count = 0
    with content(path, size, start) as stream:
        while left and (block := stream.read(BLOCK if left < 0 else min(left, BLOCK))):
            hashed.update(block)
            count += len(block)
            left -= len(block) if left > 0 else 0
    return hashed.hexdigest(), count


def digests(path: Place, start: int, ends: Sequence[int]) -> tuple[str, list[str]]:
    """Return the hash of a file's content from a position on, and that of each part of it; ends: of the parts."""
    whole, parts = blake2b(digest_size=16), list[str]()
    with content(path, ends[-1], start) as stream:
        at = start
        for end in ends:
            part = blake2b(digest_size=16)
            while at < end and (block := stream.read(min(end - at, BLOCK))):
                whole.update(block)
                part.update(block)
                at += len(block)
            parts.append(part.hexdigest())
    return whole.hexdigest(), parts


def count_lines(path: Place, start: int, until: int) -> tuple[int, int]:
    """Return how many lines end in some bytes of a file's content, and the position behind the last of them (or 0)."""
    count, at, end = 0, start, 0
    with content(path, until, start) as stream:
        while block := stream.read(BLOCK):
            count += block.count(b"\n")
            last = block.rfind(b"\n")
            end, at = end if last < 0 else at + last + 1, at + len(block)
    return count, end


def first_line(path: Place, size: int) -> str | None:
    """Return the hash of a file's first line that is not blank, of at most its first KEPT bytes; None without one."""
    with content(path, size) as stream:
        while line := stream.readline(KEPT):
            if line.strip():
                return blake2b(line, digest_size=16).hexdigest()
    return None


def last_line(path: Place, size: int, limit: int) -> bytes | None:
    """Return what follows the last newline in a plain file's first `size` bytes; None if it exceeds `limit` bytes."""
    with path.open("rb") as stream:
        length = min(END, size)
        while True:
            stream.seek(size - length)
            _, newline, line = stream.read(length).rpartition(b"\n")
            if newline or length == size:
                return line
            if length > limit:
                return None
            length = min(length * 16, size)


class Lines:
    """Reads the lines of a part of a file block by block, and counts how far it came."""

    def __init__(self, path: Place, size: int, start: int, limit: int) -> None:
        """Read from a position in the content to the end of the file's first `size` bytes.

        limit: of a line with more bytes only the first ones are kept.
        """
        self._path, self._size, self._limit = path, size, limit
        self._hashed = blake2b(digest_size=16)
        self._parts: list[bytes] = []
        self._held = 0
        self.start = self.until = start
        self.tail: bytes | None = None

    @property
    def digest(self) -> str:
        """Return the hash of all that was read."""
        return self._hashed.hexdigest()

    @property
    def tail_bytes(self) -> int:
        """Return how many bytes follow the last newline."""
        return self._held

    def blocks(self) -> Iterator[list[bytes]]:
        """Yield the lines that end in a newline, in blocks.

        Afterwards `tail` is what follows the last newline (None: nothing), and `until` the position behind that
        newline.
        """
        with content(self._path, self._size, self.start) as stream:
            while block := stream.read(BLOCK):
                self._hashed.update(block)
                first, *rest = block.split(b"\n")
                self._add(first)
                if rest:
                    last = rest.pop()
                    self.until += self._held + 1 + sum(map(len, rest)) + len(rest)
                    yield [self._line(), *rest]
                    self._parts, self._held = [], 0
                    self._add(last)
        self.tail = self._line() if self._held else None

    def _add(self, part: bytes) -> None:
        """Add a part of an unfinished line; of one that is too long only the beginning is kept."""
        self._held += len(part)
        if self._held <= self._limit:
            self._parts.append(part)
        elif len(self._parts) != 1 or len(self._parts[0]) < KEPT:
            self._parts = [b"".join([*self._parts, part])[:KEPT]]

    def _line(self) -> bytes:
        line = b"".join(self._parts)
        return line if self._held <= self._limit else cut(line, self._held)
