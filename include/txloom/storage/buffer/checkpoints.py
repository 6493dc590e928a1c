"""Epochs of the buffer's checkpoint: a lost or damaged checkpoint is replaced by one of the next epoch.

The stored column `generation` of the ledger holds the checkpoint epoch.
"""

import logging
import re

from pyarrow import fs

from txloom.config import names
from txloom.errors import CheckpointDamaged
from txloom.storage.buffer import checkpoint_files
from txloom.storage.buffer.batch_plan import parts_of, plan_of
from txloom.storage.delta import small_tables
from txloom.storage.paths import TablePaths
from txloom.storage.stores.file_systems import filesystem_of
from txloom.transactions.compact_events import BUCKETS

LOG = logging.getLogger(__name__)

STEP = "buffer_transactions"
RELEASES_PER_EPOCH = 1_000_000_000
"""A release number is the checkpoint epoch times this plus the batch: it grows with each batch and each epoch."""


EPOCH = re.compile(r"g\d+")
"""The name of an epoch's folder."""
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
    here = epoch_folders(warehouse, pipeline)
    filesystem, _ = filesystem_of(root(warehouse, pipeline))
    offsets = filesystem.get_file_info([f"{each.path}/offsets" for each in here.values()])
    begun = [epoch for epoch, each in zip(here, offsets, strict=True) if each.type == fs.FileType.Directory]
    newest = max(begun, default=0)
    if newest and newest >= known:
        return newest
    return max(known, newest) + 1


def epoch_folders(warehouse: str, pipeline: str) -> dict[int, fs.FileInfo]:
    """Return the folders of checkpoints by their epoch, also of those that have begun no batch."""
    filesystem, folder = filesystem_of(root(warehouse, pipeline))
    listed = filesystem.get_file_info(fs.FileSelector(folder, allow_not_found=True))
    return {int(each.base_name[1:]): each for each in listed if EPOCH.fullmatch(each.base_name)}


def checkpoint(warehouse: str, pipeline: str, epoch: int) -> str:
    """Return the folder of the checkpoint of an epoch."""
    return names.checkpoint_path(warehouse, pipeline, STEP, epoch)


def root(warehouse: str, pipeline: str) -> str:
    """Return the folder that holds the checkpoints of all epochs."""
    return checkpoint(warehouse, pipeline, 0).removeprefix("file://").rsplit("/", 1)[0]


def running(paths: TablePaths, change_events: str, parts: int = 1) -> int:
    """Return the checkpoint epoch to run: the newest, or the next one where its checkpoint is lost, damaged or other.

    Why another one is begun is printed; nothing is written.

    Args:
        paths: the tables of the pipeline.
        change_events: the id of that table.
        parts: into how many parts the state splits each bucket of a landing.
    """
    epoch = current_epoch(paths.warehouse, paths.pipeline)
    written = small_tables.last_written(paths.table(names.LEDGER), names.write_id(paths.pipeline, STEP, epoch)) - 1
    folder = checkpoint(paths.warehouse, paths.pipeline, epoch)
    try:
        checkpoint_files.check(folder, change_events, written)
    except CheckpointDamaged as damage:
        return replaced(paths, epoch, str(damage))
    split = parts_of(plan_of(folder))
    if split not in (None, parts):
        LOG.warning(
            f"pipeline {paths.pipeline}: its state has {split * BUCKETS} groups in checkpoint g{epoch}, and "
            f"{parts * BUCKETS} are declared; g{epoch + 1} is rebuilt from change_events, no table changes"
        )
        return epoch + 1
    return epoch


def replaced(paths: TablePaths, epoch: int, why: str) -> int:
    """Return the epoch that replaces one whose checkpoint is damaged, and print a line with the reason."""
    damage = f"pipeline {paths.pipeline}: checkpoint g{epoch} of the buffer is damaged: {why}"
    LOG.warning(f"{damage}; g{epoch + 1} is rebuilt from change_events, no table changes")
    return epoch + 1
