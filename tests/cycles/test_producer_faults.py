"""Faults of the producer, through real Spark and Delta: what the tables show, and where the rest lies."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from lake import Lake, arrivals, assert_every_cut_is_exact, new_lake
from oracle import capture
from oracle.capture import METADATA_TOPIC
from oracle.delivery.faults import deliver
from oracle.delivery.writing import metadata, row
from oracle.state import Source
from txloom.config.models.pipeline import Completeness

pytestmark = pytest.mark.session


@pytest.mark.long
@pytest.mark.stream
def test_a_badly_delivered_load_ends_exact_and_every_cut_is(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """5 % duplicates, disorder inside and across topics, metadata before and after its rows."""
    lake = new_lake(spark, tmp_path, monkeypatch)
    load = [message for arrival in arrivals() for message in capture.messages(arrival)]
    parts = deliver(load, tmp_path / "delivered", seed=7, arrivals=3)
    for part in parts:
        lake.deliver(part)
        lake.run()
    heard = capture.read(parts)
    source = Source(heard)
    cuts = assert_every_cut_is_exact(lake, source)
    assert cuts[-1]["valid_through"] == source.csns[-1]
    balance = lake.query("ledger", "select counts from t where step = 'balance' order by at desc limit 1")[0]["counts"]
    assert (balance["duplicates"], balance["buffered"], balance["dead"]) == (heard.duplicate_rows, 0, 0)


def code(name: str, discount: str) -> dict[str, str | None]:
    return {"code": name, "discount": discount, "valid_to": None}


def write(lake: Lake, name: str, messages: list[str]) -> None:
    """Put messages into the inbox: row events of promo_codes, and metadata, each in its topic."""
    for topic, key in (("dev.appuser.promo_codes.json", '"table"'), (METADATA_TOPIC, '"data_collections"')):
        lines = [message for message in messages if key in message or (key == '"table"' and "{" not in message)]
        if lines:
            folder = lake.inbox / topic
            folder.mkdir(exist_ok=True)
            (folder / f"{name}.jsonl").write_text("".join(f"{line}\n" for line in lines))


@pytest.fixture
def lake(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lake:
    """Return an empty lake whose patience runs out at the next run."""
    made = new_lake(spark, tmp_path, monkeypatch)
    patience = Completeness.model_construct(rule="counts", patience=timedelta(milliseconds=1))
    made.pipeline = made.pipeline.model_copy(update={"completeness": patience})
    return made


def letters(lake: Lake) -> list[tuple[Any, ...]]:
    rows = lake.query(
        "dead_letters", "select xid, kind, cause, detail, file, line from t order by csn, kind, file, line"
    )
    return [tuple(row.values()) for row in rows]


ROWS = "dev.appuser.promo_codes.json"


def test_what_cannot_be_whole_becomes_dead_letters_with_its_cause(lake: Lake) -> None:
    """One run: a whole transaction, a lost row, lost metadata, a row too many, a bad value and broken JSON."""
    write(
        lake,
        "a",
        [
            row("I", "promo_codes", (10, 1), after=code("whole", "1.5000")),
            metadata(10, promo_codes=1),
            row("I", "promo_codes", (20, 2), after=code("short", "1")),
            metadata(20, promo_codes=2),
            row("I", "promo_codes", (30, 3), after=code("unnamed", "1")),
            row("I", "promo_codes", (40, 4), after=code("excess", "1")),
            row("I", "promo_codes", (40, 5), after=code("excess2", "1")),
            metadata(40, promo_codes=1),
            row("I", "promo_codes", (50, 6), after=code("bad", "12x")),
            metadata(50, promo_codes=1),
            row("I", "promo_codes", (60, 7), after=code("last", "2")),
            metadata(60, promo_codes=1),
        ],
    )
    with (lake.inbox / ROWS / "a.jsonl").open("a") as stream:
        stream.write('{"table": "PUBLIC.PROMO_CODES"\n')
    lake.run()
    assert lake.query("pending_transactions", "select count(*) as n from t") == [{"n": 3}]
    done = lake.run()
    assert [(xid, kind, cause) for xid, kind, cause, *_ in letters(lake) if xid] == [
        ("x20", "metadata", "table short"),
        ("x20", "row", "table short"),
        ("x30", "row", "metadata never came"),
        ("x40", "metadata", "excess"),
        ("x40", "row", "excess"),
        ("x40", "row", "excess"),
        ("x50", "metadata", "value cannot be read"),
        ("x50", "row", "value cannot be read"),
    ]
    details = {xid: detail for xid, _, _, detail, *_ in letters(lake)}
    assert details["x20"] == "promo_codes 1/2"
    assert details["x30"] == "promo_codes 1/?"
    assert details["x40"] == "promo_codes 2/1"
    assert "12x" in details["x50"] and "decimal(20,4)" in details["x50"]
    poison = [row for row in letters(lake) if row[0] is None]
    assert [(kind, file, line) for _, kind, _, _, file, line in poison] == [("poison", f"{ROWS}/a.jsonl", 8)]
    cut = lake.query("cuts", "select * from t order by cut_id desc limit 1")[0]
    assert cut["valid_through"] == 60
    assert [(gap["xid"], gap["cause"]) for gap in cut["gaps"]] == [
        ("x20", "table short"),
        ("x30", "metadata never came"),
        ("x40", "excess"),
        ("x50", "value cannot be read"),
    ]
    assert sorted(row["code"] for row in lake.rows("promo_codes")) == ["last", "whole"]
    assert done["publish"]["gaps"] == 4


@pytest.mark.long
def test_late_events_of_a_finished_transaction_are_told_apart(lake: Lake) -> None:
    """The same identity again is a duplicate; another payload under it, or a new identity, is a dead letter."""
    write(lake, "a", [row("I", "promo_codes", (10, 1), after=code("one", "1")), metadata(10, promo_codes=1)])
    lake.run()
    again = row("I", "promo_codes", (10, 1), after=code("one", "1"))
    other = row("I", "promo_codes", (10, 1), after=code("one", "2"))
    new = row("I", "promo_codes", (10, 9), after=code("new", "1"))
    write(lake, "b", [again, other, new, metadata(10, promo_codes=1)])
    done = lake.run()
    assert [(xid, cause, line) for xid, _, cause, _, _, line in letters(lake)] == [
        ("x10", "conflicting", 2),
        ("x10", "late event of a finished transaction", 3),
    ]
    assert (done["buffer_transactions"]["duplicates"], done["buffer_transactions"]["dead"]) == (1, 2)
    assert [row["discount"] for row in lake.rows("promo_codes")] == [pytest.approx(1)]


def test_a_late_transaction_does_not_overwrite_newer_data_nor_revive_deleted_rows(lake: Lake) -> None:
    """csn 20 turns up after a cut through 30 was published: it is applied below, and the cut is recorded as amended."""
    old, new = code("kept", "1"), code("kept", "3")
    gone = code("gone", "1")
    write(
        lake,
        "a",
        [
            row("I", "promo_codes", (10, 1), after=old),
            row("I", "promo_codes", (10, 2), after=gone),
            metadata(10, promo_codes=2),
            row("U", "promo_codes", (30, 5), before=old, after=new),
            row("D", "promo_codes", (30, 6), before=gone),
            metadata(30, promo_codes=2),
        ],
    )
    lake.run()
    write(
        lake,
        "b",
        [
            row("U", "promo_codes", (20, 3), before=old, after=code("kept", "2")),
            row("U", "promo_codes", (20, 4), before=gone, after=code("gone", "2")),
            row("I", "promo_codes", (20, 7), after=code("late", "2")),
            metadata(20, promo_codes=3),
        ],
    )
    lake.run()
    rows = {row["code"]: str(row["discount"]) for row in lake.rows("promo_codes")}
    assert rows == {"kept": "3.0000", "late": "2.0000"}
    cuts = lake.query("cuts", "select cut_id, valid_through, amends from t order by cut_id")
    assert [(cut["valid_through"], cut["amends"]) for cut in cuts] == [
        (30, []),
        (30, [{"cut_id": 1, "xid": "x20", "csn": 20}]),
    ]


@pytest.mark.stream
def test_a_lost_checkpoint_is_rebuilt_from_change_events_and_the_tables_do_not_change(lake: Lake) -> None:
    import shutil

    write(lake, "a", [row("I", "promo_codes", (10, 1), after=code("one", "1")), metadata(10, promo_codes=1)])
    lake.run()
    tables = ("promo_codes", "promo_codes_changes", "transactions", "cuts")
    before = {table: lake.version(table) for table in tables}
    shutil.rmtree(Path(lake.path("_checkpoints")))
    done = lake.run()
    assert done["buffer_transactions"]["generation"] == 2
    assert {table: lake.version(table) for table in tables} == before
    write(lake, "b", [row("I", "promo_codes", (20, 2), after=code("two", "1")), metadata(20, promo_codes=1)])
    lake.run()
    assert sorted(row["code"] for row in lake.rows("promo_codes")) == ["one", "two"]
