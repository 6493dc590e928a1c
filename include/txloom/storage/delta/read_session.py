"""Read sessions: each Delta table is opened once, at one version, and results of queries on it are cached.

Inside `reading()` all queries read one version of each table, the newest when the session first opened it. Beyond a
session opened tables and small results by version are cached in the process. Whether a cached version is still the
newest is read from the table's log: in a session once for each table, without a session for each query. Tables that are
opened here are for reading; a writer opens another instance (`txloom.storage.delta.fencing`).
"""

import threading
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa
from cachetools import LRUCache
from deltalake import DeltaTable, QueryBuilder
from deltalake.exceptions import TableNotFoundError
from pyarrow import fs

from txloom.storage.stores.delta_tables import is_table, table_at
from txloom.storage.stores.file_systems import filesystem_of

if TYPE_CHECKING:
    from arro3.core import RecordBatchReader

T = TypeVar("T")
TABLES, ANSWERS = 2_000, 4_000
"""The most tables and results that are cached; the least recently used ones are dropped."""
SMALL = 256 << 10
"""The most bytes of a result that is cached."""


@dataclass(frozen=True)
class Known:
    """A table that was opened at its newest version."""

    table: DeltaTable
    version: int
    name: Hashable
    """A cache key that no other version of any table has; None where the version may not be the newest."""


State = tuple[int, ...]
"""Version, and size and time (ns) of the log entry of a table's newest version; empty where there is no table."""


@dataclass
class ReadSession:
    """What a session has opened."""

    tables: dict[str, Known | None] = field(default_factory=dict)
    """By path; None where there is no table."""
    names: dict[int, Hashable] = field(default_factory=dict)
    """The cache key of each table, by the id of its Python object."""
    read: set[str] = field(default_factory=set)
    """The paths that were asked for, since somebody began to note them."""
    states: "dict[str, State | None]" = field(default_factory=dict)
    """The states of tables that were looked at without opening them; None: another one, or not certain."""


_SESSION: ContextVar[ReadSession | None] = ContextVar("txloom_read_session", default=None)
_LOCK = threading.Lock()
_folder = lru_cache(TABLES)(filesystem_of)
_TABLES: LRUCache[str, Known] = LRUCache(TABLES)
_ANSWERS: LRUCache[Hashable, Any] = LRUCache(ANSWERS)


@contextmanager
def reading() -> Iterator[None]:
    """Read tables in one session until the block ends; inside another session that one goes on."""
    if _SESSION.get() is not None:
        yield
        return
    token = _SESSION.set(ReadSession())
    try:
        yield
    finally:
        _SESSION.reset(token)


def opened(path: str, version: int | None = None) -> DeltaTable:
    """Return a table at its newest version, in a session at the session's; version: at that one instead.

    Raises:
        TableNotFoundError: there is no table.
        DeltaError: the table has no such version.
    """
    table = _in_session(path)
    if table is None:
        raise TableNotFoundError(f"no table at {path}")
    return table.table if version in (None, table.version) else table_at(path, version=version)


def _in_session(path: str) -> Known | None:
    session = _SESSION.get()
    if session is None:
        return _newest(path)
    session.read.add(path)
    if path not in session.tables:
        known = session.tables[path] = _newest(path)
        if known is not None and known.name is not None:
            session.names[id(known.table)] = known.name
    return session.tables[path]


def exists(path: str) -> bool:
    """Return whether there is a Delta table at a path."""
    if _SESSION.get() is None:
        return is_table(path)
    try:
        opened(path)
    except TableNotFoundError:
        return False
    return True


def unchanged_since(path: str, moment: datetime) -> bool:
    """Return whether no commit came to a table since a moment, by the clock of its store; also where there is no table.

    False where the log does not say when the newest commit came.
    """
    session = _SESSION.get()
    state = session.states.get(path) if session is not None else None
    if state is None:
        try:
            version = int(opened(path).version())
        except TableNotFoundError:
            return True
        (entry,) = log_entries(path, version)
        return entry.mtime is not None and entry.mtime < moment
    return not state or state[2] < moment.timestamp() * 1e9


