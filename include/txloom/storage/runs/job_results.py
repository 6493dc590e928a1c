"""The result file of a job: what its step counted, or the error that it ended with, for whoever started it.

It lies in the warehouse (`_runs/<run>/<task>.json`), so that it is read the same way wherever the job ran.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from pyarrow import fs

from txloom.config import names
from txloom.storage.paths import TablePaths, run_folder, write_whole
from txloom.storage.stores.file_systems import filesystem_of


@dataclass(frozen=True)
class JobResult:
    """How a job ended.

    Args:
        counts: what its step returned; {} where it failed.
        exit_code: 0, or one of `txloom.errors`.
        message: the sentence of the error, None without one.
    """

    counts: Mapping[str, Any] = field(default_factory=dict)
    exit_code: int = 0
    message: str | None = None


@dataclass(frozen=True)
class ResultFile:
    """Where the result of a task of a run lies."""

    paths: TablePaths
    run_id: str
    task: str

    @classmethod
    def of(cls, warehouse: str, pipeline: str, run_id: str, task: str) -> "ResultFile":
        """Return the result file of a task of a pipeline's run."""
        return cls(TablePaths(warehouse, pipeline), run_id, task)

    def write(self, result: JobResult) -> None:
        """Write a result over that of the last try."""
        filesystem, file = self._file()
        filesystem.create_dir(file.rsplit("/", 1)[0], recursive=True)
        write_whole(filesystem, file, json.dumps(asdict(result), ensure_ascii=False))

    def read(self) -> JobResult | None:
        """Return the result of the last try; None where it died before it wrote one."""
        filesystem, file = self._file()
        if filesystem.get_file_info(file).type != fs.FileType.File:
            return None
        with filesystem.open_input_stream(file) as stream:
            return JobResult(**json.loads(stream.read()))

    def forget(self) -> None:
        """Remove the result of the last try, so that nobody takes it for that of the next one."""
        filesystem, file = self._file()
        if filesystem.get_file_info(file).type == fs.FileType.File:
            filesystem.delete_file(file)

    def _file(self) -> tuple[fs.FileSystem, str]:
        filesystem, root = filesystem_of(self.paths.table(names.RUNS))
        return filesystem, f"{root}/{run_folder(self.run_id)}/{self.task}.json"
