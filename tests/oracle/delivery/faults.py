"""Deliver a load badly, on purpose: duplicates, drift between topics, disorder inside them, metadata early and late."""

from __future__ import annotations

import gzip
import json
import math
import random
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

from oracle.capture import METADATA_TOPIC, Message

Timed = tuple[float, Message]


DISORDER = 0.02


def deliver(
    load: Iterable[Message],
    folder: Path,
    *,
    seed: int,
    arrivals: int,
    duplicates: float = 0.05,
    metadata_in_order: bool = True,
) -> list[Path]:
    """Write every message of the load at least once, in a number of arrivals; the same seed delivers the same.

    `duplicates` is the share of messages that come again, mostly in a later arrival. Nearly every row is displaced by
    about DISORDER of the load, one in twenty by up to a third of it. Metadata drifts ahead of and behind its rows by
    up to a fifth of the load; it keeps commit order, a redelivery apart, or is shuffled more than the rows are.
    """
    chance = random.Random(seed)
    unique = list(dict.fromkeys(load))
    rows = [message for message in unique if message[0] != METADATA_TOPIC]
    metadata = [message for message in unique if message[0] == METADATA_TOPIC]
    timed = _time_rows(sorted(rows, key=_commit_order), DISORDER, chance)
    timed += _time_metadata(sorted(metadata, key=_commit_order), metadata_in_order, chance)
    timed += [(chance.uniform(at, 1.0), message) for at, message in chance.sample(timed, int(duplicates * len(timed)))]
    return _write(_split(sorted(timed, key=_time), arrivals, chance), folder, chance)


def _time(timed: Timed) -> float:
    return timed[0]


def _commit_order(message: Message) -> tuple[int, int]:
    content = json.loads(message[1])
    return int(content["csn"]), int(content.get("pos", 0))


def _time_rows(rows: Sequence[Message], disorder: float, chance: random.Random) -> list[Timed]:
    drift = {topic: chance.uniform(0, 2 * math.pi) for topic in sorted({topic for topic, _ in rows})}
    timed: list[Timed] = []
    for number, message in enumerate(rows):
        at = number / len(rows)
        at += 0.05 * math.sin(drift[message[0]] + 9 * at) + chance.gauss(0, disorder)
        if chance.random() < 0.05:
            at += chance.uniform(-1 / 3, 1 / 3)
        timed.append((min(max(at, 0.0), 1.0), message))
    return timed


def _time_metadata(metadata: Sequence[Message], in_order: bool, chance: random.Random) -> list[Timed]:
    phase = chance.uniform(0, 2 * math.pi)
    width = 0.02 if in_order else 0.15
    times = [
        number / len(metadata) + 0.2 * math.sin(phase + 7 * number / len(metadata)) + chance.gauss(0, width)
        for number in range(len(metadata))
    ]
    clipped = [min(max(at, 0.0), 1.0) for at in times]
    return list(zip(sorted(clipped) if in_order else clipped, metadata, strict=True))


def _split(timed: Sequence[Timed], arrivals: int, chance: random.Random) -> list[list[Message]]:
    ends = [*sorted(chance.sample(range(1, len(timed)), arrivals - 1)), len(timed)]
    starts = [0, *ends[:-1]]
    return [[message for _, message in timed[start:end]] for start, end in zip(starts, ends, strict=True)]


def _write(parts: Sequence[Sequence[Message]], folder: Path, chance: random.Random) -> list[Path]:
    written = []
    for number, part in enumerate(parts, start=1):
        arrival = folder / f"{number:02}"
        topics: dict[str, list[str]] = defaultdict(list)
        for topic, message in part:
            topics[topic].append(message)
        for topic, messages in topics.items():
            (arrival / topic).mkdir(parents=True)
            _write_lines(arrival / topic / f"arrival-{number:02}.jsonl", messages, compressed=chance.random() < 0.5)
        written.append(arrival)
    return written


def _write_lines(path: Path, messages: Sequence[str], *, compressed: bool) -> None:
    content = "".join(f"{message}\n" for message in messages).encode()
    if compressed:
        path.with_name(f"{path.name}.gz").write_bytes(gzip.compress(content, compresslevel=1, mtime=0))
    else:
        path.write_bytes(content)
