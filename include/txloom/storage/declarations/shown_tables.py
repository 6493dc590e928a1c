"""The current tables as a cut shows them, for a reader that needs them as the present declaration has them.

A cut names the versions of the tables that readers see. The row tables of members that no mirror declares are merged
with them, and are found by their watermarks.
"""

import json
from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa
from deltalake.exceptions import DeltaError, TableNotFoundError

from txloom.config.models.pipeline import Aggregate, Pipeline
from txloom.storage.declarations import marks
from txloom.storage.declarations import records as r
from txloom.storage.declarations.incomplete import incomplete_tables
from txloom.storage.delta import arrow_tables
from txloom.storage.delta.read_session import opened
from txloom.storage.delta.table_metadata import identity
from txloom.storage.paths import TablePaths
from txloom.storage.publishing.cuts import newest_cut
from txloom.storage.publishing.reader_holds import Cut
from txloom.storage.publishing.watermark import Watermark
from txloom.storage.targets import schemas
from txloom.storage.targets.row_tables import RowTable, row_tables


def tables_without_history(pipeline: Pipeline, paths: TablePaths) -> Collection[str]:
    """Return the source tables whose history is not complete, so that no current table shows them."""
    return incomplete_tables(pipeline, r.states(r.read(paths)))


@dataclass(frozen=True)
class ShownTables:
    """The current tables of a pipeline as a cut shows them; pipeline: the present declaration."""

    pipeline: Pipeline
    paths: TablePaths
    cut: Cut

    def version(self, name: str) -> int | None:
        """Return the version of a current table that the cut shows; None where there is none.

        Of a row table that the cut does not name it is the newest one of before the cut that is not beyond its
        watermark: a backfill may have replaced it since under the same watermark.
        """
        if name in self.cut.versions or name in self.pipeline.current_tables:
            return self.cut.versions.get(name)
        row = newest_cut(self.paths, "release, published_at", f"cut_id = {int(self.cut.cut_id)}")
        try:
            commits = opened(self.paths.table(name)).history()
        except TableNotFoundError:
            return None
        if row is None:
            return None
        reached, mark = Watermark(self.cut.valid_through, row["release"]), Watermark()
        fitting = list[tuple[int, int]]()
        for commit in sorted(commits, key=lambda commit: int(commit["version"])):
            # The stamp of a lease has no watermark: that of the commit before it holds on.
            if text := commit.get("userMetadata"):
                about = json.loads(text)
                mark = Watermark(about.get("valid_through", 0), about.get("release", 0))
            if mark <= reached:
                fitting.append((commit["version"], commit["timestamp"]))
        published = row["published_at"]
        before = [version for version, at in fitting if published is None or at <= published.timestamp() * 1000]
        return max(before or [version for version, _ in fitting], default=None)

    def problem_of_rows(self, row_table: RowTable) -> str:
        """Return why the cut does not show the rows of a table as it is declared; "": it does."""
        return self._problem(row_table.current, schemas.columns(row_table.table))

    def problem_of_documents(self, aggregate: Aggregate) -> str:
        """Return why the cut does not show documents, or rows of their members, as they are declared; "": it does."""
        members = {name for name, _ in schemas.members_of(aggregate)}
        if lacking := sorted(members.intersection(tables_without_history(self.pipeline, self.paths))):
            return f"the history of {', '.join(lacking)} is not complete"
        problems = [self._problem(aggregate.current, schemas.document_fields(self.pipeline, aggregate))]
        problems += [self.problem_of_rows(each) for each in row_tables(self.pipeline) if each.table.name in members]
        return next(filter(None, problems), "")

    def _problem(self, name: str, declared: "list[pa.Field[pa.DataType]]") -> str:
        version = self.version(name)
        if version is None:
            return f"cut {self.cut.cut_id} does not have {name}"
        try:
            has = arrow_tables.plain_schema(arrow_tables.schema_of(opened(self.paths.table(name), version)))
            mark = json.loads(identity(self.paths.table(name), version)[1]).get(marks.MARK)
        except DeltaError:
            # The error of the step that reads the table says more.
            return ""
        is_lacking = not set(arrow_tables.plain_schema(pa.schema(declared))) <= set(has)
        if is_lacking or (mark is not None and mark != self._marks.get(name)):
            return f"cut {self.cut.cut_id} shows {name} by an earlier declaration: let a cycle run, then audit again"
        return ""

    @cached_property
    def _marks(self) -> dict[str, str]:
        """By name, the mark that a current table has to have (`declarations.marks`)."""
        bases = {pair: state.basis for pair, state in r.states(r.read(self.paths)).items()}
        of_rows = {each.current: marks.row_mark(each, bases) for each in row_tables(self.pipeline)}
        aggregates = self.pipeline.targets.aggregates
        return of_rows | {each.current: marks.document_mark(self.pipeline, each, bases) for each in aggregates}
