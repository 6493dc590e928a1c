"""Rows of a table that came before it was declared, and became dead letters: a redrive completes the table."""

import shutil
from pathlib import Path

import pytest

from steps.settling.edited_shop import DOCUMENTS, LINES, ORDERS, EditedShop
from txloom.quality.dead_letters import ALL, Selection
from txloom.quality.findings import INCOMPLETE
from txloom.steps.backfill.backfill import backfill
from txloom.steps.dead_letters.dismiss import dismiss
from txloom.steps.dead_letters.redrive import redrive
from txloom.steps.settling.planned_tables import planned_tables
from txloom.storage.checks.findings import open_findings
from txloom.storage.dead_letters.open_letters import open_dead_letters
from txloom.storage.declarations.incomplete import REDRIVE_HINT, with_present_hints

MIRRORS = ["{table: orders}", "{table: lines}"]
ALONE = "{name: lone, root: lines, children: []}"
RULES = pytest.mark.parametrize("rule", ["counts", "progress"])
FOLDERS = "progress in two folders"
"""The rule `progress`, under which the newest transaction waits for the other folder."""


def rejecting(folder: Path, rule: str = "counts") -> EditedShop:
    """Return a shop whose lines are not declared, so that they are dead letters."""
    shop = EditedShop(folder, patience="1s")
    shop.declare({"orders": ORDERS}, ["{table: orders}"], rule=rule.split(maxsplit=1)[0], unknown_tables="dead_letter")
    for number in (1, 2, 3):
        order, line = {"id": number, "total": number}, {"id": 10 * number, "o_id": number, "q": number}
        send(shop, rule, ("I", "orders", order), ("I", "lines", line))
    shop.run()
    return shop


def send(shop: EditedShop, rule: str, *changes: tuple[str, str, dict[str, int]]) -> None:
    """Commit a transaction; under the rule `progress`, its rows come without metadata, in one topic unless FOLDERS."""
    if rule == "counts":
        shop.commit(*changes)
        return
    if rule == FOLDERS:
        shop.commit(*changes)
        shutil.rmtree(shop.folder / "inbox" / "meta")
        return
    held = shop.commit(*changes, late=["orders", "lines"])
    shutil.rmtree(shop.folder / "inbox" / "meta")
    shop.send("rows", *(row for _, table, _ in changes for row in [held[table].pop(0)]))


def declare_lines(shop: EditedShop, rule: str = "counts") -> None:
    tables = {"orders": ORDERS, "lines": LINES}
    shop.declare(tables, MIRRORS, [DOCUMENTS, ALONE], rule=rule.split(maxsplit=1)[0], unknown_tables="dead_letter")


def redriven(shop: EditedShop, selection: Selection = ALL) -> int:
    shop.lake.runs += 1
    count = shop.lake.step(redrive, None, selection)["events"]
    shop.run()
    return count


def evidence(shop: EditedShop) -> list[str]:
    return [each["evidence"] for each in open_findings(shop.lake.paths) if each["code"] == INCOMPLETE]


def dismissed(shop: EditedShop, selection: Selection = ALL, *, reopen: bool = False) -> None:
    """Dismiss dead letters, or take their dismissal back."""
    shop.lake.runs += 1
    shop.lake.step(dismiss, None, selection, person="Ada", reason="a test", reopen=reopen)


def letters(shop: EditedShop) -> list[dict[str, object]]:
    return open_dead_letters(shop.lake.paths, 'landing, "row", topic, file, line').to_pylist()


def assert_is_the_source(shop: EditedShop) -> None:
    assert shop.shown("lines") == shop.source("lines")
    assert shop.shown("doc_current") == shop.documents()
    assert [row["id"] for row in shop.shown("lone_current") or []] == [row["id"] for row in shop.source("lines")]
    assert open_findings(shop.lake.paths) == [] == letters(shop)
    assert {state.newest.status for state in shop.states_of().values()} == {"complete"}


@RULES
@pytest.mark.parametrize("cycles", [0, 3], ids=["before a cycle", "after some cycles"])
def test_a_redrive_at_any_time_completes_the_table(tmp_path: Path, rule: str, cycles: int) -> None:
    shop = rejecting(tmp_path, rule)
    declare_lines(shop, rule)
    for _ in range(cycles):
        shop.run()
        assert shop.shown("lines") is None
        assert shop.shown("orders") == shop.source("orders")
    assert redriven(shop) == 3
    send(shop, rule, ("U", "orders", {"id": 1, "total": 7}), ("U", "lines", {"id": 10, "o_id": 2, "q": 9}))
    send(shop, rule, ("I", "orders", {"id": 4, "total": 4}))
    shop.run()
    assert_is_the_source(shop)
    assert redriven(shop) == 0
    shop.lake.lose_checkpoint()
    shop.run()
    assert_is_the_source(shop)


@pytest.mark.parametrize("is_later", [False, True], ids=["at once", "after a cycle"])
def test_a_redrive_completes_transactions_that_waited_while_the_table_was_declared(
    tmp_path: Path, *, is_later: bool
) -> None:
    """They are released as their table is declared now, and lack the rows that are dead letters."""
    shop = rejecting(tmp_path, FOLDERS)
    assert len(shop.lake.rows("pending_transactions")) == 3
    declare_lines(shop, FOLDERS)
    for number in (4, 5) if is_later else (4,):
        line = {"id": 10 * number, "o_id": number, "q": number}
        send(shop, FOLDERS, ("I", "orders", {"id": number, "total": number}), ("I", "lines", line))
        shop.run()
    assert shop.shown("lines") is None
    for left in (2, 1, 0):
        first = letters(shop)[0]
        assert redriven(shop, Selection(messages=[f"{first['file']}, line {first['line']}"])) == 1
        assert (shop.shown("lines") is None) == bool(left)
    send(shop, FOLDERS, ("U", "orders", {"id": 1, "total": 7}), ("U", "lines", {"id": 10, "o_id": 2, "q": 9}))
    send(shop, FOLDERS, ("I", "orders", {"id": 6, "total": 6}), ("I", "lines", {"id": 60, "o_id": 6, "q": 6}))
    shop.run()
    assert_is_the_source(shop)
    shop.lake.lose_checkpoint()
    shop.run()
    assert_is_the_source(shop)


