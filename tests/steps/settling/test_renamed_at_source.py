"""A column that the source renames: `source_aliases` names what it was called, and no value of before is lost."""

from collections.abc import Callable
from pathlib import Path

import pytest

from steps.settling.edited_shop import EditedShop
from txloom import read
from txloom.errors import ConfigurationError
from txloom.quality import findings as f
from txloom.steps.backfill.backfill import backfill
from txloom.steps.settling.forecast import forecast
from txloom.storage.checks import findings
from txloom.storage.declarations import records as r

DOCUMENTS = "{name: doc, root: orders, children: []}"
BEFORE = {"id": "long", "status": "string"}
RENAMED = {"id": "long", "status": "{type: string, source: STATE}"}
FOLLOWED = {"id": "long", "status": "{type: string, source: STATE, source_aliases: [STATUS]}"}


@pytest.fixture
def shop(tmp_path: Path) -> EditedShop:
    """Return a shop with orders of a status."""
    made = EditedShop(tmp_path)
    declare(made, BEFORE)
    put(made, 1, "status", "new")
    put(made, 2, "status", "paid")
    made.run()
    return made


def declare(shop: EditedShop, columns: dict[str, str], **options: str) -> None:
    """Declare orders with a mirror and documents."""
    shop.declare({"orders": columns}, ["orders"], [DOCUMENTS], **options)


def put(shop: EditedShop, number: int, column: str, value: str, op: str = "I") -> None:
    """Commit an order; an update too has the whole row, under the names that columns have now."""
    before = shop.state["orders"].pop(number, None)
    row = {"id": number, column: value}
    if before is not None:
        shop.state["orders"][number] = {"id": number, column: before.get("status", before.get("state"))}
    shop.commit((op, "orders", row))


def rename(shop: EditedShop) -> None:
    """Rename the column at the source, and change what is there."""
    put(shop, 3, "state", "sent")
    put(shop, 1, "state", "paid", "U")


def statuses(shop: EditedShop, table: str = "orders") -> dict[int, str | None]:
    """Return the status of each order in the newest cut."""
    rows = shop.shown(table)
    assert rows is not None
    return {row["id"]: row["status"] for row in rows}


AFTER = {1: "paid", 2: "paid", 3: "sent"}


def expect_all(shop: EditedShop) -> None:
    """Expect every value in current tables and histories, as of each commit, and nothing that needs a snapshot."""
    assert statuses(shop) == statuses(shop, "doc_current") == AFTER
    assert {state.newest.status for state in shop.states_of().values()} == {r.COMPLETE}
    lake = shop.lake
    for csn, state in shop.states.items():
        rows = read.as_of(lake.pipeline, "orders", csn=csn, warehouse=lake.warehouse).to_pylist()
        shown = {row["id"]: row["status"] for row in rows}
        assert shown == {key: row.get("status", row.get("state")) for key, row in state["orders"].items()}, csn
    assert not [row for row in findings.open_findings(lake.paths) if row["column"] in ("status", "STATE", "STATUS")]
    assert not forecast(lake.pipeline, lake.paths).made


def test_a_renamed_column_keeps_every_value(shop: EditedShop) -> None:
    rename(shop)
    shop.run()
    assert statuses(shop) == {1: None, 2: None, 3: None}
    assert f.RENAMED in {row["code"] for row in findings.open_findings(shop.lake.paths)}
    declare(shop, FOLLOWED)
    shop.run()
    expect_all(shop)
    shop.lake.step(backfill, shop.lake.session, "rebuild")
    assert shop.lake.step(backfill, shop.lake.session, "compare")["changes"] == 0


def test_a_declaration_may_follow_before_the_first_message(shop: EditedShop) -> None:
    declare(shop, FOLLOWED)
    shop.run()
    rename(shop)
    shop.run()
    expect_all(shop)


def test_a_declaration_may_follow_in_the_cycle_that_takes_the_first_message(shop: EditedShop) -> None:
    rename(shop)
    declare(shop, FOLLOWED)
    shop.run()
    expect_all(shop)


