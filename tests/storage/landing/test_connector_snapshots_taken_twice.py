"""A snapshot that a connector begins anew at the same csn: rows without a key are there twice, and it is told."""

from pathlib import Path
from typing import Any

import pytest

from storage.landing.test_connector_snapshots import Landed, row
from txloom.storage.checks.findings import open_findings

FIRST, LAST_OF_TABLE, LAST = "first", "last_in_data_collection", "last"
LARGE = (row(1, 40, FIRST), row(2, 40, True), row(3, 40, LAST_OF_TABLE))
SMALL = (row(1, 40, LAST_OF_TABLE),)
OVER = row(9, 40, LAST, table="others")


@pytest.mark.parametrize(
    ("attempts", "times"),
    [
        pytest.param((LARGE,), None, id="once"),
        pytest.param((LARGE[:2], LARGE), 2, id="given up inside the table"),
        pytest.param((LARGE, LARGE), 2, id="given up behind it"),
        pytest.param((LARGE[:1], LARGE[:2], LARGE), 3, id="given up twice"),
        pytest.param((SMALL, SMALL), 2, id="a table of one row"),
        pytest.param((SMALL,), None, id="a table of one row, once"),
    ],
)
def test_a_snapshot_that_was_begun_anew_at_its_csn_is_found_where_rows_have_no_key(
    tmp_path: Path, attempts: tuple[tuple[dict[str, Any], ...], ...], times: int | None
) -> None:
    shop = Landed(tmp_path, "none")
    for some in attempts:
        shop.land(*some)
    shop.land(OVER)
    assert findings_of(shop) == [], "the snapshot is not over: more of it may come"
    shop.land()
    findings_expected = [
        ("snapshot was taken twice", "notes", 40, f"a snapshot of it was begun {times} times at csn 40")
    ]
    assert findings_of(shop) == (findings_expected if times else [])


def test_rows_with_a_key_are_the_same_twice(tmp_path: Path) -> None:
    shop = Landed(tmp_path)
    shop.land(*LARGE)
    shop.land(*LARGE, OVER)
    shop.land()
    assert findings_of(shop) == []


def findings_of(shop: Landed) -> list[tuple[Any, ...]]:
    return [(row["code"], row["table"], row["since_csn"], row["evidence"]) for row in open_findings(shop.paths)]
