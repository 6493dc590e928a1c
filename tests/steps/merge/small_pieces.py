"""Let what is worked on in pieces be cut into small ones, and tasks have them too."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from txloom.steps.backfill import left_history, table_comparison
from txloom.steps.current import composition, piece_merge
from txloom.storage.maintenance import history_cleaning
from txloom.storage.rewriting import pieces
from txloom.storage.spark import tasks


def note_folders(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Return the folders in which pieces lie, as they come."""
    folders, folder = list[Path](), pieces.folder

    @contextmanager
    def noted(path: str) -> Iterator[str]:
        with folder(path) as made:
            folders.append(Path(made))
            yield made

    monkeypatch.setattr(pieces, "folder", noted)
    return folders


def cut_small(monkeypatch: pytest.MonkeyPatch, size: int, *, by_tasks: bool = False) -> None:
    """Cut rows into pieces of so many bytes, samples into as many values; by_tasks: processes work on all of them."""
    monkeypatch.setattr(pieces, "PIECE_BYTES", size)
    monkeypatch.setattr(pieces, "AT_ONCE_BYTES", size)
    monkeypatch.setattr(pieces, "GATHERED", size // 100)
    monkeypatch.setattr(left_history, "ROWS", size // 100)
    monkeypatch.setattr(piece_merge, "MOST_ADDED", size // 1_000)
    for module in (left_history, table_comparison, piece_merge, history_cleaning):
        monkeypatch.setattr(module, "SAMPLE", size // 10)
    if by_tasks:
        monkeypatch.setattr(tasks, "_is_session_open", lambda: False)
        for module in (table_comparison, piece_merge, composition, history_cleaning):
            monkeypatch.setattr(module, "TASK_BYTES", 0)
