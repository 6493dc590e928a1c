"""Commits that Delta refuses once another run moved on: a table is asked and written through one opened version.

A run that was paused between the two meets what its successor committed meanwhile: either the same application
transaction, or the stamp of its lease.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any

from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake.exceptions import CommitFailedError

from txloom.errors import WriteConflict
from txloom.storage.delta.fencing import FENCE

ATTEMPTS = 10

Commit = Callable[[DeltaTable, CommitProperties], None]


def commit_properties(
    *,
    once: tuple[str, int] | None = None,
    metadata: Mapping[str, Any] | None = None,
    stamp: Mapping[str, str] | None = None,
    fenced: bool = True,
) -> CommitProperties:
    """Return what a commit carries beside its rows. Every commit of this library by delta-rs is made with it.

    Args:
        once: a write id and a number: Delta refuses the commit once another one has moved them on.
        metadata: what the table then is about, as its userMetadata; None: the commit says nothing of it.
        stamp: further entries of the commit, which are not what the table is about.
        fenced: whether the commit carries the epoch under which this process writes, so that Delta refuses it once
            another run holds the lease. Only what is written without the lease is not: the lease itself, incidents, the
            first version of a table.
    """
    entries = dict(stamp or {})
    if metadata is not None:
        entries["userMetadata"] = json.dumps(dict(metadata))
    transactions = [Transaction(*once)] if once is not None else []
    if fenced:
        transactions += FENCE.transactions()
    return CommitProperties(custom_metadata=entries or None, app_transactions=transactions or None)


def commit_once(path: str, once: tuple[str, int] | None, commit: Commit) -> bool:
    """Commit to a table; with `once` (write id, number) at most one time for that number. Say whether it was now.

    A commit that met another one is made again only after the table was asked again. Raises LeaseTaken when another
    run holds the lease by then.
    """
    for _ in range(ATTEMPTS):
        table = FENCE.opened(path)
        if once is not None and written(table, once[0]) >= once[1]:
            return False
        try:
            commit(table, commit_properties(once=once))
        except CommitFailedError as error:
            met = str(error).splitlines()[0]
            continue
        return True
    raise WriteConflict(f"{path}: others write all the time: {met}; run the step again")


def commit_no_row(table: DeltaTable, properties: CommitProperties) -> None:
    """Commit what a table is about, and no row."""
    table.create_write_transaction([], "append", table.schema(), commit_properties=properties)


def written(table: DeltaTable, write_id: str) -> int:
    """Return the last number that was written into an opened table under a write id; -1 when there is none."""
    number = table.transaction_version(write_id)
    return -1 if number is None else int(number)
