"""Which dead letters were open at a time: a row that maintenance writes, so that no query compares those of all years.

A dead letter that was closed stays closed: its transaction was released, it was dismissed, or its message was landed
again. So the open ones are among those that were open at the time and those that came since. Where somebody reopens
dismissed ones, or the tables were made anew or restored, the row says nothing any more and is not used.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from deltalake import DeltaTable

from txloom.config import names
from txloom.storage.delta import small_tables
from txloom.storage.delta.read_session import exists, opened
from txloom.storage.delta.sql import near, text_list
from txloom.storage.paths import TablePaths
from txloom.storage.system_tables import OPEN_DEAD_LETTERS

MOST = 5_000
"""Open dead letters, or transactions, of which the row has a list."""


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


def _holds(paths: TablePaths, read: dict[str, int]) -> bool:
    """Say whether the tables that were read are still there, and not older than they were."""
    tables = {_id(table): int(table.version()) for table in _tables(paths)}
    return tables.keys() == read.keys() and all(tables[each] >= version for each, version in read.items())


def _tables(paths: TablePaths) -> list[DeltaTable]:
    every = (paths.dead_letters, paths.table(names.TRANSACTIONS))
    return [opened(path) for path in every if exists(path)]


def _id(table: DeltaTable) -> str:
    return str(table.metadata().id)


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
        "tables": {_id(table): int(table.version()) for table in _tables(paths)},
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
