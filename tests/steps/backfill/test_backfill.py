"""Backfills: what is rebuilt from change_events is compared with live tables, and repairs them (faults rows 42, 43)."""

import json
import shutil
import signal
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from called import step_of
from cycles.test_killed import run as run_killed
from shop import Shop, delete, insert, update
from steps.merge.small_pieces import cut_small
from txloom import read
from txloom.errors import ComparisonOutdated, ConfigurationError
from txloom.quality.dead_letters import Selection
from txloom.steps.backfill import table_comparison
from txloom.steps.backfill.backfill import Range, backfill
from txloom.steps.dead_letters.redrive import redrive
from txloom.steps.publish.publish import publish
from txloom.storage.delta import arrow_tables
from txloom.storage.targets import history_reader

TABLES = """
tables:
  - {{name: orders, source: APP.ORDERS, key: [id], columns: {{id: long, note: {note}}}}}
  - {{name: lines, source: APP.LINES, key: [id], columns: {{id: long, order_id: long, qty: long}}}}
targets:
  mirrors: [orders]
  aggregates: [{{name: order, root: orders, children: [{{table: lines, relation: many, parent_key: [order_id]}}]}}]
"""
STRINGS = TABLES.format(note="string")
LIVE = ("orders", "orders_changes", "_rows_lines", "order_stream", "order_current")
NOTHING = {"missing": 0, "different": 0, "inserts": 0, "updates": 0, "deletes": 0}
COUNTS = [*NOTHING, "surplus", "changes"]


