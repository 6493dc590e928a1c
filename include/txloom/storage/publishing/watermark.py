"""Watermarks: how far each current table is, and how far all of them are."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyarrow import fs

from txloom.config import names
from txloom.storage.delta import small_tables
from txloom.storage.delta.read_session import log_entries
from txloom.storage.delta.table_metadata import newest_metadata
from txloom.storage.paths import TablePaths
from txloom.storage.publishing.cuts import newest_cut
from txloom.storage.stores.delta_tables import is_table

STAMP = "declared"
"""The entry of a current table's userMetadata with the stamp of the declaration that it was compared with."""


@dataclass(frozen=True, order=True)
class Watermark:
    """The state of a table: every transaction up to the csn `valid_through` that was released up to `release`."""

    valid_through: int = 0
    release: int = 0

    def to_json(self) -> str:
        """Return the watermark as a commit's userMetadata.

        >>> Watermark(7, 3).to_json()
        '{"valid_through": 7, "release": 3}'
        """
        return json.dumps(vars(self))


def watermark_of(path: str) -> Watermark:
    """Return the watermark of a current table, from its newest commit metadata; zeros where there is none."""
    return _watermark_in(newest_metadata(path))


def _watermark_in(about: Mapping[str, Any]) -> Watermark:
    return Watermark(about.get("valid_through", 0), about.get("release", 0))


def merged(paths: TablePaths, tables: Sequence[str]) -> Watermark | None:
    """Return the watermark that the last complete merge reached; None before there was one.

    A table without a new change keeps its older watermark. None also where the watermark of a table is beyond.
    """
    last = last_merge(paths, tables)
    return None if last is None else last.reached


@dataclass(frozen=True)
class LastMerge:
    """The last complete merge.

    Args:
        reached: the watermark that it reached.
        is_complete: whether all tables were complete then, as far as the merge knew.
        declared: the digest of the declaration that it used; None: an earlier version did not record the digest.
        stamps: the stamps of the declarations that the current tables were compared with; "" among them: one was not.
    """

    reached: Watermark
    is_complete: bool
    declared: str | None
    stamps: frozenset[str]


def last_merge(paths: TablePaths, tables: Sequence[str]) -> LastMerge | None:
    """Return the last complete merge; None: see `merged`."""
    merges = "step = 'merge_current' and detail is null"
    row = small_tables.newest(paths.table(names.LEDGER), "*", merges)
    if row is None:
        return None
    counts = dict(row["counts"])
    reached = Watermark(row["valid_through"], counts["release"])
    newest = [newest_metadata(paths.table(name)) for name in tables]
    if any(_watermark_in(about) > reached for about in newest):
        return None
    stamps = frozenset(about.get(STAMP, "") for about in newest)
    return LastMerge(reached, not counts.get("incomplete"), row.get("declared"), stamps)


def gone(paths: TablePaths, tables: Sequence[str]) -> list[str]:
    """Return those of some tables that the newest cut has a version of and that do not exist any more."""
    cut = newest_cut(paths, "versions")
    return gone_of(paths, tables, dict(cut["versions"] or ()) if cut else {})


def gone_of(paths: TablePaths, tables: Sequence[str], versions: Mapping[str, int]) -> list[str]:
    """Return those of some tables that a cut has a version of and that do not exist any more; none is opened."""
    return [name for name in tables if name in versions and not _is_there(paths.table(name), versions[name])]


def _is_there(path: str, version: int) -> bool:
    (entry,) = log_entries(path, version)
    return entry.type == fs.FileType.File or is_table(path)
