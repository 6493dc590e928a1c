"""Generations of the buffer's checkpoint: a lost one is replaced by the next, never silently begun anew."""

from pathlib import Path

from txloom.config import names
from txloom.storage import books

STEP = "buffer_transactions"
RELEASES_PER_GENERATION = 1_000_000_000
"""A release number is generation times this plus the batch: it grows from batch to batch and across generations."""


FIRST = 1
"""The number of the first generation."""


def first_release(generation: int) -> int:
    """Return the number below which all releases are those of earlier generations."""
    return generation * RELEASES_PER_GENERATION


def current_generation(warehouse: str, pipeline: str) -> int:
    """Return the generation to run: the newest whose checkpoint is there, else the one after the last that wrote.

    A checkpoint that is missing although the ledger knows its batches was lost: the next generation rebuilds the buffer
    from change_events (design.md 2.10).
    """
    ledger = names.table_path(warehouse, pipeline, names.LEDGER)
    rows = books.query(ledger, f"select max(generation) as newest from t where step = '{STEP}'")
    known = (rows[0]["newest"] if rows else 0) or 0
    here = [int(path.name[1:]) for path in Path(root(warehouse, pipeline)).glob("g*") if (path / "offsets").is_dir()]
    newest = max(here, default=0)
    if newest and newest >= known:
        return newest
    return max(known, newest) + 1


def checkpoint(warehouse: str, pipeline: str, generation: int) -> str:
    """Return the checkpoint folder of one generation."""
    return names.checkpoint_path(warehouse, pipeline, STEP, generation)


def root(warehouse: str, pipeline: str) -> str:
    """Return the folder that holds the generations."""
    return checkpoint(warehouse, pipeline, 0).removeprefix("file://").rsplit("/", 1)[0]
