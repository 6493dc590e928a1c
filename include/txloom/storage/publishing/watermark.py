"""Watermarks: how far each current table is, and how far all of them are."""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from txloom.config import names
from txloom.storage.delta import small_tables
from txloom.storage.delta.read_session import exists
from txloom.storage.delta.table_metadata import newest_metadata
from txloom.storage.paths import TablePaths
from txloom.storage.publishing.cuts import newest_cut


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
    about = newest_metadata(path)
    return Watermark(about.get("valid_through", 0), about.get("release", 0))


def merged(paths: TablePaths, tables: Sequence[str]) -> Watermark | None:
    """Return the watermark that the last complete merge reached; None before there was one.

    A table without a new change keeps its older watermark. None also where the watermark of a table is beyond.
    """
    merges = "step = 'merge_current' and detail is null"
    row = small_tables.newest(paths.table(names.LEDGER), "valid_through, counts", merges)
    if row is None:
        return None
    reached = Watermark(row["valid_through"], dict(row["counts"])["release"])
    return None if any(watermark_of(paths.table(name)) > reached for name in tables) else reached


def gone(paths: TablePaths, tables: Sequence[str]) -> list[str]:
    """Return those of some tables that the newest cut has a version of and that do not exist any more."""
    cut = newest_cut(paths, "versions")
    shown = dict(cut["versions"] or ()) if cut else {}
    return [name for name in tables if name in shown and not exists(paths.table(name))]
