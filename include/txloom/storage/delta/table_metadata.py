"""The metadata of commits of Delta tables: their userMetadata, and whether they change a row."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError

from txloom.storage.delta.committing import commit_no_row, commit_properties
from txloom.storage.delta.fencing import FENCE
from txloom.storage.delta.read_session import metadata, opened
from txloom.storage.paths import TablePaths

STAMP = "txloom_stamp"
"""The key in a commit's metadata by which the stamp of a lease is known, which changes no row."""
RECENT = 50
"""Commits that are read first: most often one of them has userMetadata."""


def newest_metadata(path: str) -> dict[str, Any]:
    """Return the newest userMetadata in a table's log as an object; {} where there is none, or no table.

    Commits of maintenance repeat it. The log is read backwards until a commit has some.
    """
    try:
        table = opened(path)
    except TableNotFoundError:
        return {}
    about: dict[str, Any] = metadata(table, _newest_about)
    return dict(about)


def _newest_about(table: DeltaTable, version: int | None = None) -> dict[str, Any]:
    """Return the newest userMetadata of a table that is opened at its newest version; version: up to that one only."""
    for limit in (RECENT, None):
        for commit in table.history(limit):
            if (version is None or commit["version"] <= version) and commit.get("userMetadata"):
                about: dict[str, Any] = json.loads(commit["userMetadata"])
                return about
    return {}


def stamp(path: str, about: Mapping[str, Any]) -> None:
    """Commit userMetadata to a table without changing a row; raises LeaseTaken where another run holds the lease."""
    commit_no_row(FENCE.opened(path), commit_properties(metadata=about))


def unchanged(paths: TablePaths, then: Mapping[str, int], now: Mapping[str, int]) -> bool:
    """Return whether some tables hold the same rows at two versions of each; the stamp of a lease changes no row.

    Args:
        paths: where the tables are.
        then: {table: version}, the earlier ones.
        now: {table: version}, the later ones; with other tables than `then` the answer is False.
    """
    return then.keys() == now.keys() and all(
        _is_stamped_only(paths.table(name), then[name], version) for name, version in now.items()
    )


def _is_stamped_only(path: str, since: int, version: int) -> bool:
    """Return whether every commit behind one version of a table, up to another, is the stamp of a lease."""
    if since >= version:
        return since == version
    later = opened(path).history(RECENT)
    return bool(sum(since < each["version"] <= version and STAMP in each for each in later) == version - since)


def identity(path: str, version: int) -> tuple[str, str]:
    """Return what distinguishes a version of a table from the same version of a table that was made in its place.

    Returns:
        the table's id, and the userMetadata of the version's commit as JSON, or that of the newest before it that has
        some.

    Raises:
        TableNotFoundError: there is no table.
        DeltaError: the table has no such version.
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
