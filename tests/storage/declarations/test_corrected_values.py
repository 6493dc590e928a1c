"""Edits of `source.debezium`: values that were read by a wrong option are made again from their messages."""

import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from called import step_of
from steps.settling.edited_shop import DOCUMENTS, LINES, ORDERS, Row
from steps.settling.test_settle import OF_LINES, OF_ORDERS, as_of
from storage.declarations.connector_shop import ConnectorShop
from txloom import read
from txloom.cli import main
from txloom.config import contents
from txloom.errors import BeforeHistory
from txloom.quality.findings import INCOMPLETE
from txloom.steps.backfill.backfill import backfill
from txloom.steps.settling.forecast import forecast
from txloom.storage.checks import findings
from txloom.storage.declarations import records as r

TIMED = {"id": "long", "o_id": "long", "q": "timestamp"}
WRONG, RIGHT = "time_unit: adaptive", "time_unit: millis"
KEY = {"lines": "[q]"}
START = datetime(1970, 1, 1)


@pytest.fixture
def shop(tmp_path: Path) -> ConnectorShop:
    return ConnectorShop(tmp_path)


def declare(
    shop: ConnectorShop,
    unit: str,
    lines: Mapping[str, str] | None = None,
    keys: Mapping[str, str] | None = None,
    mirrors: tuple[str, ...] = (OF_ORDERS, OF_LINES),
    aggregates: tuple[str, ...] = (),
) -> None:
    """Declare orders, and lines with the time `q`; unit: the entries of `source.debezium`."""
    shop.declare({"orders": ORDERS, "lines": lines or TIMED}, mirrors, aggregates, None, keys, debezium=unit)


def fill(shop: ConnectorShop) -> None:
    """Commit four transactions with the csns 110, 120, 130 and 140, in two cycles."""
    shop.orders(1, 2, 3)
    shop.run()
    shop.commit(("U", "lines", {"id": 10, "q": 77}), ("D", "lines", 30))
    shop.run()


def lines(shop: ConnectorShop, csn: int | None = None) -> list[Row]:
    """Return the lines of the source as of the newest cut, or as of a csn: `q` counts milliseconds."""
    return [row | {"q": START + timedelta(milliseconds=row["q"])} for row in shop.source("lines", csn)]


def changes(shop: ConnectorShop) -> list[tuple[int, int, datetime | None]]:
    """Return csn, id and time of the rows in the history of lines."""
    return sorted((row["_txloom_csn"], row["id"], row["q"]) for row in shop.lake.rows("lines_changes"))


def at(milliseconds: float) -> datetime:
    return START + timedelta(milliseconds=milliseconds)


def incomplete(shop: ConnectorShop) -> list[tuple[str, int]]:
    """Return table and csn of the open findings about histories that lack changes."""
    rows = findings.open_findings(shop.lake.paths)
    last = re.compile(r"csn \d+ to (\d+)").findall
    return [(row["table"], int(last(row["evidence"])[0])) for row in rows if row["code"] == INCOMPLETE]


def versions(shop: ConnectorShop, *tables: str) -> list[int]:
    """Return the versions of tables in the lake."""
    return [DeltaTable(shop.lake.paths.table(name)).version() for name in tables]


def rebuilt(shop: ConnectorShop) -> int:
    """Return how often rows of histories were made again from messages."""
    path = shop.lake.paths.table("backfills")
    return len(shop.lake.rows("backfills")) if DeltaTable.is_deltatable(path) else 0


def is_idle(shop: ConnectorShop) -> bool:
    """Return whether the next cycle makes nothing because a declaration changed."""
    expected = forecast(shop.lake.pipeline, shop.lake.paths)
    return not (expected.made or expected.anew or expected.incomplete)


def of_earlier_version(patch: pytest.MonkeyPatch) -> None:
    """Let the lake be written as by a version whose records do not say how values are read."""
    patch.setattr(contents, "values_content", lambda *_: {})


def test_a_corrected_unit_holds_for_earlier_rows_from_the_next_cycle_on(shop: ConnectorShop) -> None:
    declare(shop, WRONG, aggregates=(DOCUMENTS,))
    fill(shop)
    assert changes(shop)[0] == (110, 10, at(0.001))
    before = versions(shop, "orders_changes")
    declare(shop, RIGHT, aggregates=(DOCUMENTS,))
    expected = forecast(shop.lake.pipeline, shop.lake.paths)
    assert [*expected.made] == [("doc_stream", "lines"), ("lines_changes", "lines")]
    assert (expected.anew, expected.incomplete) == (("doc_current", "lines"), ())
    shop.run()
    assert shop.shown("lines") == lines(shop)
    assert shop.shown("doc_current") == [
        {**row, "items": [each for each in lines(shop) if each["o_id"] == row["id"]]} for row in shop.source("orders")
    ]
    assert changes(shop) == [
        (110, 10, at(1)),
        (120, 20, at(2)),
        (130, 30, at(3)),
        (140, 10, at(77)),
        (140, 30, None),
    ]
    assert as_of(shop, "lines", 130) == lines(shop, 130)
    assert versions(shop, "orders_changes") == before
    assert is_idle(shop)


