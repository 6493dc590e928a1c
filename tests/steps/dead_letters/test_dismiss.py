"""Dismissed dead letters: nobody is reminded of them, nothing else changes, and what comes later is not silenced."""

import os
import signal
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from called import step_of
from cycles.test_killed import run
from drawn import examples
from lake import Lake
from oracle.delivery.writing import metadata, row
from steps.dead_letters.test_redrive import code, codes, dead_without_metadata, gaps, lake, open_causes, write
from storage.views.booked import NOON, Shop
from txloom.config.models.expectations import DeadLetterExpectation
from txloom.errors import ConfigurationError
from txloom.quality.dead_letters import ALL, Selection
from txloom.steps.dead_letters.dismiss import dismiss
from txloom.steps.dead_letters.list_dead_letters import chosen
from txloom.storage import system_tables
from txloom.storage.checks import data_checks, pipeline_checks
from txloom.storage.dead_letters import dismissals, open_letters
from txloom.storage.delta import small_tables
from txloom.storage.delta.commit_metadata import versions
from txloom.storage.views.pipeline.dead_letters import causes
from txloom.storage.views.stories.transaction import TransactionName, transaction

__all__ = ["lake"]
PROJECT = Path(__file__).resolve().parents[3]
BROKEN = '{"op_type": "I"'
SAID = {"person": "ada", "reason": "sent again whole"}


def settle(shop: Lake | Shop, run_id: str = "dismissal", **which: Any) -> dict[str, Any]:
    said = {name: which.pop(name, SAID.get(name, False)) for name in (*SAID, "reopen")}
    return dismiss(step_of(shop.pipeline, shop.warehouse, run_id), Selection(**which), **said)


def test_a_message_that_was_sent_again_whole_is_settled_by_its_place(lake: Lake) -> None:
    promo = row("I", "promo_codes", (10, 1), after=code("P", "1"))
    write(lake, "a", BROKEN, BROKEN)
    write(lake, "b", promo, metadata(10, promo_codes=1))
    lake.run()
    (cause,) = open_causes(lake)
    before = (codes(lake), gaps(lake), lake.version("promo_codes"), lake.version("dead_letters"))
    assert before[:2] == ({"P": "1.0000"}, [])
    places = [example.split(", ", 1)[1] for example in _listed(lake)]
    assert places == ["dev.appuser.promo_codes.json/a.jsonl, line 1", "dev.appuser.promo_codes.json/a.jsonl, line 2"]
    assert settle(lake, messages=places[:1]) == {"dismissed": 1}
    assert open_causes(lake) == {cause: 1}
    assert settle(lake, "second", causes=[cause]) == {"dismissed": 1}
    assert open_causes(lake) == {}
    assert lake.query("ledger", "select balanced from t where step = 'balance'") == [{"balanced": True}]
    assert (codes(lake), gaps(lake), lake.version("promo_codes"), lake.version("dead_letters")) == before


def _listed(lake: Lake) -> list[str]:
    listing = chosen(step_of(lake.pipeline, lake.warehouse, "listed"), ALL)
    return [example for group in listing.groups for example in group.examples]


def test_a_dismissed_transaction_stays_a_gap_and_is_released_when_it_becomes_whole(lake: Lake) -> None:
    dead_without_metadata(lake)
    assert settle(lake, transactions=["x20:20"]) == {"dismissed": 2}
    lake.run()
    assert (open_causes(lake), gaps(lake)) == ({}, [("x20", "metadata never came")])
    completeness = lake.pipeline.completeness.model_copy(update={"complete_now": "redrive"})
    lake.pipeline = lake.pipeline.model_copy(update={"completeness": completeness})
    write(lake, "b", metadata(20, promo_codes=2))
    lake.run()
    lake.run()
    assert codes(lake) == {"P": "3.0000", "Q": "2.0000"}
    assert (open_causes(lake), gaps(lake)) == ({}, [])


def test_what_comes_later_and_does_not_make_it_whole_is_a_dead_letter_again(lake: Lake) -> None:
    dead_without_metadata(lake)
    settle(lake, everything=True)
    write(lake, "b", row("I", "promo_codes", (20, 5), after=code("R", "2")))
    lake.run()
    assert open_causes(lake) == {"metadata never came": 1}
    assert gaps(lake) == [("x20", "metadata never came")]


