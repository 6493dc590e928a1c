"""Where a pipeline's tables lie."""

from dataclasses import dataclass

from pyarrow import fs

from txloom.config import names


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


def filesystem_of(path: str) -> tuple[fs.FileSystem, str]:
    """Return the file system of a path or URI, and the path in it."""
    return fs.FileSystem.from_uri(path) if "://" in path else (fs.LocalFileSystem(), path)
