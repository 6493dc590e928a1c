"""Backfills in a real Airflow: the backfill DAG refused once and approved once, and the UI's own over a live run."""

import json
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest
from deltalake import DeltaTable

from services.airflow.instance import Airflow
from services.process import wait_until
from txloom.storage.delta import small_tables
from txloom.storage.delta.arrow_tables import select

pytestmark = [pytest.mark.long, pytest.mark.random_order(disabled=True), pytest.mark.timeout(3_000)]
"""The tests are steps of one story."""
DECLARED = """
name: plant
schedule: "0 6 * * *"
source: {{format: change_sets, files: {{path: {inbox}}}}}
completeness: {{rule: single}}
tables: [{{name: readings, source: PLANT.READINGS, columns: {{id: long, value: long}}, key: [id]}}]
targets: {{mirrors: ["*"]}}
"""
ENDS = 1_500


@pytest.fixture(scope="module")
def airflow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Airflow]:
    folder = tmp_path_factory.mktemp("airflow")
    for name in ("inbox/readings", "pipelines", "warehouse"):
        (folder / name).mkdir(parents=True)
    (folder / "pipelines" / "plant.yaml").write_text(DECLARED.format(inbox=folder / "inbox"))
    with Airflow(folder / "home", folder / "pipelines", folder / "warehouse") as started:
        yield started


