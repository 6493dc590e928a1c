"""The edited shop as a Debezium connector of PostgreSQL sends it: messages without schemas, with times as numbers."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, ClassVar

from steps.settling.edited_shop import EditedShop, Row

HEAD = """
name: shop
source:
  format: debezium
  transaction_topic: {metadata}
  unknown_tables: {unknown}
  files: {{path: {inbox}, settle: 0s}}
  debezium: {{{debezium}}}
completeness: {{rule: counts, patience: {patience}}}
tables:
"""
OPS = {"I": "c", "U": "u", "D": "d"}


START = datetime(1970, 1, 1)


class ConnectorShop(EditedShop):
    """A source whose rows have the values that the connector writes: `debezium` of `declare` says how to read them.

    Snapshots that it exports have texts of `q` as of a time in milliseconds, if `q` is declared as a timestamp.
    """

    head: ClassVar[str] = HEAD

    def _row(self, op: str, table: str, pos: int, before: Row | None, after: Row | None) -> Row:
        source = {
            "connector": "postgresql",
            "db": "shop",
            "schema": "APP",
            "table": table.upper(),
            "lsn": self.csn,
            "txId": self.csn,
            "snapshot": "false",
            "ts_ms": 1_767_225_600_000,
        }
        return {
            "before": None if before is None else self._sent(before),
            "after": None if after is None else self._sent(after),
            "source": source,
            "op": OPS[op],
            "transaction": {"id": self._transaction, "total_order": pos, "data_collection_order": pos},
        }

    def _exported(self, table: str, row: Row) -> Row:
        kinds = {column.name: column.type.kind for column in self.lake.pipeline.table(table).columns}
        return row | ({"q": str(START + timedelta(milliseconds=row["q"]))} if kinds.get("q") == "timestamp" else {})

    def _metadata(self, counts: Mapping[str, int]) -> Row:
        parts: list[dict[str, Any]] = [
            {"data_collection": f"APP.{table.upper()}", "event_count": count} for table, count in counts.items()
        ]
        end = {"status": "END", "id": self._transaction, "event_count": sum(counts.values())}
        return end | {"data_collections": parts, "ts_ms": 1_767_225_600_000}

    @property
    def _transaction(self) -> str:
        return f"{self.csn}:{self.csn}"
