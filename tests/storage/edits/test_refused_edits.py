"""Edits that no rebuild can follow are refused with file, line and way out, before anything is written by them."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from deltalake import DeltaTable

from steps.settling.edited_shop import DOCUMENTS, LINES, ORDERS, EditedShop
from txloom.cli import main
from txloom.errors import ConfigurationError
from txloom.quality.findings import INCOMPLETE
from txloom.steps.declarations.declare import declare
from txloom.storage.checks.findings import open_findings
from txloom.storage.declarations import records
from txloom.storage.edits.refused_edits import messages_of, refused_edits

MIRRORS = ["{table: orders}", "{table: lines}"]
DECIMAL = {**LINES, "q": "'decimal(18,4)'"}
NARROWER = {"orders": ORDERS, "lines": {**LINES, "q": "int"}}
RENAMED = {"orders": ORDERS, "lines": {"id": "long", "o_id": "long", "count": "{type: int, source: q}"}}
ALL = {"orders": ORDERS, "lines": LINES}
WITH_Q = {"lines": "[id, q]"}
OTHER = {"orders": "APP.LINES", "lines": "APP.ORDERS"}
IN_CASE = {"id": "long", "o_id": "long", "Q": "{type: long, source: q}"}
PART = DOCUMENTS.replace("as: items", "as: parts")


def filled(folder: Path, lines: dict[str, str], mirrors: list[str], aggregates: list[str]) -> EditedShop:
    shop = EditedShop(folder)
    shop.declare({"orders": ORDERS, "lines": lines}, mirrors, aggregates)
    shop.orders(1, 2)
    shop.run()
    return shop


def refusal(shop: EditedShop) -> str:
    """Return what refuses the declaration, "" for nothing."""
    refused = refused_edits(shop.lake.pipeline, shop.lake.paths, records.read(shop.lake.paths))
    return messages_of(refused, str(shop.folder / "shop.yaml"))


def versions(shop: EditedShop) -> dict[str, int]:
    folder = Path(shop.lake.paths.table("")).parent / "shop"
    return {path.name: DeltaTable(path).version() for path in folder.iterdir() if (path / "_delta_log").is_dir()}


def test_a_narrower_type_is_refused_by_plan_check_and_buffer_and_nothing_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shop = filled(tmp_path, DECIMAL, MIRRORS, [DOCUMENTS])
    before = versions(shop)
    shop.declare(NARROWER, MIRRORS, [DOCUMENTS])
    file, warehouse = str(tmp_path / "shop.yaml"), str(shop.lake.paths.warehouse)
    says = (
        f"{file}:7: tables[1].columns.q: found int, expected decimal(18,4) as before, or a type that holds all its "
        "values. Or move the folders lines_changes and doc_stream away. After the move, the next cycle rebuilds the "
        "rows from the messages that are still kept. A table needs a snapshot if some of its messages are gone."
    )
    for command in (["plan", file], ["check", file]):
        assert main([*command, "--warehouse", warehouse]) == 2
        shown = capsys.readouterr()
        assert says in shown.out + shown.err
    with pytest.raises(ConfigurationError) as refused:
        declare(shop.lake.pipeline, shop.lake.paths, "r")
    assert str(refused.value) == says.replace(f"{file}:7: tables[1].", "pipeline shop: tables[lines].")
    assert versions(shop) == before


def move_histories(shop: EditedShop) -> None:
    for name in ("lines_changes", "doc_stream"):
        shutil.move(shop.lake.paths.table(name), shop.folder / name)


WAYS_OUT: dict[str, Callable[[EditedShop], None]] = {
    "as before": lambda shop: shop.declare({"orders": ORDERS, "lines": DECIMAL}, MIRRORS, [DOCUMENTS]),
    "wider": lambda shop: shop.declare(
        {"orders": ORDERS, "lines": {**LINES, "q": "'decimal(20,4)'"}}, MIRRORS, [DOCUMENTS]
    ),
    "folders moved": move_histories,
}


@pytest.mark.parametrize("way", WAYS_OUT)
def test_the_way_out_that_a_refusal_names_leads_out(tmp_path: Path, way: str) -> None:
    shop = filled(tmp_path, DECIMAL, MIRRORS, [DOCUMENTS])
    shop.declare(NARROWER, MIRRORS, [DOCUMENTS])
    WAYS_OUT[way](shop)
    shop.orders(3)
    shop.run()
    assert shop.shown("lines") == shop.source("lines") and shop.shown("doc_current") == shop.documents()


Declared = tuple[dict[str, dict[str, str]], list[str], list[str]]


@pytest.mark.parametrize(
    ("declared", "folder"),
    [
        ((RENAMED, MIRRORS, []), "lines_changes"),
        ((RENAMED, [], [DOCUMENTS]), "doc_stream"),
        ((NARROWER, [], [DOCUMENTS]), "doc_stream"),
        ((NARROWER, [], [PART]), "doc_stream"),
    ],
)
def test_a_narrower_type_is_found_under_the_earlier_name_of_column_and_field(
    tmp_path: Path, declared: Declared, folder: str
) -> None:
    shop = filled(tmp_path, LINES, declared[1], [DOCUMENTS] if declared[2] else [])
    shop.declare(*declared)
    with pytest.raises(ConfigurationError, match=f"found int, expected long as before.* folder {folder} away"):
        declare(shop.lake.pipeline, shop.lake.paths, "r")


@pytest.mark.parametrize(
    ("before", "now", "is_refused"),
    [
        ("int", "long", False),
        ("long", "int", True),
        ("long", "'decimal(18,0)'", True),
        ("long", "'decimal(19,0)'", False),
        ("long", "string", True),
        ("string", "long", False),
        ("string", "'array<long>'", False),
        ("uuid", "json", False),
        ("float", "double", False),
        ("double", "float", True),
        ("'array<int>'", "'array<long>'", False),
        ("'array<long>'", "'array<int>'", True),
    ],
)
def test_a_type_is_refused_that_does_not_hold_every_value(
    tmp_path: Path, before: str, now: str, is_refused: bool
) -> None:
    shop = EditedShop(tmp_path)
    shop.declare({"orders": {"id": "long", "total": before}}, ["{table: orders}"])
    shop.run()
    shop.commit(("I", "orders", {"id": 1}))
    shop.run()
    shop.declare({"orders": {"id": "long", "total": now}}, ["{table: orders}"])
    plain = before.strip("'")
    assert (f"found {now.strip(chr(39))}, expected {plain} as before" in refusal(shop)) == is_refused


def test_a_refusal_of_other_partitions_names_the_folder(tmp_path: Path) -> None:
    shop = filled(tmp_path, LINES, MIRRORS, [])
    shop.declare(
        {"orders": ORDERS, "lines": LINES}, ["{table: orders}", "{table: lines, current: lines, partition_by: o_id}"]
    )
    assert "move the folder lines away" in refusal(shop)


@pytest.mark.parametrize(
    ("mirrors", "aggregates", "history"), [(MIRRORS, [], "lines_changes"), ([], [DOCUMENTS], "doc_stream")]
)
def test_a_column_becomes_part_of_a_key_once_every_change_has_a_value_of_it(
    tmp_path: Path, mirrors: list[str], aggregates: list[str], history: str
) -> None:
    shop = filled(tmp_path, {"id": "long", "o_id": "long"}, mirrors, aggregates)
    shop.declare(ALL, mirrors, aggregates, keys=WITH_Q)
    before = versions(shop)
    expected = f"columns.q: found long in the key, expected a column with a value in every change of {history}"
    assert expected in refusal(shop)
    assert versions(shop) == before
    shop.declare(ALL, mirrors, aggregates)
    shop.run()
    shop.declare(ALL, mirrors, aggregates, keys=WITH_Q)
    shop.orders(8)
    shop.run()
    if mirrors:
        assert shop.shown("lines") == shop.source("lines")
    else:
        assert shop.shown("doc_current") == shop.documents()


def test_a_change_without_a_value_of_a_column_keeps_it_out_of_the_key(tmp_path: Path) -> None:
    shop = filled(tmp_path, LINES, MIRRORS, [])
    shop.commit(("I", "lines", {"id": 77, "o_id": 1, "q": None}))
    shop.run()
    shop.declare(ALL, MIRRORS, keys=WITH_Q)
    assert "columns.q: found long in the key" in refusal(shop)
    shop.declare(ALL, ["{table: orders}", "{table: lines, history: lines_log}"], keys=WITH_Q)
    shop.run()


def test_a_table_that_gets_another_source_gets_another_key_at_once(tmp_path: Path) -> None:
    shop = filled(tmp_path, LINES, MIRRORS, [])
    swapped = {"orders": {"id": "long"}, "lines": ORDERS}
    shop.declare(swapped, MIRRORS, sources=OTHER, keys={"lines": "[total]"})
    assert refusal(shop) == ""
    shop.orders(3)
    shop.run()
    assert shop.shown("lines") == shop.source("orders")


NO_KEY = {"lines": "none"}


@pytest.mark.parametrize("change", [("U", "lines", {"id": 10, "o_id": 1, "q": 9}), ("D", "lines", 10)])
@pytest.mark.parametrize("cleaned", [False, True], ids=["in history", "in messages"])
def test_a_key_is_not_given_up_where_rows_were_changed(
    tmp_path: Path, change: tuple[str, str, dict[str, int] | int], *, cleaned: bool
) -> None:
    shop = filled(tmp_path, LINES, MIRRORS, [])
    if cleaned:
        shop.declare({"orders": ORDERS}, ["{table: orders}"])
    shop.commit(change)
    shop.run()
    shop.declare(ALL, MIRRORS, keys=NO_KEY)
    where = "messages have" if cleaned else "lines_changes has"
    assert refusal(shop) == (
        f"{tmp_path / 'shop.yaml'}:7: tables[1].key: found none, expected [id] as before. {where} updates or deletes "
        "of rows, but a table without a key takes inserts only. If the source only inserts rows from now on, give the "
        "target another history: the table then needs a snapshot (jobs/load_snapshot.py)."
    )
    with pytest.raises(ConfigurationError):
        shop.run()
    shop.declare(ALL, ["{table: orders}", "{table: lines, history: lines_log}"], keys=NO_KEY)
    assert not refusal(shop)
    shop.run()
    assert shop.shown("lines") is None
    (says,) = (each["evidence"] for each in open_findings(shop.lake.paths) if each["code"] == INCOMPLETE)
    assert "messages are not kept any more, or cannot be read" in says
    shop.load("lines")
    assert shop.shown("lines") == shop.source("lines")
    assert not open_findings(shop.lake.paths)


def test_a_key_is_given_up_where_rows_were_only_inserted(tmp_path: Path) -> None:
    shop = filled(tmp_path, LINES, MIRRORS, [])
    shop.declare(ALL, MIRRORS, keys=NO_KEY)
    assert not refusal(shop)
    shop.run()
    shop.orders(3)
    shop.run()
    assert shop.shown("lines") == shop.source("lines")
    shop.declare(ALL, MIRRORS)
    shop.commit(("U", "lines", {"id": 10, "o_id": 1, "q": 9}))
    shop.run()
    assert shop.shown("lines") == shop.source("lines")


@pytest.mark.parametrize("is_gone", [False, True], ids=["kept", "removed"])
def test_a_name_that_differs_from_one_in_a_history_only_in_case_is_refused(tmp_path: Path, *, is_gone: bool) -> None:
    shop = filled(tmp_path, LINES, MIRRORS, [DOCUMENTS])
    if is_gone:
        shop.declare({"orders": ORDERS, "lines": {"id": "long", "o_id": "long"}}, MIRRORS, [DOCUMENTS])
        shop.run()
    shop.declare({"orders": ORDERS, "lines": IN_CASE}, MIRRORS, [DOCUMENTS])
    says = "tables[lines].columns.Q: found the name Q, expected q, or a name that differs in more than case. "
    with pytest.raises(ConfigurationError) as refused:
        shop.run()
    assert says in str(refused.value)
    assert "Or move the folders lines_changes and doc_stream away." in str(refused.value)
    move_histories(shop)
    shop.orders(3)
    shop.run()
    rows = [{"id": row["id"], "o_id": row["o_id"], "Q": row["q"]} for row in shop.source("lines")]
    assert shop.shown("lines") == rows


@pytest.mark.parametrize(
    ("documents", "key", "name"),
    [
        (DOCUMENTS.replace("items", "ITEMS"), "children", "items"),
        (DOCUMENTS.replace("root: orders", "root: Orders"), "root", "orders"),
    ],
)
def test_a_field_that_differs_from_one_in_a_history_only_in_case_is_refused(
    tmp_path: Path, documents: str, key: str, name: str
) -> None:
    shop = filled(tmp_path, LINES, [], [DOCUMENTS])
    root = "Orders" if key == "root" else "orders"
    shop.declare({root: ORDERS, "lines": LINES}, [], [documents], sources={root: "APP.ORDERS"})
    with pytest.raises(ConfigurationError, match=rf"aggregates\[doc\].{key}: found the name .*, expected {name}, or"):
        shop.run()
    shutil.move(shop.lake.paths.table("doc_stream"), shop.folder / "doc_stream")
    shop.run()
    field = "ITEMS" if key == "children" else "items"
    rows = [
        {field if column == "items" else column: value for column, value in row.items()} for row in shop.documents()
    ]
    assert shop.shown("doc_current") == rows


def test_a_column_is_not_taken_up_if_its_name_differs_from_one_in_a_history_only_in_case(tmp_path: Path) -> None:
    shop = EditedShop(tmp_path)
    shop.declare({"orders": {"id": "long", "Gift": "{type: long, source: present}"}}, ["{table: orders}"])
    shop.commit(("I", "orders", {"id": 1, "present": 4}))
    shop.run()
    shop.declare({"orders": {"id": "long"}}, ["{table: orders}"], evolve="orders")
    shop.commit(("I", "orders", {"id": 2, "gift": 5}))
    shop.run()
    assert [row["id"] for row in shop.shown("orders") or []] == [1, 2]
    says = {row["column"]: row["evidence"] for row in open_findings(shop.lake.paths)}
    assert says["gift"].endswith("its name in the lake is taken or not possible")


def test_the_source_of_a_table_in_another_case_is_refused_with_its_line(tmp_path: Path) -> None:
    shop = filled(tmp_path, LINES, MIRRORS, [DOCUMENTS])
    shop.declare({"orders": ORDERS, "lines": LINES}, MIRRORS, [DOCUMENTS], sources={"lines": "app.Lines"})
    assert refusal(shop) == (
        f"{tmp_path / 'shop.yaml'}:7: tables[1].source: found app.Lines, expected APP.LINES as before. "
        "Messages of APP.LINES match in any case, so that the edit would change nothing."
    )
    shop.declare({"orders": ORDERS, "lines": LINES}, MIRRORS, [DOCUMENTS])
    shop.orders(3)
    shop.run()
    assert shop.shown("lines") == shop.source("lines") and shop.shown("doc_current") == shop.documents()
