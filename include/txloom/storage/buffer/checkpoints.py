"""Epochs of the buffer's checkpoint: a lost or damaged checkpoint is replaced by one of the next epoch.

The stored column `generation` of the ledger holds the checkpoint epoch.
"""

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
"""A release number is the checkpoint epoch times this plus the batch: it grows with each batch and each epoch."""


FIRST = 1
"""The first checkpoint epoch."""


def first_release(epoch: int) -> int:
    """Return the number below which all releases are of earlier checkpoint epochs."""
    return epoch * RELEASES_PER_EPOCH


def current_epoch(warehouse: str, pipeline: str) -> int:
    """Return the newest epoch with a checkpoint, or the next one where the ledger has batches of a newer epoch.

    A checkpoint that is missing although the ledger has batches of it was lost: one of the next epoch rebuilds the
    buffer from change_events (docs/architecture.md, promise 10). Before the first one it is FIRST.
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
    """Return the folder of the checkpoint of an epoch."""
    return names.checkpoint_path(warehouse, pipeline, STEP, epoch)


def root(warehouse: str, pipeline: str) -> str:
    """Return the folder that holds the checkpoints of all epochs."""
    return checkpoint(warehouse, pipeline, 0).removeprefix("file://").rsplit("/", 1)[0]


def running(paths: TablePaths, change_events: str) -> int:
    """Return the checkpoint epoch to run: the newest, or the next one where its checkpoint is lost or damaged.

    Damage is printed; nothing is written. change_events: the id of that table.
    """
    epoch = current_epoch(paths.warehouse, paths.pipeline)
    written = small_tables.last_written(paths.table(names.LEDGER), names.write_id(paths.pipeline, STEP, epoch)) - 1
    try:
        checkpoint_files.check(checkpoint(paths.warehouse, paths.pipeline, epoch), change_events, written)
    except CheckpointDamaged as damage:
        return replaced(paths, epoch, str(damage))
    return epoch


def replaced(paths: TablePaths, epoch: int, why: str) -> int:
    """Return the epoch that replaces one whose checkpoint is damaged, and print a line with the reason."""
    damage = f"pipeline {paths.pipeline}: checkpoint g{epoch} of the buffer is damaged: {why}"
    LOG.warning(f"{damage}; g{epoch + 1} is rebuilt from change_events, no table changes")
    return epoch + 1
