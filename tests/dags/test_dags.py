"""The DAG files: what they declare, how fast they parse, what they import."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from txloom.config import discover, load
from txloom.config.models.pipeline import Pipeline
from txloom.terminal import plan

PROJECT = Path(__file__).resolve().parents[2]
DAGS = sorted((PROJECT / "dags").glob("*.py"))

PARSE = """
import runpy, sys, time
import airflow.sdk
import airflow.providers.apache.spark.operators.spark_submit
begun = time.process_time()
runpy.run_path(sys.argv[1])
seconds = time.process_time() - begun
rooms = ("txloom.steps", "txloom.storage")
clients = ("pyspark", "great_expectations", "delta", "deltalake", "pyarrow", "confluent_kafka")
heavy = [name for name in (*clients, *rooms) if name in sys.modules]
assert not heavy, heavy
assert seconds < 2, seconds
"""


@pytest.mark.long
@pytest.mark.parametrize("file", DAGS, ids=lambda file: file.stem)
def test_a_dag_file_parses_in_two_seconds_without_spark_or_great_expectations(file: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PARSE, file], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]


LIST = """
import json, sys
from airflow.dag_processing.dagbag import DagBag
bag = DagBag(sys.argv[1])
assert not bag.import_errors, bag.import_errors
print(json.dumps({
    dag.dag_id: {
        task.task_id: {
            "after": sorted(task.upstream_task_ids), "pool": task.pool, "owner": task.owner, "retries": task.retries,
            "docs": bool(dag.doc_md), "weight": (str(task.weight_rule), task.priority_weight),
            "arguments": list(getattr(task, "application_args", ())),
        }
        for task in dag.tasks
    }
    for dag in bag.dags.values()
}))
"""


def run_program(home: Path, program: str, **more: str) -> Any:
    """Load the DAGs in a process of its own, with an Airflow home of its own; return what a program prints of them."""
    environment = {**os.environ, "AIRFLOW_HOME": str(home), "AIRFLOW__CORE__LOAD_EXAMPLES": "False", **more}
    environment["AIRFLOW__CORE__DAGS_FOLDER"] = str(PROJECT / "dags")
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program, str(PROJECT / "dags")],
        env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def dags(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, dict[str, object]]]:
    by_id: dict[str, dict[str, dict[str, object]]] = run_program(tmp_path_factory.mktemp("airflow"), LIST)
    return by_id


WITHOUT = "import sys\nsys.modules.update(dict.fromkeys(('openlineage', 'apprise', 'statsd')))"


def test_the_dags_need_no_library_of_another_system(
    dags: dict[str, dict[str, dict[str, object]]], tmp_path: Path
) -> None:
    assert run_program(tmp_path, f"{WITHOUT}\n{LIST}") == dags


WHAT = ("alerts", "backfill", "cdc", "cut_consumer", "dead_letters", "load", "maintenance")


def test_a_pipeline_has_a_dag_for_each_thing_that_people_do(dags: dict[str, dict[str, dict[str, object]]]) -> None:
    assert sorted(dags) == [f"orders_{each}" for each in WHAT]


def test_every_shipped_example_has_all_its_dags_in_order(tmp_path: Path) -> None:
    examples = PROJECT / "include" / "pipelines" / "examples"
    files = [file for file, declared in discover(examples) if isinstance(declared, Pipeline)]
    pipelines = [load(file, connected=False) for file in files]
    assert len(pipelines) == len(list(examples.glob("*.yaml")))
    listed = run_program(tmp_path, LIST, TXLOOM_PIPELINES=str(examples))
    for pipeline in pipelines:
        without = () if pipeline.alerts is not None else ("alerts",)
        more = ("audit", "repair") if pipeline.audit is not None else ()
        more += ("snapshot",) if pipeline.source.signals is not None else ()
        expected = {f"{pipeline.name}_{what}" for what in (*WHAT, *more) if what not in without}
        of_pipeline = {dag: listed.pop(dag) for dag in expected}
        assert_in_order(of_pipeline, pipeline.name)
        assert plan.answer(pipeline, None)[0]["dags"].keys() == expected
    assert not listed


def test_the_cycle_checks_its_source_lands_buffers_merges_checks_each_expectation_and_publishes(
    dags: dict[str, dict[str, dict[str, object]]],
) -> None:
    after = {task: about["after"] for task, about in dags["orders_cdc"].items()}
    expectations = ["order_totals", "order_versions", "orphan_line_items", "stuck_transactions"]
    checks = [f"check_expectations.{each}" for each in expectations]
    assert after == {
        "check_source": [],
        "land_events": ["check_source"],
        "buffer_transactions": ["land_events"],
        "merge_current": ["buffer_transactions"],
        **{check: ["merge_current"] for check in checks},
        "publish": checks,
        "alert": ["publish"],
    }


def test_dead_letters_are_listed_approved_then_redriven_merged_and_published_or_dismissed_and_told(
    dags: dict[str, dict[str, dict[str, object]]],
) -> None:
    order = ["list_dead_letters", "approve", "redrive", "buffer_transactions", "merge_current", "publish", "outcome"]
    after = {task: about["after"] for task, about in dags["orders_dead_letters"].items()}
    chain = {task: [order[n - 1]] if n else [] for n, task in enumerate(order)}
    assert after == {**chain, "dismiss": ["approve"], "outcome": ["dismiss", "publish"]}


def test_maintenance_expires_optimizes_vacuums_measures_then_validates(
    dags: dict[str, dict[str, dict[str, object]]],
) -> None:
    after = {task: about["after"] for task, about in dags["orders_maintenance"].items()}
    order = ["expire", "optimize", "vacuum", "statistics", "validate"]
    assert after == {task: order[:n][-1:] for n, task in enumerate(order)}


def test_a_backfill_rebuilds_compares_asks_applies_publishes_and_drops_its_shadows_in_any_case(
    dags: dict[str, dict[str, dict[str, object]]],
) -> None:
    after = {task: about["after"] for task, about in dags["orders_backfill"].items()}
    assert after == {
        "rebuild": [],
        "compare": ["rebuild"],
        "decide": ["compare"],
        "approve": ["decide"],
        "apply": ["approve", "decide"],
        "publish": ["apply"],
        "outcome": ["decide", "publish"],
        "drop": ["outcome", "rebuild"],
    }


def test_a_load_says_what_needs_it_and_goes_through_the_cycles_steps(
    dags: dict[str, dict[str, dict[str, object]]],
) -> None:
    steps = ["needs_snapshot", "load_snapshot", "buffer_transactions", "merge_current", "publish"]
    after = {task: about["after"] for task, about in dags["orders_load"].items()}
    assert after == {step: steps[:number][-1:] for number, step in enumerate(steps)}


def test_later_tasks_of_a_run_go_before_earlier_ones_of_others_and_before_upkeep(
    dags: dict[str, dict[str, dict[str, Any]]],
) -> None:
    pooled = {
        dag: {task: about for task, about in tasks.items() if about["pool"] == "txloom_orders"}
        for dag, tasks in dags.items()
    }
    rules = {about["weight"][0] for tasks in pooled.values() for about in tasks.values()}
    assert rules == {"absolute"}
    weight = {task: about["weight"][1] for task, about in pooled["orders_cdc"].items()}
    checks = {each for each in weight if each.startswith("check_expectations")}
    order = [{"land_events"}, {"buffer_transactions"}, {"merge_current"}, checks, {"publish"}]
    assert [{task for task in weight if weight[task] == each} for each in sorted(set(weight.values()))] == order
    upkeep = {about["weight"][1] for about in pooled["orders_maintenance"].values()}
    assert max(upkeep) < min(weight.values())
    publishing = {tasks["publish"]["weight"][1] for tasks in pooled.values() if "publish" in tasks}
    assert publishing == {weight["publish"]}


FORMS = """
import copy, json, sys
from airflow.dag_processing.dagbag import DagBag
bag = DagBag(sys.argv[1])
answers = []
for dag_id, task_id, given in ASKED:
    params = copy.deepcopy(bag.dags[dag_id].params)
    task, templates = bag.dags[dag_id].get_task(task_id), bag.dags[dag_id].get_template_env()
    try:
        params.update(given)
        values = params.validate()
    except Exception as error:
        answers.append(type(error).__name__)
    else:
        answers.append(task.render_template(task.application_args, {"params": values, "run_id": "r"}, templates))
