"""Compare one table of the lake with the source's: digests of key ranges first, rows only where these differ."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from txloom.config.problems import counted
from txloom.current.equality.canonical_texts import Form, readable
from txloom.current.equality.row_images import image
from txloom.storage.checks.audited_rows import NULL_KEY, REPEATED
from txloom.storage.databases.audit_source import AuditSource, Moment, Relation
from txloom.storage.paths import TablePaths
from txloom.storage.targets import history_reader
from txloom.storage.targets.lake_digests import Key, LakeRows, Texts, audited, changed_keys, lake_rows, rows_at
from txloom.storage.targets.row_tables import RowTable

MISSING, EXTRA, CHANGED = "missing", "extra", "changed"
"""What is wrong with a row of the lake: it is not there, the source has none, or a column has another value."""
Handles = dict[Key, tuple[Any, ...]]
"""Keys by their canonical texts, with values that the database takes."""


@dataclass(frozen=True)
class Difference:
    """A row that differs.

    Args:
        key: the values of the key by column, as texts; null only in one of NULL_KEY.
        kind: MISSING, EXTRA or CHANGED; or what no repair can mend: NULL_KEY, REPEATED.
        columns: of a changed row the values of the lake and of the source by column, as texts; of NULL_KEY under
            the names of the columns that are null; of REPEATED under "" how many rows either side has.
        csn: of the newest change that the lake has of the row; None: of a row that it does not have.
        as_of: the csn as of which the source had the row so; at: when that was, if known.
        image: the source's row as a JSON object; of an EXTRA row its key.
    """

    key: Mapping[str, str | None]
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
        is_explained: whether the rows that differ are all that makes the digests differ.
    """

    rows: int
    differences: list[Difference]
    in_flight: Handles
    is_explained: bool = True


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
    if keys is None:
        rows, suspects, is_equal = _suspects(source, relation, lake)
        nulls = [lake.null_key(each) for each in source.keyless(relation)]
    else:
        rows, suspects, is_equal, nulls = len(keys), keys, not keys, []
    rows += len(nulls)
    if not suspects:
        return Compared(rows, nulls, {}, is_explained=is_equal)
    theirs = source.rows_of(relation, list(suspects.values()))
    ours = lake.rows(suspects, relation.forms)
    differing = {
        key: handle for key, handle in suspects.items() if not _are_equal(ours.get(key, ()), theirs.get(key, ()))
    }
    moving = lake.changed_since(moment, relation.forms) if differing else set()
    everything = moving is None
    in_flight = {key: handle for key, handle in differing.items() if everything or key in (moving or ())}
    real = [key for key in differing if key not in in_flight]
    # Where the snapshot lies above the cut, nothing changed these tables between the two.
    as_of, at = min(moment.at_most, lake.upto), None if source.as_of is not None else moment.at
    columns, widths = audited(lake.row_table), relation.widths
    dated = [
        replace(
            lake.difference(key, ours.get(key, ()), theirs.get(key, ())),
            as_of=as_of,
            at=at,
            image=image(columns, theirs[key][0] if key in theirs else key, widths),
        )
        for key in real
    ]
    is_explained = is_equal or bool(differing) or keys is not None
    return Compared(rows, [*nulls, *dated], in_flight, is_explained)


def _are_equal(ours: Sequence[tuple[Texts, int]], theirs: Sequence[Texts]) -> bool:
    """Return whether both sides have the same rows of a key, as often."""
    if len(ours) == len(theirs) == 1:
        return ours[0][0] == theirs[0]
    return Counter(texts for texts, _ in ours) == Counter(theirs)


def _suspects(source: AuditSource, relation: Relation, lake: "LakeTable") -> tuple[int, Handles, bool]:
    """Return how many rows the source has, the keys whose rows have other digests, and whether all digests agree.

    Where a key lies in one range of the source and in another one of the lake, only the sums of all ranges agree.
    """
    every, suspects, ours_of_all, theirs_of_all = 0, Handles(), (0, 0), (0, 0)
    ranges = list(lake.digests(relation.forms).ranges)
    for number, ours in enumerate(ranges):
        low = ours.first if number else ()
        high = ranges[number + 1].first if number + 1 < len(ranges) else ()
        seen, held = source.total(relation, low, high), ours.summed
        every += seen[0]
        ours_of_all = ours_of_all[0] + held[0], ours_of_all[1] + held[1]
        theirs_of_all = theirs_of_all[0] + seen[0], theirs_of_all[1] + seen[1]
        if seen == held:
            continue
        theirs, known = source.listed(relation, low, high), ours.by_key()
        for key in theirs.keys() | known.keys():
            if theirs.get(key, (None, None))[1] != known.get(key, (None, None))[1]:
                suspects[key] = known[key][0] if key in known else theirs[key][0]
    return every, suspects, ours_of_all == theirs_of_all


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

    def digests(self, forms: Mapping[str, Form]) -> LakeRows:
        """Return its rows."""
        return lake_rows(self.paths, self.row_table, self.version, forms)

    def rows(self, keys: Handles, forms: Mapping[str, Form]) -> dict[Key, list[tuple[Texts, int]]]:
        """Return the canonical texts of rows and the csn of their newest change, by canonical key."""
        return rows_at(self.paths, self.row_table, self.version, keys, forms)

    def changed_since(self, moment: Moment, forms: Mapping[str, Form]) -> set[Key] | None:
        """Return the keys of rows that transactions changed which a snapshot may not have; None: all, by a truncate."""
        where = f"_txloom_csn <= {self.upto} and ({moment.unseen})"
        changes = history_reader.chosen(self.paths, self.row_table, where)
        return changed_keys(changes, self.row_table, forms)

    def null_key(self, key: Texts) -> Difference:
        """Describe a row of the source whose key is null in part."""
        named = self._named(key)
        nulls = ", ".join(name for name, text in named.items() if text is None)
        return Difference(named, NULL_KEY, {nulls: (None, None)})

    def difference(self, key: Key, ours: Sequence[tuple[Texts, int]], theirs: Sequence[Texts]) -> Difference:
        """Describe a key whose rows differ."""
        named, csn = self._named(key), max((csn for _, csn in ours), default=None)
        if max(len(ours), len(theirs)) > 1:
            counts = (counted(len(ours), "row"), counted(len(theirs), "row"))
            return Difference(named, REPEATED, {"": counts}, csn)
        if not ours:
            return Difference(named, MISSING)
        if not theirs:
            return Difference(named, EXTRA, csn=csn)
        both = {
            column.name: (readable(a, column.type), readable(b, column.type))
            for column, a, b in zip(audited(self.row_table), ours[0][0], theirs[0], strict=True)
            if a != b
        }
        return Difference(named, CHANGED, both, csn)

    def _named(self, key: Texts) -> dict[str, str | None]:
        pairs = zip(audited(self.row_table), key, strict=False)
        return {column.name: readable(text, column.type) for column, text in pairs}
