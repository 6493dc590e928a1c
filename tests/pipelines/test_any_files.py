"""A stream of wal2json cut into files at any byte, delivered in any runs: what is shown is whole, what is not is named.

Files grow, are touched, compressed, copied, renamed; some come late, some never. Landing runs in this process, with its
positions in memory and files on disk; transactions are decided by the buffer's core.
"""

import gzip
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from events.test_wal2json_capture import transactions as captured
from pipelines.slot import DECLARED, text, transaction
from txloom.config import find, load
from txloom.config.models import Pipeline
from txloom.events.formats import SourceDecoder
from txloom.storage import file_plan, landing
from txloom.storage.file_positions import Name, Position
from txloom.storage.files import Inbox, is_settled, is_whole, list_files
from txloom.storage.landing import Landing
from txloom.storage.ordered import fronts
from txloom.transactions import buffer
from txloom.transactions import events as ev
from txloom.transactions.hashes import hash64
from txloom.transactions.numbers import BUCKETS, packed

BEGUN = datetime(2026, 1, 1, tzinfo=UTC)
SETTLE = timedelta(seconds=1)
OLD = 1_000_000
Row = tuple[str, str]


def declared() -> Pipeline:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "slot.yaml"
        file.write_text(DECLARED.format(inbox=folder, limit=1 << 20))
        return load(file)


PIPELINE = declared()
CAPTURE = PIPELINE.model_copy(update={"tables": find("orders").tables, "targets": find("orders").targets})


@dataclass
class Source:
    """A topic's folder, what was landed of it, and what was released."""

    root: Path
    pipeline: Pipeline = PIPELINE
    positions: dict[Name, Position] = field(default_factory=dict)
    events: list[pa.Table] = field(default_factory=lambda: [landing.CHANGE_EVENTS.empty_table()])
    held: dict[int, buffer.Held] = field(default_factory=lambda: {n: buffer.Held() for n in range(BUCKETS)})
    released: set[int] = field(default_factory=set)
    waiting: set[int] = field(default_factory=set)
    runs: int = 0

    @property
    def topic(self) -> Path:
        return self.root / "slot"

    def write(self, name: str, content: bytes, *, settled: bool = True) -> None:
        path = self.topic / name
        path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
        self.touch(name, settled=settled)

    def touch(self, name: str, *, settled: bool = True) -> None:
        self.runs += 1
        moment = (OLD if settled else 2 * OLD) + self.runs / 100
        os.utime(self.topic / name, (moment, moment))

    def run(self) -> None:
        """Land what is there, and let the buffer decide."""
        self.runs += 1
        now = 2 * OLD * 10**9
        whole = lambda file, may_end: (  # noqa: E731
            is_settled(file, now, SETTLE) or (may_end and is_whole(str(self.root), file, now, SETTLE))
        )
        new = file_plan.plan(str(self.root), list_files(str(self.root)), self.positions, (), whole, "wal2json")
        at = Landing(self.runs, BEGUN + self.runs * timedelta(minutes=1), tuple(new.tasks))
        front, reached = fronts(new.tasks, self.positions, (), lambda _: None), list[Position]()
        decoder, source = SourceDecoder(self.pipeline), Inbox(str(self.root), format="wal2json")
        found = list(landing.decode_queue(decoder, source, new.tasks, front, at, reached))
        for position in reached:
            assert position.problem is None
            self.positions.pop(position.name, None)
            self.positions[position.name] = position
        self.events += found
        self._decide(pa.concat_tables([landing.CHANGE_EVENTS.empty_table(), *found]), at)

    def _decide(self, events: pa.Table, at: Landing) -> None:
        arrived: dict[int, list[np.ndarray]] = {bucket: [] for bucket in range(BUCKETS)}
        for bucket, each in packed(events):
            arrived[bucket].append(ev.from_bytes(each, ev.EVENT))
        micros = int(at.at.timestamp() * 1_000_000)
        clock = ev.clocks(np.array([at.number]), np.array([micros]), ev.ANYWHERE)
        self.waiting = set()
        for bucket, own in arrived.items():
            rules = buffer.Rules(10**15)
            self.held[bucket], decisions = buffer.decide(self.held[bucket], ev.concatenate([*own, clock]), rules)
            for part in decisions.released:
                assert not self.released & set(part.tx.tolist()), "a transaction is released once"
                self.released |= set(part.tx.tolist())
            self.waiting |= {standing.tx for standing in decisions.waiting}

    def shown(self) -> dict[int, list[str]]:
        """Return the rows of each released transaction in their order, each identity once, as the history gets them."""
        rows: dict[int, dict[int, str]] = {tx: {} for tx in self.released}
        for each in pa.concat_tables(self.events).select(["kind", "tx", "pos", "value"]).to_pylist():
            if each["kind"] == "row" and each["tx"] in rows:
                rows[each["tx"]].setdefault(each["pos"], each["value"])
        return {tx: [own[pos] for pos in sorted(own)] for tx, own in rows.items()}

    def poison(self) -> int:
        return sum(table.column("kind").to_pylist().count("poison") for table in self.events)