def test_a_backfill_finds_the_rows_that_a_redrive_brought(tmp_path: Path) -> None:
    shop = rejecting(tmp_path, FOLDERS)
    declare_lines(shop, FOLDERS)
    send(shop, FOLDERS, ("I", "orders", {"id": 4, "total": 4}), ("I", "lines", {"id": 40, "o_id": 4, "q": 4}))
    shop.run()
    assert redriven(shop) == 3
    assert shop.shown("lines") == shop.source("lines")
    shop.lake.step(backfill, shop.lake.session, "rebuild")
    counts = shop.lake.step(backfill, shop.lake.session, "compare")
    assert (counts["changes"], counts["surplus"]) == (0, 0)


@RULES
def test_the_plan_and_the_finding_name_the_redrive(tmp_path: Path, rule: str) -> None:
    shop = rejecting(tmp_path, rule)
    declare_lines(shop, rule)
    planned = {each.name: each.state for each in planned_tables(shop.lake.pipeline, shop.lake.warehouse)}
    between = "of 3 transactions (csn 110 to 130)"
    missing = f'{between}, rows are dead letters with the cause "unknown table": redrive these'
    assert f"waits: {missing}" in planned["lines_changes"]
    assert "left out of cuts until their dead letters are redriven, or a snapshot is loaded" in planned["lines"]
    shop.run()
    (says,) = evidence(shop)
    assert missing in says
    shown = with_present_hints(shop.lake.pipeline, shop.lake.paths, open_findings(shop.lake.paths))
    hint = REDRIVE_HINT.format(table="lines", pipeline="shop", dag="shop_dead_letters", csn=130)
    assert [each["hint"] for each in shown if each["code"] == INCOMPLETE] == [hint]
    assert hint.startswith(
        'Redrive the dead letters with the cause "unknown table" that have rows of lines: '
        'jobs/redrive.py --pipeline shop --cause "unknown table", or the DAG shop_dead_letters.'
    )


@RULES
def test_a_table_is_complete_when_the_last_dead_letter_is_redriven(tmp_path: Path, rule: str) -> None:
    shop = rejecting(tmp_path, rule)
    declare_lines(shop, rule)
    shop.run()
    for left in (2, 1, 0):
        (first, *others) = letters(shop)
        assert len(others) == left
        assert redriven(shop, Selection(messages=[f"{first['file']}, line {first['line']}"])) == 1
        assert (shop.shown("lines") is None) == bool(left)
        assert [f"of {left} transactions" in each for each in evidence(shop)] == [True] * bool(left)
    assert_is_the_source(shop)


@RULES
@pytest.mark.parametrize("all_of_them", [True, False], ids=["all", "one"])
def test_a_table_whose_dead_letters_are_dismissed_lacks_their_rows(
    tmp_path: Path, rule: str, *, all_of_them: bool
) -> None:
    shop = rejecting(tmp_path, rule)
    declare_lines(shop, rule)
    shop.run()
    first = letters(shop)[0]
    chosen = ALL if all_of_them else Selection(messages=[f"{first['file']}, line {first['line']}"])
    dismissed(shop, chosen)
    for _ in range(2):
        shop.run()
        assert shop.shown("lines") is None
    if not all_of_them:
        assert redriven(shop) == 2
        assert shop.shown("lines") is None
    send(shop, rule, ("I", "orders", {"id": 4, "total": 4}))
    shop.run()
    assert shop.shown("lines") is None
    shop.load("lines", csn=130)
    assert shop.shown("lines") == shop.source("lines")
    assert evidence(shop) == []


def test_the_finding_says_that_dead_letters_were_dismissed(tmp_path: Path) -> None:
    shop = rejecting(tmp_path, "progress")
    declare_lines(shop, "progress")
    shop.run()
    dismissed(shop)
    shop.run()
    (says,) = evidence(shop)
    assert 'rows are dead letters with the cause "unknown table", and some of these were dismissed' in says
    (row,) = [each for each in open_findings(shop.lake.paths) if each["code"] == INCOMPLETE]
    (shown,) = with_present_hints(shop.lake.pipeline, shop.lake.paths, [row])
    assert shown["hint"] == row["hint"]
    assert shown["hint"].startswith("Load a snapshot of lines as of csn 130 or a later one: ")


@RULES
def test_dead_letters_whose_dismissal_was_taken_back_complete_the_table_by_a_redrive(tmp_path: Path, rule: str) -> None:
    shop = rejecting(tmp_path, rule)
    declare_lines(shop, rule)
    shop.run()
    dismissed(shop)
    shop.run()
    dismissed(shop, reopen=True)
    shop.run()
    assert shop.shown("lines") is None
    assert redriven(shop) == 3
    assert_is_the_source(shop)


@RULES
def test_a_table_is_complete_after_a_load_instead_of_a_redrive(tmp_path: Path, rule: str) -> None:
    shop = rejecting(tmp_path, rule)
    declare_lines(shop, rule)
    send(shop, rule, ("I", "orders", {"id": 4, "total": 4}))
    shop.run()
    shop.load("lines", csn=130)
    assert shop.shown("lines") == shop.source("lines")
    assert evidence(shop) == []
