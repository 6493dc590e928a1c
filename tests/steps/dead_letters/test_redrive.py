"""Dead letters back in: after a repair the same buffer decides again, and the tables are what they should have been."""

import signal
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from called import step_of
from cycles.test_killed import run
from lake import Lake, new_lake
from oracle.capture import METADATA_TOPIC, Image
from oracle.delivery.writing import metadata, row
from txloom.config.models.pipeline import Pipeline
from txloom.errors import ConfigurationError
from txloom.quality.dead_letters import Selection
from txloom.steps.dead_letters.redrive import effect, redrive
from txloom.storage.views.status import status

ROWS = "dev.appuser.promo_codes.json"


@pytest.fixture
def lake(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lake:
    """Return a lake whose patience ends with the run after an arrival, and where nothing is redriven by itself."""
    made = new_lake(spark, tmp_path, monkeypatch)
    update = {"patience": timedelta(microseconds=1), "complete_now": "approve"}
    completeness = made.pipeline.completeness.model_copy(update=update)
    made.pipeline = made.pipeline.model_copy(update={"completeness": completeness})
    return made


def code(name: str, discount: str) -> Image:
    return {"code": name, "discount": discount, "valid_to": None}


def write(lake: Lake, name: str, *messages: str) -> None:
    for topic in (ROWS, METADATA_TOPIC):
        lines = [line for line in messages if ("op_type" in line) == (topic == ROWS)]
        (lake.inbox / topic).mkdir(exist_ok=True)
        if lines:
            (lake.inbox / topic / f"{name}.jsonl").write_text("".join(f"{line}\n" for line in lines))


def again(lake: Lake, pipeline: Pipeline | None = None, **which: Any) -> dict[str, int]:
    step = step_of(pipeline or lake.pipeline, lake.warehouse, "redrive")
    planned = effect(step, Selection(**which))
    done = redrive(step, Selection(**which))
    assert (planned.transactions, planned.events) == (done["transactions"], done["events"]), "what somebody approves"
    lake.run()
    return done


def codes(lake: Lake) -> dict[str, str]:
    return {row["code"]: str(row["discount"]) for row in lake.rows("promo_codes")}


def gaps(lake: Lake) -> list[tuple[str, str]]:
    (cut,) = lake.query("cuts", "select gaps from t order by cut_id desc limit 1")
    return [(gap["xid"], gap["cause"]) for gap in cut["gaps"]]


def open_causes(lake: Lake) -> dict[str, int]:
    return {row["cause"]: row["events"] for row in status(lake.warehouse, "orders")["dead_letters"]}


def dead_without_metadata(lake: Lake) -> None:
    """Let x20 die for want of metadata, between two transactions that go through."""
    write(
        lake,
        "a",
        row("I", "promo_codes", (10, 1), after=code("P", "1")),
        metadata(10, promo_codes=1),
        row("U", "promo_codes", (20, 2), before=code("P", "1"), after=code("P", "2")),
        row("I", "promo_codes", (20, 3), after=code("Q", "2")),
        row("U", "promo_codes", (30, 4), before=code("P", "2"), after=code("P", "3")),
        metadata(30, promo_codes=1),
    )
    lake.run()
    lake.run()
    assert (codes(lake), gaps(lake)) == ({"P": "3.0000"}, [("x20", "metadata never came")])
    assert open_causes(lake) == {"metadata never came": 2}


def test_metadata_that_comes_after_all_makes_a_redrive_whole(lake: Lake) -> None:
    dead_without_metadata(lake)
    write(lake, "b", metadata(20, promo_codes=2))
    lake.run()
    assert codes(lake) == {"P": "3.0000"}
    shown = effect(step_of(lake.pipeline, lake.warehouse, "r"), Selection(causes=["metadata never came"]))
    assert (shown.tables, shown.complete, shown.valid_through) == ((("promo_codes", 2),), 1, 30)
    assert shown.csns == (20,) and shown.events == 3
    before = len(lake.rows("promo_codes_changes"))
    assert again(lake, causes=["metadata never came"])["transactions"] == 1
    assert len(lake.rows("promo_codes_changes")) == before + 2, "the rows that the form names"
    assert codes(lake) == {"P": "3.0000", "Q": "2.0000"}
    assert (gaps(lake), open_causes(lake)) == ([], {})
    (cut,) = lake.query("cuts", "select * from t order by cut_id desc limit 1")
    assert {(amended["xid"], amended["csn"]) for amended in cut["amends"]} == {("x20", 20)}
    changes = sorted((row["_txloom_csn"], row["_txloom_pos"]) for row in lake.rows("promo_codes_changes"))
    assert changes == [(10, 1), (20, 2), (20, 3), (30, 4)]


def test_a_redrive_of_what_is_still_not_whole_gives_it_up_again_at_once(lake: Lake) -> None:
    dead_without_metadata(lake)
    patient = lake.pipeline.completeness.model_copy(update={"patience": timedelta(days=1)})
    lake.pipeline = lake.pipeline.model_copy(update={"completeness": patient})
    for _ in range(2):
        assert again(lake, transactions=["x20:20"])["transactions"] == 1
        assert lake.query("pending_transactions", "select count(*) as n from t") == [{"n": 0}]
        assert (gaps(lake), open_causes(lake)) == ([("x20", "metadata never came")], {"metadata never came": 2})


def test_a_redrive_done_twice_changes_nothing_more(lake: Lake) -> None:
    dead_without_metadata(lake)
    write(lake, "b", metadata(20, promo_codes=2))
    lake.run()
    for _ in range(2):
        redrive(step_of(lake.pipeline, lake.warehouse, "twice"), Selection(transactions=["x20:20"]))
    lake.run()
    assert codes(lake) == {"P": "3.0000", "Q": "2.0000"}
    assert len(lake.rows("promo_codes_changes")) == 4
    assert lake.query("transactions", "select count(*) as n from t where status = 'released'") == [{"n": 3}]
    assert redrive(step_of(lake.pipeline, lake.warehouse, "late"), Selection(everything=True))["events"] == 0


@pytest.mark.long
@pytest.mark.stream
def test_a_redrive_killed_after_its_writes_is_done_once(lake: Lake) -> None:
    dead_without_metadata(lake)
    write(lake, "b", metadata(20, promo_codes=2))
    lake.run()
    for deadly in (1, 2, 2):
        assert run(lake, "redrive", deadly, "--all") == -signal.SIGKILL
    assert run(lake, "redrive", 0, "--all") == 0
    lake.run()
    assert (codes(lake), gaps(lake), open_causes(lake)) == ({"P": "3.0000", "Q": "2.0000"}, [], {})
    assert len(lake.rows("promo_codes_changes")) == 4
    assert all(line["balanced"] for line in lake.query("ledger", "select balanced from t where step = 'balance'"))


def test_corrected_counts_replace_the_wrong_ones(lake: Lake) -> None:
    write(lake, "a", row("I", "promo_codes", (10, 1), after=code("P", "1")), metadata(10, promo_codes=3))
    lake.run()
    lake.run()
    assert open_causes(lake) == {"table short": 2}
    write(lake, "b", metadata(10, promo_codes=1))
    lake.run()
    again(lake, everything=True)
    assert (codes(lake), gaps(lake), open_causes(lake)) == ({"P": "1.0000"}, [], {})


def test_a_corrected_declaration_reads_what_could_not_be_read(lake: Lake) -> None:
    image = {**code("P", "1.50009"), "rebate": "1.5"}
    write(lake, "a", row("I", "promo_codes", (10, 1), after=image), metadata(10, promo_codes=1))
    lake.run()
    assert open_causes(lake) == {"value cannot be read": 2}
    image = {**code("Q", "1.5"), "rebate": "1.5"}
    write(lake, "b", row("I", "promo_codes", (20, 2), after=image), metadata(20, promo_codes=1))
    lake.run()
    table = lake.pipeline.table("promo_codes")
    columns = tuple(
        column.model_copy(update={"source": "REBATE"}) if column.name == "discount" else column
        for column in table.columns
    )
    fixed = table.model_copy(update={"columns": columns})
    tables = tuple(fixed if each.name == "promo_codes" else each for each in lake.pipeline.tables)
    lake.pipeline = lake.pipeline.model_copy(update={"tables": tables})
    again(lake, causes=["value cannot be read"])
    assert (codes(lake), gaps(lake), open_causes(lake)) == ({"P": "1.5000", "Q": "1.5000"}, [], {})


def test_poison_is_decoded_again_and_stays_open_while_it_is_poison(lake: Lake) -> None:
    write(lake, "a", '{"op_type": "I"', row("I", "promo_codes", (10, 1), after=code("P", "1")))
    lake.run()
    (cause,) = open_causes(lake)
    assert again(lake, causes=[cause]) == {"transactions": 0, "events": 1, "landing": 2, "last_landing": 2}
    assert open_causes(lake) | {"metadata never came": 1} == {cause: 1, "metadata never came": 1}
    position = f"{ROWS}/a.jsonl, line 1"
    redriven = again(lake, messages=[position, position])
    assert redriven == {
        "transactions": 0,
        "events": 1,
        "landing": 4,
        "last_landing": 4,
    }
    assert [line["balanced"] for line in lake.query("ledger", "select balanced from t where step = 'balance'")] == [
        True,
        True,
        True,
    ]


@pytest.mark.parametrize(
    ("which", "message"),
    [
        ({"transactions": ["x99:9"]}, "no open dead letter has the transaction 'x99:9'; there are: x20:20"),
        ({"messages": ["a.jsonl, line 7"]}, "no open dead letter is at position 'a.jsonl, line 7'"),
        ({"causes": ["bad luck"]}, "no open dead letter has the cause 'bad luck'; there are: metadata never came"),
    ],
)
def test_what_is_not_there_is_refused_by_name(lake: Lake, which: dict[str, Any], message: str) -> None:
    dead_without_metadata(lake)
    with pytest.raises(ConfigurationError) as refused:
        redrive(step_of(lake.pipeline, lake.warehouse, "none"), Selection(**which))
    assert str(refused.value) == message
