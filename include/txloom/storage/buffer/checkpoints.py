"""Generations of the buffer's checkpoint: a lost one is replaced by the next, never silently begun anew."""

import logging
from pathlib import Path

from txloom.config import names
from txloom.errors import CheckpointDamaged
from txloom.storage.buffer import checkpoint_files
from txloom.storage.delta import small_tables
from txloom.storage.paths import TablePaths

LOG = logging.getLogger(__name__)

STEP = "buffer_transactions"
RELEASES_PER_EPOCH = 1_000_000_000
"""A release number is generation times this plus the batch: it grows from batch to batch and across generations."""


FIRST = 1
"""The number of the first generation."""


def first_release(epoch: int) -> int:
    """Return the number below which all releases are those of earlier generations."""
    return epoch * RELEASES_PER_EPOCH


def current_epoch(warehouse: str, pipeline: str) -> int:
    """Return the generation to run: the newest whose checkpoint is there, else the one after the last that wrote.

    A checkpoint that is missing although the ledger knows its batches was lost: the next generation rebuilds the buffer
    from change_events (docs/architecture.md, promise 10).
    """
    ledger = names.table_path(warehouse, pipeline, names.LEDGER)
    rows = small_tables.query(ledger, f"select max(generation) as newest from t where step = '{STEP}'")
    known = (rows[0]["newest"] if rows else 0) or 0
    here = [int(path.name[1:]) for path in Path(root(warehouse, pipeline)).glob("g*") if (path / "offsets").is_dir()]
    newest = max(here, default=0)
    if newest and newest >= known:
        return newest
    return max(known, newest) + 1


def checkpoint(warehouse: str, pipeline: str, epoch: int) -> str:
    """Return the checkpoint folder of one generation."""
    return names.checkpoint_path(warehouse, pipeline, STEP, epoch)


def root(warehouse: str, pipeline: str) -> str:
    """Return the folder that holds the generations."""
    return checkpoint(warehouse, pipeline, 0).removeprefix("file://").rsplit("/", 1)[0]


def running(paths: TablePaths, change_events: str) -> int:
    """Return the generation to run: the newest, or the next one where that is lost or damaged.

    change_events: its id.
    """
    epoch = current_epoch(paths.warehouse, paths.pipeline)
    written = small_tables.last_written(paths.table(names.LEDGER), names.write_id(paths.pipeline, STEP, epoch)) - 1
    try:
        checkpoint_files.check(checkpoint(paths.warehouse, paths.pipeline, epoch), change_events, written)
    except CheckpointDamaged as damage:
        return replaced(paths, epoch, str(damage))
    return epoch


def replaced(paths: TablePaths, epoch: int, why: str) -> int:
    """Return the generation that takes a damaged one's place, and say so."""
    damage = f"pipeline {paths.pipeline}: checkpoint g{epoch} of the buffer is damaged: {why}"
    LOG.warning(f"{damage}; g{epoch + 1} is rebuilt from change_events, no table changes")
    return epoch + 1
