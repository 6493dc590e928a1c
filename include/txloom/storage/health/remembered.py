"""Values that were read of tables, kept in a file with the states of these tables.

Whoever reads the file opens no table of which nothing changed: a value counts only while each table that was read for
it is in the state that it had then. What is not remembered, or not certain, is read as ever, so that nothing depends on
the file being there.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeVar

import msgspec

from txloom.config import names
from txloom.storage.delta.read_session import State, is_still, reading, states_read
from txloom.storage.paths import TablePaths, write_whole
from txloom.storage.stores.file_systems import filesystem_of

T = TypeVar("T")
FORMAT = 2
"""Changes with what any of the values means."""


class Entry(msgspec.Struct, array_like=True):
    """A value, and the states of the tables that it was read of, by their names below the pipeline's folder."""

    value: Any
    tables: dict[str, State]


class File(msgspec.Struct, array_like=True):
    """All values by name."""

    format: int
    entries: dict[str, Entry]


@dataclass
class Memory:
    """What is remembered, and what was asked for since it was read; stored: what the file has."""

    folder: str
    stored: dict[str, Entry]
    known: dict[str, Entry]
    used: dict[str, Entry] = field(default_factory=dict)

    @classmethod
    def nothing(cls, paths: TablePaths) -> "Memory":
        """Return the memory of who reads every table, so that others need not."""
        return cls(paths.table(""), {}, {})


_MEMORY: ContextVar[Memory | None] = ContextVar("txloom_memory", default=None)


@contextmanager
def remembering(paths: TablePaths, earlier: Memory | None = None) -> Iterator[Memory]:
    """Let `remembered` answer out of the pipeline's file until the block ends, within one read session.

    earlier: what an earlier session of this process knows already, instead of the file.
    """
    with reading():
        stored = _read(paths.table(names.OVERVIEW)) if earlier is None else earlier.stored
        known = stored if earlier is None else {**earlier.known, **earlier.used}
        token = _MEMORY.set(memory := Memory(paths.table(""), stored, known))
        try:
            yield memory
        finally:
            _MEMORY.reset(token)


def keep(paths: TablePaths, memory: Memory) -> None:
    """Write everything that was asked for; nothing where the file has just that, or where there is no table at all."""
    if memory.used != memory.stored and any(state for each in memory.used.values() for state in each.tables.values()):
        filesystem, path = filesystem_of(paths.table(names.OVERVIEW))
        write_whole(filesystem, path, msgspec.msgpack.encode(File(FORMAT, memory.used)))


def remembered(name: str, kind: Any, read: Callable[[], T]) -> T:
    """Return what a function reads of tables: as it is remembered, where none of these tables changed since.

    Args:
        name: of the value; it names everything besides tables on which the value depends.
        kind: the value's type, which msgspec can write as MessagePack and read back.
        read: reads tables, in the session, and nothing that changes otherwise.
    """
    memory = _MEMORY.get()
    if memory is None:
        return read()
    entry = memory.used.get(name) or memory.known.get(name)
    if entry is None or not all(is_still(memory.folder + table, state) for table, state in entry.tables.items()):
        value, states = states_read(read)
        if states is None or not all(path.startswith(memory.folder) for path in states):
            return value
        tables = {path.removeprefix(memory.folder): state for path, state in states.items()}
        entry = Entry(msgspec.to_builtins(value, builtin_types=(bytes, datetime)), tables)
    memory.used[name] = entry
    known: T = msgspec.convert(entry.value, kind)
    return known


def _read(file: str) -> dict[str, Entry]:
    filesystem, path = filesystem_of(file)
    try:
        with filesystem.open_input_stream(path) as stream:
            read = msgspec.msgpack.decode(stream.read(), type=File)
    except (OSError, msgspec.MsgspecError):
        return {}
    return read.entries if read.format == FORMAT else {}
