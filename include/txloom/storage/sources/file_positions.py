"""How far each file of a source was read: the table `file_positions`.

A landing writes a row for each file that it took, or could not read, before it commits their events. A run that died
between the two reads again, and the rows of the repeated landing count, because they are newer.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa
from deltalake.exceptions import TableNotFoundError

from txloom.config import names
from txloom.storage.delta import arrow_tables, small_tables
from txloom.storage.delta.read_session import exists, opened
from txloom.storage.delta.recent_files import lowest
from txloom.storage.delta.sql import MOST_RANGES, sql_name, text_list, text_literal
from txloom.storage.paths import TablePaths
from txloom.storage.system_tables import FILE_POSITIONS

if TYPE_CHECKING:
    from txloom.events.wal2json.decoder import Open

Name = tuple[str, str]
"""Topic and file."""
_COLUMNS = ", ".join(sql_name(name) for name in FILE_POSITIONS.names if name not in ("landing", "at"))


@dataclass(frozen=True)
class Position:
    """How far one file was read; `FILE_POSITIONS` describes each field."""

    topic: str
    file: str
    size: int
    modified: int
    start: int = 0
    until: int = 0
    tail: int = 0
    lines: int = 0
    digest: str | None = None
    head: str | None = None
    before: str | None = None
    open: str | None = None
    left: str | None = None
    was: str | None = None
    begins_inside: bool = False
    read_again: bool = False
    problem: str | None = None
    is_access: bool = False
    lost: str | None = None

    @property
    def name(self) -> Name:
        """Return topic and file."""
        return self.topic, self.file

    @property
    def end(self) -> int:
        """Return the position in the content up to which everything was read."""
        return self.until + self.tail


def to_json(transaction: "Open | None") -> str | None:
    """Return an open transaction as JSON; None for None."""
    return None if transaction is None else msgspec.json.encode(transaction).decode()


def from_json(text: str | None) -> "Open | None":
    """Return the open transaction of a JSON text; None for None."""
    from txloom.events.wal2json.decoder import Open

    return None if text is None else msgspec.json.decode(text, type=Open)


def newest(paths: TablePaths, files: Iterable[str], before: int | None = None) -> dict[Name, Position]:
    """Return the newest position of some files, the one that was read last at the end.

    Rows of other files are read over, however many there are: none of them is held.

    Args:
        paths: the tables of the pipeline.
        files: the files' names.
        before: only positions of landings before this one; None: of all.
    """
    chosen, path = sorted(set(files)), paths.table(names.FILE_POSITIONS)
    if not chosen:
        return {}
    until = "" if before is None else f" and landing < {before}"
    sql = f"select landing, at, {_COLUMNS} from t where {_near(chosen)}{until}"
    try:
        rows = arrow_tables.matching(path, sql, "file", pa.array(chosen, pa.string()))
    except TableNotFoundError:
        return {}
    if not rows.num_rows:
        return {}
    oldest_first = rows.sort_by([("landing", "ascending"), ("at", "ascending")]).drop_columns(["landing", "at"])
    positions = dict[Name, Position]()
    for row in oldest_first.to_pylist():
        position = Position(**row)
        positions.pop(position.name, None)
        positions[position.name] = position
    return positions


def _near(files: Sequence[str]) -> str:
    """Return a condition that holds for some files, in order, and for few others: a range of names for each folder."""
    by_folder: dict[str, list[str]] = {}
    for file in files:
        by_folder.setdefault(file.rpartition("/")[0], []).append(file)
    ranges = [f"file between {text_literal(each[0])} and {text_literal(each[-1])}" for each in by_folder.values()]
    if len(ranges) > MOST_RANGES:
        return f"file between {text_literal(files[0])} and {text_literal(files[-1])}"
    return f"({' or '.join(ranges)})"


def begun_with(paths: TablePaths, heads: Iterable[str]) -> set[str]:
    """Return the files that at some time began with one of some first lines; heads: their hashes."""
    lines = text_list(set(heads))
    return _files(paths, f"head in ({lines})") if lines else set()


def renamed(paths: TablePaths) -> set[str]:
    """Return the files that were read under another name before."""
    return _files(paths, "was is not null")


def every_file(paths: TablePaths) -> set[str]:
    """Return all files of which anything was ever read."""
    return _files(paths, "true")


def _files(paths: TablePaths, where: str) -> set[str]:
    rows = small_tables.query(paths.table(names.FILE_POSITIONS), f"select distinct file from t where {where}")
    return {row["file"] for row in rows}


def first_landing(paths: TablePaths) -> int | None:
    """Return the first landing of which positions were kept; None before there was one."""
    path = paths.table(names.FILE_POSITIONS)
    if not exists(path):
        return None
    known = lowest(opened(path), "landing")
    return small_tables.query(path, "select min(landing) as n from t")[0]["n"] if known is None else known


def write(paths: TablePaths, landing: int, positions: Sequence[Position], at: datetime | None = None) -> None:
    """Append how far files were read by a landing; a later row of the same landing replaces an earlier one."""
    at = at or datetime.now(UTC)
    rows = [{"landing": landing, "at": at, **vars(position)} for position in positions]
    if rows:
        small_tables.append(paths.table(names.FILE_POSITIONS), rows, FILE_POSITIONS)


def inside_transactions(paths: TablePaths) -> list[Position]:
    """Return the newest positions of the files in front of which, or behind which, a transaction is open."""
    of_open = 'coalesce(before, open, "left") is not null'
    now = newest(paths, _files(paths, of_open))
    return [each for each in now.values() if each.before or each.open or each.left]


def recounted(position: Position, rows: Mapping[tuple[str, int], Sequence[tuple[int, str | None]]]) -> Position:
    """Return a position whose open transactions count the rows of each table as they were decoded again.

    rows: by xid and csn of a transaction, the ordinal and the declared table of each of its rows.
    """
    before, open_, left = (_recounted(text, rows) for text in (position.before, position.open, position.left))
    return replace(position, before=before, open=open_, left=left)


def _recounted(text: str | None, rows: Mapping[tuple[str, int], Sequence[tuple[int, str | None]]]) -> str | None:
    transaction = from_json(text)
    if transaction is None or (transaction.xid, transaction.csn) not in rows:
        return text
    counts = Counter(
        table
        for ordinal, table in rows[transaction.xid, transaction.csn]
        if table is not None and ordinal <= transaction.ordinal
    )
    return to_json(replace(transaction, counts=dict(counts)))


def unreadable(paths: TablePaths) -> list[Position]:
    """Return the files that could not be read and are not set aside, the one that was read last at the end."""
    now = newest(paths, _files(paths, "problem is not null"))
    return [each for each in now.values() if each.problem is not None and each.lost is None]


def has_problems(paths: TablePaths) -> bool:
    """Return whether any file was ever unreadable."""
    return bool(
        small_tables.query(paths.table(names.FILE_POSITIONS), "select 1 from t where problem is not null limit 1")
    )


def set_aside(paths: TablePaths) -> list[dict[str, Any]]:
    """Return the files that an operator set aside, oldest first: topic, file, lost, at."""
    sql = "select topic, file, lost, at from t where lost is not null order by at, topic, file"
    return small_tables.query(paths.table(names.FILE_POSITIONS), sql)


def read_again(paths: TablePaths) -> list[int]:
    """Return the landings that read lines which an earlier landing had read."""
    sql = "select distinct landing from t where read_again order by landing"
    return [row["landing"] for row in small_tables.query(paths.table(names.FILE_POSITIONS), sql)]


def accepted(position: Position, reason: str) -> Position:
    """Return the position of a file that is set aside until it changes; reason: why an operator accepts the loss."""
    return replace(position, lost=f"{position.file}: {position.problem}; accepted: {reason}")
