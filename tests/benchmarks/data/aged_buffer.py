"""The buffer's checkpoint of an old pipeline: the plan of its batches, their offsets, and the changelogs of its state.

It begins with real batches, behind those of the past: `begin` before the first of them, `age` after the second one.
"""

import json
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from benchmarks.data import aged_past, delta_logs
from benchmarks.data.aged_past import APART, LANDINGS, LOG_CYCLES, TODAY
from benchmarks.data.delta_logs import HOOKS, Entries
from txloom.storage.buffer import batch_plan, checkpoints
from txloom.storage.delta import small_tables
from txloom.storage.paths import TablePaths

CHANGELOGS = max(round(aged_past.DAY * aged_past.SCALE), 3)
"""Changelogs of the state, one for each batch of a day; nothing joins them while a job takes less than a minute."""


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

    Maintenance joins the files night after night: those of TODAY are small, of a row each.
    """
    plan = Path(_plan(paths))
    log, newest = plan / "_delta_log", DeltaTable(str(plan)).version()
    real = [log / f"{version:020d}.json" for version in range(2, newest + 1)]
    kept = [file.rename(file.with_suffix(".kept")) for file in real]
    commits = _write_rows(str(plan), batch_plan.change_events_id(paths))
    for file, place in zip(kept, real, strict=True):
        file.rename(log / f"{int(place.stem) + commits:020d}.json")
    entries = Entries(LOG_CYCLES, LANDINGS - LOG_CYCLES, _moment(paths), APART)
    return commits + delta_logs.age(str(plan), entries, len(kept))


def _write_rows(plan: str, change_events: str) -> int:
    """Add a row for each landing of the past to the plan; return in how many commits."""
    rows = [
        {"after": number, "until": number + 1, "tasks": 1, "change_events": change_events} for number in range(LANDINGS)
    ]
    table = pa.Table.from_pylist(rows, batch_plan.PLAN)
    parts = [
        table.slice(0, LANDINGS - TODAY),
        *(table.slice(number, 1) for number in range(LANDINGS - TODAY, LANDINGS)),
    ]
    for part in parts:
        write_deltalake(plan, part, mode="append", post_commithook_properties=HOOKS)
    return len(parts)


def _moment(paths: TablePaths) -> datetime:
    """Return when the newest row of the plan of landings was written, less a cycle."""
    newest = small_tables.query(paths.landed_files, "select max(at) as at from t")[0]["at"]
    return newest.astimezone(UTC) - APART


def _shift(file: Path, by: int) -> None:
    """Let a batch's offset name the version of the plan that it had before others were put in front."""
    *head, last = file.read_text().splitlines()
    offset = json.loads(last)
    offset["reservoirVersion"] += by
    file.write_text("\n".join([*head, json.dumps(offset)]))
    file.with_name(f".{file.name}.crc").unlink(missing_ok=True)
