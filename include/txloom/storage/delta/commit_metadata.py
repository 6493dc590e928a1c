"""What commits of Delta tables say of themselves: their userMetadata, and whether they change a row."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError

from txloom.storage.delta.read_session import metadata, opened
from txloom.storage.paths import TablePaths

STAMP = "txloom_stamp"
"""What the commit of a lease's stamp is marked with: it changes no row."""
RECENT = 50
"""Commits among which the newest of ours is most often found."""


def newest_metadata(path: str) -> dict[str, Any]:
    """Return the newest userMetadata in a table's log; {} where there is none.

    Maintenance commits carry it forward; the log is read backwards until one is found.
    """
    try:
        table = opened(path)
    except TableNotFoundError:
        return {}
    about: dict[str, Any] = metadata(table, _newest_about)
    return dict(about)


def _newest_about(table: DeltaTable, version: int | None = None) -> dict[str, Any]:
    """Return the newest userMetadata of a table that is opened at its newest version, or as of an older one."""
    for limit in (RECENT, None):
        for commit in table.history(limit):
            if (version is None or commit["version"] <= version) and commit.get("userMetadata"):
                about: dict[str, Any] = json.loads(commit["userMetadata"])
                return about
    return {}


def unchanged(paths: TablePaths, then: Mapping[str, int], now: Mapping[str, int]) -> bool:
    """Say whether tables at two versions of each are the very same; that a lease was taken over changes none."""
    return then.keys() == now.keys() and all(
        _is_stamped_only(paths.table(name), then[name], version) for name, version in now.items()
    )


def _is_stamped_only(path: str, since: int, version: int) -> bool:
    """Say whether nothing but stamps of leases came between two versions of a table."""
    if since >= version:
        return since == version
    later = opened(path).history(RECENT)
    return bool(sum(since < each["version"] <= version and STAMP in each for each in later) == version - since)


def identity(path: str, version: int) -> tuple[str, str]:
    """Return what tells a version of a table from the same number of another table: the table's id, and its mark.

    The mark is what the commit says of itself, or the newest before it that says something. Raises where there is no
    such version.
    """
    return str(opened(path, version).metadata().id), json.dumps(_newest_about(opened(path), version))


def versions(paths: TablePaths, tables: Sequence[str]) -> dict[str, int]:
    """Return the newest version of each table that exists."""
    versions_of = {}
    for name in tables:
        try:
            versions_of[name] = int(opened(paths.table(name)).version())
        except TableNotFoundError:
            continue
    return versions_of
