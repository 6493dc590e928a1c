"""How long the logs of Delta tables are kept, by their properties.

Each write and each opening of a table lists its log, on a file system and on HDFS entry by entry: with Delta's default
of 30 days a table that every cycle writes has 8,640 entries, the ledger 43,200, and each of its writes takes a third of
a second. System tables keep a day, because only their newest version is read; a dead letter is redriven as it was
listed for an approval. The tables that cuts name keep what vacuum keeps, and what a reader holds.
"""

import re
from collections.abc import Mapping
from datetime import timedelta

from txloom.config import names
from txloom.storage.delta.committing import commit_properties
from txloom.storage.delta.fencing import FENCE
from txloom.storage.delta.retry import repeated
from txloom.storage.delta.table_metadata import newest_metadata
from txloom.storage.runs.lease import SHORT_LOG

KEPT = "delta.logRetentionDuration"
DEFAULT = timedelta(days=30)
"""What Delta keeps of the log of a table without the property."""
DAY = timedelta(days=1)
COMPARED = (names.TRANSACTIONS, names.DISMISSALS)
"""Tables whose log entries say whether what `expire` wrote down of them still counts: it may be left out two days."""
MARGIN = timedelta(days=2)
"""For how much longer the logs of a cut's tables are kept: a hold counts when maintenance has seen it."""


def properties_of(table: str, retain: timedelta, held: timedelta = timedelta(0)) -> Mapping[str, str]:
    """Return the properties by which the log of a pipeline's table is kept as long as someone may read its versions.

    Args:
        table: its name; one that is no system table is named by cuts.
        retain: how long old versions stay readable, by the declaration.
        held: how long ago the oldest cut was published that a reader holds.

    >>> properties_of("ledger", timedelta(days=7)), properties_of("orders", timedelta(days=45))
    ({'delta.logRetentionDuration': 'interval 24 hours'}, {'delta.logRetentionDuration': 'interval 1128 hours'})
    """
    if table == names.LEASES:
        return SHORT_LOG
    if table == names.DEAD_LETTERS:
        kept = retain
    elif table in names.PIPELINE_TABLES:
        kept = min(3 * DAY if table in COMPARED else DAY, retain)
    else:
        kept = max(retain, held) + MARGIN
    return {KEPT: f"interval {max(round(kept.total_seconds() / 3600), 1)} hours"}


def keep_log(path: str, properties: Mapping[str, str]) -> None:
    """Give a table the properties that it lacks, in a commit that leaves its state as it is.

    A property that somebody gave it stays, but a log that is kept for less time is kept for longer.

    Raises LeaseTaken where another run holds the lease.
    """

    def attempt() -> None:
        table = FENCE.opened(path)
        has = dict(table.metadata().configuration)
        lacking = {name: value for name, value in properties.items() if _is_lacking(name, value, has.get(name))}
        if lacking:
            carried = commit_properties(metadata=newest_metadata(path) or None, only_next=True)
            table.alter.set_table_properties(lacking, commit_properties=carried)

    repeated(attempt)


def _is_lacking(name: str, value: str, has: str | None) -> bool:
    if has is None:
        return name != KEPT or _duration(value) != DEFAULT
    kept, declared = _duration(has), _duration(value)
    return name == KEPT and kept is not None and declared is not None and kept < declared


def _duration(interval: str) -> timedelta | None:
    """Return how long an interval of Delta is, such as `interval 30 days`; None where it is written in another way."""
    match = re.fullmatch(r"(?:interval\s+)?(\d+)\s+(minute|hour|day|week)s?", interval.strip(), re.IGNORECASE)
    return None if match is None else timedelta(**{f"{match[2].lower()}s": int(match[1])})
