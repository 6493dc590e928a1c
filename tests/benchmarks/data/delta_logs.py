"""Logs of Delta tables as years of commits leave them: those of the last days, and checkpoints at both ends.

A commit of delta-rs removes log entries that are older than the retention of the log, by default 30 days, as far as a
checkpoint that is as old makes them superfluous. So a table that is written every five minutes has 8,640 entries then,
whatever its size.
"""

import json
import os
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from deltalake import CommitProperties, DeltaTable, PostCommitHookProperties, Transaction

HOOKS = PostCommitHookProperties(create_checkpoint=False, cleanup_expired_logs=False)
"""For commits whose log is aged afterwards: neither checkpoints nor the removal of old entries."""
LINKS = 20_000
"""Names of one file; a file system allows 65,000, and a copy by links takes as many again."""


@dataclass(frozen=True)
class Entries:
    """The entries that a log gets in front of its newest commits.

    Args:
        count: how many.
        before: how many commits there were before them, which the log has no more.
        last: the time of the last one.
        apart: the time between two.
        about: returns the userMetadata of one, by how many follow it; None: they have none.
    """

    count: int
    before: int
    last: datetime
    apart: timedelta
    about: Callable[[int], Mapping[str, Any]] | None = None


def age(path: str, entries: Entries, newest: int = 0) -> int:
    """Put older entries into the log of a table, in front of its newest commits; return by how much those moved.

    An entry adds a file and removes that of the entry before it, so that the table's rows stay as they are and the
    checkpoint has the files of the last seven days that were replaced. These files do not exist, as after a vacuum.

    Args:
        path: the table's path; its commits are not older than `entries.last`.
        entries: the entries.
        newest: how many of the table's commits come behind them.
    """
    log = Path(path) / "_delta_log"
    table = DeltaTable(path)
    was, stats = table.version() - newest, _stats(log, table.version())
    first = was + entries.before
    DeltaTable(path, version=was).create_checkpoint()
    for version in range(table.version(), was - 1, -1):
        by = entries.before + (entries.count if version > was else 0)
        _entry(log, version).rename(_entry(log, version + by))
    _checkpoint(log, was).rename(_checkpoint(log, first))
    noted = json.loads((log / "_last_checkpoint").read_text())
    (log / "_last_checkpoint").write_text(json.dumps(noted | {"version": first}))
    before = None
    for number in range(entries.count):
        follow = entries.count - 1 - number
        at = entries.last - entries.apart * follow
        file = None if not follow else f"part-00000-{uuid.uuid4()}-c000.snappy.parquet"
        written = _entry(log, first + 1 + number)
        about = None if entries.about is None else entries.about(follow)
        written.write_text("".join(f"{json.dumps(each)}\n" for each in _actions(at, file, before, stats, about)))
        os.utime(written, (at.timestamp(), at.timestamp()))
        before = file
    oldest = (entries.last - entries.apart * entries.count).timestamp()
    for version in range(was):
        _entry(log, version).unlink(missing_ok=True)
    for old in (_entry(log, first), _checkpoint(log, first)):
        os.utime(old, (oldest, oldest))
    DeltaTable(path).create_checkpoint()
    return entries.count + entries.before


def written_under(write_ids: Mapping[str, int]) -> CommitProperties:
    """Return the properties of a commit that stands for all with some write ids; write_ids: the number of each."""
    return CommitProperties(app_transactions=[Transaction(*each) for each in write_ids.items()])


def linked(folder: Path, file: Path, names: Sequence[str]) -> None:
    """Give a file many names in a folder."""
    content = file.read_bytes()
    for number, name in enumerate(names):
        if number % LINKS == 0:
            source = folder / name
            source.write_bytes(content)
        else:
            (folder / name).hardlink_to(source)


def _entry(log: Path, version: int) -> Path:
    return log / f"{version:020d}.json"


def _checkpoint(log: Path, version: int) -> Path:
    return log / f"{version:020d}.checkpoint.parquet"


def _stats(log: Path, version: int) -> str:
    """Return the statistics of a file that a commit added, or simple ones."""
    for line in _entry(log, version).read_text().splitlines():
        if "add" in (action := json.loads(line)):
            return str(action["add"]["stats"])
    return '{"numRecords":1}'


def _actions(
    at: datetime, file: str | None, before: str | None, stats: str, about: Mapping[str, Any] | None
) -> list[dict[str, Any]]:
    millis = int(at.timestamp() * 1000)
    info: dict[str, Any] = {"timestamp": millis, "operation": "WRITE", "operationParameters": {"mode": "Append"}}
    info |= {"engineInfo": "delta-rs:py-1.6.6", "clientVersion": "delta-rs.py-1.6.6"}
    info |= {"operationMetrics": {"num_added_files": 1, "num_removed_files": 0, "num_added_rows": 1}}
    if about is not None:
        info |= {"userMetadata": json.dumps(dict(about))}
    actions: list[dict[str, Any]] = [{"commitInfo": info}]
    if file is not None:
        added = {"path": file, "partitionValues": {}, "size": 4_000, "modificationTime": millis, "dataChange": True}
        actions.append({"add": added | {"stats": stats}})
    if before is not None:
        removed = {"path": before, "dataChange": True, "deletionTimestamp": millis, "extendedFileMetadata": True}
        actions.append({"remove": removed | {"partitionValues": {}, "size": 4_000}})
    return actions