def test_a_dismissal_killed_after_its_write_is_done_once(lake: Lake) -> None:
    dead_without_metadata(lake)
    arguments = ["--all", "--reason", "nobody can repair it", "--by", "ada"]
    assert run(lake, "dismiss", 1, *arguments) == -signal.SIGKILL
    assert run(lake, "dismiss", 0, *arguments) == 0
    dismissals = lake.query("dismissals", "select transaction_id, cause, person, reason from t")
    settled = {"transaction_id": "x20:20", "cause": "metadata never came"}
    assert dismissals == [settled | {"person": "ada", "reason": "nobody can repair it"}] * 2


def letter(number: int, transaction: str | None, cause: str) -> dict[str, Any]:
    """Return a dead letter at line `number` of a file, or without a file at an offset where the number is odd."""
    file = {"file": "rows/1.jsonl", "line": number}
    offset = {"partition": 2, "offset": number}
    coordinates = offset if number % 2 else file
    kind = "row" if transaction else "poison"
    named = {"transaction_id": transaction, "cause": cause, "kind": kind, "table": "items", "csn": number}
    return {**named, "topic": "rows", "landing": 1, "row": number, "dead_at": NOON, **coordinates}


def place_of(number: int) -> str:
    return f"rows[2] at offset {number}" if number % 2 else f"rows/1.jsonl, line {number}"


def shop_with(folder: Path, *letters: dict[str, Any]) -> Shop:
    shop = Shop(folder)
    small_tables.append(shop.paths.dead_letters, list(letters), system_tables.DEAD_LETTERS)
    return shop


def still_open(shop: Shop) -> set[int]:
    return set(open_letters.open_dead_letters(shop.paths, '"row"').to_pydict()["row"])


def test_it_is_shown_who_settled_what_why_and_when(tmp_path: Path) -> None:
    shop = shop_with(tmp_path, letter(2, "x1:1", "excess"), letter(4, "x1:1", "excess"), letter(6, None, "broken JSON"))
    began = datetime.now(UTC)
    assert settle(shop, transactions=["x1:1"], reason=" known ") == {"dismissed": 2}
    (shown,) = causes(shop.pipeline, shop.warehouse).dismissed
    assert began <= shown.pop("at") <= datetime.now(UTC)
    assert shown == {"person": "ada", "reason": "known", "cause": "excess", "events": 2, "transactions": 1}
    assert causes(shop.pipeline, shop.warehouse).listing.events == 1


def test_a_transactions_story_tells_that_it_was_dismissed(tmp_path: Path) -> None:
    shop = shop_with(tmp_path, letter(2, "x1:1", "table short"))
    shop.land({"row": 2, "xid": "x1", "csn": 1})
    decided = {"transaction_id": "x1:1", "xid": "x1", "csn": 1, "status": "dead", "cause": "table short", "release": 1}
    shop.write("transactions", {**decided, "rows": 1, "finished_at": NOON})
    settle(shop, causes=["table short"], reason="a test of the producer")
    story = transaction(shop.pipeline, shop.warehouse, TransactionName(transaction_id="x1:1")).story
    assert story is not None
    assert [(row["what"], row["sentence"]) for row in story.said][-1] == (
        "dismissed",
        "1 dead letter dismissed by ada: a test of the producer",
    )
    assert [(row["cause"], row["events"], row["open"]) for row in story.letters] == [("table short", 1, 0)]


def test_an_expectation_counts_only_what_is_open(tmp_path: Path) -> None:
    shop = shop_with(tmp_path, letter(2, None, "broken JSON"), letter(4, None, "broken JSON"))
    texts = {"severity": "warn", "sentence": "None.", "hint": "Look."}
    limit = DeadLetterExpectation(kind="dead_letters", id="few", at_most=0, **texts)
    looked_at = list(data_checks.tables_of(shop.pipeline, limit))
    before = versions(shop.paths, looked_at)
    settle(shop, messages=[place_of(2)])
    assert versions(shop.paths, looked_at) == {**before, "dismissals": 1}, "checked anew"
    counted = pipeline_checks.dead_letters(shop.paths, limit, {"dead_letters": 1})
    assert (counted.checked, [each["line"] for each in counted.sample]) == (1, [4])


def test_what_was_dismissed_by_mistake_is_reopened(tmp_path: Path) -> None:
    shop = shop_with(tmp_path, letter(2, "x1:1", "excess"), letter(4, "x2:2", "excess"), letter(6, None, "broken JSON"))
    settle(shop, everything=True)
    assert still_open(shop) == set()
    assert settle(shop, "back", transactions=["x2:2"], reopen=True) == {"reopened": 1}
    assert still_open(shop) == {4}
    assert settle(shop, "back", transactions=["x2:2"], reopen=True) == {"reopened": 0}
    assert settle(shop, "again", everything=True) == {"dismissed": 1}


