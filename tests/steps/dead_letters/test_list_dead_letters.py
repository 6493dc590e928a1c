"""What is shown of dead letters: right totals however many there are, a few of each, and never what they hold."""

import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from called import step_of
from txloom.config import load
from txloom.config.models.pipeline import Pipeline
from txloom.errors import ConfigurationError
from txloom.quality.dead_letters import ALL, RedriveEffect, Selection, markdown, outcome_in_markdown, text
from txloom.steps.dead_letters.list_dead_letters import list_dead_letters, list_open, outcome
from txloom.steps.dead_letters.redrive import redrive
from txloom.storage import system_tables
from txloom.storage.dead_letters import open_letters
from txloom.storage.delta import small_tables
from txloom.storage.paths import TablePaths

PROJECT = Path(__file__).resolve().parents[3]
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
SECRET = "what only the table may hold"
SHOP = """
name: shop
source: {format: goldengate, files: {path: inbox}, transaction_topic: metadata}
completeness: {rule: counts, patience: 2h}
tables:
- {name: items, source: APP.ITEMS, key: [id], columns: {id: long}}
targets: {mirrors: ["*"]}
"""


@pytest.fixture
def pipeline(tmp_path: Path) -> Pipeline:
    (tmp_path / "shop.yaml").write_text(SHOP)
    return load(tmp_path / "shop.yaml")


def letter(transaction: str | None, cause: str, number: int, **more: Any) -> dict[str, Any]:
    where = {"topic": "rows", "file": "rows/1.jsonl", "line": number, "value": SECRET, "dead_at": NOON}
    kind = "row" if transaction else "poison"
    return {"transaction_id": transaction, "cause": cause, "kind": kind, "table": "items", "csn": number} | where | more


def write(folder: Path, *letters: dict[str, Any]) -> TablePaths:
    paths = TablePaths(str(folder), "shop")
    small_tables.append(paths.dead_letters, letters, system_tables.DEAD_LETTERS)
    return paths


def test_a_page_shows_causes_with_totals_hints_and_where_the_first_lie(tmp_path: Path, pipeline: Pipeline) -> None:
    kafka = {"file": None, "line": None, "partition": 2, "offset": 17, "csn": 9}
    rows = [letter("x1:1", "table short", n) for n in range(1, 5)] + [letter("<i>|x2_:2", "excess", 9, **kafka)]
    write(tmp_path, *rows, letter(None, "broken JSON", 7))
    listing = list_open(step_of(pipeline, tmp_path, "r"), ALL)
    assert (listing.events, listing.transactions, listing.version) == (6, 2, 1)
    assert markdown(listing) == (
        "**6 events of 2 transactions** go through the buffer once more.\n\n"
        "| cause | events | transactions | since |\n|---|---|---|---|\n"
        "| table short | 4 | 1 | 2026-01-01 12:00:00 UTC |\n"
        "| broken JSON | 1 | 0 | 2026-01-01 12:00:00 UTC |\n"
        "| excess | 1 | 1 | 2026-01-01 12:00:00 UTC |\n\n"
        "**table short** Rows are missing: compare the producer's offsets with what was landed; send the rows again, "
        "then redrive.\n\n"
        "- x1:1: items, rows/1.jsonl, line 1\n- x1:1: items, rows/1.jsonl, line 2\n"
        "- x1:1: items, rows/1.jsonl, line 3\n\n"
        "**broken JSON** The message was cut off or garbled on its way: compare it with the producer's own copy.\n\n"
        "- items, rows/1.jsonl, line 7\n\n"
        "**excess** More rows than the metadata counts: look for a producer that counts without deletes "
        "(IGNOREDELETES) or groups transactions (GROUPTRANSOPS above 1); supply corrected metadata, then redrive.\n\n"
        "- \\<i\\>\\|x2\\_:2: items, rows\\[2\\] at offset 17"
    )


def test_who_approves_reads_what_happens_then_and_whether_it_can_be_undone(tmp_path: Path, pipeline: Pipeline) -> None:
    write(tmp_path, letter("x1:1", "table short", 1), letter("x2:2", "table short", 2))
    listing = list_open(step_of(pipeline, tmp_path, "r"), ALL)
    planned = RedriveEffect(2, 3, (("items", 2),), (1, 2), complete=1, valid_through=1)
    page = markdown(listing, effect=planned)
    head, _, rest = page.partition("**If you approve:**")
    assert head == "**2 events of 2 transactions** go through the buffer once more.\n\n"
    assert rest.split("\n\nIf you refuse")[0].strip().splitlines() == [
        "- 3 messages of 2 transactions, csn 1 to 2 are landed once more, and decided by the same rules.",
        "- Rows of these transactions, by table: items 2. 1 of 2 transactions are complete now and will be released; "
        "the others are dead letters again, unless what they lack has come.",
        "- Readers see what is released with the cut that this run publishes, not before. 1 of them lie at or below "
        "valid-through 1: earlier cuts are amended. A row that was changed since keeps its newer values.",
        "- Nothing else changes: other dead letters stay as they are.",
        "- It cannot be undone: what is released stays in the history. A wrong row is corrected at the source, or by a "
        "load of its table.",
    ]
    dismissed = markdown(listing, "sent again")
    assert "- No row of any table changes, and readers see the same." in dismissed
    assert "- It can be undone: `jobs/dismiss.py --reopen` with the same choice and a reason." in dismissed


