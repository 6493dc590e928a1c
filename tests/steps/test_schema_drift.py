"""Schema drift through real Delta tables: columns that come, go, come back, change their type or hold new values."""

from pathlib import Path
from typing import Any

import pytest

from called import step_of
from shop import Shop, delete, insert, truncate, update
from txloom import read
from txloom.errors import ConfigurationError
from txloom.quality import findings as f
from txloom.quality.dead_letters import Selection
from txloom.steps.dead_letters.redrive import redrive
from txloom.storage.delta import arrow_tables

ORDERS = """
tables:
  - {{name: orders, source: APP.ORDERS, key: [id], columns: {{{columns}}}, undeclared_columns: {policy}}}
  - {{name: lines, source: APP.LINES, key: [id], columns: {{id: long, order_id: long, item: string}}}}
targets:
  mirrors: [orders]
  aggregates:
    - {{name: doc, root: orders, children: [{{table: lines, relation: many, parent_key: [order_id]}}]}}
"""
NOTE = "id: long, note: string"


def shop(spark: Any, folder: Path, columns: str = NOTE, policy: str = "ignore") -> Shop:
    return Shop(spark, folder, ORDERS.format(columns=columns, policy=policy), patience="1s")


def test_a_column_that_nobody_declared_is_left_out_and_reported(spark: Any, tmp_path: Path) -> None:
    made = shop(spark, tmp_path)
    made.commit(10, insert("orders", id=1, note="a"))
    made.commit(20, insert("orders", id=2, note="b", gift="yes"))
    made.run()
    assert made.shown("orders", "id", "note") == [(1, "a"), (2, "b")]
    assert made.findings() == [(f.ADDED, "orders", "gift", 20, False)]
    made.declare(ORDERS.format(columns=f"{NOTE}, given: {{type: string, source: GIFT}}", policy="ignore"))
    made.run()
    assert made.findings() == [], "whoever declares the column has done what the finding says, by whatever name"


