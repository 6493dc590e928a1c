"""Who reads which published cut: vacuum keeps the files of a cut while somebody holds it."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from deltalake import DeltaTable

from txloom.config import names
from txloom.errors import ConfigurationError
from txloom.storage import books
from txloom.storage.newest import newest_cut
from txloom.storage.own import READERS
from txloom.storage.place import Place


@dataclass(frozen=True)
class Cut:
    """A published cut: {table: Delta version} that together show one moment of the source."""

    cut_id: int
    valid_through: int
    versions: Mapping[str, int]


@dataclass(frozen=True)
class Need:
    """Somebody who needs a version of each table, as vacuum names them."""

    who: str
    versions: Mapping[str, int]


def published(place: Place, cut_id: int | None = None) -> Cut | None:
    """Return a published cut, the newest unless one is named; None where there is none."""
    chosen = "true" if cut_id is None else f"cut_id = {int(cut_id)}"
    found = newest_cut(place, "cut_id, valid_through, versions", chosen)
    return Cut(found["cut_id"], found["valid_through"], dict(found["versions"])) if found else None


def hold(place: Place, reader: str, cut: Cut, until: datetime) -> None:
    """Let vacuum keep a cut until a moment."""
    _write(place, reader, cut.cut_id, until)


def release(place: Place, reader: str, cut: Cut) -> None:
    """Say that a reader needs a cut no longer."""
    _write(place, reader, cut.cut_id, datetime.now(UTC))


def _write(place: Place, reader: str, cut_id: int, until: datetime) -> None:
    if not reader.strip():
        raise ConfigurationError("a reader needs a name: vacuum tells who holds a cut")
    row = {"reader": reader, "cut_id": cut_id, "at": datetime.now(UTC), "until": until}
    books.append(place.table(names.READERS), [row], READERS)


def needs(place: Place, now: datetime) -> list[Need]:
    """Return who needs which versions: whoever reads the newest cut, and readers that hold an earlier one."""
    newest = published(place)
    found = [] if newest is None else [Need(f"cut {newest.cut_id}, the newest", newest.versions)]
    for row in holding(place):
        cut = published(place, row["cut_id"]) if row["until"] > now else None
        if cut is not None:
            since, until = (row[name].strftime("%Y-%m-%d %H:%M") for name in ("since", "until"))
            who = f"reader {row['reader']}, which holds cut {cut.cut_id} since {since} until {until} UTC at most"
            found.append(Need(who, cut.versions))
    return found


def holding(place: Place) -> list[dict[str, Any]]:
    """Return the newest word of each reader on each cut, and when it first held it."""
    newest = (
        "select reader, cut_id, until, since from (select *, min(at) over (partition by reader, cut_id) as since,"
        " row_number() over (partition by reader, cut_id order by at desc) as n from t) where n = 1"
        " order by since, reader, cut_id"
    )
    return books.query(place.table(names.READERS), newest)


def outlived(path: str, versions: Collection[int], retain: timedelta) -> set[int]:
    """Return from which versions vacuum would take files: a younger one replaced them longer than `retain` ago."""
    if not versions:
        return set()
    table, now = DeltaTable(path), datetime.now(UTC)
    replaced = {
        commit["version"] - 1: datetime.fromtimestamp(commit["timestamp"] / 1000, UTC) for commit in table.history()
    }
    newest = int(table.version())
    return {each for each in versions if (now - replaced[each] > retain if each in replaced else each < newest)}
