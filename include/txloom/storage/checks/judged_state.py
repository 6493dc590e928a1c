"""The state of a pipeline's tables that expectations judge: as they are now, or as the newest cut has them."""

import json
from collections.abc import Iterable
from dataclasses import dataclass

from txloom.config import names
from txloom.config.models.pipeline import Pipeline
from txloom.storage.declarations.incomplete import incomplete_among, without_incomplete
from txloom.storage.delta import small_tables
from txloom.storage.delta.read_session import reading
from txloom.storage.delta.table_metadata import versions
from txloom.storage.paths import TablePaths
from txloom.storage.publishing import reader_holds
from txloom.storage.publishing.cuts import newest_cut
from txloom.storage.publishing.watermark import Watermark, merged, watermark_of
from txloom.storage.stores.delta_tables import table_at
from txloom.storage.targets.row_tables import row_tables


@dataclass(frozen=True)
class Releases:
    """A range of releases: above `since`, up to and with `upto`; None: up to the newest."""

    since: int
    upto: int | None = None


@dataclass(frozen=True)
class Newest:
    """The tables as they are: what publish would publish."""

    pipeline: Pipeline
    paths: TablePaths

    def versions(self, tables: Iterable[str]) -> dict[str, int]:
        """Return the versions of tables; those that do not exist, or are not complete, are left out."""
        with reading():
            return versions(self.paths, without_incomplete(self.pipeline, self.paths, tables))

    def lacking(self, tables: Iterable[str]) -> list[str]:
        """Return for each table that is not complete a clause that says so."""
        with reading():
            return _incomplete(self.pipeline, self.paths, tables)

    @property
    def valid_through(self) -> int | None:
        """Return the csn up to which the tables are merged; None before the first merge."""
        reached = merged(self.paths, self.pipeline.current_tables)
        return None if reached is None else reached.valid_through

    @property
    def releases(self) -> Releases:
        """Return the releases that no cut shows yet."""
        cut = newest_cut(self.paths, "release")
        return Releases(cut["release"] if cut else 0)


@dataclass(frozen=True)
class Published:
    """The tables as a cut has them; releases: those that the cut before it did not show.

    Tables that no cut names are read as they are, except row tables kept for documents: those are read as of the cut.
    Of these, tables that are not complete now are left out, because no cut says what they lacked then.
    """

    pipeline: Pipeline
    paths: TablePaths
    cut: reader_holds.Cut
    releases: Releases

    def versions(self, tables: Iterable[str]) -> dict[str, int]:
        """Return the versions of tables; those that do not exist, or that the cut does not show, are left out."""
        shown = self.pipeline.current_tables
        rows = {row_table.current for row_table in row_tables(self.pipeline)} - set(shown)
        chosen, version_of = list(tables), dict[str, int]()
        left_out = incomplete_among(self.pipeline, self.paths, [name for name in chosen if name not in shown])
        for name, newest in versions(self.paths, [name for name in chosen if name not in left_out]).items():
            version = self.cut.versions.get(name) if name in shown else self._until(name) if name in rows else newest
            version_of |= {} if version is None else {name: version}
        return version_of

    def lacking(self, tables: Iterable[str]) -> list[str]:
        """Return for each table that is not complete, or that only the cut lacks, a clause that says so."""
        chosen = [name for name in tables if name not in self.cut.versions]
        incomplete = incomplete_among(self.pipeline, self.paths, chosen)
        shown = [name for name in chosen if name in self.pipeline.current_tables and name not in incomplete]
        not_shown = [f"cut {self.cut.cut_id} does not show {name}" for name in versions(self.paths, shown)]
        return [*_incomplete(self.pipeline, self.paths, incomplete), *not_shown]

    def _until(self, table: str) -> int | None:
        """Return the newest version of a table whose watermark is not above the cut's."""
        for commit in table_at(self.paths.table(table)).history():
            metadata = json.loads(commit.get("userMetadata") or "{}")
            if metadata and Watermark(metadata.get("valid_through", 0), metadata.get("release", 0)) <= self.watermark:
                return int(commit["version"])
        return None

    @property
    def valid_through(self) -> int | None:
        """Return the csn up to which the cut shows the source."""
        return self.cut.valid_through

    @property
    def watermark(self) -> Watermark:
        """Return the watermark of the tables of the cut."""
        return Watermark(self.cut.valid_through, self.releases.upto or 0)

    @property
    def is_newest(self) -> bool:
        """Return whether no current table is above the cut."""
        return all(watermark_of(self.paths.table(name)) <= self.watermark for name in self.pipeline.current_tables)


State = Newest | Published


def _incomplete(pipeline: Pipeline, paths: TablePaths, tables: Iterable[str]) -> list[str]:
    """Return for each table that is not complete a clause; a row table bears the name of its source table."""
    named = {row_table.current: row_table.table.name for row_table in row_tables(pipeline)}
    declared = pipeline.current_tables
    shown = [name if name in declared else named.get(name, name) for name in incomplete_among(pipeline, paths, tables)]
    return [f"{name} is not complete" for name in shown]


def published(pipeline: Pipeline, paths: TablePaths) -> Published | None:
    """Return the tables as the newest cut has them; None without a cut.

    Raises CutReplaced where one of them was written anew since.
    """
    cut = reader_holds.published(paths)
    if cut is None:
        return None
    reader_holds.refuse_replaced(paths, cut)
    last = small_tables.query(paths.table(names.CUTS), "select release from t order by cut_id desc limit 2")
    before = last[1]["release"] if len(last) > 1 else 0
    return Published(pipeline, paths, cut, Releases(before, last[0]["release"]))