@pytest.mark.long
def test_a_large_batch_takes_up_a_column_too(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark's tasks meet the column; the driver adds it, and they write their files once more."""
    monkeypatch.setattr(arrow_tables, "LOCAL_ROWS", -1)
    made = shop(spark, tmp_path, policy="evolve")
    made.commit(10, insert("orders", id=1, note="a"))
    made.commit(20, insert("orders", id=2, note="b", GIFT=1.5), insert("lines", id=7, order_id=2, item="x"))
    made.run()
    assert made.shown("orders", "id", "gift") == [(1, None), (2, "1.5")]
    assert made.shown("doc_current", "id", "gift") == [(1, None), (2, "1.5")]


def test_a_column_that_the_source_adds_appears_as_text_and_takes_its_type_when_declared(
    spark: Any, tmp_path: Path
) -> None:
    made = shop(spark, tmp_path, policy="evolve")
    made.commit(10, insert("orders", id=1, note="a"), insert("lines", id=7, order_id=1, item="x"))
    made.run()
    made.commit(
        20, insert("orders", id=2, note="b", GIFT=12345678901234567890), insert("orders", id=3, note="c", GIFT=None)
    )
    made.run()
    big = 12345678901234567890
    assert made.shown("orders", "id", "gift") == [(1, None), (2, str(big)), (3, None)]
    assert made.shown("doc_current", "id", "gift") == [(1, None), (2, str(big)), (3, None)]
    assert made.findings() == [(f.ADDED, "orders", "GIFT", 20, False)]
    made.commit(30, update("orders", {"id": 1, "note": "a", "GIFT": None}, id=1, GIFT=7))
    made.run()
    assert made.shown("orders", "id", "note", "gift") == [(1, "a", "7"), (2, "b", str(big)), (3, "c", None)]

    made.declare(ORDERS.format(columns=f"{NOTE}, gift: 'decimal(38,0)'", policy="evolve"))
    made.commit(40, insert("orders", id=4, note="d", GIFT=8))
    made.run()
    assert [(key, str(gift)) for key, gift in made.shown("orders", "id", "gift")] == [
        (1, "7"), (2, str(big)), (3, "None"), (4, "8")
    ]  # fmt: skip
    assert made.findings() == []
    assert [row["gift"] for row in made.rows("doc_current") if row["id"] == 2] == [big]
    as_of = read.as_of(made.pipeline, "orders", csn=20, warehouse=made.warehouse).to_pylist()
    assert [(row["id"], row["gift"]) for row in as_of] == [(1, None), (2, big), (3, None)]


def test_a_declared_type_that_does_not_hold_what_came_is_refused(spark: Any, tmp_path: Path) -> None:
    made = shop(spark, tmp_path, columns="id: long, note: string, size: long")
    made.commit(10, insert("orders", id=1, note="a", size=5))
    made.run()
    made.declare(ORDERS.format(columns="id: long, note: string, size: int", policy="ignore"))
    with pytest.raises(ConfigurationError, match=r"columns\.size: found int, expected long as before"):
        made.run()


@pytest.mark.usefixtures("spread")
def test_a_column_that_comes_back_shows_nothing_of_what_it_held(spark: Any, tmp_path: Path) -> None:
    """The history keeps it; as of a csn before the drop it is there."""
    made = shop(spark, tmp_path)
    made.commit(10, insert("orders", id=1, note="old"), insert("orders", id=2, note="old too"))
    made.run()
    made.commit(20, insert("orders", id=3))
    made.run()
    assert made.shown("orders", "id", "note") == [(1, None), (2, None), (3, None)]
    assert made.shown("doc_current", "id", "note") == [(1, None), (2, None), (3, None)]
    assert made.findings() == [(f.DROPPED, "orders", "note", 20, False)]
    made.commit(30, insert("orders", id=4, note="new"))
    made.commit(40, update("orders", {"id": 2, "note": None}, id=2, note="new too"))
    made.run()
    assert made.shown("orders", "id", "note") == [(1, None), (2, "new too"), (3, None), (4, "new")]
    assert made.findings() == []
    as_of = read.as_of(made.pipeline, "orders", csn=10, warehouse=made.warehouse).to_pylist()
    assert [row["note"] for row in as_of] == ["old", "old too"]
    held = read.intervals(made.pipeline, "orders", warehouse=made.warehouse).to_pylist()
    spans = [(row["note"], row["_txloom_valid_from"], row["_txloom_valid_to"]) for row in held if row["id"] == 2]
    assert sorted(spans, key=lambda span: span[1]) == [("old too", 10, 20), (None, 20, 40), ("new too", 40, None)]


@pytest.mark.long
def test_a_producer_that_leaves_nulls_out_is_named_and_can_be_declared(spark: Any, tmp_path: Path) -> None:
    made = shop(spark, tmp_path)
    brief = (insert("orders", id=1, note="a"), insert("orders", id=2), insert("orders", id=3, note="c"))
    made.commit(10, *brief, insert("orders", id=4))
    made.run()
    assert (f.NULLS_OMITTED, "orders", "note", 10, False) in made.findings()

    every = tmp_path / "run by run"
    every.mkdir()
    made = shop(spark, every)
    for csn, change in enumerate(brief, 11):
        made.commit(csn, change)
        made.run()
    assert made.findings() == []
    made.commit(14, insert("orders", id=4))
    made.run()
    assert (f.NULLS_OMITTED, "orders", "note", 14, False) in made.findings()

    kept = tmp_path / "kept"
    kept.mkdir()
    made = shop(spark, kept, policy="ignore, dropped_columns: keep")
    made.commit(10, *brief, insert("orders", id=4))
    made.run()
    assert made.shown("orders", "id", "note") == [(1, "a"), (2, None), (3, "c"), (4, None)]
    assert made.findings() == []


def test_a_late_insert_without_a_column_clears_it_from_its_csn_on_only(spark: Any, tmp_path: Path) -> None:
    made = shop(spark, tmp_path)
    made.commit(10, insert("orders", id=1, note="before"))
    made.commit(30, insert("orders", id=3, note="after"))
    made.run()
    made.commit(20, insert("orders", id=2))
    made.run()
    assert made.shown("orders", "id", "note") == [(1, None), (2, None), (3, "after")]


@pytest.mark.usefixtures("spread")
def test_a_truncate_reaches_all_rows_though_a_late_change_of_one_came_with_it(spark: Any, tmp_path: Path) -> None:
    """Which keys the late change names says nothing of the rows that the truncate takes."""
    made = shop(spark, tmp_path)
    made.commit(10, insert("orders", id=1, note="a"), insert("orders", id=2, note="b"))
    made.commit(30, insert("orders", id=3, note="c"))
    made.run()
    made.commit(20, update("orders", {"id": 2, "note": "b"}, id=2, note="late"))
    made.commit(40, truncate("orders"), insert("orders", id=4, note="d"))
    made.run()
    assert made.shown("orders", "id", "note") == [(4, "d")]


def test_the_same_drift_inside_one_transaction_leaves_both_rows_right(spark: Any, tmp_path: Path) -> None:
    made = shop(spark, tmp_path, policy="evolve")
    made.commit(10, insert("orders", id=1, note="a"))
    made.commit(
        20,
        insert("orders", id=2, note="with"),
        insert("orders", id=3, gift="without note, with gift"),
        update("orders", {"id": 2}, id=2, gift="later"),
    )
    made.run()
    assert made.shown("orders", "id", "note", "gift") == [
        (1, None, None), (2, None, "later"), (3, None, "without note, with gift")
    ]  # fmt: skip
    assert (f.RENAMED, "orders", "note", 20, True) in made.findings()


def test_a_rename_shows_first_in_an_update_and_then_in_an_insert_of_another_run(spark: Any, tmp_path: Path) -> None:
    """A column that came while the other one still had values is none that took its place."""
    made = shop(spark, tmp_path)
    made.commit(10, insert("orders", id=1, note="a", gift="g"))
    made.commit(20, insert("orders", id=2, note="b", gift="g"))
    made.commit(30, update("orders", {"id": 1, "remark": "a"}, id=1, remark="c", gift="g"))
    made.run()
    made.commit(40, insert("orders", id=3, remark="d", gift="g"))
    made.run()
    assert (f.RENAMED, "orders", "note", 40, True) in made.findings()
    (finding,) = made.query("findings", f"select evidence from t where code = '{f.RENAMED}'")
    assert finding["evidence"] == "inserts lack note; since its last value there is remark"


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (update("orders", {"id": 1, "note": "default"}, id=1, note="x"), (f.CHANGED, "orders", "note", 20, True)),
        (delete("orders", id=1, note="other"), (f.CHANGED, "orders", "note", 20, True)),
        (update("orders", {"id": 9, "note": "x"}, id=9, note="y"), (f.UNKNOWN_ROW, "orders", None, 20, True)),
        (insert("orders", id=1, note="again"), (f.KEY_TWICE, "orders", None, 20, False)),
    ],
    ids=["value before an update", "value before a delete", "row that never came", "row that is there"],
)
def test_rows_that_changed_without_events_show_in_what_comes_after(
    spark: Any, tmp_path: Path, change: Any, expected: tuple[Any, ...]
) -> None:
    """ADD COLUMN ... DEFAULT, RENAME and ALTER TYPE send no events for rows that exist."""
    made = shop(spark, tmp_path)
    made.commit(10, insert("orders", id=1, note="a"))
    made.run()
    made.commit(20, change)
    made.run()
    assert made.findings() == [expected]
    made.run()
    assert made.findings() == [expected]


def test_a_wider_type_is_declared_and_the_dead_letters_go_through(spark: Any, tmp_path: Path) -> None:
    made = shop(spark, tmp_path, columns="id: long, size: int, price: 'decimal(5,2)'")
    made.commit(10, insert("orders", id=1, size=5, price="1.50"))
    made.commit(20, insert("orders", id=2, size=5_000_000_000, price="1.505"))
    made.run()
    assert made.shown("orders", "id", "size") == [(1, 5)]
    made.declare(ORDERS.format(columns="id: long, size: long, price: 'decimal(9,4)'", policy="ignore"))
    redrive(step_of(made.pipeline, made.warehouse, "redrive"), Selection(everything=True))
    made.run()
    assert [(key, size, str(price)) for key, size, price in made.shown("orders", "id", "size", "price")] == [
        (1, 5, "1.5000"), (2, 5_000_000_000, "1.5050")
    ]  # fmt: skip
    assert made.shown("doc_current", "id", "size") == [(1, 5), (2, 5_000_000_000)]