def test_messages_from_before_the_rename_are_not_needed(shop: EditedShop) -> None:
    shop.forget()
    rename(shop)
    shop.run()
    declare(shop, FOLLOWED)
    shop.run()
    expect_all(shop)


def test_a_renamed_column_that_its_table_took_up_keeps_every_value(shop: EditedShop) -> None:
    declare(shop, BEFORE, evolve="orders")
    rename(shop)
    shop.run()
    declare(shop, FOLLOWED, evolve="orders")
    shop.run()
    expect_all(shop)


def test_a_column_that_was_declared_beside_the_renamed_one_becomes_one_with_it(shop: EditedShop) -> None:
    rename(shop)
    declare(shop, BEFORE | {"state": "string"})
    shop.run()
    declare(shop, FOLLOWED)
    shop.run()
    expect_all(shop)


def test_a_column_that_was_declared_beside_the_renamed_one_for_a_while_becomes_one_with_it(shop: EditedShop) -> None:
    """No finding names messages that came while the column was declared."""
    declare(shop, BEFORE | {"state": "string"})
    rename(shop)
    shop.run()
    declare(shop, BEFORE)
    shop.run()
    declare(shop, FOLLOWED)
    shop.run()
    expect_all(shop)


def test_a_value_that_changed_without_an_event_still_differs_after_its_column_was_renamed(shop: EditedShop) -> None:
    rename(shop)
    declare(shop, BEFORE | {"state": "string"})
    shop.run()
    shop.state["orders"][2] = {"id": 2, "state": "lost"}
    put(shop, 2, "state", "sent", "U")
    shop.run()
    declare(shop, FOLLOWED)
    shop.run()
    (row,) = [row for row in findings.open_findings(shop.lake.paths) if row["code"] == f.CHANGED]
    assert (row["table"], row["column"]) == ("orders", "status")
    assert statuses(shop) == AFTER | {2: "sent"}


def test_a_column_can_be_renamed_at_the_source_and_in_the_lake(shop: EditedShop) -> None:
    rename(shop)
    shop.run()
    declare(shop, {"id": "long", "state": "{type: string, source: STATE, source_aliases: [STATUS]}"})
    shop.run()
    assert [row["state"] for row in shop.shown("orders") or ()] == [*AFTER.values()]
    declare(shop, FOLLOWED)
    shop.run()
    expect_all(shop)


def test_a_column_can_be_renamed_twice(shop: EditedShop) -> None:
    declare(shop, FOLLOWED)
    rename(shop)
    shop.run()
    shop.state["orders"] = {key: {"id": key, "phase": AFTER[key]} for key in AFTER}
    shop.commit(("I", "orders", {"id": 4, "phase": "new"}))
    shop.run()
    declare(shop, {"id": "long", "status": "{type: string, source: PHASE, source_aliases: [STATE, STATUS]}"})
    shop.run()
    assert statuses(shop) == statuses(shop, "doc_current") == AFTER | {4: "new"}


def test_a_renamed_key_column_keeps_its_rows_without_their_messages(shop: EditedShop) -> None:
    shop.forget()
    shop.state["orders"] = {key: {"number": key, "status": row["status"]} for key, row in shop.state["orders"].items()}
    shop.commit(("I", "orders", {"id": 3, "number": 3, "status": "sent"}))
    declare(shop, {"id": "{type: long, source: NUMBER, source_aliases: [ID]}", "status": "string"})
    shop.run()
    assert statuses(shop) == statuses(shop, "doc_current") == {1: "new", 2: "paid", 3: "sent"}


def refused(shop: EditedShop, columns: dict[str, str]) -> str:
    """Return why the next cycle refuses a declaration of orders; the cut stays as it was."""
    before = shop.cut
    declare(shop, columns)
    with pytest.raises(ConfigurationError) as error:
        shop.run()
    assert shop.cut == before
    return str(error.value)


def _rename_nothing(shop: EditedShop) -> None:
    pass


