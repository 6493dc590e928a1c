"""The lake of a pipeline in a store: what is delivered to it, and its cuts beside the states that the source had."""

from pathlib import Path
from typing import Any

from oracle import capture, comparison, declarations, values
from oracle.state import Source
from txloom.config.names import table_path
from txloom.storage.delta import arrow_tables, small_tables
from txloom.storage.stores.file_systems import filesystem_of

KEYS = {name: table.key for name, table in declarations.TABLES.items()} | {"orders_current": ("order_id",)}


class StoredLake:
    """The inbox and the lake of a pipeline below a URI."""

    def __init__(self, root: str, pipeline: str) -> None:
        self.pipeline, self.inbox, self.warehouse = pipeline, f"{root}/inbox/{pipeline}", f"{root}/lake"

    def put(self, folder: str, file: str, content: bytes) -> None:
        """Put a file into a folder of the inbox."""
        filesystem, inbox = filesystem_of(self.inbox)
        filesystem.create_dir(f"{inbox}/{folder}", recursive=True)
        with filesystem.open_output_stream(f"{inbox}/{folder}/{file}", compression=None) as stream:
            stream.write(content)

    def path(self, table: str) -> str:
        return table_path(self.warehouse, self.pipeline, table)

    def query(self, table: str, sql: str) -> list[dict[str, Any]]:
        return small_tables.query(self.path(table), sql)

    def at(self, table: str, version: int, sql: str = "select * from t") -> list[dict[str, Any]]:
        """Return rows of a table's version."""
        return arrow_tables.select(self.path(table), sql, version).to_pylist()

    def cuts(self) -> list[dict[str, Any]]:
        """Return what was published, the oldest first."""
        return self.query("cuts", "select * from t order by cut_id")


class OrdersLake(StoredLake):
    """A lake of the sample's tables, by any stream of its source."""

    def __init__(self, root: str, pipeline: str = "orders") -> None:
        super().__init__(root, pipeline)
        self.history = list[dict[str, dict[str, str]]]()

    def deliver(self, arrival: Path) -> None:
        """Copy one arrival of the sample into the inbox."""
        for file in sorted(path for path in arrival.rglob("*") if path.is_file()):
            self.put(file.parent.name, file.name, file.read_bytes())

    def shown(self, versions: dict[str, int]) -> dict[str, Any]:
        """Return every mirror and the documents at some versions."""
        return {name: comparison.keyed(self.at(name, versions[name]), key) for name, key in KEYS.items()}

    def assert_cuts(self, count: int, source: Source | None = None) -> None:
        """There are so many cuts, and each shows a state that the source had; by default that of the sample."""
        source = source or Source(capture.read(capture.arrivals()))
        cuts = self.cuts()
        assert len(cuts) == count
        for cut in cuts:
            csn = cut["valid_through"]
            state = values.typed_state(source.state_as_of(csn))
            expected = {name: state.get(name, {}) for name in declarations.TABLES}
            expected["orders_current"] = values.typed_documents(source.documents_as_of(csn))
            differences = comparison.differences(expected, self.shown(dict(cut["versions"])))
            assert not differences, f"cut {cut['cut_id']}: {comparison.report(differences)}"
