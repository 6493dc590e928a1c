"""The order in which the files of a topic were written, as far as their names show it, and which of them adjoin.

Numbers in names are compared as numbers: `part-9` comes before `part-10`. Files that were rotated by renaming
(`live.jsonl`, `live.jsonl.1`, `live.jsonl.2`: the highest number is the oldest) come before the file whose name they
bear. A final `.gz` has no influence on the order.
"""

import re
from collections.abc import Collection
from typing import Literal

Key = tuple[tuple[str | int, ...], int, str]
_ROTATED = re.compile(r"(.+)\.(\d+)")
_DATE = re.compile(r"\d{4}[-_.]?\d{2}[-_.]?\d{2}")
_LONGEST_COUNTER = 7


def stream_order(name: str, others: Collection[str]) -> Key:
    """Return the key that sorts a topic's files in the order in which they were written; others: the names of all.

    >>> sorted(["a-10.gz", "a-9", "b.1", "b", "b.2"], key=lambda name: stream_order(name, {"b"}))
    ['a-9', 'a-10.gz', 'b.2', 'b.1', 'b']
    """
    plain = _plain(name)
    rotated = _rotated(plain, others)
    base, age = rotated or (plain, 0)
    return _parts(base), -age, name


def follows_on(before: str, name: str, others: Collection[str]) -> Literal["yes", "no", "unknown"]:
    """Return whether one file begins where another ends, as far as their names show it; others: the topic's names.

    Names that differ only in their last number count files, unless the number is a date or a time of day.

    >>> [follows_on("a-8", name, ()) for name in ("a-9", "a-10", "b")]
    ['yes', 'no', 'unknown']
    >>> follows_on("slot-2026-01-01T12-15", "slot-2026-01-01T12-30", ()), follows_on("b.1", "b", {"b"})
    ('unknown', 'yes')
    """
    before, name = _plain(before), _plain(name)
    older, newer = (_rotated(each, others) or (each, 0) for each in (before, name))
    if older[0] == newer[0] and older != newer:
        return "yes" if older[1] - newer[1] == 1 else "no"
    first, second = _parts(before), _parts(name)
    if len(first) != len(second) or first[:-2] != second[:-2] or first[-1] != second[-1]:
        return "unknown"
    if len(first) < 3 or first == second or _is_time(before) or _is_time(name):
        return "unknown"
    return "yes" if int(second[-2]) - int(first[-2]) == 1 else "no"


def _plain(name: str) -> str:
    return name.removesuffix(".gz")


def bases(name: str) -> list[str]:
    """Return the names of which one shows, if a file bears it or bore it, that a file was rotated.

    >>> bases("live.jsonl.1.gz"), bases("part-1")
    (['live.jsonl', 'live.jsonl.gz'], [])
    """
    match = _ROTATED.fullmatch(_plain(name))
    return [match[1], f"{match[1]}.gz"] if match is not None else []


def _rotated(plain: str, others: Collection[str]) -> tuple[str, int] | None:
    """Return the name that a rotated file had, and how often it was rotated; None for other files."""
    match = _ROTATED.fullmatch(plain)
    is_rotated = match is not None and any(base in others for base in bases(plain))
    return (match[1], int(match[2])) if match is not None and is_rotated else None


def _parts(plain: str) -> tuple[str | int, ...]:
    """Return the texts and numbers of a name, alternating."""
    return tuple(int(part) if at % 2 else part for at, part in enumerate(re.split(r"(\d+)", plain)))


def _is_time(plain: str) -> bool:
    """Return whether the last number of a name is a date, a time of day or a position, and no counter."""
    *_, last = re.finditer(r"\d+", plain)
    is_dated = _DATE.search(plain[: last.start()]) is not None
    return len(last[0]) > _LONGEST_COUNTER or (is_dated and len(last[0]) in (2, 4, 6))
