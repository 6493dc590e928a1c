"""One effective run of a pipeline: a lease with an epoch, and the fence that keeps a run that lost it from writing.

The table `leases` says who holds it; its Delta log says who held it when. A holder shows that it lives by a heartbeat
beside the table. Whoever finds a holder without one takes the lease over with the next epoch and stamps every table
with it: from then on Delta itself refuses commits of the older epoch (their application transaction is behind), so that
a run that was paused cannot write after its successor (docs/architecture.md, promise 9).
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
from txloom.errors import LeaseTaken, message_of
from txloom.storage.buffer import checkpoints
from txloom.storage.buffer.batch_plan import plan_of
from txloom.storage.delta import small_tables
from txloom.storage.delta.commit_metadata import STAMP, newest_metadata
from txloom.storage.delta.commits import commit_no_row, commit_properties
from txloom.storage.delta.fencing import FENCE, WRITES
from txloom.storage.paths import TablePaths, filesystem_of
from txloom.storage.system_tables import LEASES

BEAT = float(os.environ.get("TXLOOM_LEASE_BEAT", "5"))
"""Seconds between two heartbeats."""
SILENCE = float(os.environ.get("TXLOOM_LEASE_SILENCE", "30"))
"""Seconds without a heartbeat after which a holder is taken for gone."""


@dataclass(frozen=True)
class Lease:
    """Who holds a pipeline, or held it last."""

    epoch: int
    run_id: str
    step: str
    host: str
    pid: int
    began: str
    acquired_at: datetime
    released_at: datetime | None = None

    def __str__(self) -> str:
        """Name the holder."""
        at = self.acquired_at.astimezone(UTC).isoformat(" ", "seconds")
        return f"run {self.run_id} ({self.step}, process {self.pid} on {self.host}), since {at}"


def newest(paths: TablePaths) -> Lease | None:
    """Return who holds a pipeline, or held it last; None before its first run."""
    rows = small_tables.query(paths.table(names.LEASES), "select * from t")
    return Lease(**rows[0]) if rows else None


def silent_since(paths: TablePaths, holder: Lease, now: datetime) -> datetime | None:
    """Return since when a holder has shown no sign of life; None while it lives, as far as one can see from here."""
    filesystem, file = _heartbeat(paths)
    beat: datetime | None = filesystem.get_file_info(file).mtime
    last = max(holder.acquired_at, beat or holder.acquired_at)
    return last if _is_dead(holder) or (now - last).total_seconds() > SILENCE else None


@contextmanager
def held(paths: TablePaths, run_id: str, step: str) -> Iterator[Lease]:
    """Hold a pipeline's lease; raises LeaseTaken that names another run which holds it."""
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
    """Return what tells a process from one that gets its number later, or has it in another container or host.

    The boot of its machine, its namespace of process numbers, and when it began. Hosts may share a name, and those
    that run no container have one number of that namespace.
    """
    try:
        stat = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot} {Path('/proc/self/ns/pid').readlink()} {stat[19]}"
    except (OSError, IndexError):
        return ""


def _acquire(paths: TablePaths, me: Lease) -> Lease:
    path = paths.table(names.LEASES)
    small_tables.ensure(path, LEASES)
    table = DeltaTable(path)
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
    properties = commit_properties(once=(names.LEASES, lease.epoch), fenced=False)
    rows = pa.Table.from_pylist([vars(lease)], LEASES)
    write_deltalake(table, rows, mode="overwrite", commit_properties=properties)


def _release(paths: TablePaths, lease: Lease) -> None:
    """Give the lease back, unless somebody took it over."""
    table = DeltaTable(paths.table(names.LEASES))
    last = newest(paths)
    if last is not None and last.epoch == lease.epoch:
        try:
            _write(table, replace(lease, released_at=datetime.now(UTC)))
        except CommitFailedError:
            return


def _is_dead(lease: Lease) -> bool:
    """Say whether a holder is surely gone: a process of this very machine that is not there any more."""
    mine = _me("", "")
    same = lease.host == mine.host and _machine(lease.began) == _machine(mine.began) != ""
    return same and _began(lease.pid) != lease.began


def _machine(began: str) -> str:
    """Return of `_began` what all processes have in common that see each other."""
    return began.rpartition(" ")[0]


def _watch(paths: TablePaths, last: Lease) -> None:
    """Wait until a holder was silent for long enough; raises LeaseTaken as soon as it shows that it lives.

    Only this machine's own clock measures, so that clocks that differ do no harm.
    """
    first, begun = _read_beat(paths), time.monotonic()
    while time.monotonic() - begun < SILENCE:
        time.sleep(min(BEAT / 2, SILENCE / 4))
        now = newest(paths)
        if _read_beat(paths) != first or now is None or now.released_at is not None or now.epoch != last.epoch:
            raise LeaseTaken(f"pipeline {paths.pipeline} is held by {last}; wait for it, or stop it")


def _beat(paths: TablePaths, lease: Lease, done: threading.Event) -> None:
    """Show that the holder lives; end the process when it was silent for so long that another one took over."""
    count, last = 0, time.monotonic()
    while not done.wait(BEAT):
        if time.monotonic() - last > SILENCE / 2:
            holder = newest(paths)
            if holder is not None and holder.epoch != lease.epoch:
                # Ended this way, a process writes nothing out that it still holds.
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
    """Stamp every table of the pipeline, so that commits which a run before has in flight are refused."""
    generations = _folders(checkpoints.root(paths.warehouse, paths.pipeline))
    for path in (*_folders(paths.table("")), *map(plan_of, generations)):
        if DeltaTable.is_deltatable(path):
            _stamp(path, lease.epoch * WRITES)


def _folders(path: str) -> list[str]:
    """Return the folders in a folder, but for that of the leases; none where it is not there."""
    filesystem, root = filesystem_of(path.rstrip("/"))
    infos = filesystem.get_file_info(fs.FileSelector(root, allow_not_found=True))
    names_of = [each.base_name for each in infos if each.type == fs.FileType.Directory]
    return [f"{path.rstrip('/')}/{name}" for name in names_of if name != names.LEASES]


def _stamp(path: str, number: int) -> None:
    """Stamp a table; what a run before commits between the look at its mark and the stamp makes both be done again."""
    for _ in range(10):
        table = DeltaTable(path)
        about: dict[str, Any] = newest_metadata(path)
        properties = commit_properties(
            once=(names.LEASES, number), metadata=about or None, stamp={STAMP: str(number)}, fenced=False
        )
        try:
            commit_no_row(table, properties)
        except CommitFailedError:
            continue
        return
    raise LeaseTaken(f"{path}: another run writes into it all the time; nothing was begun")
