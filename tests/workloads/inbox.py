"""Files of a source's messages, as its producer leaves them: whole, many at once, growing, touched, cut in mid-line."""

import gzip
import os
import re
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random

from oracle.capture import Message
from workloads.dimensions import Dimensions

JUNK = ("", "{}", "[]", "null ", "x", '{"a":', '"text"', "5", "\ufeff{}", "[" * 300)
"""Messages that are none, of any format."""
JUNK_RECORDS = ('{"value": 5, "headers": 5}', '{"value": "x", "headers": "abc"}', '{"value": {}, "headers": [["a"]]}')
TRUNCATE = re.compile(rb'op\\?": ?\\?"t\\?"')
"""The operation of a truncate, also inside a record's text."""


Packed = Callable[[str, Sequence[str], str], bytes]


class Producer:
    """Writes each topic's messages below a folder, landing by landing."""

    def __init__(
        self, root: Path, dimensions: Dimensions, chance: Random, *, records: bool = False, packed: Packed | None = None
    ) -> None:
        """Write below a folder; packed: makes a file of another form out of a topic's lines."""
        self._packed = packed
        self._root, self._dimensions, self._chance = root, dimensions, chance
        self._junk = JUNK + (JUNK_RECORDS if records else ())
        self._landings = 0
        self._parts: dict[str, int] = {}
        self._rest: dict[str, bytes] = {}
        self._unfinished: dict[Path, bytes] = {}
        self._slow: str | None = None
        self.junk: set[str] = set()

    def deliver(self, messages: Sequence[Message], *, last: bool = False) -> None:
        """Write what one landing finds; last: nothing is held back."""
        self._landings += 1
        self._finish_some(everything=last)
        topics: dict[str, list[str]] = {topic: [] for topic in self._rest}
        for topic, message in messages:
            topics.setdefault(topic, []).append(message)
        self._slow = self._chance.choice(sorted(topics)) if topics and not last else None
        for topic, lines in topics.items():
            (self._root / topic).mkdir(exist_ok=True)
            if self._dimensions.form != "jsonl" and lines:
                self._write_packed(topic, lines)
                continue
            content = self._rest.pop(topic, b"") + "".join(f"{line}\n" for line in self._with_junk(lines)).encode()
            if content:
                self._write(topic, content, last=last)
        if self._dimensions.touched:
            self._touch()
        if self._dimensions.source == "change_sets" and self._dimensions.files == "parts":
            self._repeat()

    def _with_junk(self, lines: list[str]) -> list[str]:
        """Put a message that is none in front of all: behind any other, an ordered stream would have lost a row."""
        if not (self._dimensions.junk and self._chance.random() < 0.3):
            return lines
        chosen = self._chance.choice(self._junk if not self._dimensions.is_ordered else JUNK[:1])
        self.junk.add(chosen)
        return [chosen, *lines]

    def _write(self, topic: str, content: bytes, *, last: bool) -> None:
        folder, files = self._root / topic, self._dimensions.files
        if files == "parts":
            self._parts[topic] = self._parts.get(topic, 0) + 1
            name = folder / f"{self._parts[topic]:03}.jsonl"
            packed = self._chance.random() < 0.3
            name = name.with_name(f"{name.name}.gz") if packed else name
            name.write_bytes(gzip.compress(content) if packed else content)
        elif files == "numbered":
            for part in self._split(content):
                self._parts[topic] = self._parts.get(topic, self._chance.choice((0, 8))) + 1
                (folder / f"part-{self._parts[topic]}.jsonl").write_bytes(part)
        elif files == "overtaken":
            for part in self._split(content):
                self._parts[topic] = self._parts.get(topic, 0) + 1
                self._begin(topic, folder / f"part-{self._parts[topic]}.jsonl", part)
        else:
            self._append(topic, content, last=last)

    def _write_packed(self, topic: str, lines: Sequence[str]) -> None:
        assert self._packed is not None
        form = self._dimensions.form
        self._parts[topic] = self._parts.get(topic, 0) + 1
        name = self._root / topic / f"{self._parts[topic]:03}.{form}"
        content = self._packed(topic, lines, form)
        is_zipped = form == "csv" and self._chance.random() < 0.3
        name = name.with_name(f"{name.name}.gz") if is_zipped else name
        name.write_bytes(gzip.compress(content) if is_zipped else content)
        _settle_rows(name)

    def _split(self, content: bytes) -> list[bytes]:
        lines = [line + b"\n" for line in content.split(b"\n")[:-1]]
        ends = sorted(self._chance.randint(0, len(lines)) for _ in range(self._chance.choice((0, 1, 2))))
        bounds = zip([0, *ends], [*ends, len(lines)], strict=True)
        return [part for part in (b"".join(lines[a:b]) for a, b in bounds) if part]

    def _end_of_truncates(self, content: bytes) -> int:
        """Return where the last truncate of MySQL ends; 1 without one.

        No metadata counts such a message, so that cuts lack it while it is still written.
        """
        if self._dimensions.source != "debezium/mysql":
            return 1
        at = max((each.end() for each in TRUNCATE.finditer(content)), default=0)
        return max(content.find(b"\n", at) + 1, 1) if at else 1

    def _append(self, topic: str, content: bytes, *, last: bool) -> None:
        if self._dimensions.cut and not last and self._chance.random() < 0.5:
            at = self._chance.randint(self._end_of_truncates(content), len(content))
            self._rest[topic], content = content[at:], content[:at]
        number = self._parts.setdefault(topic, 1)
        file = self._root / topic / f"all-{number}.jsonl"
        with file.open("ab") as stream:
            stream.write(content)
        self._let_rest(file, content)
        if self._dimensions.files == "rotated" and topic not in self._rest and self._chance.random() < 0.4:
            self._parts[topic] += 1

    def _begin(self, topic: str, file: Path, content: bytes) -> None:
        """Write a file, or its beginning alone: it ends in mid-line, and later files do not wait for its rest.

        One topic of a landing has such files: what lies in the other ones makes later transactions whole.
        """
        first = self._end_of_truncates(content)
        if self._dimensions.cut and topic == self._slow and len(content) > first + 1 and self._chance.random() < 0.6:
            at = self._chance.randint(first + 1, len(content) - 1)
            at -= content[:at].endswith(b"\n")
            self._unfinished[file], content = content[at:], content[:at]
        file.write_bytes(content)
        self._let_rest(file, content)

    def _let_rest(self, file: Path, content: bytes) -> None:
        """Make some files that end inside a message look unchanged for longer than `settle`."""
        line = content.rpartition(b"\n")[2].strip()
        if line.startswith(b"{") and not line.endswith(b"}") and self._chance.random() < 0.5:
            _settle(file)

    def _finish_some(self, *, everything: bool) -> None:
        """Write the rest of some files, or of all, that were left unfinished by earlier landings."""
        for file in [each for each in self._unfinished if everything or self._chance.random() < 0.5]:
            with file.open("ab") as stream:
                stream.write(self._unfinished.pop(file))

    def _touch(self) -> None:
        """Give a file a new time, as copying it once more does."""
        files = sorted(self._root.glob("*/*"))
        if files and self._chance.random() < 0.5:
            file, now = self._chance.choice(files), time.time_ns()
            os.utime(file, ns=(now, now))
            _settle_rows(file)

    def _repeat(self) -> None:
        """Leave a file a second time, under another name."""
        files = sorted(self._root.glob("*/*"))
        if files and self._chance.random() < 0.3:
            chosen = self._chance.choice(files)
            copy = chosen.with_name(f"again-{self._landings}-{chosen.name}")
            copy.write_bytes(chosen.read_bytes())
            _settle_rows(copy)


def _settle_rows(file: Path) -> None:
    """Make a file without lines look unchanged for two minutes; leave other files as they are."""
    if file.suffix == ".parquet":
        _settle(file)


def _settle(file: Path) -> None:
    """Make a file look unchanged for two minutes."""
    at = time.time_ns() - 120 * 10**9
    os.utime(file, ns=(at, at))
