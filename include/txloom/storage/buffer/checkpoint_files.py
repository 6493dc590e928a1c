"""Whether a checkpoint of Spark's can be gone on with: its files are looked at before anything is written.

What makes it unfit: batches (`offsets`) that are gone, cut, not of the plan that lies beside them, or older than what
the ledger has seen written; a plan that is of another table; a cut word of what is done (`commits`); a state of which a
file is missing or empty. What only the bytes of a state show, Spark finds when it reads them (`is_damage`).
"""

import json
from collections.abc import Callable, Mapping
from typing import Any

from deltalake.exceptions import TableNotFoundError
from pyarrow import fs

from txloom.errors import CheckpointDamaged
from txloom.storage.buffer.batch_plan import plan_of
from txloom.storage.delta import arrow_tables
from txloom.storage.delta.read_session import opened
from txloom.storage.paths import filesystem_of

SHUFFLE_PARTITIONS = "spark.sql.shuffle.partitions"
UNREADABLE_STATE = ("CANNOT_LOAD_STATE_STORE", "STATE_STORE_", "RocksDB", "StateStore", "ChecksumException")
"""What Spark's word of an error has in it when the bytes of a state are not what was written."""
NO_ROOM = ("No space left on device", "Disk quota exceeded", "not enough space")
"""A state that cannot be written for want of room is as good as it was: a rebuilt one would take more."""


def check(folder: str, change_events: str, written: int) -> None:
    """Raise CheckpointDamaged, saying which file is wrong and how, where a checkpoint cannot be gone on with.

    change_events: the id of the table that it must be of. written: the last batch that the ledger knows of its
    generation, -1 for none.
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
    """Return the id of a plan's table, None where there is none."""
    try:
        table = opened(path)
        rows = arrow_tables.ask({"t": table}, "select distinct change_events from t").to_pylist()
    except TableNotFoundError:
        return None
    except Exception as error:  # delta-rs has no kind of its own for a file that cannot be read
        raise CheckpointDamaged("its plan cannot be read") from error
    for row in rows:
        if row["change_events"] != change_events:
            raise CheckpointDamaged(f"its plan is of change_events {row['change_events']}, not of {change_events}")
    return str(table.metadata().id)


def is_damage(error: Exception) -> bool:
    """Say whether a query failed because its state cannot be read.

    Whatever dies in a stateful task has the state store's methods on its stack: the lines of the stack say nothing.
    """
    said = "\n".join(line for line in str(error).splitlines() if not line.lstrip().startswith(("at ", 'File "')))
    return any(word in said for word in UNREADABLE_STATE) and not any(words in said for words in NO_ROOM)


def reason(error: Exception) -> str:
    """Return the first line of what Spark says."""
    return str(error).strip().splitlines()[0]


class _Files:
    """The files of a checkpoint."""

    def __init__(self, folder: str) -> None:
        self.filesystem, self.folder = filesystem_of(folder)

    def numbers(self, log: str) -> list[int]:
        """Return the numbers of the batches in a log, in order."""
        return sorted(int(name) for name in self.sizes(log) if name.isdigit())

    def sizes(self, below: str) -> dict[str, int]:
        """Return the sizes of the files in a folder, by name; none where there is no folder."""
        chosen = fs.FileSelector(f"{self.folder}/{below}", allow_not_found=True)
        return {each.base_name: each.size for each in self.filesystem.get_file_info(chosen) if each.is_file}

    def read(self, name: str, understood: Callable[[str], Any]) -> Any:
        """Return what a file says; one that is not there, or not whole, is damage."""
        try:
            with self.filesystem.open_input_stream(f"{self.folder}/{name}") as file:
                return understood(file.read().decode())
        except FileNotFoundError as error:
            raise CheckpointDamaged(f"{name} is missing") from error
        except (ValueError, LookupError, TypeError) as error:
            raise CheckpointDamaged(f"{name} is cut or not readable") from error

    def check_state(self, partition: int, version: int) -> None:
        """Refuse a state that misses what leads to a version: a snapshot, and each change since then."""
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
    """Return the JSON object in a line of a file, the last unless one is named."""
    content = json.loads(text.splitlines()[line])
    if not isinstance(content, dict):
        raise TypeError(content)
    return content