@pytest.mark.parametrize(
    ("happens", "since"),
    [
        (rename, "messages have STATE only since csn 130"),
        (_rename_nothing, "no message has STATE yet"),
    ],
)
def test_another_source_that_would_lose_values_is_refused(
    shop: EditedShop, happens: Callable[[EditedShop], None], since: str
) -> None:
    happens(shop)
    shop.run()
    message = refused(shop, RENAMED)
    assert "tables[orders].columns.status" in message
    assert "found source STATE, expected source_aliases: [status] in addition" in message
    assert since in message
    declare(shop, FOLLOWED)
    shop.run()
    assert statuses(shop)[2] == "paid"


def test_a_column_that_was_declared_beside_the_renamed_one_does_not_replace_it(shop: EditedShop) -> None:
    rename(shop)
    declare(shop, BEFORE | {"state": "string"})
    shop.run()
    message = refused(shop, RENAMED)
    assert "messages have STATE only since csn 130" in message
    declare(shop, FOLLOWED)
    shop.run()
    expect_all(shop)


def test_a_column_that_was_always_declared_beside_another_one_replaces_it_where_rows_have_it(tmp_path: Path) -> None:
    """A null is not a column that is missing."""
    shop = EditedShop(tmp_path)
    declare(shop, BEFORE | {"state": "string"})
    shop.commit(("I", "orders", {"id": 1, "status": "new", "state": None}))
    shop.run()
    declare(shop, RENAMED)
    shop.run()
    assert statuses(shop) == {1: None}
    declare(shop, BEFORE | {"state": "string"})
    shop.run()
    shop.commit(("I", "orders", {"id": 2, "status": "paid"}))
    shop.run()
    assert "inserts with these values do not have STATE" in refused(shop, RENAMED)


def test_a_former_name_goes_before_those_that_are_older(shop: EditedShop) -> None:
    declare(shop, FOLLOWED)
    rename(shop)
    shop.run()
    message = refused(shop, {"id": "long", "status": "{type: string, source: PHASE, source_aliases: [STATUS]}"})
    assert "expected source_aliases: [STATE, STATUS] in addition" in message
    assert "no message has PHASE yet" in message


def test_values_since_the_rename_need_their_messages(shop: EditedShop) -> None:
    rename(shop)
    shop.run()
    shop.forget()
    declare(shop, FOLLOWED)
    shop.run()
    assert shop.shown("orders") is None
    (finding,) = [row for row in findings.open_findings(shop.lake.paths) if row["code"] == f.INCOMPLETE]
    assert "(csn 130 to 140)" in finding["evidence"]
    shop.state["orders"] = {key: {"id": key, "state": AFTER[key]} for key in AFTER}
    shop.load("orders")
    assert statuses(shop) == statuses(shop, "doc_current") == AFTER


def test_a_snapshot_may_bring_the_values_of_before(shop: EditedShop) -> None:
    rename(shop)
    shop.run()
    declare(shop, RENAMED)
    shop.state["orders"] = {key: {"id": key, "state": AFTER[key]} for key in AFTER}
    shop.load("orders")
    assert statuses(shop) == statuses(shop, "doc_current") == AFTER


def test_a_former_name_that_rows_need_is_not_taken_away(shop: EditedShop) -> None:
    declare(shop, FOLLOWED)
    rename(shop)
    shop.run()
    as_before = "source STATE with source_aliases: [STATUS] as before"
    message = refused(shop, RENAMED)
    assert f"found source STATE, expected {as_before}" in message
    assert "STATUS would no longer be read" in message
    assert f"found source status, expected {as_before}" in refused(shop, BEFORE)


def test_values_are_given_up_by_leaving_the_column_out_for_a_cycle(shop: EditedShop) -> None:
    rename(shop)
    shop.run()
    declare(shop, {"id": "long"})
    shop.run()
    declare(shop, RENAMED)
    shop.run()
    assert statuses(shop) == {1: "paid", 2: None, 3: "sent"}


def test_a_wrong_source_is_corrected(tmp_path: Path) -> None:
    shop = EditedShop(tmp_path)
    declare(shop, {"id": "long", "status": "{type: string, source: STATSU}"})
    put(shop, 1, "status", "new")
    shop.run()
    assert statuses(shop) == {1: None}
    declare(shop, BEFORE)
    shop.run()
    assert statuses(shop) == statuses(shop, "doc_current") == {1: "new"}