@pytest.fixture(scope="module")
def filled(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Shop:
    """Return a shop with two orders and a deleted one, in three releases."""
    made = Shop(spark, tmp_path_factory.mktemp("filled"), STRINGS)
    made.commit(10, insert("orders", id=1, note="a"), insert("lines", id=11, order_id=1, qty=1))
    made.commit(20, insert("orders", id=2, note="b"), insert("orders", id=3, note="gone"))
    made.run()
    made.commit(30, update("orders", {"id": 1, "note": "a"}, id=1, note="newest"), delete("orders", id=3))
    made.run()
    made.commit(40, insert("lines", id=21, order_id=2, qty=2), update("lines", {"id": 11}, id=11, order_id=1, qty=5))
    made.run()
    return made


@pytest.fixture
def shop(filled: Shop, tmp_path: Path) -> Shop:
    """Return a copy of the filled shop: its inbox, tables and checkpoint."""
    made = Shop(filled.spark, tmp_path, STRINGS)
    made.pos, made.files, made.runs = filled.pos, filled.files, filled.runs
    for name in ("inbox", "warehouse"):
        shutil.copytree(filled.folder / name, tmp_path / name, dirs_exist_ok=True)
    return made


def task(shop: Shop, name: str, run_id: str = "b1", **more: Any) -> dict[str, int]:
    return backfill(step_of(shop.pipeline, shop.warehouse, run_id, lambda: shop.spark), name, Range(**more))


def compared(shop: Shop, run_id: str = "b1", **more: Any) -> dict[str, int]:
    """Rebuild and compare, and return the counts that are not 0."""
    task(shop, "rebuild", run_id, **more)
    return {name: count for name, count in task(shop, "compare", run_id).items() if count}


def samples(shop: Shop, table: str, run_id: str = "b1") -> list[dict[str, Any]]:
    condition = f"run_id = '{run_id}' and \"table\" = '{table}' and status = 'compared' order by at desc limit 1"
    sample_rows: list[dict[str, Any]] = json.loads(
        shop.query("backfills", f"select samples from t where {condition}")[0]["samples"]
    )
    return sample_rows


def content(shop: Shop) -> dict[str, list[str]]:
    return {table: sorted(map(repr, shop.rows(table))) for table in LIVE}


def versions(shop: Shop) -> dict[str, int]:
    return {table: shop.version(table) for table in LIVE}


def damage(shop: Shop, table: str, where: str, **values: str) -> None:
    """Change rows behind txloom's back."""
    delta = DeltaTable(shop.path(table))
    about = [commit["userMetadata"] for commit in delta.history() if commit.get("userMetadata")]
    properties = CommitProperties(custom_metadata={"userMetadata": about[0]} if about else None)
    if values:
        delta.update(updates=values, predicate=where, commit_properties=properties)
    else:
        delta.delete(where, commit_properties=properties)


def assert_exact(shop: Shop) -> None:
    """Current tables are what history says, and documents are made of them."""
    for table in ("orders", "order_current"):
        as_of = read.as_of(shop.pipeline, table, csn=40, warehouse=shop.warehouse)
        assert sorted(map(repr, as_of.to_pylist())) == sorted(map(repr, shop.rows(table))), table


def test_nothing_differs_and_nothing_is_written(shop: Shop) -> None:
    before = versions(shop)
    assert task(shop, "rebuild") == {"transactions": 4, "events": 8, "rebuilt": 4}
    assert task(shop, "compare") == dict.fromkeys(COUNTS, 0)
    assert task(shop, "apply") == {"changes": 0, "commits": 0}
    assert versions(shop) == before
    assert task(shop, "drop") == {"dropped": 12 - 1}
    assert [
        path.name for path in Path(shop.warehouse, "shop").iterdir() if path.name.startswith(("_shadow", "_diff"))
    ] == []


def test_a_changed_current_row_is_found_with_its_document_and_put_right(shop: Shop) -> None:
    exact = content(shop)
    damage(shop, "orders", "id = 1", note="'damaged'")
    damage(shop, "_rows_lines", "id = 21")
    assert compared(shop) == {"changes": 2, "inserts": 1, "updates": 1}
    assert samples(shop, "orders") == [
        {"kind": "updates", "key": {"id": 1}, "before": {"note": "damaged"}, "after": {"note": "newest"}}
    ]
    (line,) = samples(shop, "_rows_lines")
    assert (line["kind"], line["key"], line["before"], line["after"]["qty"]) == ("inserts", {"id": 21}, None, 2)
    assert task(shop, "apply") == {"changes": 2, "commits": 2}
    assert content(shop) == exact
    assert task(shop, "apply") == {"changes": 0, "commits": 0}
    assert compared(shop, "b2") == {}
    assert [list(shop.marks(table))[-1][1] for table in ("orders", "order_current")] == [30, 40]


def test_the_cut_after_a_repair_amends_every_cut_from_its_range_on(shop: Shop) -> None:
    damage(shop, "orders", "id = 1", note="'damaged'")
    assert compared(shop, csns=(25, None))["updates"] == 1
    task(shop, "apply")
    for _ in range(2):
        shop.run([publish])
    cuts = shop.query("cuts", "select cut_id, valid_through, amends from t order by cut_id")
    assert [cut["valid_through"] for cut in cuts] == [20, 30, 40, 40]
    amended_cuts = [[tuple(amended.values()) for amended in cut["amends"]] for cut in cuts]
    assert amended_cuts == [[], [], [], [(2, "backfill b1", 25), (3, "backfill b1", 25)]]


def test_history_gets_what_it_lacks_and_newer_changes_and_deletes_stand(shop: Shop) -> None:
    """A range older than what is live: the insert of a row that was deleted since, and that of one that was changed."""
    exact = content(shop)
    damage(shop, "orders_changes", "_txloom_csn <= 20")
    damage(shop, "orders", "id = 2")
    assert compared(shop, csns=(0, 20), tables=["orders"]) == {"changes": 4, "missing": 3, "inserts": 1}
    kinds = [
        (each["kind"], each["after"]["id"], each["after"]["_txloom_csn"]) for each in samples(shop, "orders_changes")
    ]
    assert kinds == [("missing", 1, 10), ("missing", 2, 20), ("missing", 3, 20)]
    task(shop, "apply")
    assert content(shop) == exact
    assert shop.shown("orders", "id", "note") == [(1, "newest"), (2, "b")]


def test_a_value_that_an_older_declaration_read_is_read_as_declared_now(shop: Shop) -> None:
    damage(shop, "orders_changes", "_txloom_csn = 20 and id = 2", note="'B?'")
    damage(shop, "orders", "id = 2", note="'B?'")
    damage(shop, "order_current", "id = 2", note="'B?'")
    assert compared(shop) == {"changes": 3, "different": 1, "updates": 2}
    (sample,) = samples(shop, "orders_changes")
    assert (sample["before"], sample["after"]) == ({"note": "B?"}, {"note": "b"})
    assert (sample["key"]["_txloom_csn"], sample["kind"]) == (20, "different")
    task(shop, "apply")
    assert_exact(shop)
    assert shop.shown("orders", "id", "note") == [(1, "newest"), (2, "b")]


def test_a_row_of_a_documents_history_is_made_anew(shop: Shop) -> None:
    exact = content(shop)
    damage(shop, "order_stream", "_txloom_csn = 40 and id = 2")
    damage(shop, "order_stream", "_txloom_csn = 30 and id = 3", _txloom_release="1")
    assert compared(shop) == {"changes": 2, "missing": 1, "different": 1}
    task(shop, "apply")
    assert content(shop) == exact


def test_what_history_has_too_much_is_told_and_stays(shop: Shop) -> None:
    """Current tables follow history as it is, so that the two never tell different stories."""
    path = shop.path("orders_changes")
    twice = arrow_tables.select(path, "select * from t where id = 2")
    stranger = twice.set_column(twice.schema.get_field_index("_txloom_pos"), "_txloom_pos", pa.array([999], pa.int64()))
    write_deltalake(path, pa.concat_tables([twice, stranger]), mode="append")
    task(shop, "rebuild")
    compared = task(shop, "compare")
    assert compared["surplus"] == 2
    sample_rows = [
        (each["kind"], each["key"]["_txloom_pos"], each["after"]) for each in samples(shop, "orders_changes")
    ]
    assert sorted(sample_rows, key=repr) == [("surplus", 3, None), ("surplus", 999, None)]
    task(shop, "apply")
    assert len(shop.rows("orders_changes")) == 7
    assert_exact(shop)


def test_a_live_run_that_brings_other_rows_does_not_disturb_an_approval(shop: Shop) -> None:
    damage(shop, "orders", "id = 2", note="'damaged'")
    assert compared(shop)["changes"] == 1
    shop.commit(50, insert("orders", id=5, note="live"))
    shop.run()
    assert task(shop, "apply") == {"changes": 1, "commits": 1}
    assert shop.shown("orders", "id", "note") == [(1, "newest"), (2, "b"), (5, "live")]


def test_what_differs_otherwise_since_it_was_compared_is_refused(shop: Shop) -> None:
    damage(shop, "orders", "id = 2", note="'damaged'")
    assert compared(shop)["changes"] == 1
    shop.commit(50, update("orders", {"id": 2, "note": "b"}, id=2, note="live"))
    shop.run()
    before = content(shop)
    for message in (
        "backfill b1: since it was compared, live tables moved on, and what differs in orders is not what was "
        "compared: nothing was applied; rebuild and compare again",
        "backfill b1 is outdated; expected compared or applied: begin with rebuild",
    ):
        with pytest.raises((ComparisonOutdated, ConfigurationError)) as refused:
            task(shop, "apply")
        assert str(refused.value) == message
    assert content(shop) == before
    assert compared(shop, "b2") == {}


def test_a_live_run_between_rebuild_and_compare_is_taken_in(shop: Shop) -> None:
    task(shop, "rebuild")
    shop.commit(50, insert("orders", id=5, note="live"), insert("lines", id=51, order_id=5, qty=1))
    shop.run()
    assert task(shop, "compare") == dict.fromkeys(COUNTS, 0)


@pytest.mark.long
def test_a_redrive_that_is_released_in_between_is_exact(shop: Shop) -> None:
    """Faults row 43: a dead transaction is redriven after the comparison; it stands beside a repair."""
    quick = shop.pipeline.completeness.model_copy(update={"patience": timedelta(microseconds=1)})
    shop.pipeline = shop.pipeline.model_copy(update={"completeness": quick})
    shop.send(*shop.rows_of(25, update("orders", {"id": 2, "note": "b"}, id=2, note="late")))
    for _ in range(2):
        shop.run()
    damage(shop, "orders", "id = 1", note="'damaged'")
    assert compared(shop)["changes"] == 1
    shop.send(shop.metadata_of(25, orders=1))
    shop.run()
    redrive(step_of(shop.pipeline, shop.warehouse, "r"), Selection(everything=True))
    shop.run()
    assert task(shop, "apply") == {"changes": 1, "commits": 1}
    assert shop.shown("orders", "id", "note") == [(1, "newest"), (2, "late")]
    assert compared(shop, "b2") == {}
    assert_exact(shop)


def test_duplicates_and_what_came_late_are_left_out_as_a_release_does(shop: Shop) -> None:
    again = shop.rows_of(60, insert("orders", id=6, note="six"))
    shop.send(*again)
    shop.send(*again, shop.metadata_of(60, orders=1))
    shop.run()
    shop.send(*again, *shop.rows_of(60, insert("orders", id=7, note="foreign")))
    shop.run()
    assert compared(shop) == {}


def test_a_transaction_whose_events_are_gone_stays_as_it_is(shop: Shop) -> None:
    DeltaTable(shop.path("change_events")).delete("xid = 'x10' and kind = 'row'")
    damage(shop, "orders", "id = 2", note="'damaged'")
    assert task(shop, "rebuild") == {"transactions": 4, "events": 8, "rebuilt": 3, "gone": 1}
    assert task(shop, "compare") == {**dict.fromkeys(COUNTS, 0), "updates": 1, "changes": 1}
    task(shop, "apply")
    assert_exact(shop)


def test_what_cannot_be_read_as_declared_now_stays_as_it_is(shop: Shop) -> None:
    shop.commit(50, insert("orders", id=5, note="x", extra="y"))
    shop.run()
    before = content(shop)
    shop.declare(STRINGS.replace("name: orders,", "name: orders, undeclared_columns: quarantine,"))
    assert task(shop, "rebuild") == {"transactions": 5, "events": 9, "rebuilt": 4, "unreadable": 1}
    assert task(shop, "compare") == dict.fromkeys(COUNTS, 0)
    task(shop, "apply")
    assert content(shop) == before


def test_tables_that_have_not_followed_their_declaration_are_refused(shop: Shop) -> None:
    shop.declare(TABLES.format(note="long"))
    with pytest.raises(ConfigurationError) as refused:
        task(shop, "rebuild")
    assert str(refused.value) == (
        "orders_changes has not taken up its declaration yet (note): run a cycle, which brings tables to it, "
        "then try again"
    )


def test_cleaned_history_is_not_brought_back(shop: Shop) -> None:
    cleaned = CommitProperties(app_transactions=[Transaction(history_reader.CLEANED, 20)])
    DeltaTable(shop.path("orders_changes")).delete("_txloom_csn = 10", commit_properties=cleaned)
    assert compared(shop) == {}
    damage(shop, "orders_changes", "_txloom_csn = 30 and id = 3")
    assert compared(shop, "b2", tables=["orders"]) == {"changes": 1, "missing": 1}
    task(shop, "apply", "b2")
    assert sorted({row["_txloom_csn"] for row in shop.rows("orders_changes")}) == [20, 30]


@pytest.mark.long
def test_large_backfills_go_in_pieces_and_find_the_same(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """What differs is applied by Spark; by tasks of its session the rest."""
    exact = content(shop)
    monkeypatch.setattr(arrow_tables, "LOCAL_ROWS", -1)
    cut_small(monkeypatch, 300)
    assert compared(shop) == {}
    damage(shop, "orders_changes", "_txloom_csn = 20 and id = 2", note="'B?'")
    damage(shop, "order_stream", "_txloom_csn = 40 and id = 2")
    damage(shop, "orders", "id = 1", note="'damaged'")
    damage(shop, "order_current", "id = 2")
    assert compared(shop, "b2") == {"changes": 4, "missing": 1, "different": 1, "inserts": 1, "updates": 1}
    assert samples(shop, "orders", "b2") == [
        {"kind": "updates", "key": {"id": 1}, "before": {"note": "damaged"}, "after": {"note": "newest"}}
    ]
    assert task(shop, "apply", "b2") == {"changes": 4, "commits": 4}
    assert content(shop) == exact
    shop.commit(50, update("orders", {"id": 2}, id=2, note="after"))
    shop.run()
    assert shop.shown("orders", "id", "note") == [(1, "newest"), (2, "after")]


def test_a_range_of_commit_times_is_one_of_csns(shop: Shop) -> None:
    moments = [datetime(2026, 1, 1, 0, 0, second, tzinfo=UTC) for second in (15, 35)]
    assert task(shop, "rebuild", times=(moments[0], moments[1])) == {"transactions": 2, "events": 4, "rebuilt": 2}
    (row,) = shop.query("backfills", "select from_csn, to_csn from t where status = 'rebuilt'")
    assert row == {"from_csn": 20, "to_csn": 30}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tables": ["order"]}, "pipeline shop keeps no table 'order'; it has lines, orders"),
        ({"csns": (7, 3)}, "from csn 7 to csn 3: expected the lower one first"),
        (
            {"times": (datetime(2030, 1, 1, tzinfo=UTC), None)},
            "no released transaction was committed between 2030-01-01 00:00:00+00:00 and None",
        ),
    ],
)
def test_what_is_not_there_is_refused(shop: Shop, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        task(shop, "rebuild", **options)
    assert str(refused.value) == message


def test_tasks_of_one_run_come_in_their_order_and_two_runs_do_not_mix(shop: Shop) -> None:
    def refused(name: str) -> str:
        with pytest.raises(ConfigurationError) as error:
            task(shop, name)
        return str(error.value)

    assert refused("compare") == "backfill b1: the shadow tables are of no backfill; rebuild first"
    task(shop, "rebuild")
    assert refused("apply") == "backfill b1 is rebuilt; expected compared or applied: begin with rebuild"
    task(shop, "rebuild", "b2")
    assert refused("compare") == "backfill b1: the shadow tables are of the backfill b2; rebuild first"
    assert task(shop, "drop") == {"dropped": 0}
    assert task(shop, "compare", "b2")["changes"] == 0


@pytest.mark.long
def test_an_apply_that_is_killed_between_its_writes_ends_exact(shop: Shop) -> None:
    exact = content(shop)
    damage(shop, "orders_changes", "_txloom_csn = 20 and id = 2", note="'B?'")
    damage(shop, "orders", "id = 1", note="'damaged'")
    damage(shop, "order_current", "id = 1", note="'damaged'")
    assert compared(shop)["changes"] == 3
    arguments = ("--pipeline", str(shop.folder / "shop.yaml"), "--run-id", "b1", "--task", "apply")
    deaths = 0
    while run_killed(shop, "backfill", deaths + 1, *arguments) == -signal.SIGKILL:
        deaths += 1
    assert deaths >= 4
    assert content(shop) == exact
    assert_exact(shop)


def test_what_was_being_compared_again_is_not_applied(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """A comparison empties the tables of differences: one that dies leaves nothing that an apply may count on."""
    exact = content(shop)
    damage(shop, "orders", "id = 1", note="'damaged'")
    assert compared(shop) == {"changes": 1, "updates": 1}

    def die(*_: Any) -> None:
        raise RuntimeError("killed")

    with monkeypatch.context() as killed:
        killed.setattr(table_comparison, "differing", die)
        with pytest.raises(RuntimeError, match="killed"):
            task(shop, "compare")
    with pytest.raises(ConfigurationError, match="b1 is comparing; expected compared or applied"):
        task(shop, "apply")
    assert task(shop, "compare")["changes"] == 1
    task(shop, "apply")
    assert content(shop) == exact
