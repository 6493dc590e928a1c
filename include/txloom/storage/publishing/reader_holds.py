"""Holds of readers on published cuts: vacuum keeps the files of a cut while a reader holds it."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from deltalake.exceptions import DeltaError, TableNotFoundError

from txloom.config import names
from txloom.errors import ConfigurationError, CutReplaced
from txloom.storage.delta import small_tables
from txloom.storage.delta.table_metadata import identity
from txloom.storage.paths import TablePaths
from txloom.storage.publishing.cuts import newest_cut
from txloom.storage.stores.delta_tables import table_at
from txloom.storage.system_tables import READERS


@dataclass(frozen=True)
class Cut:
    """A published cut: a version of every table, which together show one state of the source.

    A table that was made anew has other rows under the same versions; `table_ids` and `marks` distinguish them. Both
    are empty in cuts of older versions of txloom.
    """

    cut_id: int
    valid_through: int
    versions: Mapping[str, int]
    """{table: Delta version}."""
    table_ids: Mapping[str, str] = field(default_factory=dict)
    """{table: Delta's id of the table}."""
    marks: Mapping[str, str] = field(default_factory=dict)
    """{table: the userMetadata of the version's commit, as JSON}."""


@dataclass(frozen=True)
class Need:
    """The versions of tables that a reader needs."""

    who: str
    """A description of the reader, for vacuum's messages."""
    versions: Mapping[str, int]
    """{table: Delta version}."""


def published(paths: TablePaths, cut_id: int | None = None) -> Cut | None:
    """Return a published cut; by default the newest. None where there is none."""
    chosen = "true" if cut_id is None else f"cut_id = {int(cut_id)}"
    cut = newest_cut(paths, "*", chosen)
    if cut is None:
        return None
    maps = [dict(cut.get(name) or ()) for name in ("versions", "table_ids", "marks")]
    return Cut(cut["cut_id"], cut["valid_through"], *maps)


def first_from(paths: TablePaths, csn: int, retain: timedelta, tables: Collection[str]) -> Cut | None:
    """Return the first cut that shows everything up to a csn, or the newest, where no other can still be read.

    A cut that a later one amends, by a transaction at or below the csn, does not show that.

    Args:
        paths: where the tables are.
        csn: what has to be shown.
        retain: how long vacuum keeps what was replaced.
        tables: the tables that are read.
    """
    late = f"(select cut_id, unnest(amends) as late from t) where late['csn'] <= {int(csn)}"
    amended = small_tables.query(paths.table(names.CUTS), f"select max(cut_id) as last from {late}")
    from_cut = f"cut_id >= {(amended[0]['last'] if amended else None) or 0}"
    lowest = f"(select min(valid_through) from t where valid_through >= {int(csn)} and {from_cut})"
    row = newest_cut(paths, "cut_id", f"valid_through = {lowest} and {from_cut}")
    cut = None if row is None else published(paths, row["cut_id"])
    try:
        if cut is None or set(tables) - cut.versions.keys() or vacuumed(paths, cut, retain, tables):
            return published(paths)
        refuse_replaced(paths, cut, tables)
    except CutReplaced:
        return published(paths)
    return cut


def refuse_replaced(paths: TablePaths, cut: Cut, tables: Collection[str] | None = None) -> None:
    """Raise CutReplaced where a table of a cut was made anew since, or lacks the version of the cut.

    tables: those that are checked; None: all of the cut. A table whose id the cut does not have is not checked.
    """
    for name, version in cut.versions.items():
        if name in cut.table_ids and (tables is None or name in tables):
            known = cut.table_ids[name], cut.marks.get(name)
            try:
                current = identity(paths.table(name), version)
            except (TableNotFoundError, DeltaError) as error:
                raise _replaced(paths, cut, name, f"it has no version {version} any more") from error
            if current[0] != known[0] or (known[1] is not None and current[1] != known[1]):
                raise _replaced(paths, cut, name, f"its version {version} is of another table")


def _replaced(paths: TablePaths, cut: Cut, name: str, what: str) -> CutReplaced:
    return CutReplaced(
        f"cut {cut.cut_id} of pipeline {paths.pipeline}: table {name} was written anew since, {what}; read a newer "
        f"cut, or this state out of history: read.as_of(..., csn={cut.valid_through})"
    )


def hold(paths: TablePaths, reader: str, cut: Cut, until: datetime) -> None:
    """Let vacuum keep a cut for a reader until a time; a later call for the same reader and cut replaces it.

    Raises ConfigurationError where the reader's name is blank.
    """
    _write(paths, reader, cut.cut_id, until)


def release(paths: TablePaths, reader: str, cut: Cut) -> None:
    """End a reader's hold on a cut; raises ConfigurationError where the reader's name is blank."""
    _write(paths, reader, cut.cut_id, datetime.now(UTC))


def _write(paths: TablePaths, reader: str, cut_id: int, until: datetime) -> None:
    if not reader.strip():
        raise ConfigurationError("a reader needs a name: vacuum says who holds a cut")
    row = {"reader": reader, "cut_id": cut_id, "at": datetime.now(UTC), "until": until}
    small_tables.append(paths.table(names.READERS), [row], READERS)


def needs(paths: TablePaths, now: datetime) -> list[Need]:
    """Return who needs which versions at a time: readers of the newest cut, and each hold that has not ended."""
    newest = published(paths)
    holds = [] if newest is None else [Need(f"cut {newest.cut_id}, the newest", newest.versions)]
    for row in _lasting(paths, now):
        cut = published(paths, row["cut_id"])
        if cut is not None:
            since, until = (row[name].strftime("%Y-%m-%d %H:%M") for name in ("since", "until"))
            who = f"reader {row['reader']}, which holds cut {cut.cut_id} since {since} until {until} UTC at most"
            holds.append(Need(who, cut.versions))
    return holds


def longest(paths: TablePaths, now: datetime) -> timedelta:
    """Return how long ago, at a time, the oldest cut was published that a reader holds; zero where nobody holds one."""
    ages = [timedelta(0)]
    for row in _lasting(paths, now):
        cut = newest_cut(paths, "published_at", f"cut_id = {int(row['cut_id'])}")
        ages += [now - cut["published_at"]] if cut is not None and cut["published_at"] is not None else []
    return max(ages)


def _lasting(paths: TablePaths, now: datetime) -> list[dict[str, Any]]:
    """Return the holds that have not ended at a time."""
    return [row for row in holding(paths) if row["until"] > now]


def holding(paths: TablePaths) -> list[dict[str, Any]]:
    """Return reader, cut_id, until and since of the newest hold of each reader on each cut; since: of its first one."""
    newest = (
        "select reader, cut_id, until, since from (select *, min(at) over (partition by reader, cut_id) as since,"
        " row_number() over (partition by reader, cut_id order by at desc) as n from t) where n = 1"
        " order by since, reader, cut_id"
    )
    return small_tables.query(paths.table(names.READERS), newest)


def vacuumed(paths: TablePaths, cut: Cut, retain: timedelta, tables: Collection[str] | None = None) -> list[str]:
    """Return the tables of a cut of which vacuum may have begun to remove files, sorted; of the newest cut none.

    tables: those that are judged; None: all of the cut.
    """
    if cut == published(paths):
        return []
    chosen = sorted(cut.versions if tables is None else tables)
    return [name for name in chosen if outlived(paths.table(name), {cut.versions[name]}, retain)]


def outlived(path: str, versions: Collection[int], retain: timedelta) -> set[int]:
    """Return the versions of which vacuum would remove files: a newer version replaced them longer than `retain` ago.

    Args:
        path: the table's path.
        versions: the versions that are judged. One that the log no longer has is returned unless it is the newest.
        retain: for how long replaced versions are kept.
    """
    if not versions:
        return set()
    table, now = table_at(path), datetime.now(UTC)
    replaced = {
        commit["version"] - 1: datetime.fromtimestamp(commit["timestamp"] / 1000, UTC) for commit in table.history()
    }
    newest = int(table.version())
    return {each for each in versions if (now - replaced[each] > retain if each in replaced else each < newest)}
