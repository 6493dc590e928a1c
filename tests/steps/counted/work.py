"""The work of a step that no machine does faster: files opened, commits, queries, rows, sessions of Spark."""

import runpy
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from steps.counted.opened_files import OpenedFiles
from txloom.steps import runner
from txloom.storage.delta import arrow_tables, read_session

PROJECT = Path(__file__).resolve().parents[3]
LOG = "_delta_log"


@dataclass
class Work:
    """What one step did."""

    files: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Files that were read, by table and kind (see `kind_of`); one that was read again counts once."""
    opened: Counter[str] = field(default_factory=Counter)
    """How often tables were opened, that is their logs listed."""
    commits: Counter[str] = field(default_factory=Counter)
    """By table."""
    queries: Counter[str] = field(default_factory=Counter)
    """By table; one of several tables by all of them."""
    rows: Counter[str] = field(default_factory=Counter)
    """Rows that the queries returned, likewise."""
    jvms: int = 0
    """Sessions of Spark that were asked for."""

    def of_kind(self, kind: str) -> Counter[str]:
        """Return how many files of a kind were read, by table."""
        return Counter({table: count for (table, known), count in self.files.items() if known == kind})


def kind_of(file: Path) -> str:
    """Return what a file of a table is: an entry of its log or a checkpoint of that, data, or something else.

    >>> kind_of(Path("orders", LOG, "00000000000000000001.json")), kind_of(Path("orders", "part-0.parquet"))
    ('log', 'data')
    """
    if file.parent.name == LOG:
        return "log"
    return "data" if file.suffix == ".parquet" else "other"


class CountedWork:
    """Counts what this process does in a pipeline's folder of a warehouse; what opens sessions of Spark is replaced."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Begin; folder: exists."""
        self._folder, self._files, self._work = folder, OpenedFiles(folder), Work()
        running = read_session.running

        def counted(tables: Mapping[str, DeltaTable], sql: str) -> Any:
            uris = (table.table_uri.removeprefix("file://") for table in tables.values())
            queried = "+".join(sorted({self._table(Path(uri)) for uri in uris}))
            self._work.queries[queried] += 1
            return _Batches(running(tables, sql), queried, self._work)

        monkeypatch.setattr(read_session, "running", counted)
        monkeypatch.setattr(arrow_tables, "running", counted)
        monkeypatch.setattr(runner, "_session", self._session)

    def close(self) -> None:
        """End."""
        self._files.close()

    def of(self, step: Callable[[], object]) -> Work:
        """Return the work of a step, which begins as in a process of its own, with nothing cached."""
        read_session._TABLES.clear()
        read_session._ANSWERS.clear()
        before = self._commits()
        self._files.read()
        work = self._work = Work()
        step()
        self._work = Work()
        read = self._files.read()
        work.opened.update(self._table(each.path) for each in read if each.is_folder and each.path.name == LOG)
        files = {each.path for each in read if not each.is_folder}
        work.files.update((self._table(file), kind_of(file)) for file in files)
        work.commits.update(path.parent.parent.name for path in self._commits() - before)
        return work

    def _table(self, path: Path) -> str:
        return path.relative_to(self._folder).parts[0]

    def _session(self, *_: str) -> object:
        self._work.jvms += 1
        return object()

    def _commits(self) -> set[Path]:
        return {path for path in self._folder.rglob(f"{LOG}/*.json") if path.stem.isdigit()}


class _Batches:
    """A query's batches, whose rows are counted as they are read."""

    def __init__(self, reader: Any, queried: str, work: Work) -> None:
        self._reader, self._queried, self._work = reader, queried, work

    def read_all(self) -> Any:
        rows = self._reader.read_all()
        self._work.rows[self._queried] += rows.num_rows
        return rows

    def __iter__(self) -> Iterator[Any]:
        for batch in self._reader:
            self._work.rows[self._queried] += batch.num_rows
            yield batch


def run_job(monkeypatch: pytest.MonkeyPatch, step: str, *flags: str) -> None:
    """Run the file of a job in this process, with its lease and its result file."""
    file = str(PROJECT / "jobs" / f"{step}.py")
    monkeypatch.setattr(sys, "argv", [file, *flags])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(file, run_name="__main__")
    assert ended.value.code == 0, f"{step} ended with {ended.value.code}"
