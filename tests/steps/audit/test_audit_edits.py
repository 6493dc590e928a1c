"""The audit of a lake whose declaration is edited: what it compares, and what it says that it does not compare."""

import json
import shutil
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest
from deltalake import DeltaTable

from called import step_of
from steps.settling.edited_shop import DOCUMENTS, LINES, ORDERS, EditedShop
from txloom.config.models.pipeline import Pipeline
from txloom.quality import findings as f
from txloom.steps.audit.audit import audit
from txloom.steps.audit.audit_scope import Choice
from txloom.storage.checks.findings import open_findings
from txloom.storage.databases.snapshot_folder import SnapshotFolder

BOTH = {"orders": ORDERS, "lines": LINES}
OF_ORDERS, OF_LINES = "{table: orders}", "{table: lines}"
NO_CHILD = "{name: doc, root: orders, children: []}"
EARLIER = "by an earlier declaration: let a cycle run, then audit again"


@pytest.fixture
def shop(tmp_path: Path) -> EditedShop:
    made = EditedShop(tmp_path)
    made.declare(BOTH, [OF_ORDERS])
    return made


def compare(shop: EditedShop, *tables: str, pipeline: Pipeline | None = None) -> dict[str, dict[str, Any]]:
    """Audit a lake against what its source has as of the newest cut; return the results by table."""
    csn, paths = shop.cut["valid_through"], shop.lake.paths
    folder = shop.folder / f"export-{shop.files}-{csn}-{len(list(shop.folder.iterdir()))}"
    for table in ("orders", "lines"):
        (folder / table).mkdir(parents=True)
        rows = "".join(f"{json.dumps(row)}\n" for row in shop.source(table))
        (folder / table / "rows.jsonl").write_text(rows)
    step = step_of(pipeline or shop.lake.pipeline, paths.warehouse, folder.name)
    counts = audit(step, Choice(tables, timedelta(0), str(folder), csn))
    results = {row["table"]: row for row in shop.lake.rows("audit_results") if row["run_id"] == folder.name}
    return results | {"counts": dict(counts)}


def verdicts(results: dict[str, dict[str, Any]]) -> dict[str, str]:
    return {table: row["verdict"] for table, row in results.items() if table != "counts"}


def test_a_table_whose_history_is_not_complete_is_not_compared_and_the_audit_is_not_decided(shop: EditedShop) -> None:
    shop.orders(1, 2, 3)
    shop.run()
    shop.forget("lines")
    shop.declare(BOTH, [OF_ORDERS, OF_LINES], [DOCUMENTS])
    shop.orders(4)
    shop.run()
    results = compare(shop)
    assert verdicts(results) == {"orders": "equal", "lines": "not compared", "doc_current": "unsettled"}
    assert "its history is not complete" in results["lines"]["reason"]
    assert results["doc_current"]["reason"] == "the history of lines is not complete"
    assert (results["counts"]["undecided"], results["counts"]["differing"]) == (2, 0)
    shop.load("lines")
    assert set(verdicts(compare(shop)).values()) == {"equal"}


def test_a_cut_of_an_earlier_declaration_is_not_judged_by_the_present_one(shop: EditedShop) -> None:
    """Every row would differ in the new column, and a repair would offer them."""
    shop.declare({"orders": {"id": "long"}, "lines": LINES}, [OF_ORDERS], [NO_CHILD])
    shop.orders(1, 2, 3)
    shop.run()
    assert verdicts(compare(shop)) == {"orders": "equal", "doc_current": "equal"}
    shop.declare(BOTH, [OF_ORDERS], [DOCUMENTS])
    results = compare(shop, "orders", "doc_current")
    assert verdicts(results) == {"orders": "unsettled", "lines": "unsettled", "doc_current": "unsettled"}
    assert results["orders"]["reason"].endswith(EARLIER)
    assert results["lines"]["reason"].endswith("does not have the table yet")
    shop.orders(4)
    shop.run()
    assert set(verdicts(compare(shop)).values()) == {"equal"}