def states_read(read: Callable[[], T]) -> tuple[T, dict[str, State] | None]:
    """Return what a function reads in the session, and the states of the tables that it read; None: one is not certain.

    Raises LookupError outside of a session.
    """
    session = _SESSION.get()
    if session is None:
        raise LookupError("states are known within a read session")
    before, session.read = session.read, set()
    try:
        result = read()
    finally:
        paths, session.read = session.read, before | session.read
    states: dict[str, State] = {}
    for path in paths:
        known = session.tables[path]
        state = () if known is None else _state(known)
        if state is None:
            return result, None
        states[path] = state
    return result, states


def _state(known: Known) -> State | None:
    name = known.name
    return (known.version, *name[2:]) if isinstance(name, tuple) else None


def is_still(path: str, state: State) -> bool:
    """Return whether a table is in a state that it had; it is looked at once in a session, and not opened."""
    session = _SESSION.get()
    if session is None:
        return False
    if path not in session.states:
        session.states[path] = _seen(session, path, state)
    return session.states[path] == state


def _seen(session: ReadSession, path: str, state: State) -> State | None:
    if path in session.tables:
        known = session.tables[path]
        return () if known is None else _state(known)
    if not state:
        filesystem, folder = _folder(path)
        log = filesystem.get_file_info(f"{folder}/_delta_log")
        return () if log.type == fs.FileType.NotFound else None
    name = _name(path, state[0])
    return (state[0], *name[2:]) if isinstance(name, tuple) else None


def answer(tables: Mapping[str, DeltaTable], sql: str) -> pa.Table:
    """Run a query on opened tables, by the names that the SQL gives them; return its rows in DataFusion's types.

    In a session a small result is cached by the SQL and the tables' versions, and a repeated query returns it.
    """
    return _once(list(tables.items()), sql, lambda: pa.table(running(tables, sql).read_all()))


def running(tables: Mapping[str, DeltaTable], sql: str) -> "RecordBatchReader":
    """Start a query like `answer`, and return a reader of its batches; nothing is cached."""
    builder = QueryBuilder()
    for name, table in tables.items():
        builder = builder.register(name, table)
    return builder.execute(sql)


def metadata(table: DeltaTable, read: Callable[[DeltaTable], T]) -> T:
    """Return what a function reads of an opened table's log; in a session it is cached by function and version."""
    return _once([("t", table)], read.__qualname__, lambda: read(table))


def _once(tables: list[tuple[str, DeltaTable]], sql: str, ask: Callable[[], T]) -> T:
    session = _SESSION.get()
    names = () if session is None else [(alias, session.names.get(id(table))) for alias, table in tables]
    if not names or any(name is None for _, name in names):
        return ask()
    key = (tuple(names), sql)
    with _LOCK:
        if key in _ANSWERS:
            known: T = _ANSWERS[key]
            return known
    result = ask()
    if not isinstance(result, pa.Table) or result.nbytes <= SMALL:
        with _LOCK:
            _ANSWERS[key] = result
    return result


def _newest(path: str) -> Known | None:
    """Return a table at its newest version: the cached one, unless a commit came since; None where there is none."""
    with _LOCK:
        known = _TABLES.get(path)
    if known is not None and known.name == _name(path, known.version):
        return known
    try:
        table = table_at(path)
    except TableNotFoundError:
        return None
    version = int(table.version())
    fresh = Known(table, version, _name(path, version))
    if fresh.name is not None:
        with _LOCK:
            _TABLES[path] = fresh
    return fresh


def _name(path: str, version: int) -> Hashable:
    """Return a cache key for a version of a table; None where the log does not show that it is the newest.

    The key has size and time of the version's log entry, because a table that was made anew has the same versions.
    """
    newest, following = log_entries(path, version, version + 1)
    if newest.type != fs.FileType.File or following.type != fs.FileType.NotFound:
        return None
    return path, version, newest.size, newest.mtime_ns


def log_entries(path: str, *versions: int) -> list[fs.FileInfo]:
    """Return size and time of the log entries of some versions of a table, and whether they are there."""
    filesystem, folder = _folder(path)
    return filesystem.get_file_info([f"{folder}/_delta_log/{version:020}.json" for version in versions])
