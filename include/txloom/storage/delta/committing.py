"""Commits that Delta refuses once another run has written: a table is read and written through one opened version.

Where a run was paused between the two, its commit conflicts with what its successor committed meanwhile: the same
application transaction, or the stamp of its lease.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from deltalake import CommitProperties, DeltaTable, Transaction

from txloom.storage.delta.fencing import FENCE
from txloom.storage.delta.retry import repeated

ATTEMPTS = 10
"""How often a commit is tried."""

Commit = Callable[[DeltaTable, CommitProperties], None]
"""Writes one commit to an opened table, with properties."""


def commit_properties(
    *,
    once: Iterable[tuple[str, int]] = (),
    metadata: Mapping[str, Any] | None = None,
    stamp: Mapping[str, str] | None = None,
    fenced: bool = True,
    only_next: bool = False,
) -> CommitProperties:
    """Return what a commit carries beside its rows. Every commit of this library by delta-rs is made with it.

    Args:
        once: write ids, each with a number: Delta refuses the commit if another commit wrote one of them meanwhile.
        metadata: the commit's userMetadata, that is the state that the table has then; None: the commit has none.
        stamp: further entries of the commit, which say nothing of the table's state.
        fenced: whether the commit carries the epoch under which this process writes, so that Delta refuses it once
            another run holds the lease. Only what is written without the lease is not: the lease itself, incidents, the
            first version of a table.
        only_next: whether Delta refuses the commit where any other one came since the table was opened. A commit that
            removes files needs it: delta-rs does not see that an OPTIMIZE has put their rows into others.
    """
    entries = dict(stamp or {})
    if metadata is not None:
        entries["userMetadata"] = json.dumps(dict(metadata))
    transactions = [Transaction(*each) for each in once]
    if fenced:
        transactions += FENCE.transactions()
    retries = {"max_commit_retries": 0} if only_next else {}
    return CommitProperties(custom_metadata=entries or None, app_transactions=transactions or None, **retries)


def commit_once(path: str, once: tuple[str, int] | None, commit: Commit) -> int | None:
    """Commit to a table; with `once` at most one time for its number.

    Args:
        path: the Delta table's path.
        once: a write id and a number; nothing is written where the table has that number, or a higher one.
        commit: writes the commit, after which the table is at the version of the commit. After a conflict it is called
            again with the table opened anew.

    Returns:
        the version that the commit made; None if nothing was committed, as by a repeated call with `once`.

    Raises:
        LeaseTaken: another run holds the lease.
        TableNotFoundError: there is no table.
        WriteConflict: every attempt met another commit.
    """

    def attempt() -> int | None:
        table = FENCE.opened(path)
        if once is not None and written(table, once[0]) >= once[1]:
            return None
        commit(table, commit_properties(once=[] if once is None else [once]))
        return int(table.version())

    return repeated(attempt, ATTEMPTS, lambda met: f"{path}: others write all the time: {met}; run the step again")


def commit_no_row(table: DeltaTable, properties: CommitProperties) -> None:
    """Make a commit without rows, which carries nothing but its properties."""
    table.create_write_transaction([], "append", table.schema(), commit_properties=properties)


def written(table: DeltaTable, write_id: str) -> int:
    """Return the highest number that an opened table has for a write id; -1 where it has none."""
    number = table.transaction_version(write_id)
    return -1 if number is None else int(number)
