"""Rebuild tables of a pipeline beside the live ones, compare them, approve the differences, and apply them.

**What it does.** `rebuild` builds the history of a range from `change_events`, as declared now, and the current tables
from history, into shadow tables. `compare` counts what differs from the live tables, row by row. Where rows would
change, `approve` shows numbers and sample rows and waits for a person. `apply` then writes the differences into the
live tables, and `publish` names their new versions in a cut. `drop` removes the shadow tables in any case.

**When to use it.** A row was changed by something other than txloom, a declaration was corrected and older rows are to
be read again, or you want to see in numbers that the tables match the events. Rows that are wrong at the source, or
that changed without events (findings "needs snapshot"), are not in `change_events`: load them with the load DAG.

**What it never does.** History loses no row: surplus rows are shown as `surplus` and stay. The live checkpoint is not
touched, and only `apply` writes to a live table. Newer changes and deletes stay, whatever the range.

| task | what it means when it is red | what to do |
|---|---|---|
| rebuild | no such range or table (exit code 2), or nothing was released yet | begin anew with another range |
| compare, apply | exit code 10: another run holds the pipeline's lease | nothing, it is retried |
| apply | exit code 21: live tables moved on, and something else differs now | begin anew; pause the cdc DAG meanwhile |

**Refused** means: nothing was applied, the run is green, and `outcome` names who refused it. The numbers and samples of
every run stay in the table `backfills`.
"""

from typing import Any

from airflow.providers.standard.operators.python import BranchPythonOperator, PythonOperator
from airflow.sdk import DAG, Param

from txloom.config import names
from txloom.config.models.pipeline import Pipeline
from txloom.orchestration import forms
from txloom.orchestration.approvals.approval import Approval, answered
from txloom.orchestration.forms import ALWAYS, NEVER
from txloom.orchestration.jobs import cuts_asset, in_turn, spark_job
from txloom.orchestration.notes import say
from txloom.orchestration.pipelines import begins, declared, warehouse

WHEN_ROWS_CHANGE = "when rows change"
RANGE = [
    "--from-csn={{ params.from_csn or '' }}",
    "--to-csn={{ '' if params.to_csn is none else params.to_csn }}",
    "--from-time={{ params.from_time or '' }}",
    "--to-time={{ params.to_time or '' }}",
    "--table={{ params.tables | join(',') }}",
]


def form(pipeline: Pipeline) -> dict[str, Param]:
    """Return the form of a backfill that is started by hand."""
    tables = sorted({mirror.table for mirror in pipeline.targets.mirrors} | set(_members(pipeline)))
    csn: dict[str, Any] = {"type": ["null", "integer"], "minimum": 0}
    time: dict[str, Any] = {"type": ["null", "string"], "format": "date-time"}
    return {
        "from_csn": Param(None, title="From csn", description="The first csn; nothing: from the beginning", **csn),
        "to_csn": Param(None, title="To csn", description="The last csn; nothing: to the newest", **csn),
        "from_time": Param(None, title="From time", description="Instead of a csn: committed since", **time),
        "to_time": Param(None, title="To time", description="Instead of a csn: committed until", **time),
        "tables": forms.tables(tables, "The source tables to rebuild; none: all. Those of one document come together"),
        "approval": Param(
            WHEN_ROWS_CHANGE,
            title="Ask somebody",
            description="Whether somebody has to approve before anything is written",
            type="string",
            enum=[WHEN_ROWS_CHANGE, ALWAYS, NEVER],
        ),
    }


def _members(pipeline: Pipeline) -> list[str]:
    children = [child.table for each in pipeline.targets.aggregates for child in each.children]
    return [*children, *(each.root for each in pipeline.targets.aggregates)]


def chosen(pipeline: str, params: dict[str, Any], run_id: str, ti: Any) -> str:
    """Return the next task: approve, apply without approval, or outcome because nothing differs."""
    from txloom.steps.backfill.report import report

    changes, body = report(warehouse(), pipeline, run_id)
    ti.xcom_push(key="body", value=body)
    if params["approval"] == ALWAYS or (changes and params["approval"] == WHEN_ROWS_CHANGE):
        return "approve"
    return "apply" if changes else "outcome"


def result(ti: Any) -> str:
    """Return the outcome of a backfill in one sentence, and write it to the log and the run's note."""
    person, applied = answered(ti, "approve"), ti.xcom_pull(task_ids="apply")
    sentence = "nothing differs: nothing was applied"
    if applied:
        sentence = f"applied: {applied['changes']} rows in {applied['commits']} commits"
    elif person:
        sentence = f"refused by {person}: nothing was applied"
    print(sentence, flush=True)
    say(ti, sentence)
    return sentence


def backfill(pipeline: Pipeline) -> DAG:
    """Build the backfill DAG of one pipeline."""
    turns = in_turn(pipeline)
    with DAG(
        dag_id=names.backfill_dag_id(pipeline.name),
        schedule=None,
        start_date=begins(pipeline),
        max_active_runs=1,
        params=form(pipeline),
        tags=["txloom", pipeline.name, "backfill"],
        description=f"{pipeline.name}: rebuild beside the live tables, compare, approve, repair",
        doc_md=__doc__,
    ) as dag:
        rebuild = spark_job(pipeline, "backfill", task_id="rebuild", arguments=["--task", "rebuild", *RANGE])
        compare = spark_job(pipeline, "backfill", task_id="compare", arguments=["--task", "compare"])
        decide = BranchPythonOperator(
            task_id="decide", python_callable=chosen, op_kwargs={"pipeline": str(pipeline.name)}, **turns
        )
        approve = Approval(
            task_id="approve",
            subject=f"{pipeline.name}: apply this backfill?",
            body="{{ ti.xcom_pull(task_ids='decide', key='body') }}",
            **turns,
        )
        rule = "none_failed_min_one_success"
        apply = spark_job(pipeline, "backfill", task_id="apply", arguments=["--task", "apply"], trigger_rule=rule)
        publish = spark_job(pipeline, "publish", outlets=[cuts_asset(pipeline)])
        outcome = PythonOperator(task_id="outcome", python_callable=result, trigger_rule="none_failed", **turns)
        drop = spark_job(pipeline, "backfill", task_id="drop", arguments=["--task", "drop"])
        rebuild >> compare >> decide >> [approve, apply, outcome]
        approve >> apply >> publish >> outcome >> drop.as_teardown(setups=rebuild)
    return dag


for declaration in declared():
    globals()[names.backfill_dag_id(declaration.name)] = backfill(declaration)
