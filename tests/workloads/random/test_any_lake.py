"""Whole workloads through real Spark and Delta: every published cut, and every read, is a state that the source had.

TXLOOM_WORKLOADS says how many of each test (1; `make test-all` runs 2, `make soak` 100), TXLOOM_SEED where they begin.
"""

import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest

from lake import STEPS, Lake
from oracle import comparison
from oracle.capture import Message
from txloom import read
from txloom.config import load
from txloom.steps.landing.land_events import land_events
from txloom.transactions import memory
from workloads import judging
from workloads.delivery import deliver, runs
from workloads.dimensions import SOURCES
from workloads.operations import OPERATE
from workloads.play import Play, declared, play
from workloads.sources.database import Database, Sent
from workloads.sources.goldengate import GoldenGate
from workloads.sources.shapes import Shape, declaration, shape
from workloads.sources.truth import expected_tables, keys
from workloads.spark_lake import BY_SPARK, SparkLake, draw_limits, note_calls

WORKLOADS = int(os.environ.get("TXLOOM_WORKLOADS", "1"))
SEED = int(os.environ.get("TXLOOM_SEED", "20261121"))
TRANSACTIONS = 60
pytestmark = [pytest.mark.usefixtures("partitioned"), pytest.mark.stream]


def new_lake(spark: Any, folder: Path, made: Shape) -> Lake:
    inbox = folder / "inbox"
    inbox.mkdir()
    file = folder / "workload.yaml"
    file.write_text(declaration(made, inbox))
    return Lake(spark, folder, load(file))


def send(lake: Lake, number: int, messages: Sequence[Message]) -> None:
    for topic in dict(messages):
        lines = [message for name, message in messages if name == topic]
        (lake.inbox / topic).mkdir(exist_ok=True)
        (lake.inbox / topic / f"{number:03}.jsonl").write_text("".join(f"{line}\n" for line in lines))


def run_through(spark: Any, folder: Path, seed: int, *, in_order: bool) -> tuple[Shape, list[Sent], Lake]:
    """Play a workload drawn from a seed and run it through a lake, landing by landing."""
    chance = Random(seed)
    made = shape(chance)
    sent = Database(made, chance, GoldenGate(made, chance)).play(TRANSACTIONS)
    lake = new_lake(spark, folder, made)
    landed = 0
    for landings in runs(deliver(sent, chance, in_order=in_order), chance):
        for messages in landings:
            landed += 1
            send(lake, landed, messages)
            lake.run(STEPS if messages is landings[-1] else (land_events,))
    assert_history_tells_each_change_once(lake, made, sent)
    return made, sent, lake


def assert_history_tells_each_change_once(lake: Lake, made: Shape, sent: list[Sent]) -> None:
    counted = Counter(row["_txloom_csn"] for name in made.tables for row in lake.rows(f"{name}_changes"))
    assert counted == Counter(each.csn for each in sent for _ in each.changes)


@pytest.mark.parametrize("number", range(WORKLOADS))
def test_every_cut_of_a_workload_is_a_state_that_the_source_had(spark: Any, tmp_path: Path, number: int) -> None:
    made, sent, lake = run_through(spark, tmp_path, SEED + number, in_order=True)
    cuts = lake.query("cuts", "select * from t order by cut_id")
    for cut in cuts:
        actual = {
            name: comparison.keyed(lake.rows(name, cut["versions"][name]), key) for name, key in keys(made).items()
        }
        differences = comparison.differences(expected_tables(made, sent, cut["valid_through"]), actual)
        assert not differences, f"seed {SEED + number}, cut {cut['cut_id']}: {comparison.report(differences)}"
    assert cuts[-1]["valid_through"] == sent[-1].csn
    for each in sent[:: TRANSACTIONS // 6]:
        changes_by_csn = {
            name: comparison.keyed(
                read.as_of(lake.pipeline, name, csn=each.csn, warehouse=lake.warehouse).to_pylist(), key
            )
            for name, key in keys(made).items()
        }
        differences = comparison.differences(expected_tables(made, sent, each.csn), changes_by_csn)
        assert not differences, f"seed {SEED + number}, as of {each.csn}: {comparison.report(differences)}"


@pytest.mark.long
@pytest.mark.parametrize("number", range(WORKLOADS))
def test_a_workload_that_comes_in_any_order_ends_exact(spark: Any, tmp_path: Path, number: int) -> None:
    made, sent, lake = run_through(spark, tmp_path, SEED + 1000 + number, in_order=False)
    actual = {name: comparison.keyed(lake.rows(name), key) for name, key in keys(made).items()}
    differences = comparison.differences(expected_tables(made, sent, sent[-1].csn), actual)
    assert not differences, f"seed {SEED + 1000 + number}: {comparison.report(differences)}"


@pytest.mark.long
@pytest.mark.parametrize("number", range(WORKLOADS))
def test_every_cut_of_any_source_is_a_state_that_it_had(
    spark: Any, tmp_path: Path, monkeypatch: Any, number: int
) -> None:
    """Any dimension, and some steps by Spark, some in this process.

    Of the first workload Spark does all that it can do; in the end it is rebuilt beside its tables, and its histories
    are cleaned, which leaves what is shown.
    """
    made = play(SEED + number, SOURCES[(SEED + number) % len(SOURCES)], most=12 if number else 4)
    limits = draw_limits(monkeypatch, Random(SEED + number), by_spark=number == 0)
    monkeypatch.setattr(memory, "REMEMBERED", made.dimensions.remembered)
    calls = note_calls(monkeypatch)
    try:
        pipeline, producer = declared(tmp_path, made)
        lake = SparkLake(tmp_path, pipeline, spark=spark)
        judging.run_through(lake, made, producer)
        if number == 0:
            rebuild_and_clean(lake, made)
            assert calls >= {name for _, name in BY_SPARK}, f"by Spark: {calls} alone"
    except Exception as error:
        error.add_note(f"seed {SEED + number}: {limits}, {made.dimensions}")
        raise


def rebuild_and_clean(lake: SparkLake, made: Play) -> None:
    """Let a backfill and the policy of histories go over a lake: what is shown stays."""
    for each in ("backfill",) if made.dimensions.impatient else ("backfill", "clean"):
        OPERATE[each](lake, made)
        judging.assert_newest(lake, made)
