"""Tables at pinned versions as a data source of Great Expectations; importing it loads Great Expectations.

It has no source that reads Delta without Spark. This one judges frames as its pandas source does, but reads them when
they are judged and not before, and knows how to ask several tables a query.
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
    """Judges frames with pandas, and asks queries of the tables themselves."""


class PinnedTables(DataFrameAsset):
    """What one expectation looks at: a frame, and what answers a query over the same versions of tables."""

    type: Literal["pinned_tables"] = "pinned_tables"  # type: ignore[assignment]
    _read: Any = PrivateAttr(None)
    _ask: Any = PrivateAttr(None)

    def set_tables(self, read: Callable[[], Any], ask: Ask | None) -> None:
        """Keep what reads the frame, and what asks the tables."""
        self._read, self._ask = read, ask

    def build_batch_request(self, options: Any = None, batch_slice: Any = None, partitioner: Any = None) -> Any:
        """Return a request for the frame, which is read now; it takes no options."""
        if options:
            raise TypeError(f"{self.name} takes no options: {', '.join(options)}")
        return super().build_batch_request({"dataframe": self._read()}, batch_slice, partitioner)

    def count(self, query: str) -> int:
        """Return how many rows a query returns."""
        return count(self._ask, query)


class PinnedTablesDatasource(PandasDatasource):
    """Tables of one pipeline."""

    ADD_READER_METHODS: ClassVar[bool] = False
    asset_types: ClassVar[Any] = [PinnedTables]
    type: Literal["txloom_pinned_tables"] = "txloom_pinned_tables"  # type: ignore[assignment]
    assets: list[PinnedTables] = []  # noqa: RUF012 (as Great Expectations' own sources have it)

    @property
    def execution_engine_type(self) -> Any:
        """Return the engine that judges."""
        return PinnedTablesEngine

    def add_tables(self, name: str, read: Callable[[], Any], ask: Ask | None) -> PinnedTables:
        """Add what an expectation looks at."""
        asset: PinnedTables = self._add_asset(PinnedTables(name=name))
        asset.set_tables(read, ask)
        return asset


class _OfQuery(TableMetricProvider):
    """What Great Expectations asks for a query, which its pandas engine cannot answer."""

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
    """Which rows a query returns: none are handed over, samples are masked and shown by txloom."""

    metric_name = "unexpected_rows_query.table"

    @metric_value(engine=PinnedTablesEngine)  # type: ignore[untyped-decorator]
    def _rows(cls, **_: Any) -> list[dict[str, Any]]:  # noqa: N805
        return []
