"""What audits wrote, as the page and the terminal get it: the newest of each table, differences first, no secrets."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from txloom.config import load
from txloom.config.project import PROJECT
from txloom.page import pages
from txloom.page.links import Links
from txloom.storage.delta import small_tables
from txloom.storage.paths import TablePaths
from txloom.storage.system_tables import AUDIT_RESULTS
from txloom.storage.views.pipeline.audits import SHOWN, audits

SHIPPED = load(PROJECT / "include" / "pipelines" / "orders.yaml")
NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)
HOSTILE = '"><script>alert(1)</script>'


class Audited:
    """A warehouse with results of audits."""

    def __init__(self, folder: Path) -> None:
        self.warehouse = str(folder)

    def write(self, table: str, verdict: str, minute: int, *differences: dict[str, Any]) -> None:
        row = {
            "run_id": f"run-{minute}", "at": NOON + timedelta(minutes=minute), "table": table, "verdict": verdict,
            "rows": 1000, "differing": len(differences), "unsettled": 0, "source_position": 70, "cut_id": minute,
            "valid_through": 71, "source_seconds": 1.5, "differences": differences,
        }  # fmt: skip
        small_tables.append(TablePaths(self.warehouse, "orders").table("audit_results"), [row], AUDIT_RESULTS)

    def page(self, **declared: Any) -> str:
        pipeline = SHIPPED.model_copy(update=declared)
        return pages.audit(pages.View.of(pipeline, self.warehouse, Links()), page=1)


def changed(column: str, lake: str | None, source: str | None, key: str = "7") -> dict[str, Any]:
    return {"key": [("order_id", key)], "kind": "changed", "column": column, "lake": lake, "source": source, "csn": 65}


@pytest.fixture
def audited(tmp_path: Path) -> Audited:
    return Audited(tmp_path)


def test_the_newest_of_each_table_is_shown_and_what_differs_comes_first(audited: Audited) -> None:
    audited.write("orders", "equal", 1)
    audited.write("promo_uses", "equal", 1)
    audited.write("orders", "different", 3, changed("notes", None, "a"))
    audited.write("order_details", "behind", 2)
    listing = audits(SHIPPED, audited.warehouse)
    assert [(row["table"], row["verdict"], row["cut_id"]) for row in listing.rows] == [
        ("orders", "different", 3), ("order_details", "behind", 2), ("promo_uses", "equal", 1)
    ]  # fmt: skip
    assert listing.as_of == NOON + timedelta(minutes=3)
    assert listing.rows[0]["differences"] == [
        {**changed("notes", None, "a"), "key": {"order_id": "7"}, "what": "notes"}
    ]


def test_secrets_are_masked_but_for_keys(audited: Audited) -> None:
    audited.write("orders", "different", 1, changed("api_token", "s3cret", None), changed("notes", "seen", "also"))
    hidden, seen = audits(SHIPPED, audited.warehouse).rows[0]["differences"]
    assert (hidden["lake"], hidden["source"], hidden["key"]) == ("***", None, {"order_id": "7"})
    assert (seen["lake"], seen["source"]) == ("seen", "also")


def test_the_page_names_rows_columns_and_both_values(audited: Audited) -> None:
    missing = {**changed("", None, None, "8"), "kind": "missing", "column": None, "csn": None}
    audited.write("orders", "different", 1, changed("notes", HOSTILE, None), missing)
    audited.write("promo_uses", "equal", 1)
    text = audited.page()
    assert 'href="/txloom/dags/orders_cdc/key?table=orders&amp;key.order_id=7"' in text
    assert "<td>notes</td>" in text and "missing in the lake" in text and "orders_load" in text
    assert "<script>alert" not in text and text.count("alert(1)") == 1
    assert "the first" not in text
    many = [changed(column, "a", "b", str(n)) for n in range(SHOWN // 2 + 5) for column in ("notes", "currency")]
    audited.write("orders", "different", 2, *many)
    assert f"the first {SHOWN} differences" in audited.page()


def test_without_an_audit_the_page_says_how_to_get_one(audited: Audited) -> None:
    assert "audit: {connection: ...}" in audited.page()
    from txloom.config.models.audit import Audit

    text = audited.page(audit=Audit(connection="shop_db"))
    assert "No audit has run yet" in text and 'href="/dags/orders_audit"' in text
