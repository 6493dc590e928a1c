"""Compare one table of the lake with the source's: digests of key ranges first, rows only where these differ."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from txloom.current.equality.canonical_texts import readable
from txloom.current.equality.row_images import image
from txloom.storage.databases.audit_source import AuditSource, Moment, Relation
from txloom.storage.paths import TablePaths
from txloom.storage.targets import history_reader
from txloom.storage.targets.lake_digests import Key, LakeRows, audited, changed_keys, lake_rows, rows_at
from txloom.storage.targets.row_tables import RowTable

MISSING, EXTRA, CHANGED = "missing", "extra", "changed"
"""What is wrong with a row of the lake: it is not there, the source has none, or a column has another value."""
Handles = dict[Key, tuple[Any, ...]]
"""Keys by their canonical texts, with values that the database takes."""


@dataclass(frozen=True)
class Difference:
    """A row that differs.

    Args:
        key: the values of the key by column, as texts.
        kind: MISSING, EXTRA or CHANGED.
        columns: of a changed row the values of the lake and of the source by column, as texts.
        csn: of the newest change that the lake has of the row; None: of a row that it does not have.
        as_of: the csn as of which the source had the row so; at: when that was, if known.
        image: the source's row as a JSON object; of an EXTRA row its key.
    """

    key: Mapping[str, str]
    kind: str
    columns: Mapping[str, tuple[str | None, str | None]] = field(default_factory=dict)
    csn: int | None = None
    as_of: int | None = None
    at: datetime | None = None
    image: str = ""


@dataclass(frozen=True)
class Compared:
    """What is known of a table after a look.

    Args:
        rows: that the source has, of those that were looked at.
        differences: the rows that differ.
        in_flight: keys that differ, and that the lake changed by transactions which the source's snapshot may not have.
    """

    rows: int
    differences: list[Difference]
    in_flight: Handles


def compare(
    source: AuditSource, relation: Relation, moment: Moment, lake: "LakeTable", keys: Handles | None = None
) -> Compared:
    """Compare a table at the source's snapshot with the lake at a version.

    Args:
        source: within the snapshot.
        relation: the table there.
        moment: where the snapshot lies.
        lake: the table of the lake.
        keys: the only keys to look at; None: all rows.
    """
    rows, suspects = _suspects(source, relation, lake) if keys is None else (len(keys), keys)
    if not suspects:
        return Compared(rows, [], {})
    theirs = source.rows_of(relation, list(suspects.values()))
    ours = lake.rows(suspects, relation.padded)
    differing = {key: handle for key, handle in suspects.items() if theirs.get(key) != ours.get(key, (None,))[0]}
    moving = lake.changed_since(moment, relation.padded) if differing else set()
    everything = moving is None
    in_flight = {key: handle for key, handle in differing.items() if everything or key in (moving or ())}
    real = [lake.difference(key, ours.get(key), theirs.get(key)) for key in differing if key not in in_flight]
    columns, widths = audited(lake.row_table), relation.widths
    images = [image(columns, theirs.get(key, key), widths) for key in differing if key not in in_flight]
    # Where the snapshot lies above the cut, nothing changed these tables between the two.
    as_of, at = min(moment.at_most, lake.upto), None if source.as_of is not None else moment.at
    dated = [replace(each, as_of=as_of, at=at, image=text) for each, text in zip(real, images, strict=True)]
    return Compared(rows, dated, in_flight)


def _suspects(source: AuditSource, relation: Relation, lake: "LakeTable") -> tuple[int, Handles]:
    """Return how many rows the source has, and the keys whose rows have other digests there."""
    every, suspects = 0, Handles()
    ranges = list(lake.digests(relation.padded).ranges)
    for number, ours in enumerate(ranges):
        low = ours.first if number else ()
        high = ranges[number + 1].first if number + 1 < len(ranges) else ()
        count, total = source.total(relation, low, high)
        every += count
        if (count, total) == ours.summed:
            continue
        theirs, known = source.listed(relation, low, high), ours.by_key()
        for key in theirs.keys() | known.keys():
            if theirs.get(key, (None, None))[1] != known.get(key, (None, None))[1]:
                suspects[key] = known[key][0] if key in known else theirs[key][0]
    return every, suspects


@dataclass(frozen=True)
class LakeTable:
    """A current table of the lake at the version of a cut.

    Args:
        paths: where the tables are.
        row_table: the table.
        version: of the cut.
        upto: the csn up to which the version shows everything.
    """

    paths: TablePaths
    row_table: RowTable
    version: int
    upto: int

    def digests(self, padded: frozenset[str]) -> LakeRows:
        """Return its rows."""
        return lake_rows(self.paths, self.row_table, self.version, padded)

    def rows(self, keys: Handles, padded: frozenset[str]) -> dict[Key, tuple[tuple[str | None, ...], int]]:
        """Return the canonical texts of rows and the csn of their newest change, by canonical key."""
        return rows_at(self.paths, self.row_table, self.version, keys, padded)

    def changed_since(self, moment: Moment, padded: frozenset[str]) -> set[Key] | None:
        """Return the keys of rows that transactions changed which a snapshot may not have; None: all, by a truncate."""
        where = f"_txloom_csn <= {self.upto} and ({moment.unseen})"
        changes = history_reader.chosen(self.paths, self.row_table, where)
        return changed_keys(changes, self.row_table, padded)

    def difference(
        self, key: Key, ours: tuple[tuple[str | None, ...], int] | None, theirs: tuple[str | None, ...] | None
    ) -> Difference:
        """Describe a row that differs."""
        columns = audited(self.row_table)
        named = {column.name: str(readable(text, column.type)) for column, text in zip(columns, key, strict=False)}
        if ours is None:
            return Difference(named, MISSING)
        if theirs is None:
            return Difference(named, EXTRA, csn=ours[1])
        both = {
            column.name: (readable(a, column.type), readable(b, column.type))
            for column, a, b in zip(columns, ours[0], theirs, strict=True)
            if a != b
        }
        return Difference(named, CHANGED, both, ours[1])