def send(airflow: Airflow, name: str, *rows: tuple[str, int, int]) -> None:
    lines = [
        {"FLAG": flag, "id": key, "value": value, "CDC_TIMESTAMP": f"2026-01-01 00:{ord(name) % 60:02}:{number:02}"}
        for number, (flag, key, value) in enumerate(rows)
    ]
    inbox = airflow.warehouse.parent / "inbox" / "readings"
    (inbox / f"{name}.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))


def path(airflow: Airflow, table: str) -> str:
    return str(airflow.warehouse / "plant" / table)


def readings(airflow: Airflow) -> list[tuple[int, int]]:
    rows = select(path(airflow, "readings"), "select id, value from t order by id").to_pylist()
    return [(row["id"], row["value"]) for row in rows]


def occupied(airflow: Airflow, runs: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return from when to when each task of some runs had the pipeline's pool, in order."""
    tasks = [task for dag, run in runs for task in airflow.tasks(dag, run).values() if task["pool"] == "txloom_plant"]
    tasks = [task for task in tasks if task["start_date"]]
    assert len(tasks) > len(runs)
    return sorted((task["start_date"], task["end_date"]) for task in tasks)


def damaged(airflow: Airflow) -> None:
    table = DeltaTable(path(airflow, "readings"))
    table.update(updates={"value": "666"}, predicate="id = 1")


def answered(airflow: Airflow, answer: str) -> tuple[str, dict[str, Any], str]:
    """Start a backfill, answer what it asks, and return how it ended, its tasks' states, and what it asked."""
    run = airflow.trigger("plant_backfill", {"from_csn": 0, "tables": ["readings"]})
    question = airflow.question_of("plant_backfill", run, "approve", within=ENDS)
    airflow.answer("plant_backfill", run, "approve", answer)
    ended = airflow.wait("plant_backfill", run, ENDS)
    states = {name: task["state"] for name, task in airflow.tasks("plant_backfill", run).items()}
    return ended, states | {"said": airflow.xcom("plant_backfill", run, "outcome")}, question


def noted(airflow: Airflow) -> str:
    """Return the note of the newest backfill."""
    return str(airflow.runs("plant_backfill")[-1]["note"])


def test_a_backfill_that_is_refused_applies_nothing_and_says_who_refused_it(airflow: Airflow) -> None:
    send(airflow, "a", ("I", 1, 10), ("I", 2, 20), ("U", 1, 11), ("I", 3, 30), ("D", 3, 30))
    airflow.unpause("plant_cdc")
    wait_until(lambda: airflow.runs("plant_cdc"), "the scheduled run of plant_cdc", 120)
    assert airflow.wait("plant_cdc", airflow.runs("plant_cdc")[0]["dag_run_id"], ENDS) == "success"
    damaged(airflow)
    airflow.unpause("plant_backfill")
    ended, states, question = answered(airflow, "Reject")
    assert question.startswith("**1 rows would change** in plant, rebuilt from csn 0 to the newest.")
    assert "- These 1 rows are written into the live tables, and no other: the comparison counted them." in question
    assert "earlier cuts are amended from csn 0 on." in question and " Cut 1 shows what readers see now" in question
    assert "| updates | `id` 1 | `value` 666 | `value` 11 |" in question
    assert (ended, states.pop("said")) == ("success", "refused by admin: nothing was applied")
    ran = ("rebuild", "compare", "decide", "approve", "outcome", "drop")
    assert states == dict.fromkeys(ran, "success") | {"apply": "skipped", "publish": "skipped"}
    assert noted(airflow) == "refused by admin: nothing was applied"
    assert readings(airflow) == [(1, 666), (2, 20)]
    assert not list((airflow.warehouse / "plant").glob("_shadow*"))


def test_a_backfill_that_is_approved_puts_it_right_and_publishes_it(airflow: Airflow) -> None:
    ended, states, _ = answered(airflow, "Approve")
    assert (ended, states.pop("said")) == ("success", "applied: 1 rows in 1 commits")
    assert set(states.values()) == {"success"}
    assert readings(airflow) == [(1, 11), (2, 20)]
    (cut,) = small_tables.query(path(airflow, "cuts"), "select versions from t order by cut_id desc limit 1")
    assert dict(cut["versions"]) == {"readings": DeltaTable(path(airflow, "readings")).version()}
    assert not list((airflow.warehouse / "plant").glob("_*_*readings*"))
    (kept,) = small_tables.query(
        path(airflow, "backfills"), "select samples from t where \"table\" = 'readings' order by at desc limit 1"
    )
    assert [sample["after"] for sample in json.loads(kept["samples"])] == [{"value": 11}]


def test_a_backfill_of_three_intervals_over_a_live_run_overlaps_never_and_is_exact(airflow: Airflow) -> None:
    send(airflow, "b", ("I", 4, 40), ("D", 2, 20))
    by_hand = airflow.trigger("plant_cdc")
    request = {"dag_id": "plant_cdc", "from_date": "2026-01-01T06:00:00Z", "to_date": "2026-01-03T06:00:00Z"}
    airflow.ask("POST", "/api/v2/backfills", {**request, "max_active_runs": 3, "reprocess_behavior": "completed"})
    assert airflow.wait("plant_cdc", by_hand, ENDS) == "success"
    runs = [run["dag_run_id"] for run in airflow.runs("plant_cdc")]
    assert {run: airflow.wait("plant_cdc", run, ENDS) for run in runs} == dict.fromkeys(runs, "success")
    kinds = Counter(run["run_type"] for run in airflow.runs("plant_cdc"))
    scheduled = kinds.pop("scheduled")  # a second one where the test lasts beyond the hour of the schedule
    assert kinds == {"backfill": 3, "manual": 1} and scheduled in (1, 2)
    taken = occupied(airflow, [("plant_cdc", run) for run in runs])
    assert all(before[1] <= after[0] for before, after in pairwise(taken)), taken
    assert readings(airflow) == [(1, 11), (4, 40)]
    released = small_tables.query(
        path(airflow, "transactions"), "select count(*) as n, count(distinct csn) as csns from t"
    )
    assert released == [{"n": 7, "csns": 7}]


def test_a_table_is_loaded_anew_from_an_export(airflow: Airflow) -> None:
    (newest,) = small_tables.query(path(airflow, "transactions"), "select max(csn) as csn from t")
    export = airflow.warehouse.parent / "export" / "readings"
    export.mkdir(parents=True)
    rows = [{"id": key, "value": value} for key, value in ((1, 11), (4, 44), (7, 70))]
    (export / "all.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    airflow.unpause("plant_load")
    run = airflow.trigger("plant_load", {"path": str(export.parent), "csn": newest["csn"] + 1})
    assert airflow.wait("plant_load", run, ENDS) == "success"
    assert {task["state"] for task in airflow.tasks("plant_load", run).values()} == {"success"}
    assert readings(airflow) == [(1, 11), (4, 44), (7, 70)]
    (cut,) = small_tables.query(
        path(airflow, "cuts"), "select versions, valid_through from t order by cut_id desc limit 1"
    )
    assert dict(cut["versions"]) == {"readings": DeltaTable(path(airflow, "readings")).version()}
    assert cut["valid_through"] == newest["csn"] + 1