@contextmanager
def source(pipeline: Pipeline = PIPELINE) -> Iterator[Source]:
    root = Path(tempfile.mkdtemp(prefix="files-"))
    try:
        (root / "slot").mkdir()
        yield Source(root, pipeline)
    finally:
        shutil.rmtree(root)


@dataclass(frozen=True)
class Stream:
    """What a slot sends: bytes, and of each transaction its hash, its rows, and where in the bytes it lies."""

    content: bytes
    rows: dict[int, list[str]]
    lies: dict[int, tuple[int, int]]

    @classmethod
    def of(cls, messages: list[tuple[str, list[str]]]) -> "Stream":
        content, rows, lies = b"", dict[int, list[str]](), dict[int, tuple[int, int]]()
        for name, lines in messages:
            start = len(content)
            content += text(lines).encode()
            rows[hash64(name)], lies[hash64(name)] = lines[1:-1], (start, len(content) - 1)
        return cls(content, rows, lies)

    def untorn(self, cuts: list[int], lost: list[tuple[int, int]]) -> set[int]:
        """Return the transactions no line of which is cut, or lost.

        A cut right before a newline, or behind it, cuts no line.
        """
        newlines = {at for at, byte in enumerate(self.content) if byte == 10}
        bad = [cut for cut in cuts if cut not in newlines and cut - 1 not in newlines and cut]
        return {
            tx
            for tx, (start, end) in self.lies.items()
            if not any(start < cut < end for cut in bad) and not any(a < end + 1 and start < b for a, b in lost)
        }


def check(found: Source, stream: Stream, required: set[int], *, is_complete: bool) -> None:
    """Compare what is shown with what the source did: whole or named, nothing torn, nothing twice.

    is_complete: all files came; of one that did not, nobody can tell when it held whole transactions alone.
    """
    shown = found.shown()
    assert {tx: rows for tx, rows in shown.items() if rows != stream.rows[tx]} == {}, "torn or doubled"
    assert required - shown.keys() == set(), "lost"
    is_named = found.poison() or found.waiting or not is_complete
    assert is_named or shown.keys() == stream.rows.keys(), "lost in silence"


SIZES = st.lists(st.integers(0, 4), min_size=1, max_size=6)


@st.composite
def streams(draw: Any) -> Stream:
    key, messages = 0, list[tuple[str, list[str]]]()
    for number, size in enumerate(draw(SIZES), 1):
        keys = range(key + 1, key + 1 + size)
        key += size
        messages.append((f"{number}:{number * 0x1000}", transaction(number, *keys)))
    return Stream.of(messages)


@st.composite
def places(draw: Any, stream: Stream, most: int) -> list[int]:
    """Return places in a stream's bytes, many of them at the end of a line."""
    newlines = [at + 1 for at, byte in enumerate(stream.content) if byte == 10]
    one = st.one_of(st.sampled_from(newlines), st.sampled_from(newlines), st.integers(1, len(stream.content)))
    return sorted(draw(st.sets(one, max_size=most)))


def parts_of(stream: Stream, cuts: list[int]) -> list[tuple[int, int]]:
    bounds = [0, *[cut for cut in cuts if cut < len(stream.content)], len(stream.content)]
    return list(pairwise(bounds))