def test_documents_under_another_relation_are_not_judged_before_they_are_computed_again(shop: EditedShop) -> None:
    """The table has the columns that are declared; what it was computed from says that it is another one."""
    shop.declare(BOTH, [OF_ORDERS, OF_LINES], [DOCUMENTS])
    shop.orders(1, 2)
    shop.run()
    by_id = DOCUMENTS.replace("parent_key: [o_id]", "parent_key: [id]")
    shop.declare(BOTH, [OF_ORDERS, OF_LINES], [by_id])
    results = compare(shop)
    assert verdicts(results) == {"orders": "equal", "lines": "equal", "doc_current": "unsettled"}
    assert results["doc_current"]["reason"].endswith(EARLIER)
    shop.run()
    assert set(verdicts(compare(shop)).values()) == {"equal"}


def test_a_document_that_is_gone_differs_and_the_next_equal_audit_closes_the_finding(shop: EditedShop) -> None:
    shop.declare(BOTH, [], [DOCUMENTS])
    shop.orders(1, 2, 3)
    shop.run()
    kept = DeltaTable(shop.lake.paths.table("doc_current"))
    kept.delete("id = 2")
    shop.orders(4)
    shop.run()
    results = compare(shop)
    assert verdicts(results) == {"orders": "equal", "lines": "equal", "doc_current": "different"}
    (difference,) = results["doc_current"]["differences"]
    assert (dict(difference["key"]), difference["kind"]) == ({"id": "2"}, "missing")
    assert [(row["code"], row["table"]) for row in open_findings(shop.lake.paths)] == [
        (f.DOCUMENTS_DIFFER, "doc_current")
    ]
    shop.commit(("U", "orders", {"id": 2, "total": 7}))
    shop.run()
    assert verdicts(compare(shop))["doc_current"] == "equal"
    assert open_findings(shop.lake.paths) == []


def test_documents_that_are_all_gone_are_all_missing(shop: EditedShop) -> None:
    shop.declare(BOTH, [OF_ORDERS, OF_LINES], [DOCUMENTS])
    shop.orders(1, 2, 3)
    shop.run()
    shutil.rmtree(shop.lake.paths.table("doc_current"))
    results = compare(shop)
    assert verdicts(results) == {"orders": "equal", "lines": "equal", "doc_current": "different"}
    assert [each["kind"] for each in results["doc_current"]["differences"]] == ["missing"] * 3
    assert "table doc_current was written anew since" in results["doc_current"]["reason"]
    shop.run()
    assert verdicts(compare(shop))["doc_current"] == "equal", "the next cycle makes them again"


def test_a_row_whose_key_is_null_is_a_difference_that_no_repair_offers(
    shop: EditedShop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a database shows it under a unique index (`test_audit_odd_tables`); files of an export cannot."""
    shop.orders(1, 2)
    shop.run()
    monkeypatch.setattr(SnapshotFolder, "keyless", lambda self, relation: [(None,)])
    orders = compare(shop)["orders"]
    assert (orders["verdict"], orders["rows"], orders["differing"], orders["repairs"]) == ("different", 3, 1, [])
    assert [(dict(each["key"]), each["kind"]) for each in orders["differences"]] == [({"id": None}, "null key")]
    monkeypatch.undo()
    assert compare(shop)["orders"]["verdict"] == "equal"


@pytest.mark.long
@pytest.mark.parametrize("seed", range(2))
def test_whatever_edits_came_a_right_lake_is_never_called_different(shop: EditedShop, seed: int) -> None:
    chance, number = Random(seed), 10
    shop.orders(1, 2, 3)
    shop.run()
    targets = [([OF_ORDERS], []), ([OF_ORDERS, OF_LINES], [DOCUMENTS]), ([], [DOCUMENTS]), ([OF_LINES], [DOCUMENTS])]
    for _ in range(9):
        match chance.choice(["commit", "delete", "edit", "run", "run", "forget"]):
            case "commit":
                number += 1
                shop.orders(number)
            case "delete" if shop.state["orders"]:
                shop.commit(("D", "orders", chance.choice(sorted(shop.state["orders"]))))
            case "edit":
                mirrors, aggregates = chance.choice(targets)
                shop.declare(BOTH, mirrors, aggregates)
            case "forget":
                shop.forget("lines")
            case "run":
                shop.run()
        seen = verdicts(compare(shop))
        assert "different" not in seen.values(), seen
    shop.declare(BOTH, [OF_ORDERS, OF_LINES], [DOCUMENTS])
    shop.orders(99)
    shop.run()
    shop.load("lines")
    shop.load("orders")
    assert set(verdicts(compare(shop)).values()) == {"equal"}
