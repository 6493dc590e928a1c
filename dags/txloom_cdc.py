"""The cycle of a pipeline: check the source, land, buffer, merge, check expectations, publish.

**What it does.** Every run checks whether the source can be read, before a JVM starts; lands what is new there,
releases transactions that are whole, merges the current tables up to valid-through, checks them, and publishes a cut:
the version of every table that together show one moment of the source. Readers that take the versions of a cut never
see half a transaction.

**When a task is red.** Its last line names what is wrong. Nothing is half done: every task can be cleared and run
again.

| task | usual cause | what to do |
|---|---|---|
| check_source | brokers, a topic or the folder are not there (exit code 12) | bring them back; it is retried |
| check_source | records were lost before they were landed (13) | accept it by name, as its last line says |
| land_events | the source's folder is gone, or a planned file vanished | bring it back, then clear the task |
| diff_snapshot | the date's extract is missing, unfinished or cannot be read | its last line names it; deliver it |
| buffer_transactions | the ledger does not balance (exit code 30) | clear nothing; keep the ledger's row |
| merge_current | a conflict with maintenance | it is retried by itself; else clear it |
| check_expectations | rows violate an expectation that blocks (20) | its last line names them; repair at the source |
| publish | the checks before it; tables that came since and fail (20) | readers keep the last cut until they pass |
| alert | a channel did not take a message (15) | nothing: the next one tries again; see `alerts.notify` |

**When valid-through stands still** look at `pending_transactions`, longest waiting first: expected and received rows
per table show what the producer has not sent. After patience they become dead letters, listed as gaps in the next cut.

**When everything behind check_source is skipped** there was nothing to do: nothing new at the source, and nothing that
waits. Its log says so. publish is skipped when the newest cut already shows everything. A run that is started by hand
runs every task.

**Pipelines of snapshots** begin with diff_snapshot, for the extracts of the run's date (UTC; the form of a run by hand
can name another one). Missed dates are caught up, and dates wait for each other, in backfills too:
`airflow backfill create --dag-id ... --from-date ... --to-date ... --reprocess-behavior failed`. A date that never gets
an extract holds up the dates after it until its run is marked as success.
"""

from airflow.sdk import DAG, Param, TaskGroup

from txloom.config import names
from txloom.config.models.pipeline import Pipeline
from txloom.orchestration.alerts import alert_task
from txloom.orchestration.jobs import SparkJob, cuts_asset, spark_job
from txloom.orchestration.pipelines import begins, begun_by, declared
from txloom.orchestration.preflight import source_check

DATE = "{{ params.date or (dag_run.logical_date or dag_run.run_after) | ds }}"
"""The date of a run: from its form, else of its schedule; a run by hand has no logical date."""


def form() -> dict[str, Param]:
    """Return the form of a snapshot cycle that is started by hand."""
    description = "The date of the extracts to compare; empty: today (UTC), or the date of the schedule"
    return {"date": Param(None, title="Date", description=description, type=["null", "string"], format="date")}


def cycle(pipeline: Pipeline) -> DAG:
    """Build the cdc DAG of one pipeline."""
    dated = pipeline.source.format == "snapshots"
    with DAG(
        dag_id=names.cdc_dag_id(pipeline.name),
        schedule=begun_by(pipeline),
        start_date=begins(pipeline),
        catchup=dated,
        max_active_runs=1,
        params=form() if dated else {},
        tags=["txloom", pipeline.name, "cdc"],
        description=pipeline.description or f"{pipeline.name}: from change events to a published cut",
        doc_md=__doc__,
    ) as dag:
        land = _diff(pipeline) if dated else _land(pipeline)
        buffer = spark_job(pipeline, "buffer_transactions")
        merge = spark_job(pipeline, "merge_current")
        publish = spark_job(pipeline, "publish", outlets=[cuts_asset(pipeline)])
        with TaskGroup("check_expectations") as checks:
            for expectation in pipeline.expectations:
                only = ["--only", expectation.id]
                spark_job(pipeline, "check_expectations", task_id=expectation.id, arguments=only)
        land >> buffer >> merge >> checks >> publish
        if dated:
            land >> merge
        if pipeline.alerts is not None:
            # a teardown runs whatever the state of the tasks before it, and its state does not count for the run
            publish >> alert_task(pipeline, looks_after=None if dated else "check_source").as_teardown()
    return dag


def _land(pipeline: Pipeline) -> SparkJob:
    """Return the task that lands what is new; the check of the source runs before it."""
    land = spark_job(pipeline, "land_events")
    source_check(pipeline) >> land
    return land


def _diff(pipeline: Pipeline) -> SparkJob:
    """Return the task that compares a date's extracts, once the date before is released and merged.

    Airflow waits for the tasks that directly follow the task of the date before: hence the edge to merge_current.
    """
    arguments = ["--date", DATE]
    return spark_job(pipeline, "diff_snapshot", arguments=arguments, depends_on_past=True, wait_for_downstream=True)


for declaration in declared():
    globals()[names.cdc_dag_id(declaration.name)] = cycle(declaration)
