"""Write messages into files: a folder for each topic, with files that get their names when they are complete."""

import zlib
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import BinaryIO

from txloom.generate.formats.messages import Message, Writer, encode

BUFFER = 1 << 20
"""The write buffer of a file, in bytes."""
METADATA_PARTITIONS = 1
"""Transaction metadata keeps its order only in a topic of one partition."""


class Records:
    """Makes lines with a message and its partition, offset, key and headers, as tools that dump topics print them."""

    def __init__(self, writer: Writer, partitions: int, offsets: dict[str, int]) -> None:
        """Continue from the last offsets by topic and partition; `offsets` is updated in place."""
        self._metadata_topic = writer.metadata_topic
        self._partitions = partitions
        self._offsets = offsets

    def line(self, message: Message) -> bytes:
        """Return a message's line; a message without a key goes to a partition chosen by its csn."""
        count = METADATA_PARTITIONS if message.topic == self._metadata_topic else self._partitions
        partition = zlib.crc32(b"%d" % message.csn if message.key is None else message.key) % count
        name = f"{message.topic}/{partition}"
        offset = self._offsets[name] = self._offsets.get(name, -1) + 1
        return encode(
            {
                "topic": message.topic,
                "partition": partition,
                "offset": offset,
                "key": None if message.key is None else message.key.decode(),
                "value": None if message.value is None else message.value.decode(),
                "headers": message.headers,
            }
        )


def value_line(message: Message) -> bytes | None:
    """Return a message's value as a line; None for a tombstone."""
    return message.value


class Files:
    """Files of one slice of the stream, one for each topic that has messages in it; slices have numbers."""

    def __init__(self, folder: Path, ending: str, line: Callable[[Message], bytes | None], writer: Writer) -> None:
        """Write below a folder; ending: of the files' names; line: makes a message's line, None for no line."""
        self._folder, self._ending, self._line = folder, ending, line
        self._heading = writer.heading
        self._open: dict[str, BinaryIO] = {}
        self._last: dict[str, int] = {}
        self.number = 0
        self.counts: Counter[str] = Counter()

    def write(self, messages: Iterable[Message]) -> None:
        """Write messages into the files of their topics."""
        open_, last, line = self._open, self._last, self._line
        for message in messages:
            content = line(message)
            if content is None:
                continue
            topic = message.topic
            stream = open_.get(topic) or self._begun(topic)
            stream.write(content + b"\n")
            last[topic] = len(content) + 1
            self.counts["messages"] += 1

    def close(self, cuts: Callable[[str], bool] | None = None) -> None:
        """Give the slice's files their names, and begin the next slice.

        cuts: returns whether the last line of a topic's file is cut in the middle; None: of no file.
        """
        for topic, stream in self._open.items():
            size = stream.tell()
            if cuts is not None and cuts(topic):
                size -= self._last[topic] // 2 + 1
                stream.truncate(size)
            stream.close()
            path = self._folder / topic
            (path / self._temporary).rename(path / f"{self.number:08}{self._ending}")
            self.counts["files"] += 1
            self.counts["bytes"] += size
        self._open.clear()
        self._last.clear()
        self.number += 1

    def abandon(self) -> None:
        """Remove the files of the unfinished slice."""
        for topic, stream in self._open.items():
            stream.close()
            (self._folder / topic / self._temporary).unlink()
        self._open.clear()

    @property
    def _temporary(self) -> str:
        return f".{self.number:08}{self._ending}.part"

    def _begun(self, topic: str) -> BinaryIO:
        path = self._folder / topic
        path.mkdir(exist_ok=True)
        stream = self._open[topic] = (path / self._temporary).open("wb", BUFFER)
        heading = self._heading(topic)
        if heading is not None:
            stream.write(heading + b"\n")
        return stream