def test_a_corrected_unit_holds_for_rows_that_come_with_the_edit(shop: ConnectorShop) -> None:
    declare(shop, WRONG)
    fill(shop)
    declare(shop, RIGHT)
    shop.orders(4)
    shop.commit(("U", "lines", {"id": 20, "q": 5}))
    shop.run()
    assert shop.shown("lines") == lines(shop)


@pytest.mark.parametrize("kept", [100, 120], ids=["no message is kept", "some are"])
def test_a_table_whose_messages_are_gone_needs_a_snapshot(shop: ConnectorShop, kept: int) -> None:
    declare(shop, WRONG)
    fill(shop)
    shop.lake.forget("kind = 'row'" if kept == 100 else "xid in ('110', '120')")
    declare(shop, RIGHT)
    expected = forecast(shop.lake.pipeline, shop.lake.paths)
    assert [*expected.incomplete] == ["lines"]
    shop.orders(4)
    shop.run()
    assert shop.shown("lines") is None
    assert shop.shown("orders") == shop.source("orders")
    assert incomplete(shop) == [("lines", 140 if kept == 100 else kept)]
    assert changes(shop)[0] == (110, 10, at(0.001))
    assert changes(shop)[-1] == (150, 40, at(4))
    shop.load("lines")
    shop.run()
    assert shop.shown("lines") == lines(shop)
    assert incomplete(shop) == []


def test_a_unit_that_was_corrected_and_taken_back_before_a_cycle_changes_nothing(shop: ConnectorShop) -> None:
    declare(shop, RIGHT)
    fill(shop)
    before = versions(shop, "lines_changes", "lines")
    declare(shop, WRONG)
    declare(shop, RIGHT)
    shop.lake.forget()
    shop.run()
    assert versions(shop, "lines_changes", "lines") == before


@pytest.mark.parametrize("commits", [0, 1, 2, 3], ids=lambda commits: f"dies before commit {commits}")
def test_a_unit_that_was_changed_and_taken_back_between_two_steps_leaves_no_wrong_row(
    shop: ConnectorShop, commits: int
) -> None:
    declare(shop, RIGHT)
    fill(shop)
    declare(shop, WRONG)
    shop.orders(4)
    shop.lake.land()
    shop.lake.buffer()
    assert (150, 40, at(0.004)) in changes(shop)
    if commits:
        shop.die(commits)
    declare(shop, RIGHT)
    shop.orders(5)
    shop.run()
    assert shop.shown("lines") == lines(shop)
    assert changes(shop)[-2:] == [(150, 40, at(4)), (160, 50, at(5))]
    assert {row["q"] for row in shop.lake.rows("lines_changes")} == {None, *map(at, (1, 2, 3, 4, 5, 77))}


@pytest.mark.parametrize("deaths", [0, 1, 2, 3, 4])
def test_a_correction_is_repeated_after_a_run_that_died(shop: ConnectorShop, deaths: int) -> None:
    declare(shop, WRONG)
    fill(shop)
    declare(shop, RIGHT)
    shop.orders(4)
    shop.die(deaths)
    shop.run()
    assert shop.shown("lines") == lines(shop)


@pytest.mark.parametrize("forgets", [False, True])
def test_a_row_whose_key_is_a_time_meets_its_updates_and_deletes(shop: ConnectorShop, forgets: bool) -> None:
    declare(shop, WRONG, keys=KEY)
    shop.orders(1, 2, 3, 4)
    shop.run()
    if forgets:
        shop.forget()
    declare(shop, RIGHT, keys=KEY)
    shop.commit(("U", "lines", {"id": 10, "o_id": 7}), ("D", "lines", 20))
    shop.run()
    if forgets:
        assert shop.shown("lines") is None
        shop.load("lines")
    shop.commit(("U", "lines", {"id": 10, "o_id": 8}), ("D", "lines", 30))
    shop.run()
    assert shop.shown("lines") == lines(shop)
    assert [row["id"] for row in lines(shop)] == [10, 40]
    assert findings.open_findings(shop.lake.paths) == []


def test_a_correction_closes_findings_about_rows_that_were_not_known_by_their_wrong_key(shop: ConnectorShop) -> None:
    declare(shop, WRONG, keys=KEY)
    shop.orders(1, 2)
    shop.run()
    shop.commit(("U", "lines", {"id": 10, "o_id": 7}))
    declare(shop, RIGHT, keys=KEY)
    shop.run()
    assert findings.open_findings(shop.lake.paths) == []
    assert shop.shown("lines") == lines(shop)


