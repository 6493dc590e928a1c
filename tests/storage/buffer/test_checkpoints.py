"""A checkpoint that is lost or damaged is replaced: the buffer is rebuilt, and nothing that was written changes."""

import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from called import step_of
from shop import Shop, insert
from txloom.steps.buffer.buffer_transactions import buffer_transactions
from txloom.steps.landing.land_events import land_events
from txloom.storage.buffer import batch_plan, checkpoints
from txloom.storage.checks import findings
from txloom.storage.delta import small_tables
from txloom.storage.paths import TablePaths

pytestmark = pytest.mark.stream
TABLES = """
tables: [{name: orders, source: APP.ORDERS, key: [id], columns: {id: long, total: "decimal(10,2)"}}]
targets: {mirrors: ["*"]}
"""
PATIENCE = 1.0
BUFFERING = (land_events, buffer_transactions)
WRITTEN = ("orders_changes", "transactions", "dead_letters", "findings", "orders", "cuts")


def order(number: int, total: str = "1") -> Any:
    return insert("orders", id=number, total=total)


@pytest.fixture(scope="module")
def story(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Shop:
    """Return a shop that has seen everything that can become of a transaction, the last of which still waits."""
    made = Shop(spark, tmp_path_factory.mktemp("story"), TABLES, patience="1s")
    made.commit(10, order(1))
    made.send(*(short := made.rows_of(20, order(2), order(3)))[:1], made.metadata_of(20, orders=2))
    made.send(*made.rows_of(30, order(4)))
    made.commit(40, order(5, "no number"))
    made.run(BUFFERING)
    time.sleep(PATIENCE)
    repeated = made.rows_of(50, order(6))
    made.send(*repeated, made.metadata_of(50, orders=1))
    made.run(BUFFERING)
    made.send(*repeated, *made.rows_of(50, order(7)), *made.rows_of(30, order(8)), short[1])
    made.run(BUFFERING)
    made.send(*made.rows_of(60, order(9)))
    made.run()
    return made


@pytest.fixture
def shop(story: Shop, tmp_path: Path) -> Iterator[Shop]:
    """Return the shop with a warehouse of its own; what a test sends is not there for the next one."""
    shutil.copytree(story.warehouse, tmp_path / "warehouse")
    home, story.folder = story.folder, tmp_path
    sent = set(story.inbox.rglob("*.jsonl"))
    yield story
    for file in set(story.inbox.rglob("*.jsonl")) - sent:
        file.unlink()
    story.folder = home


def versions(shop: Shop) -> dict[str, int]:
    """Return the version of each table that says what became of transactions."""
    return {name: shop.version(name) for name in WRITTEN if DeltaTable.is_deltatable(shop.path(name))}


def balance(shop: Shop) -> dict[str, int]:
    """Return what the newest balance adds up; the ledger's are equal on both sides, or the buffer would have failed."""
    newest = "select counts from t where step = 'balance' order by generation desc, at desc limit 1"
    return dict(shop.query("ledger", newest)[0]["counts"])


def counted(shop: Shop, table: str, column: str) -> dict[str, int]:
    rows = shop.query(table, f'select "{column}" as what, count(*) as n from t group by 1')
    return {str(row["what"]): row["n"] for row in rows}


def test_the_story_has_everything_that_can_become_of_a_transaction(shop: Shop) -> None:
    late = {"late event of a finished transaction": 1}
    given_up = {"metadata never came": 2, "table short": 3, "value cannot be read": 2}
    assert counted(shop, "dead_letters", "cause") == given_up | late
    died = {"None": 3, "complete now": 1, "metadata never came": 1, "table short": 1, "value cannot be read": 1}
    assert counted(shop, "transactions", "cause") == died
    assert counted(shop, "pending_transactions", "xid") == {"x60": 1}


def folder_of(shop: Shop, generation: int = 1) -> Path:
    return Path(checkpoints.checkpoint(shop.warehouse, "shop", generation).removeprefix("file://"))


def running(shop: Shop) -> int:
    paths = TablePaths(shop.warehouse, "shop")
    return checkpoints.running(paths, batch_plan.change_events_id(paths))


def newest_landing(shop: Shop) -> int:
    return int(shop.query("change_events", "select max(landing) as n from t")[0]["n"])


def rebuild(shop: Shop) -> dict[str, int]:
    return shop.run((buffer_transactions,))["buffer_transactions"]


@pytest.mark.long
def test_a_lost_checkpoint_changes_no_table_and_no_dead_letter(shop: Shop, spread: None, capfd: Any) -> None:
    before, sides, waiting = versions(shop), balance(shop), shop.rows("pending_transactions")
    shutil.rmtree(checkpoints.root(shop.warehouse, "shop"))
    done = rebuild(shop)
    assert done["generation"] == 2
    assert (versions(shop), balance(shop), shop.rows("pending_transactions")) == (before, sides, waiting)
    assert f"the buffer is rebuilt up to landing {newest_landing(shop)}, in 1 batches" in capfd.readouterr().out


@pytest.mark.long
def test_another_number_of_groups_rebuilds_the_state_once_and_changes_no_table(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, capfd: Any
) -> None:
    before, sides, waiting = versions(shop), balance(shop), shop.rows("pending_transactions")
    wide = shop.pipeline.spark.model_copy(update={"state_groups": 24})
    monkeypatch.setattr(shop, "pipeline", shop.pipeline.model_copy(update={"spark": wide}))
    assert rebuild(shop)["generation"] == 2
    assert "its state has 8 groups in checkpoint g1, and 24 are declared; g2 is rebuilt" in capfd.readouterr().out
    assert (versions(shop), balance(shop), shop.rows("pending_transactions")) == (before, sides, waiting)
    assert rebuild(shop)["generation"] == 2
    shop.send(shop.metadata_of(60, orders=1))
    done = shop.run()
    assert done["buffer_transactions"]["transactions"] == 1
    assert (versions(shop)["orders_changes"], shop.rows("pending_transactions")) == (before["orders_changes"] + 1, [])


@pytest.mark.long
def test_a_rebuild_goes_landing_by_landing_and_writes_nothing_before_it_is_where_it_was(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, capfd: Any
) -> None:
    before, sides = versions(shop), balance(shop)
    shop.send(shop.metadata_of(60, orders=1))
    land_events(step_of(shop.pipeline, shop.warehouse, "more", shop.spark))
    newest = newest_landing(shop)
    waited = DeltaTable(shop.path("pending_transactions")).version()
    monkeypatch.setattr(batch_plan, "ROWS_AT_ONCE", 1)
    shutil.rmtree(checkpoints.root(shop.warehouse, "shop"))
    done = rebuild(shop)
    assert f"rebuilt up to landing {newest - 1}, in {newest} batches" in capfd.readouterr().out
    assert (done["generation"], done["transactions"]) == (2, sides_of_released(shop))
    assert DeltaTable(shop.path("pending_transactions")).version() == waited + 1, "once, when it was where it was"
    after = versions(shop)
    changed = {name for name in after if after[name] != before[name]}
    assert changed == {"orders_changes", "transactions"}, "what was landed meanwhile, and nothing else"
    assert shop.rows("pending_transactions") == []
    assert balance(shop)["released"] == sides["released"] + 1


def sides_of_released(shop: Shop) -> int:
    """Return how many transactions the ledger's newest generation released."""
    sql = "select sum(counts['transactions']) as n from t where step = 'buffer_transactions' and generation = 2"
    return int(shop.query("ledger", sql)[0]["n"])


@pytest.mark.long
def test_a_finding_that_was_closed_stays_closed(shop: Shop) -> None:
    paths = TablePaths(shop.warehouse, "shop")
    (row,) = findings.open_findings(paths)
    findings.close(paths, [row], "by hand", "the producer groups no more")
    shutil.rmtree(checkpoints.root(shop.warehouse, "shop"))
    rebuild(shop)
    assert findings.open_findings(paths) == []


def test_what_spark_leaves_behind_is_whole(shop: Shop) -> None:
    assert running(shop) == 1


def cut(name: str) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        file = max(folder.glob(name), key=lambda each: int(each.name.split(".")[0]))
        file.write_bytes(file.read_bytes()[:15])

    return damage


def gone(name: str) -> Callable[[Path], None]:
    return lambda folder: max(folder.glob(name), key=lambda each: int(each.name.split(".")[0])).unlink()


def empty(folder: Path) -> None:
    shutil.rmtree(folder)
    folder.mkdir()


def foreign(folder: Path) -> None:
    shutil.rmtree(folder / "plan")
    row = {"after": 0, "until": 9, "tasks": 1, "change_events": "another"}
    small_tables.ensure(str(folder / "plan"), batch_plan.PLAN)
    small_tables.append(str(folder / "plan"), [row], batch_plan.PLAN, once=(batch_plan.PLANNED, row["until"]))


@pytest.mark.long
@pytest.mark.parametrize(
    ("damage", "message"),
    [
        pytest.param(shutil.rmtree, None, id="missing"),
        pytest.param(empty, None, id="empty"),
        pytest.param(cut("offsets/[0-9]"), "offsets/4 is cut or not readable", id="cut offsets file"),
        pytest.param(cut("commits/[0-9]"), "commits/4 is cut or not readable", id="cut commit file"),
        pytest.param(gone("state/0/0/[0-9].changelog"), "state/0/0/5.changelog is missing", id="missing state file"),
        pytest.param(foreign, "its plan is of change_events another, not of ", id="foreign checkpoint"),
    ],
)
def test_the_six_kinds_of_damage_are_known_before_spark_starts(
    shop: Shop, damage: Callable[[Path], None], message: str | None, capfd: Any
) -> None:
    damage(folder_of(shop))
    assert running(shop) == 2
    if message is not None:
        assert f"checkpoint g1 of the buffer is damaged: {message}" in capfd.readouterr().out


@pytest.mark.long
def test_a_state_that_only_spark_finds_damaged_is_replaced_in_the_same_run(shop: Shop, capfd: Any) -> None:
    before, sides = versions(shop), balance(shop)
    cut("state/0/0/[0-9].changelog")(folder_of(shop))
    shop.send(shop.metadata_of(60, orders=1))
    shop.run((land_events,))
    done = rebuild(shop)
    assert done["generation"] == 2
    assert "checkpoint g1 of the buffer is damaged: Spark cannot read its state: " in capfd.readouterr().out
    assert versions(shop)["dead_letters"] == before["dead_letters"]
    assert balance(shop)["released"] == sides["released"] + 1


@pytest.mark.long
def test_what_the_buffer_has_not_read_outlives_maintenance(shop: Shop) -> None:
    for csn in range(70, 76):
        shop.commit(csn, order(csn))
        shop.run((land_events,))
    table = DeltaTable(shop.path("change_events"))
    table.optimize.compact()
    table.vacuum(0, dry_run=False, enforce_retention_duration=False)
    done = rebuild(shop)
    assert (done["generation"], done["transactions"]) == (1, 6), "one a landing"