print(json.dumps(answers))
"""


def test_a_form_gives_the_arguments_of_its_job_and_refuses_what_is_none(tmp_path: Path) -> None:
    times = {"from_time": "2026-07-01T00:00:00Z", "tables": ["orders", "promo_codes"]}
    load = {"path": "/exports/monday", "csn": 7}
    requested = [
        ("orders_backfill", "rebuild", {}),
        ("orders_backfill", "rebuild", {"from_csn": 5, "to_csn": 0}),
        ("orders_backfill", "rebuild", times),
        ("orders_backfill", "rebuild", {"tables": ["users"]}),
        ("orders_backfill", "rebuild", {"from_csn": -1}),
        ("orders_backfill", "rebuild", {"approval": "no"}),
        ("orders_load", "load_snapshot", {**load, "tables": ["orders"], "ahead": True}),
        ("orders_load", "load_snapshot", {"path": "/exports/monday"}),
        ("orders_load", "load_snapshot", {**load, "path": ""}),
    ]
    listed = run_program(tmp_path, FORMS.replace("ASKED", repr(requested)))
    base = ["--pipeline", "orders", "--run-id", "r"]
    range_ = [
        *base,
        "--task",
        "rebuild",
        "--from-csn={}",
        "--to-csn={}",
        "--from-time={}",
        "--to-time=",
        "--table={}",
    ]
    assert listed[0] == [each.format("") for each in range_]
    assert [each for each in listed[1] if "csn" in each] == ["--from-csn=5", "--to-csn=0"]
    assert listed[2][-3:] == ["--from-time=2026-07-01T00:00:00Z", "--to-time=", "--table=orders,promo_codes"]
    assert listed[3:6] == ["ParamValidationError"] * 3
    assert listed[6] == [
        *base,
        "--path=/exports/monday",
        "--csn=7",
        "--time=",
        "--table=orders",
        "--ahead",
    ]
    assert listed[7:] == ["ParamValidationError"] * 2


def test_every_task_that_writes_takes_turns_in_its_pipelines_pool_and_all_have_owner_docs_and_retries(
    dags: dict[str, dict[str, dict[str, object]]],
) -> None:
    assert_in_order(dags, "orders")


def assert_in_order(dags: dict[str, dict[str, dict[str, object]]], pipeline: str) -> None:
    """Every task of a pipeline's DAGs has its pool, owner, docs and retries."""
    for name, dag in dags.items():
        assert dag, name
        for task, about in dag.items():
            aside = task in ASIDE and name != f"{pipeline}_backfill"
            assert about["pool"] == ("default_pool" if aside else f"txloom_{pipeline}"), (name, task)
            assert about["docs"], name
            assert about["retries"] in (1, 2), (name, task)
            assert about["owner"] not in ("", "airflow"), (name, task)


