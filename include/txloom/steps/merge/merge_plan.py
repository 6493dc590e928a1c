"""The input of a merge, and the writes that it has planned."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from txloom.config.models.pipeline import Pipeline
from txloom.current.documents.child_counts import SeveralChildren
from txloom.current.folding.column_nulling import Columns, GoneColumns
from txloom.steps.parallel import Failures
from txloom.steps.settling.computed import Computed
from txloom.storage.paths import TablePaths
from txloom.storage.publishing.watermark import Watermark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class Merge:
    """The input of a merge.

    Args:
        spark: opens a Spark session.
        pipeline: the declaration, without tables that failed.
        paths: the tables of the pipeline.
        target: the watermark to bring every table to.
        gone: by table, the columns that its source dropped before.
        failures: the tables that failed so far; planning adds to them.
        computed: what current tables are computed from, where a declaration changed or a table was lost.
    """

    spark: "Callable[[], SparkSession]"
    pipeline: Pipeline
    paths: TablePaths
    target: Watermark
    gone: GoneColumns
    failures: Failures
    computed: Computed

    def metadata(self, table: str) -> dict[str, Any]:
        """Return the userMetadata of the commit that brings a current table to the target."""
        return {**vars(self.target), **self.computed.metadata(table)}


@dataclass(frozen=True)
class Work:
    """The writes of a merge, computed and not made yet.

    Args:
        documents: by current table of an aggregate, the call that writes its documents. They are made first.
        rows: by source table, the call that writes its row table.
        changes: how many changes of history are applied.
        contradictions: by table, JSON texts (`txloom.current.folding.contradictions`).
        columns: by table, which columns are gone after the merge; None: as before.
        several: by current table of an aggregate, documents that have several rows of a child of the relation `one`.
        agreeing: the source tables whose rows are all computed from history, without any contradiction.
    """

    documents: Mapping[str, Callable[[], None]]
    rows: Mapping[str, Callable[[], None]]
    changes: int
    contradictions: Mapping[str, Sequence[str]]
    columns: Mapping[str, Columns | None]
    several: Mapping[str, Sequence[SeveralChildren]]
    agreeing: Collection[str] = ()
