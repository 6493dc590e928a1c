"""Tables at pinned versions as a data source of Great Expectations; importing it loads Great Expectations.

Great Expectations has no source that reads Delta without Spark. This one judges pandas frames as its pandas source
does, reads a frame only when it is judged, and can run a query over several tables.
"""

from collections.abc import Callable
from typing import Any, ClassVar, Literal

from great_expectations.datasource.fluent.pandas_datasource import DataFrameAsset, PandasDatasource
from great_expectations.execution_engine import PandasExecutionEngine
from great_expectations.expectations.metrics.metric_provider import metric_value
from great_expectations.expectations.metrics.table_metric_provider import TableMetricProvider
from pydantic.v1 import PrivateAttr

from txloom.quality.checkpoint import Ask, count


class PinnedTablesEngine(PandasExecutionEngine):
    """Judges frames with pandas, and runs queries over the tables themselves."""


class PinnedTables(DataFrameAsset):
    """The data of one expectation: a frame, and a function that runs a query over the same versions of tables."""

    type: Literal["pinned_tables"] = "pinned_tables"  # type: ignore[assignment]
    _read: Any = PrivateAttr(None)
    _ask: Any = PrivateAttr(None)

    def set_tables(self, read: Callable[[], Any], ask: Ask | None) -> None:
        """Keep the function that reads the frame, and the one that runs queries."""
        self._read, self._ask = read, ask

    def build_batch_request(self, options: Any = None, batch_slice: Any = None, partitioner: Any = None) -> Any:
        """Return a request for the frame, which is read now; raises TypeError for any options."""
        if options:
            raise TypeError(f"{self.name} takes no options: {', '.join(options)}")
        return super().build_batch_request({"dataframe": self._read()}, batch_slice, partitioner)

    def count(self, query: str) -> int:
        """Return how many rows a query returns."""
        return count(self._ask, query)


class PinnedTablesDatasource(PandasDatasource):
    """The tables of one pipeline."""

    ADD_READER_METHODS: ClassVar[bool] = False
    asset_types: ClassVar[Any] = [PinnedTables]
    type: Literal["txloom_pinned_tables"] = "txloom_pinned_tables"  # type: ignore[assignment]
    assets: list[PinnedTables] = []  # noqa: RUF012 (as Great Expectations' own sources have it)

    @property
    def execution_engine_type(self) -> Any:
        """Return the class of the engine that judges."""
        return PinnedTablesEngine

    def add_tables(self, name: str, read: Callable[[], Any], ask: Ask | None) -> PinnedTables:
        """Add the data of one expectation, under its id, and return it."""
        asset: PinnedTables = self._add_asset(PinnedTables(name=name))
        asset.set_tables(read, ask)
        return asset


class _OfQuery(TableMetricProvider):
    """A metric that Great Expectations computes for a query, which its pandas engine does not provide."""

    domain_keys: ClassVar[Any] = ("batch_id", "row_condition", "condition_parser")
    value_keys: ClassVar[Any] = ("unexpected_rows_query",)


class UnexpectedRowsCount(_OfQuery):
    """How many rows a query returns."""

    metric_name = "unexpected_rows_query.row_count"

    @metric_value(engine=PinnedTablesEngine)  # type: ignore[untyped-decorator]
    def _count(cls, execution_engine: Any, metric_value_kwargs: Any, **_: Any) -> int:  # noqa: N805
        asset = execution_engine.batch_manager.active_batch.data_asset
        number: int = asset.count(metric_value_kwargs["unexpected_rows_query"])
        return number


class UnexpectedRows(_OfQuery):
    """The rows that a query returns: always none here, because txloom masks and shows the samples itself."""

    metric_name = "unexpected_rows_query.table"

    @metric_value(engine=PinnedTablesEngine)  # type: ignore[untyped-decorator]
    def _rows(cls, **_: Any) -> list[dict[str, Any]]:  # noqa: N805
        return []