ASIDE = (
    *("check_source", "count_rows", "alert", "list_dead_letters", "list_rows", "list_tables", "approve", "audit"),
    "outcome",
)
"""Tasks that write nothing that a merge writes too: they look, ask or tell while another task has the pool's slot."""
ENDS = """
import json, sys
from airflow.dag_processing.dagbag import DagBag
dag = DagBag(sys.argv[1]).dags["orders_cdc"]
alert = dag.get_task("alert")
print(json.dumps([alert.is_teardown, alert.on_failure_fail_dagrun, alert.trigger_rule]))
"""


def test_whether_a_cycle_succeeded_is_not_the_alerts_to_say(tmp_path: Path) -> None:
    assert run_program(tmp_path, ENDS) == [True, False, "all_done_setup_success"]


DECLARED = """
import json, sys
from airflow.dag_processing.dagbag import DagBag
bag = DagBag(sys.argv[1])
assert not bag.import_errors, bag.import_errors
print(json.dumps({
    dag.dag_id: [type(dag.timetable).__name__, [task.task_id for task in dag.tasks]] for dag in bag.dags.values()
}))
"""
SHOP = """
name: {name}
{begun}
source: {{format: change_sets, files: {{path: inbox}}}}
completeness: {{rule: single}}
tables: [{{name: rows, source: S.ROWS, key: [id], columns: {{id: long}}}}]
targets: {{mirrors: [rows]}}
maintenance: {{history: {{keep: {keep}}}}}
"""


