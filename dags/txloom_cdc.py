"""The cycle of a pipeline: look at the source, land, buffer, merge, check, publish.

**What it does.** Every run looks whether the source can be read, before a JVM starts; takes what is new there,
releases transactions that are whole, brings the current tables to valid-through, checks them, and publishes a cut: the
version of every table that together show one moment of the source. Readers that take the versions of a cut never see
half a transaction.

**When a task is red.** Its last line names what is wrong. Nothing is half done: every task can be cleared and run
again.

| task | usual cause | what to do |
|---|---|---|
| check_source | brokers, a topic or the folder are not there (exit code 12) | bring them back; it is retried |
| check_source | records were lost before they were landed (13) | accept it by name, as its last line says |
| land_events | the source's folder is gone, or a planned file vanished | bring it back, then clear the task |
| buffer_transactions | the ledger does not balance (exit code 30) | clear nothing; keep the ledger's row |
| merge_current | a conflict with maintenance | it is retried by itself; else clear it |
| check_expectations | rows violate an expectation that blocks | repair at the source; see `expectation_results` |
| publish | the checks before it | nothing is published until they pass; readers keep the last cut |

**When valid-through stands still** look at `pending_transactions`, longest waiting first: expected and received rows
per table tell what the producer has not sent. After patience they become dead letters, listed as gaps in the next cut.
"""

from airflow.sdk import DAG, TaskGroup

from txloom.config import names
from txloom.config.models import Pipeline
from txloom.orchestration.jobs import cuts_asset, spark_job
from txloom.orchestration.pipelines import begins, declared
from txloom.orchestration.preflight import source_check


def cycle(pipeline: Pipeline) -> DAG:
    """Build the cdc DAG of one pipeline."""
    with DAG(
        dag_id=names.cdc_dag_id(pipeline.name),
        schedule=pipeline.schedule,
        start_date=begins(pipeline),
        catchup=False,
        max_active_runs=1,
        tags=["txloom", pipeline.name, "cdc"],
        description=pipeline.description or f"{pipeline.name}: from change events to a published cut",
        doc_md=__doc__,
    ) as dag:
        look = source_check(pipeline)
        land = spark_job(pipeline, "land_events")
        buffer = spark_job(pipeline, "buffer_transactions")
        merge = spark_job(pipeline, "merge_current")
        publish = spark_job(pipeline, "publish", outlets=[cuts_asset(pipeline)])
        with TaskGroup("check_expectations") as checks:
            for expectation in pipeline.expectations:
                only = ["--only", expectation.id]
                spark_job(pipeline, "check_expectations", task_id=expectation.id, arguments=only)
        look >> land >> buffer >> merge >> checks >> publish
    return dag


for declaration in declared():
    globals()[names.cdc_dag_id(declaration.name)] = cycle(declaration)
