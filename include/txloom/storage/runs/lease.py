"""The lease of a pipeline: one job at a time holds it, with an epoch; the fence keeps a run that lost it from writing.

The table `leases` holds the holder; its Delta log holds the earlier ones. A holder writes a heartbeat beside the table.
A job that finds a holder without one takes the lease over with the next epoch and stamps every table with it: from then
on Delta itself refuses commits of the older epoch (their application transaction is behind), so that a run that was
paused cannot write after its successor (docs/architecture.md, promise 9).
"""

import json
import os
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import CommitFailedError
from pyarrow import fs

from txloom.config import names
from txloom.errors import LeaseTaken, WriteConflict, message_of
from txloom.storage.buffer import checkpoints
from txloom.storage.buffer.batch_plan import plan_of
from txloom.storage.delta import small_tables
from txloom.storage.delta.committing import commit_no_row, commit_properties
from txloom.storage.delta.fencing import FENCE, WRITES
from txloom.storage.delta.retry import repeated
from txloom.storage.delta.table_metadata import STAMP, newest_metadata
from txloom.storage.paths import TablePaths
from txloom.storage.stores.delta_tables import is_table, table_at
from txloom.storage.stores.file_systems import filesystem_of
from txloom.storage.system_tables import LEASES

BEAT = float(os.environ.get("TXLOOM_LEASE_BEAT", "5"))
"""Seconds between two heartbeats."""
SILENCE = float(os.environ.get("TXLOOM_LEASE_SILENCE", "30"))
"""Seconds without a heartbeat after which a holder is taken for dead."""


SHORT_LOG = {
    "delta.checkpointInterval": "10",
    "delta.logRetentionDuration": "interval 1 hours",
    "delta.deletedFileRetentionDuration": "interval 1 hours",
}
"""Properties of the table of leases: every job commits to it twice and opens it a dozen times, and nobody reads what it
was. With Delta's defaults an opening reads up to a hundred files, beside those of a month.
"""


@dataclass(frozen=True)
class Lease:
    """The holder of a pipeline's lease, or the last one (released_at is set); began: see `_began`."""

    epoch: int
    run_id: str
    step: str
    host: str
    pid: int
    began: str
    acquired_at: datetime
    released_at: datetime | None = None

    def __str__(self) -> str:
        """Return the holder as error messages name it."""
        at = self.acquired_at.astimezone(UTC).isoformat(" ", "seconds")
        return f"run {self.run_id} ({self.step}, process {self.pid} on {self.host}), since {at}"


def newest(paths: TablePaths) -> Lease | None:
    """Return the holder of a pipeline's lease, or the last one; None before the first run."""
    rows = small_tables.query(paths.table(names.LEASES), "select * from t")
    return Lease(**rows[0]) if rows else None


def silent_since(paths: TablePaths, holder: Lease, now: datetime) -> datetime | None:
    """Return since when a holder has written no heartbeat; None while it lives, as far as this machine can see."""
    filesystem, file = _heartbeat(paths)
    beat: datetime | None = filesystem.get_file_info(file).mtime
    last = max(holder.acquired_at, beat or holder.acquired_at)
    return last if _is_dead(holder) or (now - last).total_seconds() > SILENCE else None


@contextmanager
def held(paths: TablePaths, run_id: str, step: str) -> Iterator[Lease]:
    """Hold a pipeline's lease while the block runs; raises LeaseTaken where another run holds it.

    The heartbeat and the fence run until the block ends; then the lease is released.
    """
    lease = _acquire(paths, _me(run_id, step))
    FENCE.begin(lease.epoch)
    done = threading.Event()
    beating = threading.Thread(target=_beat, args=(paths, lease, done), daemon=True)
    beating.start()
    try:
        yield lease
    finally:
        done.set()
        beating.join()
        FENCE.end()
        _release(paths, lease)


def _lost(paths: TablePaths) -> str:
    return f"the lease of pipeline {paths.pipeline} was taken over by {newest(paths)}: this run writes nothing more"


def _me(run_id: str, step: str) -> Lease:
    pid = os.getpid()
    return Lease(0, run_id, step, socket.gethostname(), pid, _began(pid), datetime.now(UTC))


def _began(pid: int) -> str:
    """Return what identifies a process among those that get its number later, or have it in another container or host.

    This is the boot of its machine, its namespace of process numbers, and when it began. Hosts may share a name, and on
    those that run no container the namespace has the same number.
    """
    try:
        stat = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot} {Path('/proc/self/ns/pid').readlink()} {stat[19]}"
    except (OSError, IndexError):
        return ""


def _acquire(paths: TablePaths, me: Lease) -> Lease:
    path = paths.table(names.LEASES)
    small_tables.ensure(path, LEASES, SHORT_LOG)
    table = table_at(path)
    last = newest(paths)
    taken_over = last is not None and last.released_at is None
    if last is not None and taken_over and not _is_dead(last):
        _watch(paths, last)
    lease = replace(me, epoch=last.epoch + 1 if last else 1)
    try:
        _write(table, lease)
    except CommitFailedError as error:
        raise LeaseTaken(f"pipeline {paths.pipeline} is held by {newest(paths)}; it came first") from error
    filesystem, heartbeat = _heartbeat(paths)
    filesystem.create_dir(heartbeat.rpartition("/")[0], recursive=True)
    _write_beat(paths, lease, 0)
    if taken_over:
        _stamp_all(paths, lease)
    return lease