def test_a_pipeline_runs_by_the_clock_when_the_run_before_ended_or_when_assets_are_updated(tmp_path: Path) -> None:
    begun = {"timed": 'schedule: "*/5 * * * *"', "steady": 'schedule: "@continuous"', "led": "after: [s3://in/done]"}
    for name, how in begun.items():
        (tmp_path / f"{name}.yaml").write_text(SHOP.format(name=name, begun=how, keep="400d"))
    listed = run_program(tmp_path / "airflow", DECLARED, TXLOOM_PIPELINES=str(tmp_path))
    shown = {dag.removesuffix("_cdc"): kind for dag, (kind, _) in listed.items() if dag.endswith("_cdc")}
    assert shown == {
        "timed": "CronTriggerTimetable", "steady": "ContinuousTimetable", "led": "AssetTriggeredTimetable"
    }  # fmt: skip
    assert listed["timed_maintenance"][1] == ["clean_history", "expire", "optimize", "vacuum", "statistics"]


DATED = """
import json, sys
from datetime import datetime, timezone
from types import SimpleNamespace
from airflow.dag_processing.dagbag import DagBag
bag = DagBag(sys.argv[1])
assert not bag.import_errors, bag.import_errors
dag = bag.dags["snapshots_cdc"]
diff = dag.get_task("diff_snapshot")
begun, later = datetime(2026, 11, 20, 6, tzinfo=timezone.utc), datetime(2026, 11, 21, 9, tzinfo=timezone.utc)
runs = [(begun, later, {}), (None, later, {}), (begun, later, {"date": "2026-11-01"})]
dates = []
for at, after, asked in runs:
    context = {"dag_run": SimpleNamespace(logical_date=at, run_after=after), "run_id": "r"}
    context["params"] = {**dag.params.dump(), **asked}
    dates.append(diff.render_template(diff.application_args, context, dag.get_template_env()))
try:
    dag.params["date"] = "yesterday"
    refused = "nothing"
except Exception as error:
    refused = str(error).splitlines()[0]
print(json.dumps({
    "after": {task.task_id: sorted(task.upstream_task_ids) for task in dag.tasks},
    "runs": [dag.catchup, dag.max_active_runs, diff.depends_on_past, diff.wait_for_downstream],
    "arguments": dates,
    "refused": refused,
}))
"""


def test_a_pipeline_of_snapshots_compares_the_date_of_its_run_once_the_date_before_is_merged(tmp_path: Path) -> None:
    """As scheduled or backfilled, by hand (no logical date), and as its form says."""
    listed = run_program(tmp_path, DATED, TXLOOM_PIPELINES=str(PROJECT / "include" / "pipelines" / "examples"))
    assert listed["after"] == {
        "diff_snapshot": [],
        "buffer_transactions": ["diff_snapshot"],
        "merge_current": ["buffer_transactions", "diff_snapshot"],
        "publish": ["merge_current"],
    }
    assert listed["runs"] == [True, 1, True, True]
    assert listed["arguments"] == [
        ["--pipeline", "snapshots", "--run-id", "r", "--date", day]
        for day in ("2026-11-20", "2026-11-21", "2026-11-01")
    ]
    assert "'yesterday' is not" in listed["refused"]


def test_a_pipeline_that_names_its_database_has_an_audit_that_waits_for_a_cut_outside_the_pipelines_pool(
    tmp_path: Path,
) -> None:
    declared = (PROJECT / "include" / "pipelines" / "orders.yaml").read_text()
    (tmp_path / "pipelines").mkdir()
    (tmp_path / "pipelines" / "orders.yaml").write_text(f"{declared}\naudit: {{connection: shop_db}}\n")
    made = run_program(tmp_path / "home", LIST, TXLOOM_PIPELINES=str(tmp_path / "pipelines"))
    assert made["orders_audit"]["audit"]["pool"] == "default_pool"
    assert made["orders_cdc"]["publish"]["pool"] != "default_pool"
    assert [each.split("=")[0] for each in made["orders_audit"]["audit"]["arguments"][-3:]] == [
        "--table",
        "--snapshot",
        "--csn",
    ]
    repair = made["orders_repair"]
    assert (repair["audit"]["pool"], repair["repair"]["pool"]) == ("default_pool", "txloom_orders")
    approved, allowed = repair["repair"]["arguments"][-2:]
    assert "['audits']" in approved, "the rows that were approved, and no newer ones"
    assert "task_ids='approve'" in allowed and "params.allow_rows" in allowed, "the number that a person entered"
    assert {task: about["after"] for task, about in repair.items()} == {
        "list_rows": [],
        "approve": ["list_rows"],
        "repair": ["approve"],
        "buffer_transactions": ["repair"],
        "merge_current": ["buffer_transactions"],
        "publish": ["merge_current"],
        "audit": ["merge_current", "publish"],
        "outcome": ["audit"],
    }