def test_a_wrong_former_name_is_corrected(tmp_path: Path) -> None:
    shop = EditedShop(tmp_path)
    declare(shop, {"id": "long", "status": "{type: string, source: STATE, source_aliases: [STATSU]}"})
    put(shop, 1, "status", "new")
    put(shop, 2, "status", "paid")
    rename(shop)
    shop.run()
    assert statuses(shop) == {1: "paid", 2: None, 3: "sent"}
    declare(shop, FOLLOWED)
    shop.run()
    expect_all(shop)


def test_columns_can_exchange_their_names(shop: EditedShop) -> None:
    """A name in the lake that gets another column of the source loses nothing while its own has another name."""
    declare(shop, {"id": "long", "status": "string", "note": "string"})
    shop.commit(("I", "orders", {"id": 3, "status": "sent", "note": "x"}))
    shop.run()
    declare(shop, {"id": "long", "status": "{type: string, source: note}", "note": "{type: string, source: status}"})
    shop.run()
    assert statuses(shop) == {1: None, 2: None, 3: "x"}
    assert [row["note"] for row in shop.shown("orders") or ()] == ["new", "paid", "sent"]


WITHOUT = {"id": "long"}


@pytest.mark.parametrize("forgets", [False, True])
def test_a_mirror_is_not_copied_from_a_history_that_never_had_the_column(tmp_path: Path, *, forgets: bool) -> None:
    shop = EditedShop(tmp_path)
    shop.declare({"orders": FOLLOWED}, ["orders"])
    put(shop, 1, "status", "new")
    put(shop, 2, "status", "paid")
    shop.run()
    declare(shop, WITHOUT)
    shop.run()
    if forgets:
        shop.forget()
    declare(shop, FOLLOWED)
    shop.run()
    if forgets:
        assert (shop.shown("orders"), shop.shown("doc_current")) == (None, None)
    else:
        assert statuses(shop) == statuses(shop, "doc_current") == {1: "new", 2: "paid"}


def test_documents_alone_have_a_column_that_only_a_mirror_had_before(tmp_path: Path) -> None:
    shop = EditedShop(tmp_path)
    shop.declare({"orders": BEFORE}, ["orders"])
    put(shop, 1, "status", "new")
    shop.run()
    declare(shop, WITHOUT)
    put(shop, 2, "status", "paid")
    shop.run()
    shop.declare({"orders": BEFORE}, [], [DOCUMENTS])
    shop.run()
    assert statuses(shop, "doc_current") == {1: "new", 2: "paid"}


@pytest.mark.parametrize(
    ("then", "column"),
    [
        ([WITHOUT, BEFORE], "status"),
        ([WITHOUT | {"old": "{type: string, source: STATUS}"}], "old"),
        ([WITHOUT | {"phase": "{type: string, source: PHASE, source_aliases: [STATUS]}"}], "phase"),
    ],
)
def test_a_former_name_is_read_again_under_another_column(
    tmp_path: Path, then: list[dict[str, str]], column: str
) -> None:
    shop = EditedShop(tmp_path)
    declare(shop, FOLLOWED)
    put(shop, 1, "status", "new")
    put(shop, 2, "status", "paid")
    shop.run()
    for columns in then:
        declare(shop, columns)
        shop.run()
    for table in ("orders", "doc_current"):
        assert [row[column] for row in shop.shown(table) or ()] == ["new", "paid"]


def test_a_column_in_place_of_one_that_was_taken_up_has_none_of_its_values(shop: EditedShop) -> None:
    declare(shop, BEFORE, evolve="orders")
    rename(shop)
    shop.run()
    declare(shop, FOLLOWED | {"state": "{type: string, source: OTHER}"}, evolve="orders")
    shop.run()
    assert statuses(shop) == AFTER
    for table in ("orders", "doc_current"):
        assert [row["state"] for row in shop.shown(table) or ()] == [None] * 3
    shop.lake.step(backfill, shop.lake.session, "rebuild")
    assert shop.lake.step(backfill, shop.lake.session, "compare")["changes"] == 0