def test_only_what_was_seen_is_dismissed(tmp_path: Path) -> None:
    shop = shop_with(tmp_path, letter(2, None, "broken JSON"))
    small_tables.append(shop.paths.dead_letters, [letter(4, None, "broken JSON")], system_tables.DEAD_LETTERS)
    assert settle(shop, causes=["broken JSON"], version=1) == {"dismissed": 1}
    assert still_open(shop) == {4}


@pytest.mark.parametrize(
    ("which", "message"),
    [
        ({}, "nothing was chosen: pass --transaction, --cause, --message or --all"),
        (
            {"everything": True, "reason": " "},
            "a dismissal needs a name and a reason: whoever asks later is shown them",
        ),
        ({"causes": ["bad luck"]}, "no open dead letter has the cause 'bad luck'; causes are: excess"),
        (
            {"messages": ["rows/1.jsonl, line 3"]},
            "no open dead letter has the place 'rows/1.jsonl, line 3'; causes are: excess",
        ),
        (
            {"messages": ["line 3"]},
            "where does 'line 3' lie? write it as the listing does: FILE, line N, or TOPIC[N] at offset N",
        ),
    ],
)
def test_what_cannot_be_dismissed_is_refused_by_name(tmp_path: Path, which: dict[str, Any], message: str) -> None:
    shop = shop_with(tmp_path, letter(2, "x1:1", "excess"))
    with pytest.raises(ConfigurationError) as refused:
        settle(shop, **which)
    assert str(refused.value) == message
    assert still_open(shop) == {2}


def test_the_job_takes_what_the_listing_says(tmp_path: Path) -> None:
    shop = shop_with(tmp_path, letter(2, None, "it's broken"), letter(3, None, "it's broken"))
    job = [sys.executable, str(PROJECT / "jobs" / "dismiss.py"), "--pipeline", str(shop.file)]
    arguments = ["--message", place_of(3), "--reason", "it's known", "--by", "ada", "--run-id", "r"]
    environment = {**os.environ, "TXLOOM_WAREHOUSE": shop.warehouse}
    done = subprocess.run([*job, *arguments], env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.splitlines()[-1:]) == (
        0,
        ["txloom dismiss: pipeline=shop run_id=r dismissed=1"],
    )
    assert still_open(shop) == {2}


CHOICES = st.fixed_dictionaries(
    {},
    optional={
        "transactions": st.lists(st.sampled_from(["x0:0", "x1:1"]), max_size=2),
        "causes": st.lists(st.sampled_from(["excess", "table short"]), max_size=1),
        "messages": st.lists(st.integers(1, 6).map(place_of), max_size=2),
    },
).filter(lambda choice: any(choice.values()))
LETTERS = st.lists(
    st.tuples(st.sampled_from(["x0:0", "x1:1", None]), st.sampled_from(["excess", "table short", None])),
    min_size=1,
    max_size=6,
)


@settings(max_examples=examples(40), deadline=None)
@given(letters=LETTERS, steps=st.lists(st.tuples(st.booleans(), CHOICES), max_size=5))
def test_any_dismissals_and_reopenings_leave_open_what_a_plain_list_says(
    letters: list[tuple[str | None, str | None]], steps: list[tuple[bool, dict[str, list[str]]]]
) -> None:
    known = dict(enumerate(letters, 1))
    expected = set(known)
    with tempfile.TemporaryDirectory() as folder:
        shop = shop_with(Path(folder), *(letter(number, *each) for number, each in known.items()))  # type: ignore[arg-type]
        for step, (back, choice) in enumerate(steps):
            chosen_now = _selected(known, choice)
            to_change = chosen_now - expected if back else chosen_now & expected
            try:
                done = settle(shop, f"run {step}", reopen=back, **choice)
            except ConfigurationError:
                assert not _each_has_some(known, choice, expected)
                continue
            assert done == {"reopened" if back else "dismissed": len(to_change)}
            expected = expected | to_change if back else expected - to_change
            assert still_open(shop) == expected
            settled = sum(each["events"] for each in dismissals.newest(shop.paths))
            assert settled == len(known) - len(expected)


def _selected(known: dict[int, tuple[str | None, str | None]], choice: dict[str, list[str]]) -> set[int]:
    return {
        number
        for number, (transaction, cause) in known.items()
        if transaction in choice.get("transactions", ())
        or cause in choice.get("causes", ())
        or place_of(number) in choice.get("messages", ())
    }


def _each_has_some(
    known: dict[int, tuple[str | None, str | None]], choice: dict[str, list[str]], among: set[int]
) -> bool:
    single = [{kind: [each]} for kind, values in choice.items() for each in values]
    return all(_selected(known, each) & among for each in single)
