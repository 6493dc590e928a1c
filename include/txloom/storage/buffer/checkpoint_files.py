"""Check the files of a Spark checkpoint before the buffer goes on with it, and before it writes anything.

A checkpoint is damaged where one of these holds: its batches (`offsets`) are missing, truncated, of another plan than
the one in its folder, or older than the batches of the ledger; its plan is of another table; the record of its finished
batches (`commits`) is truncated; a file of its state is missing or empty. Damage within a file of the state shows only
when Spark reads it (`is_damage`).
"""

import json
from collections.abc import Callable, Mapping
from typing import Any

from deltalake.exceptions import TableNotFoundError
from pyarrow import fs

from txloom.errors import CheckpointDamaged
from txloom.storage.buffer.batch_plan import plan_of, planned
from txloom.storage.delta import arrow_tables
from txloom.storage.delta.read_session import opened
from txloom.storage.stores.file_systems import filesystem_of

SHUFFLE_PARTITIONS = "spark.sql.shuffle.partitions"
"""The setting, stored with each batch, with the number of the state's partitions."""
UNREADABLE_STATE = ("CANNOT_LOAD_STATE_STORE", "STATE_STORE_", "RocksDB", "StateStore", "ChecksumException")
"""Texts of which Spark's message has one where a file of the state is not as it was written."""
NO_ROOM = ("No space left on device", "Disk quota exceeded", "not enough space")
"""Texts of messages about a full disk. The state is not damaged then, and a rebuilt one would take more space."""


def check(folder: str, change_events: str, written: int) -> None:
    """Check a checkpoint; nothing is written.

    Args:
        folder: the checkpoint's path.
        change_events: the id of the table that it must have read.
        written: the last batch that the ledger has of its epoch; -1: none.

    Raises:
        CheckpointDamaged: the buffer cannot go on with it; the message names the file and its damage.
    """
    files = _Files(folder)
    batches, done = files.numbers("offsets"), files.numbers("commits")
    plan = _plan(plan_of(folder), change_events)
    if not batches:
        if written >= 0:
            raise CheckpointDamaged(f"offsets is empty, though batch {written} was written")
        return
    if plan is None:
        raise CheckpointDamaged("it has no plan beside it, as none had in older versions of txloom")
    last, committed = batches[-1], done[-1] if done else -1
    if last < written:
        raise CheckpointDamaged(f"its last batch is {last}, though batch {written} was written: it is an older copy")
    if committed not in (last, last - 1):
        raise CheckpointDamaged(f"batch {last} is planned, but the last one that is done is {committed}")
    files.read("metadata", _json_line)
    if done:
        files.read(f"commits/{committed}", _json_line)
    for number in batches[-2:]:
        about, offset = files.read(f"offsets/{number}", lambda text: (_json_line(text, 1), _json_line(text, 2)))
        if offset.get("reservoirId") != plan:
            raise CheckpointDamaged(f"offsets/{number} is of another table than its plan")
    for partition in range(int(about["conf"][SHUFFLE_PARTITIONS]) if done else 0):
        files.check_state(partition, committed + 1)


def _plan(path: str, change_events: str) -> str | None:
    """Return the id of a plan's table; None where there is no plan. Only its newest row is read.

    Raises CheckpointDamaged where it cannot be read, or is of another table than change_events (its id).
    """
    try:
        table = opened(path)
        newest = f"select change_events from t where until = {planned(path)}"
        rows = arrow_tables.ask({"t": table}, newest).to_pylist()
    except TableNotFoundError:
        return None
    except Exception as error:  # delta-rs has no class of errors for a file that cannot be read
        raise CheckpointDamaged("its plan cannot be read") from error
    for row in rows:
        if row["change_events"] != change_events:
            raise CheckpointDamaged(f"its plan is of change_events {row['change_events']}, not of {change_events}")
    return str(table.metadata().id)


def is_damage(error: Exception) -> bool:
    """Return whether a query failed because its state cannot be read.

    Lines of a stack are left out: every error of a stateful task has methods of the state store there.
    """
    message = "\n".join(line for line in str(error).splitlines() if not line.lstrip().startswith(("at ", 'File "')))
    return any(text in message for text in UNREADABLE_STATE) and not any(text in message for text in NO_ROOM)


def reason(error: Exception) -> str:
    """Return the first line of an error's message."""
    return str(error).strip().splitlines()[0]


class _Files:
    """The files of a checkpoint."""

    def __init__(self, folder: str) -> None:
        self.filesystem, self.folder = filesystem_of(folder)

    def numbers(self, log: str) -> list[int]:
        """Return the numbers of the batches in a log, in order."""
        return sorted(int(name) for name in self.sizes(log) if name.isdigit())

    def sizes(self, below: str) -> dict[str, int]:
        """Return the sizes of the files in a folder, by name; {} where there is no folder."""
        chosen = fs.FileSelector(f"{self.folder}/{below}", allow_not_found=True)
        return {each.base_name: each.size for each in self.filesystem.get_file_info(chosen) if each.is_file}

    def read(self, name: str, parse: Callable[[str], Any]) -> Any:
        """Return a file's content as a function reads it; raises CheckpointDamaged where it is missing or truncated."""
        try:
            with self.filesystem.open_input_stream(f"{self.folder}/{name}") as file:
                return parse(file.read().decode())
        except FileNotFoundError as error:
            raise CheckpointDamaged(f"{name} is missing") from error
        except (ValueError, LookupError, TypeError) as error:
            raise CheckpointDamaged(f"{name} is cut or not readable") from error

    def check_state(self, partition: int, version: int) -> None:
        """Raise CheckpointDamaged where a partition of the state lacks a file of a version.

        Those are the newest snapshot up to it, and each changelog since then.
        """
        below = f"state/0/{partition}"
        sizes = self.sizes(below)
        while version > 0 and f"{version}.zip" not in sizes:
            name = f"{version}.changelog"
            if not sizes.get(name):
                raise CheckpointDamaged(f"{below}/{name} is {'empty' if name in sizes else 'missing'}")
            version -= 1
        if version > 0 and not sizes[f"{version}.zip"]:
            raise CheckpointDamaged(f"{below}/{version}.zip is empty")


def _json_line(text: str, line: int = -1) -> Mapping[str, Any]:
    """Return the JSON object in a line of a file, by default the last; raises ValueError or TypeError for others."""
    content = json.loads(text.splitlines()[line])
    if not isinstance(content, dict):
        raise TypeError(content)
    return content