def test_causes_and_transactions_add_up_and_what_is_not_there_is_refused(tmp_path: Path, pipeline: Pipeline) -> None:
    write(tmp_path, letter("x1:1", "table short", 1), letter("x2:2", "excess", 2), letter("x3:3", "excess", 3))
    step = step_of(pipeline, tmp_path, "r")
    assert list_open(step, Selection(transactions=["x1:1"], causes=["excess"])).transactions == 3
    assert markdown(list_open(step, Selection())) == "No open dead letter was chosen."
    with pytest.raises(ConfigurationError) as refused:
        list_open(step, Selection(transactions=["x9:9' or true"]))
    assert str(refused.value) == (
        'no open dead letter has the transaction "x9:9\' or true"; causes are: excess, table short'
    )


def test_ten_thousand_letters_are_one_short_page_with_the_right_totals(tmp_path: Path, pipeline: Pipeline) -> None:
    write(tmp_path, *(letter(f"x{n // 2}:{n // 2}", f"cause {n % 100}", n) for n in range(10_000)))
    listing = list_open(step_of(pipeline, tmp_path, "r"), ALL)
    page = markdown(listing)
    assert (listing.events, listing.transactions, len(listing.groups)) == (10_000, 5_000, 100)
    assert (page.count("\n- "), "| and 60 more causes | | | |" in page, len(page) < 20_000) == (120, True, True)


def test_a_list_of_a_pipeline_without_dead_letters_says_so(
    tmp_path: Path, pipeline: Pipeline, capsys: pytest.CaptureFixture[str]
) -> None:
    counts = list_dead_letters(step_of(pipeline, tmp_path, "r"))
    assert (counts, capsys.readouterr().out) == (
        {"events": 0, "transactions": 0, "causes": 0},
        "no open dead letters\n",
    )


def test_the_job_shows_the_same_on_a_terminal_and_no_value(tmp_path: Path, pipeline: Pipeline) -> None:
    write(tmp_path, letter("x1:1", "excess", 1), letter("x2:2", "conflicting", 2))
    arguments = ["--pipeline", tmp_path / "shop.yaml", "--warehouse", tmp_path, "--run-id", "r", "--cause", "excess"]
    done = subprocess.run(
        [sys.executable, PROJECT / "jobs" / "list_dead_letters.py", *arguments],
        env=dict(os.environ), capture_output=True, text=True, check=True,
    )  # fmt: skip
    only = list_open(step_of(pipeline, tmp_path, "r"), Selection(causes=["excess"]))
    last = "txloom list_dead_letters: pipeline=shop run_id=r events=1 transactions=1 causes=1"
    assert done.stdout == f"{text(only)}\n{last}\n"
    assert SECRET not in done.stdout


def test_what_came_of_each_redriven_transaction_is_told(tmp_path: Path, pipeline: Pipeline) -> None:
    paths = TablePaths(str(tmp_path), "shop")
    again = {"landing": 3, "kind": "row"}
    events = [again | {"transaction_id": each} for each in ("x1:1", "x1:1", "x2:2", "x3:3")]
    others = [{"landing": 2, "kind": "row", "transaction_id": "x9:9"}, {"landing": 3, "kind": "poison"}]
    small_tables.append(paths.change_events, [*events, *others], system_tables.CHANGE_EVENTS)
    finished = [
        {"transaction_id": "x1:1", "status": "dead", "cause": "excess", "release": 1},
        {"transaction_id": "x1:1", "status": "released", "release": 2},
        {"transaction_id": "x2:2", "status": "dead", "cause": "excess", "release": 1},
        {"transaction_id": "x2:2", "status": "dead", "cause": "table short", "release": 2},
    ]
    small_tables.append(paths.table("transactions"), finished, system_tables.TRANSACTIONS)
    assert outcome_in_markdown(outcome(step_of(pipeline, tmp_path, "r"), 3, 3)) == (
        "**1 of 3 transactions were released.**\n- 1 dead again: table short\n- 1 wait for their missing parts\n"
        "- 1 messages still cannot be read\n\n- x1:1: released\n- x2:2: dead again: table short\n"
        "- x3:3: waits for its missing parts"
    )


def test_what_died_after_the_list_was_made_is_not_taken_along(tmp_path: Path, pipeline: Pipeline) -> None:
    paths = write(tmp_path, letter("x1:1", "excess", 1))
    seen = list_open(step_of(pipeline, tmp_path, "r"), Selection(causes=["excess"]))
    write(tmp_path, letter("x2:2", "excess", 2))
    for version, there in ((seen.version, ["x1:1"]), (None, ["x1:1", "x2:2"])):
        dead = open_letters.open_dead_letters(paths, "transaction_id", "order by transaction_id", version)
        assert dead.column("transaction_id").to_pylist() == there


def test_a_redrive_of_nothing_is_refused(tmp_path: Path, pipeline: Pipeline) -> None:
    with pytest.raises(ConfigurationError) as refused:
        redrive(step_of(pipeline, tmp_path, "r"), Selection())
    assert str(refused.value) == "nothing was chosen: pass --transaction, --cause, --message or --all"


def test_what_came_is_told_of_each_transaction_of_an_id_that_came_again(tmp_path: Path, pipeline: Pipeline) -> None:
    paths = TablePaths(str(tmp_path), "shop")
    events = [
        {"landing": landing, "kind": "metadata", "transaction_id": "7", "csn": csn}
        for landing, csn in ((3, 100), (4, 900))
    ]
    small_tables.append(paths.change_events, events, system_tables.CHANGE_EVENTS)
    finished = [
        {"transaction_id": "7", "csn": 100, "status": "released", "release": 2},
        {"transaction_id": "7", "csn": 900, "status": "dead", "cause": "excess", "release": 2},
    ]
    small_tables.append(paths.table("transactions"), finished, system_tables.TRANSACTIONS)
    text = outcome_in_markdown(outcome(step_of(pipeline, tmp_path, "r"), 3, 4))
    assert "1 of 2 transactions were released" in text
    assert "7: dead again: excess" in text