MOMENTS = {
    "timestamptz": ("timestamptz", WRONG, RIGHT, 86_400_000),
    "time": ("time", WRONG, RIGHT, 3_600_000),
    "array": ("'array<timestamp>'", WRONG, RIGHT, [86_400_000, None]),
    "binary": ("binary", "binary_mode: hex", "binary_mode: base64", "ABCD"),
    "database": ("timestamp", "database: sqlserver", "database: postgresql", 5_000_000_000_000_000),
    "precision": (
        "timestamp",
        "time_precision_mode: nanoseconds",
        "time_precision_mode: microseconds",
        1_767_225_600_000_000,
    ),
}


@pytest.mark.parametrize("kind", MOMENTS)
def test_each_option_is_corrected_for_each_type_whose_values_depend_on_it(tmp_path: Path, kind: str) -> None:
    declared, before, after, value = MOMENTS[kind]
    shown: dict[str, Any] = {}
    for way, units in (("corrected", (before, after)), ("right at once", (after,))):
        (tmp_path / way).mkdir()
        shop = ConnectorShop(tmp_path / way)
        for number, unit in enumerate(units, 1):
            declare(shop, unit, {"id": "long", "q": declared}, mirrors=(OF_LINES,))
            if number == 1:
                shop.commit(("I", "lines", {"id": 1, "q": value}))
            shop.run()
            shown.setdefault(f"first {way}", shop.shown("lines"))
        shown[way] = shop.shown("lines")
    assert shown["corrected"] == shown["right at once"] != shown["first corrected"]
    assert shown["corrected"]


SAME = {
    "a number was never read before": ("", RIGHT, TIMED),
    "no number is read any more": (RIGHT, "", TIMED),
    "the default is written down": (
        "database: mysql",
        "database: mysql, time_precision_mode: adaptive_time_microseconds",
        TIMED,
    ),
    "refused numbers are read": ("database: postgresql", WRONG, TIMED),
    "no bytes": ("time_unit: millis", "time_unit: millis, binary_mode: hex", TIMED),
    "no times": (WRONG, RIGHT, LINES),
    "days and texts": (WRONG, RIGHT, {"id": "long", "o_id": "string", "q": "date"}),
}


@pytest.mark.parametrize("edit", SAME)
def test_an_edit_by_which_values_are_the_same_makes_nothing_again(shop: ConnectorShop, edit: str) -> None:
    before, after, columns = SAME[edit]
    declare(shop, before, columns)
    shop.commit(("I", "lines", {"id": 1, "o_id": 1, "q": None}))
    shop.run()
    shop.lake.forget()
    shown, at_first = shop.shown("lines"), versions(shop, "lines_changes")
    declare(shop, after, columns)
    assert is_idle(shop)
    shop.run()
    assert (shop.shown("lines"), versions(shop, "lines_changes")) == (shown, at_first)
    assert rebuilt(shop) == 0


BETWEEN = {
    "the option is left out": ("", TIMED),
    "the option names no unit": ("database: mysql, time_precision_mode: isostring", TIMED),
    "the column is left out": (WRONG, {"id": "long", "o_id": "long"}),
    "both are left out": ("", {"id": "long", "o_id": "long"}),
    "the column is left out, and the option corrected": (RIGHT, {"id": "long", "o_id": "long"}),
}


@pytest.mark.parametrize("forgets", [False, True])
@pytest.mark.parametrize("between", BETWEEN)
def test_a_unit_is_compared_with_the_last_one_by_which_times_were_read(
    shop: ConnectorShop, between: str, forgets: bool
) -> None:
    declare(shop, WRONG)
    fill(shop)
    declare(shop, *BETWEEN[between])
    shop.run()
    if forgets:
        shop.forget()
    declare(shop, RIGHT)
    shop.run()
    assert shop.shown("lines") == (None if forgets else lines(shop))


def test_a_time_that_was_left_out_keeps_its_values_if_the_unit_is_as_before(shop: ConnectorShop) -> None:
    declare(shop, RIGHT)
    fill(shop)
    declare(shop, "", {"id": "long", "o_id": "long"})
    shop.run()
    shop.forget()
    declare(shop, RIGHT)
    shop.run()
    assert shop.shown("lines") == lines(shop)


def test_a_mirror_is_not_copied_from_a_history_that_was_read_by_another_unit(shop: ConnectorShop) -> None:
    declare(shop, WRONG, mirrors=(), aggregates=(DOCUMENTS,))
    fill(shop)
    declare(shop, RIGHT, aggregates=(DOCUMENTS,))
    shop.run()
    assert shop.shown("lines") == lines(shop)
    declare(shop, WRONG, mirrors=(OF_ORDERS, "{table: lines, history: lines_log}"), aggregates=(DOCUMENTS,))
    shop.run()
    assert {row["q"] for row in shop.shown("lines") or []} == {at(0.002), at(0.077)}


