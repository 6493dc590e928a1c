"""Which dead letters were open at a time: a row that maintenance writes, so that no query compares those of all years.

A dead letter that was closed stays closed: its transaction was released, it was dismissed, or its message was landed
again. So the open ones are among those that were open at the time and those that came since. Where somebody reopens
dismissed ones, or a table was made anew or an older copy of it was put back, the row says nothing any more and is not
used. A table that was restored to an older version by Delta is seen when maintenance looks next.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple

from txloom.config import names
from txloom.storage.delta import small_tables
from txloom.storage.delta.read_session import exists, log_entries, opened
from txloom.storage.delta.sql import near, text_list
from txloom.storage.paths import TablePaths
from txloom.storage.system_tables import OPEN_DEAD_LETTERS

RULE = 1
"""The number of the rule by which dead letters are open. A row of another rule says nothing."""
MOST = 1_000
"""Open dead letters, or transactions, of which the row has a list. A query with a list inside an `or` needs several
times the stack of one without (`txloom.storage.delta.sql`)."""


@dataclass(frozen=True)
class KnownOpen:
    """What was open after a release of the buffer and the landing up to which it had buffered.

    letters: landing and row of the dead letters that were open; of none that came later. given_up: transaction_id and
    csn of transactions that were given up and may have been open. None where they were too many.
    """

    release: int
    landing: int
    letters: Sequence[Mapping[str, int]] | None
    given_up: Sequence[Mapping[str, Any]] | None

    @property
    def later(self) -> str:
        """Return the condition of the dead letters that came later, as SQL."""
        return f"(release > {self.release} or (release is null and landing > {self.landing}))"

    @property
    def earlier(self) -> str:
        """Return the condition of the dead letters that were open, as SQL."""
        if not self.letters:
            return "false"
        keys = text_list(f"{each['landing']}:{each['row']}" for each in self.letters)
        near_them = near("landing", (each["landing"] for each in self.letters))
        return f"({near_them} and concat(landing, ':', \"row\") in ({keys}))"


def known_open(paths: TablePaths) -> KnownOpen | None:
    """Return what was open when maintenance looked last; None where that is not known, or says nothing any more."""
    path = paths.table(names.OPEN_DEAD_LETTERS)
    if not exists(path):
        return None
    rows = small_tables.query(path, "select * from t")
    if len(rows) != 1 or rows[0].get("rule") != RULE or not _holds(paths, rows[0]["tables"]):
        return None
    return KnownOpen(*(rows[0][name] for name in ("release", "landing", "letters", "given_up")))


def _holds(paths: TablePaths, read: Mapping[str, str]) -> bool:
    """Say whether the tables that were read are still there, with the versions that were read."""
    tables, states = _tables(paths), {name: _State.parsed(text) for name, text in read.items()}
    return tables.keys() == states.keys() and all(
        states[name].rows <= count and states[name] == _state(path, states[name].version, states[name].rows)
        for name, (path, count) in tables.items()
    )


def was_restored(paths: TablePaths) -> bool:
    """Say whether a table was restored to an older version since it was read."""
    rows = small_tables.query(paths.table(names.OPEN_DEAD_LETTERS), "select tables from t")
    versions = {name: _State.parsed(text).version for row in rows for name, text in row["tables"].items()}
    tables = {name: opened(path) for name, (path, _) in _tables(paths).items() if name in versions}
    return any(
        "RESTORE" in str(commit.get("operation"))
        for name, table in tables.items()
        for commit in table.history(max(int(table.version()) - versions[name], 1))
    )


class _State(NamedTuple):
    """A table as it was read: its version, size and time of the log entry of that, and rows that it may not lose."""

    version: int
    size: str
    written: str
    rows: int

    @classmethod
    def parsed(cls, text: str) -> "_State":
        version, size, written, rows = text.split(" ")
        return cls(int(version), size, written, int(rows))

    def __str__(self) -> str:
        return " ".join(map(str, self))


def _state(path: str, version: int, rows: int) -> _State:
    """Return the state of a table at a version; a copy that was put back has another size or time."""
    (entry,) = log_entries(path, version)
    return _State(version, str(entry.size), str(entry.mtime_ns), rows)


def _tables(paths: TablePaths) -> dict[str, tuple[str, int]]:
    """Return by Delta's id the tables that say what is open: path, and how many rows there are, where some may go."""
    dismissals = paths.table(names.DISMISSALS)
    every = {paths.dead_letters: 0, paths.table(names.TRANSACTIONS): 0, dismissals: 0}
    if exists(dismissals):
        every[dismissals] = small_tables.query(dismissals, "select count(*) as n from t")[0]["n"]
    return {str(opened(path).metadata().id): (path, count) for path, count in every.items() if exists(path)}


def write(
    paths: TablePaths,
    upto: tuple[int, int],
    letters: Sequence[Mapping[str, Any]],
    given_up: Sequence[Mapping[str, Any]],
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
            name: str(_state(path, int(opened(path).version()), count))
            for name, (path, count) in _tables(paths).items()
        },
        "letters": _few(letters),
        "given_up": _few(given_up),
        "at": datetime.now(UTC),
        "rule": RULE,
    }
    small_tables.replace(paths.table(names.OPEN_DEAD_LETTERS), [row], OPEN_DEAD_LETTERS, {})


def _few(rows: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]] | None:
    return rows if len(rows) <= MOST else None


def forget(paths: TablePaths) -> None:
    """Forget what was open: dead letters that were closed are opened again."""
    path = paths.table(names.OPEN_DEAD_LETTERS)
    if exists(path):
        small_tables.replace(path, [], OPEN_DEAD_LETTERS, {})
