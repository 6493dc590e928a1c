"""The sample in a store: what is delivered there, and its cuts beside the states that the source had."""

from pathlib import Path
from typing import Any

from oracle import capture, comparison, declarations, values
from oracle.state import Source
from txloom.config.names import table_path
from txloom.storage.delta import arrow_tables, small_tables
from txloom.storage.stores.file_systems import filesystem_of

KEYS = {name: table.key for name, table in declarations.TABLES.items()} | {"orders_current": ("order_id",)}


class SampleLake:
    """The inbox and the lake of the sample below a URI."""

    def __init__(self, root: str) -> None:
        self.inbox, self.warehouse = f"{root}/inbox", f"{root}/lake"
        self.runs = list[str]()
        self.history = list[dict[str, dict[str, str]]]()

    def deliver(self, arrival: Path) -> None:
        """Copy one arrival into the inbox."""
        filesystem, inbox = filesystem_of(self.inbox)
        for file in sorted(path for path in arrival.rglob("*") if path.is_file()):
            filesystem.create_dir(f"{inbox}/{file.parent.name}", recursive=True)
            with filesystem.open_output_stream(f"{inbox}/{file.parent.name}/{file.name}", compression=None) as stream:
                stream.write(file.read_bytes())

    def path(self, table: str) -> str:
        return table_path(self.warehouse, "orders", table)

    def query(self, table: str, sql: str) -> list[dict[str, Any]]:
        return small_tables.query(self.path(table), sql)

    def shown(self, versions: dict[str, int]) -> dict[str, Any]:
        """Return every mirror and the documents at some versions."""
        rows = {name: arrow_tables.select(self.path(name), "select * from t", versions[name]) for name in KEYS}
        return {name: comparison.keyed(table.to_pylist(), KEYS[name]) for name, table in rows.items()}

    def assert_cuts(self, count: int) -> None:
        """There are so many cuts, and each shows a state that the source had."""
        source = Source(capture.read(capture.arrivals()))
        cuts = self.query("cuts", "select * from t order by cut_id")
        assert len(cuts) == count
        for cut in cuts:
            csn = cut["valid_through"]
            state = values.typed_state(source.state_as_of(csn))
            expected = {name: state.get(name, {}) for name in declarations.TABLES}
            expected["orders_current"] = values.typed_documents(source.documents_as_of(csn))
            differences = comparison.differences(expected, self.shown(dict(cut["versions"])))
            assert not differences, f"cut {cut['cut_id']}: {comparison.report(differences)}"