@given(st.data())
def test_numbered_files_are_right_or_named_however_they_come(data: st.DataObject) -> None:
    stream = data.draw(streams())
    cuts = data.draw(places(stream, 4))
    deliver(stream, cuts, data)


REAL = captured()


@given(st.data(), st.integers(0, len(REAL) - 12))
def test_files_of_a_real_stream_are_right_or_named_however_they_come(data: st.DataObject, first: int) -> None:
    some = [[line.decode() for line in lines] for lines in REAL[first : first + 10]]
    names = []
    for lines in some:
        begin = json.loads(lines[0])
        high, low = begin["lsn"].split("/")
        names.append(f"{begin['xid']}:{(int(high, 16) << 32) | int(low, 16)}")
    stream = Stream.of(list(zip(names, some, strict=True)))
    deliver(stream, data.draw(places(stream, 4)), data, CAPTURE)


def deliver(stream: Stream, cuts: list[int], data: st.DataObject, pipeline: Pipeline = PIPELINE) -> None:
    """Write a stream into numbered files, in steps between runs."""
    parts = parts_of(stream, cuts)
    late = data.draw(st.sets(st.integers(0, len(parts) - 1), max_size=2))
    lost = data.draw(st.sets(st.sampled_from(sorted(late)), max_size=1)) if late else set()
    with source(pipeline) as found:
        for written in [*data.draw(places(stream, 4)), len(stream.content)]:
            for number, (start, end) in enumerate(parts, 8):
                if start < written and number - 8 not in late:
                    there = stream.content[start : min(end, written)]
                    grow(found, f"part-{number}", there, is_done=written >= end, data=data)
            found.run()
        for number in data.draw(st.permutations(sorted(late - lost))):
            start, end = parts[number]
            found.write(f"part-{number + 8}", stream.content[start:end])
            found.run()
        found.run()
        check(found, stream, stream.untorn(cuts, [parts[number] for number in lost]), is_complete=not lost)


def grow(found: Source, name: str, content: bytes, *, is_done: bool, data: st.DataObject) -> None:
    """Bring a file to some content: appended, touched, compressed, or copied beside it."""
    path, packed_path = found.topic / name, found.topic / f"{name}.gz"
    if packed_path.exists():
        return
    if not path.exists() or path.read_bytes() != content or data.draw(st.booleans()):
        found.write(name, content, settled=is_done or data.draw(st.booleans()))
    if is_done and data.draw(st.integers(0, 3)) == 0:
        path.unlink()
        found.write(f"{name}.gz", content)
    elif data.draw(st.integers(0, 5)) == 0:
        found.write(f"copy of {name}", content, settled=False)


@given(st.data(), st.sampled_from(["live.{}", "live-{}", "zz-{}"]), st.booleans())
def test_files_that_are_rotated_by_renaming_are_right_or_named(data: st.DataObject, names: str, packed: bool) -> None:
    stream = data.draw(streams())
    cuts = data.draw(places(stream, 3))
    is_counted_back = names == "live.{}"
    with source() as found:
        for rotated, (start, end) in enumerate(parts_of(stream, cuts), 1):
            for written in [place for place in data.draw(places(stream, 3)) if start < place < end]:
                found.write("live", stream.content[start:written], settled=data.draw(st.booleans()))
                found.run()
            found.write("live", stream.content[start:end])
            if not is_counted_back or data.draw(st.booleans()):
                found.run()
            if end == len(stream.content):
                break
            for number in range(rotated, 1, -1) if is_counted_back else ():
                for end_of_name in ("", ".gz"):
                    if (older := found.topic / f"live.{number - 1}{end_of_name}").exists():
                        older.rename(found.topic / f"live.{number}{end_of_name}")
            new = names.format(1 if is_counted_back else rotated)
            (found.topic / "live").rename(found.topic / new)
            if packed:
                content = (found.topic / new).read_bytes()
                (found.topic / new).unlink()
                found.write(f"{new}.gz", content)
        found.run()
        found.run()
        check(found, stream, stream.untorn(cuts, []), is_complete=True)
