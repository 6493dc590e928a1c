"""One look at tables: whoever shows them opens each table once, and asks nothing twice that no commit has changed.

Inside `looking()` all answers come from one version of each table, that which was the newest when it was first asked.
Between looks only this is kept: tables as they were opened, and small answers about their versions. Whether a version
is still the newest is asked of the log each time, outside of a look with every question. What is opened here is read
alone: whoever writes opens a table of its own (`txloom.storage.delta.fencing`).
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder
from deltalake.exceptions import TableNotFoundError
from pyarrow import fs

from txloom.storage.paths import filesystem_of

if TYPE_CHECKING:
    from arro3.core import RecordBatchReader

T = TypeVar("T")
TABLES, ANSWERS = 2_000, 4_000
"""So many are kept between looks; those that were not used for longest go."""
SMALL = 256 << 10
"""Bytes of an answer that is kept."""


@dataclass(frozen=True)
class Known:
    """A table at its newest version; name: what no other version of any table has, None where that is not known."""

    table: DeltaTable
    version: int
    name: Hashable


@dataclass
class ReadSession:
    """What was opened in a look."""

    tables: dict[str, Known | None] = field(default_factory=dict)
    names: dict[int, Hashable] = field(default_factory=dict)


_SESSION: ContextVar[ReadSession | None] = ContextVar("txloom_look", default=None)
_LOCK = threading.Lock()
_folder = lru_cache(TABLES)(filesystem_of)
_TABLES: OrderedDict[str, Known] = OrderedDict()
_ANSWERS: OrderedDict[Hashable, Any] = OrderedDict()


@contextmanager
def looking() -> Iterator[None]:
    """Open each table once until the block ends; a look inside a look is part of it."""
    if _SESSION.get() is not None:
        yield
        return
    token = _SESSION.set(ReadSession())
    try:
        yield
    finally:
        _SESSION.reset(token)


def opened(path: str, version: int | None = None) -> DeltaTable:
    """Return a table at its newest version, or at another one; raises TableNotFoundError."""
    table = _in_session(path)
    if table is None:
        raise TableNotFoundError(f"no table at {path}")
    return table.table if version in (None, table.version) else DeltaTable(path, version=version)


def _in_session(path: str) -> Known | None:
    session = _SESSION.get()
    if session is None:
        return _newest(path)
    if path not in session.tables:
        known = session.tables[path] = _newest(path)
        if known is not None and known.name is not None:
            session.names[id(known.table)] = known.name
    return session.tables[path]


def exists(path: str) -> bool:
    """Tell whether there is a table."""
    if _SESSION.get() is None:
        return bool(DeltaTable.is_deltatable(path))
    try:
        opened(path)
    except TableNotFoundError:
        return False
    return True


def answer(tables: Mapping[str, DeltaTable], sql: str) -> pa.Table:
    """Ask opened tables under the names that the SQL gives them."""
    return _once(list(tables.items()), sql, lambda: pa.table(running(tables, sql).read_all()))


def running(tables: Mapping[str, DeltaTable], sql: str) -> "RecordBatchReader":
    """Ask opened tables like `answer`, and return what reads the answer batch by batch."""
    builder = QueryBuilder()
    for name, table in tables.items():
        builder = builder.register(name, table)
    return builder.execute(sql)


def metadata(table: DeltaTable, read: Callable[[DeltaTable], T]) -> T:
    """Return what a function reads of a table's log."""
    return _once([("t", table)], read.__qualname__, lambda: read(table))


def _once(tables: list[tuple[str, DeltaTable]], sql: str, ask: Callable[[], T]) -> T:
    session = _SESSION.get()
    names = () if session is None else [(alias, session.names.get(id(table))) for alias, table in tables]
    if not names or any(name is None for _, name in names):
        return ask()
    key = (tuple(names), sql)
    with _LOCK:
        if key in _ANSWERS:
            _ANSWERS.move_to_end(key)
            known: T = _ANSWERS[key]
            return known
    result = ask()
    if not isinstance(result, pa.Table) or result.nbytes <= SMALL:
        _keep(_ANSWERS, key, result, ANSWERS)
    return result


def _newest(path: str) -> Known | None:
    """Return a table as it is now: the one that is known, if nobody has written since."""
    with _LOCK:
        known = _TABLES.get(path)
    if known is not None and known.name == _name(path, known.version):
        return known
    try:
        table = DeltaTable(path)
    except TableNotFoundError:
        return None
    version = int(table.version())
    fresh = Known(table, version, _name(path, version))
    if fresh.name is not None:
        _keep(_TABLES, path, fresh, TABLES)
    return fresh


def _name(path: str, version: int) -> Hashable:
    """Return what tells a version of a table from all others; None where it is not surely the newest.

    Size and time of its log entry belong to it: a table that was made anew has the same numbers once more.
    """
    filesystem, folder = _folder(path)
    newest, following = filesystem.get_file_info([f"{folder}/_delta_log/{n:020}.json" for n in (version, version + 1)])
    if newest.type != fs.FileType.File or following.type != fs.FileType.NotFound:
        return None
    return path, version, newest.size, newest.mtime_ns


def _keep(kept: OrderedDict[Any, Any], key: Hashable, value: Any, most: int) -> None:
    with _LOCK:
        kept[key] = value
        kept.move_to_end(key)
        while len(kept) > most:
            kept.popitem(last=False)
