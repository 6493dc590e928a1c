"""Histories that lack written rows: their folder was replaced by an older copy, or they were restored by Delta.

A batch of the buffer notes for each history its newest release and a version of the table. A copy has a lower version,
or a lower number of the buffer's newest write. A RESTORE keeps that number and makes a higher version, so the commits
since the noted version are searched for it. If there are none, as in most cycles, no more is read than the version.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from deltalake.exceptions import TableNotFoundError

from txloom.config import names
from txloom.storage.buffer import checkpoints
from txloom.storage.buffer.newest_batch import BufferState, Written
from txloom.storage.delta.committing import written
from txloom.storage.delta.read_session import opened
from txloom.storage.paths import TablePaths

RESTORE = "RESTORE"
"""The operation of a commit by which Delta restores a table to an earlier version."""


def is_whole(paths: TablePaths, history: str, seen: BufferState | None) -> bool:
    """Return whether a history exists, and has the commits that the buffer knows of.

    Args:
        paths: the tables of the pipeline.
        history: its name.
        seen: the state of the buffer; None before its first batch.
    """
    try:
        table = opened(paths.table(history))
    except TableNotFoundError:
        return False
    known = seen.histories.get(history) if seen is not None else None
    if known is None:
        return True
    epoch, number = divmod(known.release, checkpoints.RELEASES_PER_EPOCH)
    is_older = known.release > 0 and written(table, names.write_id(paths.pipeline, history, epoch)) < number
    version = int(table.version())
    if is_older or version <= known.version:
        return not is_older and version == known.version
    return not lacks_commits(table.history(version - known.version), known.version, version)


def lacks_commits(commits: Iterable[Mapping[str, Any]], since: int, version: int) -> bool:
    """Return whether a table lacks a commit because it was restored to an earlier version.

    A RESTORE that another one takes back does not count.

    Args:
        commits: the entries of the table's history from the version after `since` on. Entries may be missing, because
            Delta removes old ones.
        since: a version which the table has every commit of.
        version: its newest version.

    >>> restored = {"version": 6, "operation": "RESTORE", "operationParameters": {"version": "3"}}
    >>> lacks_commits([restored], 5, 6)
    True
    >>> back = {"version": 7, "operation": "RESTORE", "operationParameters": {"version": "5"}}
    >>> lacks_commits([restored, back], 5, 7)
    False
    """
    by_version = {each["version"]: each for each in commits}
    has: dict[int, frozenset[int] | None] = {since: frozenset()}
    written_since = set[int]()
    for number in range(since + 1, version + 1):
        commit = by_version.get(number, {})
        if commit.get("operation") == RESTORE:
            has[number] = has.get(_restored_to(commit))
            continue
        before = has[number - 1]
        has[number] = None if before is None else before | {number}
        written_since.add(number)
    return has[version] != frozenset(written_since)


def _restored_to(commit: Mapping[str, Any]) -> int:
    """Return the version that a table was restored to; -1 if the commit names a time."""
    named = commit.get("operationParameters", {}).get("version")
    return -1 if named is None else int(named)


def look_at(
    paths: TablePaths, histories: Collection[str], seen: BufferState | None, lost: Collection[str] = ()
) -> dict[str, Written]:
    """Return what a batch is to know of each history before it writes.

    Args:
        paths: the tables of the pipeline.
        histories: those that are declared; what is known of others stays.
        seen: the state of the buffer; None before its first batch.
        lost: those of `histories` that do not exist, or that lag and were emptied.
    """
    known = {} if seen is None else {**seen.histories}
    for history in histories:
        before = Written() if history in lost else known.get(history, Written())
        known[history] = Written(before.release, _newest_version(paths.table(history)))
    return known


def _newest_version(path: str) -> int:
    """Return the newest version of a table; 0, the first version, if the table does not exist yet."""
    try:
        return int(opened(path).version())
    except TableNotFoundError:
        return 0
