"""Which dead letters were open at a time: a row that maintenance writes, so that no query compares those of all years.

A dead letter that was closed stays closed: its transaction was released, it was dismissed, or its message was landed
again. So the open ones are among those that were open at the time and those that came since. Where somebody reopens
dismissed ones, or a table was made anew or an older copy of it was put back, the row says nothing any more and is not
used. A table that was restored to an older version by Delta is seen when maintenance looks next.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from txloom.config import names
from txloom.storage.delta import small_tables
from txloom.storage.delta.read_session import exists, opened
from txloom.storage.delta.sql import near, text_list
from txloom.storage.paths import TablePaths, filesystem_of
from txloom.storage.system_tables import OPEN_DEAD_LETTERS

MOST = 1_000
"""Open dead letters, or transactions, of which the row has a list. A query with a list inside an `or` needs several
times the stack of one without (`txloom.storage.delta.sql`)."""


@dataclass(frozen=True)
class KnownOpen:
    """What was open after a release of the buffer and the landing up to which it had buffered.

    letters: landing and row of the dead letters that were open; of none that came later. given_up: id and csn of
    transactions that were given up and may have been open. None where they were too many.
    """

    release: int
    landing: int
    letters: tuple[tuple[int, int], ...] | None
    given_up: tuple[tuple[str, int | None], ...] | None

    @property
    def later(self) -> str:
        """Return the condition of the dead letters that came later, as SQL."""
        return f"(release > {self.release} or (release is null and landing > {self.landing}))"

    @property
    def earlier(self) -> str:
        """Return the condition of the dead letters that were open, as SQL."""
        letters = self.letters or ()
        keys = text_list(f"{landing}:{row}" for landing, row in letters)
        near_them = near("landing", (landing for landing, _ in letters))
        return f"({near_them} and concat(landing, ':', \"row\") in ({keys}))" if letters else "false"


def known_open(paths: TablePaths) -> KnownOpen | None:
    """Return what was open when maintenance looked last; None where that is not known, or says nothing any more."""
    path = paths.table(names.OPEN_DEAD_LETTERS)
    if not exists(path):
        return None
    rows = small_tables.query(path, "select * from t")
    if len(rows) != 1 or not _holds(paths, rows[0]["tables"]):
        return None
    (row,) = rows
    letters, given_up = row["letters"], row["given_up"]
    return KnownOpen(
        row["release"],
        row["landing"],
        None if letters is None else tuple((each["landing"], each["row"]) for each in letters),
        None if given_up is None else tuple((each["transaction_id"], each["csn"]) for each in given_up),
    )


def _holds(paths: TablePaths, read: Mapping[str, str]) -> bool:
    """Say whether the tables that were read are still there, with the versions that were read."""
    tables = _tables(paths)
    if tables.keys() != read.keys():
        return False
    marks = {name: each.rpartition(" ") for name, each in read.items()}
    return all(
        int(count) <= tables[name].count and mark == _mark(tables[name].path, int(mark.split(" ")[0]))
        for name, (mark, _, count) in marks.items()
    )


def was_restored(paths: TablePaths) -> bool:
    """Say whether a table was restored to an older version since it was read."""
    rows = small_tables.query(paths.table(names.OPEN_DEAD_LETTERS), "select tables from t")
    versions = {name: int(each.split(" ")[0]) for row in rows for name, each in row["tables"].items()}
    return any(
        "RESTORE" in str(commit.get("operation"))
        for name, each in _tables(paths).items()
        if name in versions
        for commit in opened(each.path).history(max(int(opened(each.path).version()) - versions[name], 1))
    )


@dataclass(frozen=True)
class _Read:
    """A table that is read: its path, and how many rows it has, where rows may be taken out of it."""

    path: str
    count: int


def _tables(paths: TablePaths) -> dict[str, _Read]:
    """Return by Delta's id the tables that say what is open."""
    dismissals = paths.table(names.DISMISSALS)
    every = {paths.dead_letters: 0, paths.table(names.TRANSACTIONS): 0, dismissals: 0}
    if exists(dismissals):
        every[dismissals] = small_tables.query(dismissals, "select count(*) as n from t")[0]["n"]
    return {str(opened(path).metadata().id): _Read(path, count) for path, count in every.items() if exists(path)}


def _mark(path: str, version: int) -> str:
    """Return a version with size and time of its log entry: a copy that was put back has others."""
    filesystem, folder = filesystem_of(path)
    entry = filesystem.get_file_info(f"{folder}/_delta_log/{version:020}.json")
    return f"{version} {entry.size} {entry.mtime_ns}"


def write(
    paths: TablePaths,
    upto: tuple[int, int],
    letters: Iterable[Mapping[str, object]],
    given_up: Iterable[Mapping[str, object]],
) -> None:
    """Replace what is known by what is open now; in the read session in which that was read.

    Args:
        paths: the tables of the pipeline.
        upto: the release and the landing up to which the buffer is complete.
        letters: landing and row of the open dead letters up to them.
        given_up: id and csn of the transactions that were given up up to them, and may be open.
    """
    row = {
        "release": upto[0],
        "landing": upto[1],
        "tables": {
            name: f"{_mark(each.path, int(opened(each.path).version()))} {each.count}"
            for name, each in _tables(paths).items()
        },
        "letters": _few(letters),
        "given_up": _few(given_up),
        "at": datetime.now(UTC),
    }
    small_tables.replace(paths.table(names.OPEN_DEAD_LETTERS), [row], OPEN_DEAD_LETTERS, {})


def _few(rows: Iterable[Mapping[str, object]]) -> list[Mapping[str, object]] | None:
    listed = list(rows)
    return listed if len(listed) <= MOST else None


def forget(paths: TablePaths) -> None:
    """Forget what was open: dead letters that were closed are opened again."""
    path = paths.table(names.OPEN_DEAD_LETTERS)
    if exists(path):
        small_tables.replace(path, [], OPEN_DEAD_LETTERS, {})
