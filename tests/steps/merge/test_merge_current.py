"""Few changes are merged without Spark: what was released becomes rows and documents, up to valid-through."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import pyarrow as pa
import pytest

from called import step_of
from steps.merge.keyed import die_behind_documents
from txloom import read
from txloom.config import load, names
from txloom.errors import TxloomError
from txloom.steps.merge.merge_current import merge_current
from txloom.storage import system_tables
from txloom.storage.delta import arrow_tables, small_merge, small_tables
from txloom.storage.paths import TablePaths
from txloom.storage.publishing.watermark import watermark_of
from txloom.storage.targets import schemas

DECLARATION = """
name: shop
source: {{format: goldengate, files: {{path: {folder}}}, transaction_topic: metadata}}
completeness: {{rule: counts, patience: 1h}}
tables:
  - {{name: orders, source: S.ORDERS, key: [id], columns: {{id: long, name: string}}}}
  - {{name: lines, source: S.LINES, key: [line], columns: {{line: long, id: long}}}}
targets:
  mirrors: [{{table: orders}}, {{table: lines}}]
  aggregates:
    - {{name: doc, root: orders, children: [{{table: lines, as: lines, relation: many, parent_key: [id]}}]}}
"""
COLUMNS = {"orders": ("id", "name"), "lines": ("line", "id")}
Change = tuple[str, str, tuple[Any, ...], tuple[Any, ...]]
"""Table, operation, row before, row after."""


@dataclass
class Warehouse:
    """Tables into which a test writes what the buffer would have released."""

    folder: Path
    releases: int = 0

    def __post_init__(self) -> None:
        file = self.folder / "shop.yaml"
        file.write_text(DECLARATION.format(folder=self.folder))
        self.pipeline = load(file)
        self.paths = TablePaths(str(self.folder), "shop")

    def release(self, transactions: Mapping[int, Sequence[Change]], waiting: Sequence[int] = ()) -> None:
        """Release transactions by csn; others wait."""
        self.releases += 1
        for mirror in self.pipeline.targets.mirrors:
            rows = [
                history_row(change, {"xid": f"x{csn}", "csn": csn, "pos": pos, "release": self.releases})
                for csn, changes in transactions.items()
                for pos, change in enumerate(changes)
                if change[0] == mirror.table
            ]
            schema = schemas.changes_schema(self.pipeline.table(mirror.table))
            small_tables.append(self.paths.table(mirror.history), rows, schema)
        done = [{"xid": f"x{csn}", "csn": csn, "status": "released", "release": self.releases} for csn in transactions]
        small_tables.append(self.paths.table(names.TRANSACTIONS), done, system_tables.TRANSACTIONS)
        pending = [{"xid": f"x{csn}", "csn": csn} for csn in waiting]
        about = {"release": self.releases, "landing": self.releases}
        small_tables.replace(
            self.paths.table(names.PENDING_TRANSACTIONS), pending, system_tables.PENDING_TRANSACTIONS, about
        )

    def merge(self) -> int:
        """Merge and return valid-through."""
        return merge_current(step_of(self.pipeline, self.folder, "run", no_spark))["valid_through"]

    def documents(self) -> dict[str, list[int]]:
        """Return the lines of each order by its name."""
        rows = arrow_tables.select(self.paths.table("doc_current"), "select * from t order by id").to_pylist()
        return {row["name"]: [line["line"] for line in row["lines"]] for row in rows}


def history_row(change: Change, paths: Mapping[str, Any]) -> dict[str, Any]:
    table, op, before, after = change
    old, new = (dict(zip(COLUMNS[table], image, strict=False)) for image in (before, after))
    row_columns = {**paths, "op": op, "before": old or None, "before_known": list(old) or None}
    return {**(old if op == "D" else new), **{f"_txloom_{name}": value for name, value in row_columns.items()}}


def no_spark() -> NoReturn:
    raise AssertionError("a small merge opened a Spark session")


@pytest.fixture
def lake(tmp_path: Path) -> Warehouse:
    made = Warehouse(tmp_path)
    made.release(
        {
            10: [("orders", "I", (), (1, "Ada")), ("lines", "I", (), (100, 1)), ("lines", "I", (), (101, 1))],
            20: [("orders", "I", (), (2, "Bob"))],
        }
    )
    made.merge()
    return made


def test_documents_are_orders_with_their_lines(lake: Warehouse) -> None:
    assert lake.documents() == {"Ada": [100, 101], "Bob": []}


def test_a_line_that_moves_leaves_one_document_and_joins_the_other(lake: Warehouse) -> None:
    lake.release({30: [("lines", "U", (100, 1), (100, 2))]})
    lake.merge()
    assert lake.documents() == {"Ada": [101], "Bob": [100]}


def test_a_line_that_is_deleted_leaves_its_document(lake: Warehouse) -> None:
    lake.release({30: [("lines", "D", (101, 1), ())]})
    lake.merge()
    assert lake.documents() == {"Ada": [100], "Bob": []}


def test_a_document_goes_with_its_order_and_the_lines_wait_for_the_next_one(lake: Warehouse) -> None:
    lake.release({30: [("orders", "D", (1, "Ada"), ())]})
    lake.merge()
    assert lake.documents() == {"Bob": []}
    lake.release({40: [("orders", "I", (), (1, "Eve"))]})
    lake.merge()
    assert lake.documents() == {"Eve": [100, 101], "Bob": []}


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ([("orders", "I", (), (3, "Cyd"))], [("orders", "D", (3, "Cyd"), ())], {"Ada": [100, 101], "Bob": []}),
        ([("orders", "U", (2, "Bob"), (3, "Bob"))], [("orders", "D", (3, "Bob"), ())], {"Ada": [100, 101]}),
        ([("lines", "I", (), (102, 2))], [("lines", "D", (102, 2), ())], {"Ada": [100, 101], "Bob": []}),
        ([("lines", "I", (), (102, 2))], [("lines", "U", (102,), (102, 1))], {"Ada": [100, 101, 102], "Bob": []}),
        ([("orders", "I", (), (3, "Cyd"))], [("orders", "T", (), ())], {}),
    ],
    ids=["a root is deleted", "a moved root is deleted", "a line is deleted", "a line moves", "roots are truncated"],
)
def test_documents_that_a_killed_merge_wrote_are_made_again_with_what_came_since(
    lake: Warehouse, before: Sequence[Change], after: Sequence[Change], expected: dict[str, list[int]]
) -> None:
    """The rows that they were made of were not written any more, so that only the changes name them."""
    lake.release({30: before})
    with pytest.MonkeyPatch.context() as killed:
        die_behind_documents(killed, lake.paths)
        with pytest.raises(TxloomError):
            lake.merge()
    lake.release({40: after})
    assert lake.merge() == 40
    assert lake.documents() == expected


def test_nothing_above_a_waiting_transaction_is_shown(lake: Warehouse) -> None:
    changed = [("orders", "U", (2, "Bob"), (2, "Ben"))]
    lake.release({30: [("orders", "I", (), (3, "Cyd"))], 50: changed}, waiting=[40])
    assert lake.merge() == 30
    assert list(lake.documents()) == ["Ada", "Bob", "Cyd"]
    lake.release({40: [("orders", "I", (), (4, "Dan"))]})
    assert lake.merge() == 50
    assert list(lake.documents()) == ["Ada", "Ben", "Cyd", "Dan"]


def test_valid_through_stays_when_an_earlier_transaction_turns_up(lake: Warehouse) -> None:
    lake.release({}, waiting=[15])
    assert lake.merge() == 20
    lake.release({30: [("orders", "I", (), (3, "Cyd"))]}, waiting=[15])
    assert lake.merge() == 20
    assert list(lake.documents()) == ["Ada", "Bob"]


def test_a_late_change_does_not_overwrite_a_newer_one_or_revive_a_row(lake: Warehouse) -> None:
    lake.release({30: [("orders", "U", (1, "Ada"), (1, "Eve")), ("orders", "D", (2, "Bob"), ())]})
    lake.merge()
    lake.release({15: [("orders", "U", (1, "Ada"), (1, "late"))], 25: [("orders", "U", (2, "Bob"), (2, "late"))]})
    assert lake.merge() == 30
    assert lake.documents() == {"Eve": [100, 101]}


def test_a_late_truncate_spares_what_came_after_it(lake: Warehouse) -> None:
    lake.release({15: [("orders", "T", (), ())]})
    assert lake.merge() == 20
    assert lake.documents() == {"Bob": []}


def test_a_late_truncate_takes_away_rows_that_no_history_names(lake: Warehouse) -> None:
    """Somebody wrote into the table; it is the fold of its history again, which is what a reader of history sees."""
    path = lake.paths.table("orders")
    row = {"id": 7, "name": "Zoe", "_txloom_csn": 18, "_txloom_pos": 0, "_txloom_xid": "x18"}
    strange = pa.Table.from_pylist([{**row, "_txloom_deleted": False}])
    small_merge.merge(path, strange, ["id"], vars(watermark_of(path)))
    lake.release({15: [("orders", "T", (), ())]})
    lake.merge()
    shown = arrow_tables.select(path, "select id, name from t").to_pylist()
    assert shown == [{"id": 2, "name": "Bob"}]
    by_history = read.as_of(lake.pipeline, "orders", csn=20, warehouse=str(lake.folder)).select(["id", "name"])
    assert by_history.to_pylist() == shown


def test_a_table_can_be_read_as_of_any_csn(lake: Warehouse) -> None:
    lake.release({30: [("orders", "U", (1, "Ada"), (1, "Eve"))]})
    lake.merge()
    by_csn = {csn: read.as_of(lake.pipeline, "orders", csn=csn, warehouse=str(lake.folder)) for csn in (9, 10, 29, 30)}
    assert {csn: rows.column("name").to_pylist() for csn, rows in by_csn.items()} == {
        9: [],
        10: ["Ada"],
        29: ["Ada", "Bob"],
        30: ["Eve", "Bob"],
    }