def _write(table: DeltaTable, lease: Lease) -> None:
    properties = commit_properties(once=[(names.LEASES, lease.epoch)], fenced=False)
    rows = pa.Table.from_pylist([vars(lease)], LEASES)
    write_deltalake(table, rows, mode="overwrite", commit_properties=properties)


def _release(paths: TablePaths, lease: Lease) -> None:
    """Release the lease, unless another run took it over."""
    table = table_at(paths.table(names.LEASES))
    last = newest(paths)
    if last is not None and last.epoch == lease.epoch:
        try:
            _write(table, replace(lease, released_at=datetime.now(UTC)))
        except CommitFailedError:
            return


def _is_dead(lease: Lease) -> bool:
    """Return whether a holder is surely dead: its process was on this machine and does not exist any more."""
    current = _me("", "")
    same = lease.host == current.host and _machine(lease.began) == _machine(current.began) != ""
    return same and _began(lease.pid) != lease.began


def _machine(began: str) -> str:
    """Return the part of `_began` that all processes share which can see each other."""
    return began.rpartition(" ")[0]


def _watch(paths: TablePaths, last: Lease) -> None:
    """Wait until a holder was silent for long enough; raises LeaseTaken as soon as it shows that it lives.

    Only this machine's clock measures, so that clocks that differ do no harm.
    """
    first, begun = _read_beat(paths), time.monotonic()
    while time.monotonic() - begun < SILENCE:
        time.sleep(min(BEAT / 2, SILENCE / 4))
        current = newest(paths)
        if (
            _read_beat(paths) != first
            or current is None
            or current.released_at is not None
            or current.epoch != last.epoch
        ):
            raise LeaseTaken(f"pipeline {paths.pipeline} is held by {last}; wait for it, or stop it")


def _beat(paths: TablePaths, lease: Lease, done: threading.Event) -> None:
    """Write heartbeats; end the process where it was silent for so long that another run took the lease over."""
    count, last = 0, time.monotonic()
    while not done.wait(BEAT):
        if time.monotonic() - last > SILENCE / 2:
            holder = newest(paths)
            if holder is not None and holder.epoch != lease.epoch:
                # os._exit: buffers of the process are not flushed, so that it writes nothing more
                print(message_of(lease.step, LeaseTaken(_lost(paths))), file=sys.stderr, flush=True)
                os._exit(LeaseTaken.exit_code)
        with suppress(OSError):
            _write_beat(paths, lease, count + 1)
            count, last = count + 1, time.monotonic()


def _heartbeat(paths: TablePaths) -> tuple[fs.FileSystem, str]:
    filesystem, folder = filesystem_of(paths.table("_lease"))
    return filesystem, f"{folder}/heartbeat.json"


def _write_beat(paths: TablePaths, lease: Lease, count: int) -> None:
    filesystem, file = _heartbeat(paths)
    with filesystem.open_output_stream(file) as stream:
        stream.write(json.dumps({"epoch": lease.epoch, "count": count}).encode())


def _read_beat(paths: TablePaths) -> bytes:
    filesystem, file = _heartbeat(paths)
    try:
        with filesystem.open_input_stream(file) as stream:
            content: bytes = stream.read()
            return content
    except FileNotFoundError:
        return b""


def _stamp_all(paths: TablePaths, lease: Lease) -> None:
    """Stamp every table of the pipeline, so that unfinished commits of the former holder are refused."""
    generations = _folders(checkpoints.root(paths.warehouse, paths.pipeline))
    for path in (*_folders(paths.table("")), *map(plan_of, generations)):
        if is_table(path):
            _stamp(path, lease.epoch * WRITES)


def _folders(path: str) -> list[str]:
    """Return the folders in a folder, except that of the leases; none where the folder does not exist."""
    filesystem, root = filesystem_of(path.rstrip("/"))
    infos = filesystem.get_file_info(fs.FileSelector(root, allow_not_found=True))
    names_of = [each.base_name for each in infos if each.type == fs.FileType.Directory]
    return [f"{path.rstrip('/')}/{name}" for name in names_of if name != names.LEASES]


def _stamp(path: str, number: int) -> None:
    """Stamp a table; where the former holder commits between reading the metadata and the stamp, both are repeated.

    The stamp carries the newest metadata forward. Raises LeaseTaken after ten conflicts.
    """

    def attempt() -> None:
        table = table_at(path)
        about: dict[str, Any] = newest_metadata(path)
        properties = commit_properties(
            once=[(names.LEASES, number)], metadata=about or None, stamp={STAMP: str(number)}, fenced=False
        )
        commit_no_row(table, properties)

    try:
        repeated(attempt, attempts=10)
    except WriteConflict as error:
        raise LeaseTaken(f"{path}: another run writes into it all the time; nothing was begun") from error
