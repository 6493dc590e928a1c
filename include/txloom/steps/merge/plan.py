"""What a merge goes by, and what it has worked out before it writes."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from txloom.config.models.pipeline import Pipeline
from txloom.current.folding.column_nulling import Columns, GoneColumns
from txloom.steps.parallel import Failures
from txloom.storage.paths import TablePaths
from txloom.storage.publishing.watermark import Watermark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class Merge:
    """Which tables a merge brings to which mark, and which of them failed.

    spark opens a session. gone: by table, the columns that its source dropped before.
    """

    spark: "Callable[[], SparkSession]"
    pipeline: Pipeline
    paths: TablePaths
    want: Watermark
    gone: GoneColumns
    failures: Failures


@dataclass(frozen=True)
class Work:
    """What a merge writes, by table: documents, then the flat rows that they are composed of; from how many changes.

    evidence: by table, what its changes tell of rows that is not so. columns: by table, which columns its source
    dropped, as of the merge; None: as before.
    """

    documents: Mapping[str, Callable[[], None]]
    rows: Mapping[str, Callable[[], None]]
    changes: int
    contradictions: Mapping[str, Sequence[str]]
    columns: Mapping[str, Columns | None]