def test_nothing_is_read_by_a_corrected_unit_before_the_next_cycle(
    shop: ConnectorShop, capsys: pytest.CaptureFixture[str]
) -> None:
    declare(shop, WRONG)
    fill(shop)
    declare(shop, RIGHT)
    where = {"warehouse": shop.lake.warehouse}
    for refused in (
        lambda: read.as_of(shop.lake.pipeline, "lines", csn=130, **where),
        lambda: read.intervals(shop.lake.pipeline, "lines", **where),
        lambda: backfill(step_of(shop.lake.pipeline, shop.lake.warehouse, "early"), "rebuild"),
    ):
        with pytest.raises(BeforeHistory, match=r"lines_changes has the rows of .*source.debezium only after the next"):
            refused()
    assert as_of(shop, "orders", 130) == shop.source("orders", 130)
    command = ["explain", str(shop.folder / "shop.yaml"), "--key", "lines", "id=10", "--warehouse", shop.lake.warehouse]
    assert main(command) == BeforeHistory.exit_code
    assert "run a cycle" in capsys.readouterr().err
    shop.run()
    assert main(command) == 0
    assert as_of(shop, "lines", 130) == lines(shop, 130)


def test_a_corrected_unit_is_part_of_what_an_audit_compared(shop: ConnectorShop) -> None:
    declare(shop, WRONG)
    before = contents.table_digests(shop.lake.pipeline)
    declare(shop, RIGHT)
    after = contents.table_digests(shop.lake.pipeline)
    assert (before["orders"], before["lines"] == after["lines"]) == (after["orders"], False)


def test_an_upgraded_lake_makes_no_history_again(shop: ConnectorShop) -> None:
    with pytest.MonkeyPatch.context() as patch:
        of_earlier_version(patch)
        declare(shop, WRONG, aggregates=(DOCUMENTS,))
        fill(shop)
        assert all("values" not in each.declaration for each in r.read(shop.lake.paths))
    histories = ("orders_changes", "lines_changes", "doc_stream")
    before = versions(shop, *histories)
    rows = {name: shop.shown(name) for name in ("orders", "lines", "doc_current")}
    shop.lake.forget()
    assert is_idle(shop)
    shop.run()
    assert (versions(shop, *histories), rebuilt(shop)) == (before, 0)
    assert {name: shop.shown(name) for name in rows} == rows
    merged = max(
        (row for row in shop.lake.rows("ledger") if row["step"] == "merge_current"), key=lambda row: row["entered"]
    )
    assert "anew" not in dict(merged["counts"])
    declare(shop, RIGHT, aggregates=(DOCUMENTS,))
    shop.run()
    assert shop.shown("lines") is None


@pytest.mark.parametrize("waits", [False, True])
def test_an_upgraded_lake_reads_no_message_of_a_table_that_needs_a_snapshot(shop: ConnectorShop, waits: bool) -> None:
    with pytest.MonkeyPatch.context() as patch:
        of_earlier_version(patch)
        declare(shop, RIGHT, mirrors=(OF_ORDERS,))
        fill(shop)
        shop.forget("lines")
        declare(shop, RIGHT)
        shop.run()
        assert shop.shown("lines") is None
    before, count = versions(shop, "lines_changes"), rebuilt(shop)
    shop.run()
    assert (shop.shown("lines"), versions(shop, "lines_changes"), rebuilt(shop)) == (None, before, count)
    assert incomplete(shop) == [("lines", 140)]
    if waits:
        shop.run()
    shop.load("lines")
    shop.run()
    assert shop.shown("lines") == lines(shop)
    declare(shop, WRONG)
    shop.run()
    assert shop.shown("lines") is None


def test_a_correction_during_the_merge_after_an_upgrade_is_noticed(shop: ConnectorShop) -> None:
    with pytest.MonkeyPatch.context() as patch:
        of_earlier_version(patch)
        declare(shop, WRONG)
        fill(shop)
    shop.lake.land()
    shop.lake.buffer()
    declare(shop, RIGHT)
    shop.run()
    assert shop.shown("lines") == lines(shop)


def test_an_option_by_which_no_message_can_be_read_is_taken_back(shop: ConnectorShop) -> None:
    columns = {"id": "long", "q": "binary"}
    declare(shop, "binary_mode: base64", columns)
    shop.commit(("I", "lines", {"id": 1, "q": "QUJD"}))
    shop.run()
    declare(shop, "binary_mode: hex", columns)
    shop.run()
    assert (shop.shown("lines"), incomplete(shop)) == (None, [("lines", 110)])
    declare(shop, "binary_mode: base64", columns)
    shop.run()
    assert (shop.shown("lines"), incomplete(shop)) == ([{"id": 1, "q": b"ABC"}], [])
