"""Decide which of several metadata messages of one transaction is valid: the newest counts (docs/adr/0031).

Corrected metadata is landed after the metadata that it corrects. The old message may be delivered again after that, as
any message may; counts that came before are a duplicate of their first arrival and correct nothing. So the valid counts
are those whose first arrival, by landing and row, is the latest. No clock is used, and a buffer that is rebuilt from
the same landings decides the same.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from txloom.transactions import events as ev


def of_messages(counts: np.ndarray, kept: np.ndarray) -> np.ndarray:
    """Return the counts (EXPECTED) of the kept metadata messages: those with a message's landing and row.

    counts: events of the kind EXPECTED. kept: events of the kind METADATA.
    """
    row, landing = (np.concatenate([counts[name], kept[name]]) for name in ("row", "landing"))
    order = np.lexsort([row, landing])
    row, landing, is_count = row[order], landing[order], order < len(counts)
    new = np.ones(len(order), bool)
    new[1:] = (landing[1:] != landing[:-1]) | (row[1:] != row[:-1])
    message = np.cumsum(new) - 1
    is_kept = np.bincount(message[~is_count], minlength=len(order)) > 0
    expected: np.ndarray = counts.take(order[is_count & is_kept[message]])
    return expected


def replaced(events: np.ndarray, number: np.ndarray, size: int) -> np.ndarray:
    """Find metadata, and its counts, that newer metadata of the same transaction replaces.

    events: deduplicated, so that of metadata with the same counts only the first arrival is left. number: the
    transaction of each event, from 0 to size. Returns a mask over the events.
    """
    kind = events["kind"]
    several = np.bincount(number[kind == ev.METADATA], minlength=size) > 1
    among = several[number] & ((kind == ev.METADATA) | (kind == ev.EXPECTED))
    earlier = np.zeros(len(among), bool)
    if not among.any():
        return earlier
    messages = among & (kind == ev.METADATA)
    message_of, positions = number[messages], events[messages][["landing", "row"]]
    order = np.lexsort([positions["row"], positions["landing"], message_of])
    newest = np.zeros(size, positions.dtype)
    newest[message_of[order]] = positions[order]
    for name in ("landing", "row"):
        earlier |= events[name] != newest[name][number]
    earlier &= among
    return earlier


def in_doubt(events: np.ndarray, number: np.ndarray, size: int, out: np.ndarray) -> np.ndarray:
    """Find transactions whose newest metadata lacks some of its counts; out: a mask of replaced events.

    Such state comes from an older version: where two metadata messages had a count in common, it kept only one of it.
    """
    kind = events["kind"]
    sums = np.zeros(size, np.uint64)
    counts = (kind == ev.EXPECTED) & ~out
    np.add.at(sums, number[counts], ev.mixed(events["table"][counts], events["count"][counts]))
    newest = (kind == ev.METADATA) & ~out
    fingerprints = np.zeros(size, np.int64)
    fingerprints[number[newest]] = events["payload"][newest]
    doubtful: np.ndarray = sums.astype(np.int64) != fingerprints
    return doubtful


def newest(messages: Iterable[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """Return the valid metadata out of all that was landed of one transaction, None without any.

    messages: with the fields landing, row and expected.

    >>> first, other = [("orders", 1)], [("orders", 2)]
    >>> expected_by_landing = ((1, first), (2, other), (3, first))
    >>> messages = [{"landing": landing, "row": 0, "expected": counts} for landing, counts in expected_by_landing]
    >>> newest(messages)["landing"]
    2
    """
    ordered = sorted(messages, key=lambda message: (message["landing"], message["row"]))
    firsts: dict[frozenset[tuple[str, int]], Mapping[str, Any]] = {}
    for message in ordered:
        firsts.setdefault(counts_of(message), message)
    return list(firsts.values())[-1] if firsts else None


def counts_of(message: Mapping[str, Any]) -> frozenset[tuple[str, int]]:
    """Return the counts of a metadata message (expected: pairs of table and count) without their order."""
    return frozenset(dict(message["expected"] or ()).items())
