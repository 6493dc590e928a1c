"""The buffer's checkpoint of an old pipeline: the plan of its batches, their offsets, and the changelogs of its state.

It begins with real batches, behind those of the past: `begin` before the first of them, `age` after the second one.
"""

import json
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable
from deltalake.transaction import AddAction

from benchmarks.data import aged_past, delta_logs
from benchmarks.data.aged_past import APART, LANDINGS, LOG_CYCLES
from benchmarks.data.delta_logs import HOOKS, Entries
from txloom.storage.buffer import batch_plan, checkpoints
from txloom.storage.delta import small_tables
from txloom.storage.paths import TablePaths

CHANGELOGS = max(round(aged_past.DAY * aged_past.SCALE), 3)
"""Changelogs of the state, one for each batch of a day; nothing joins them while a job takes less than a minute."""
AT_ONCE = 50_000
"""Files that one commit adds to the plan."""


def begin(paths: TablePaths) -> None:
    """Make the plan of the buffer's batches as far as the past goes, so that the next real batch is its first one.

    The ledger has batches of the checkpoint, so that without `offsets` it would be taken for lost.
    """
    plan = _plan(paths)
    small_tables.ensure(plan, batch_plan.PLAN)
    table = DeltaTable(plan)
    properties = delta_logs.written_under({batch_plan.PLANNED: LANDINGS})
    table.create_write_transaction([], "append", table.schema(), commit_properties=properties)
    (Path(plan).parent / "offsets").mkdir()


def _plan(paths: TablePaths) -> str:
    return batch_plan.plan_of(checkpoints.checkpoint(paths.warehouse, paths.pipeline, checkpoints.FIRST))


def age(paths: TablePaths) -> None:
    """Put the batches of the past in front of the two real ones.

    A stream that begins, or has had one batch, would take its plan from the beginning.
    """
    checkpoint = Path(_plan(paths)).parent
    moved = _age_plan(paths)
    for file in (checkpoint / "offsets").glob("[0-9]*"):
        _shift(file, moved)
    for log in ("offsets", "commits"):
        for batch in (1, 0):
            _renamed(checkpoint / log / str(batch), str(batch + CHANGELOGS))
    for partition in (checkpoint / "state" / "0").glob("[0-9]*"):
        first, second = (partition / f"{version}.changelog" for version in (1, 2))
        _renamed(second, f"{2 + CHANGELOGS}.changelog")
        for version in range(2, 2 + CHANGELOGS):
            (partition / f"{version}.changelog").hardlink_to(first)


def _renamed(file: Path, name: str) -> None:
    """Rename a file of a checkpoint, without its checksum, which is for one name."""
    file.with_name(f".{file.name}.crc").unlink(missing_ok=True)
    file.rename(file.with_name(name))


def _age_plan(paths: TablePaths) -> int:
    """Put a row for each landing of the past in front of the real ones, and return by how much their versions moved.

    Each row has a file of its own, because nothing joins them.
    """
    plan = Path(_plan(paths))
    log, newest = plan / "_delta_log", DeltaTable(str(plan)).version()
    real = [log / f"{version:020d}.json" for version in range(2, newest + 1)]
    kept = [file.rename(file.with_suffix(".kept")) for file in real]
    commits = _write_rows(plan, batch_plan.change_events_id(paths), _moment(paths))
    for file, place in zip(kept, real, strict=True):
        file.rename(log / f"{int(place.stem) + commits:020d}.json")
    entries = Entries(LOG_CYCLES, LANDINGS - LOG_CYCLES, _moment(paths), APART)
    return commits + delta_logs.age(str(plan), entries, len(kept))


def _write_rows(plan: Path, change_events: str, at: datetime) -> int:
    """Add a file for each landing of the past to the plan; return in how many commits. All files have one content."""
    row = {"after": 0, "until": 1, "tasks": 1, "change_events": change_events}
    content = plan / "content.unfinished"
    pq.write_table(pa.Table.from_pylist([row], batch_plan.PLAN), content)
    files = [f"part-00000-{number:032x}-c000.snappy.parquet" for number in range(LANDINGS)]
    delta_logs.linked(plan, content, files)
    millis, size = int(at.timestamp() * 1000), content.stat().st_size
    content.unlink()
    numbered, commits = iter(enumerate(files)), 0
    while some := list(islice(numbered, AT_ONCE)):
        actions = [AddAction(name, size, {}, millis, True, _stats(number, change_events)) for number, name in some]
        table = DeltaTable(str(plan))
        table.create_write_transaction(actions, "append", table.schema(), post_commithook_properties=HOOKS)
        commits += 1
    return commits


def _moment(paths: TablePaths) -> datetime:
    """Return when the newest row of the plan of landings was written, less a cycle."""
    newest = small_tables.query(paths.landed_files, "select max(at) as at from t")[0]["at"]
    return newest.astimezone(UTC) - APART


def _stats(number: int, change_events: str) -> str:
    low = f'"after":{number},"until":{number + 1},"tasks":1,"change_events":"{change_events}"'
    return f'{{"numRecords":1,"minValues":{{{low}}},"maxValues":{{{low}}},"nullCount":{{}}}}'


def _shift(file: Path, by: int) -> None:
    """Let a batch's offset name the version of the plan that it had before others were put in front."""
    *head, last = file.read_text().splitlines()
    offset = json.loads(last)
    offset["reservoirVersion"] += by
    file.write_text("\n".join([*head, json.dumps(offset)]))
    file.with_name(f".{file.name}.crc").unlink(missing_ok=True)
