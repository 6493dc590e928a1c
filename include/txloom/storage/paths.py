"""Where a pipeline's tables lie."""

import hashlib
import re
from dataclasses import dataclass

from pyarrow import fs

from txloom.config import names
from txloom.storage.stores.file_systems import has_rename


@dataclass(frozen=True)
class TablePaths:
    """The folder of one pipeline in a warehouse."""

    warehouse: str
    pipeline: str

    def table(self, name: str) -> str:
        """Return the path of one table."""
        return names.table_path(self.warehouse, self.pipeline, name)

    @property
    def change_events(self) -> str:
        """Return the path of change_events."""
        return self.table(names.CHANGE_EVENTS)

    @property
    def dead_letters(self) -> str:
        """Return the path of dead_letters."""
        return self.table(names.DEAD_LETTERS)

    @property
    def landed_files(self) -> str:
        """Return the path of the plan of landings."""
        return self.table(names.LANDED_FILES)


def run_folder(run_id: str) -> str:
    """Return the name of the folder of a run's files: the run's id with ~ for colons, or a safe form with a hash.

    HDFS takes no colon in a name.

    >>> run_folder("scheduled__2026-11-20T03:00:00+00:00"), run_folder("../x")[:6]
    ('scheduled__2026-11-20T03~00~00+00~00', '_.._x-')
    """
    name = re.sub(r"[^A-Za-z0-9_.:+-]", "_", run_id)[:150]
    if name == run_id and not name.startswith("."):
        return name.replace(":", "~")
    return f"_{name.replace(':', '~')}-{hashlib.sha256(run_id.encode()).hexdigest()[:8]}"


def write_whole(filesystem: fs.FileSystem, file: str, content: str | bytes) -> None:
    """Write a file under a hidden name, then move it over the former one, so that nobody reads half of it.

    In a store that shows a file only once it is written whole, it is written at once.
    """
    folder, name = file.rsplit("/", 1)
    written = content.encode() if isinstance(content, str) else content
    if not has_rename(filesystem):
        with filesystem.open_output_stream(file) as stream:
            stream.write(written)
        return
    with filesystem.open_output_stream(f"{folder}/.{name}") as stream:
        stream.write(written)
    filesystem.move(f"{folder}/.{name}", file)
