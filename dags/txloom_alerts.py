"""Looks for incidents of a pipeline, every few minutes, whether or not its cycle runs.

**What it does.** `alert` reads the pipeline's tables and compares them with what is declared under `alerts`: how old
valid-through may be, how long the source may be quiet and a transaction may wait, how many dead letters may be open.
One message is sent when something begins to be wrong, one when it is over; the table `incidents` records which channel
got which message. The last task of each cycle does the same: this DAG is for cycles that hang, are paused or were never
started. It starts no JVM, takes no turn in the pipeline's pool and needs no lease.

**When the task is red.** A channel did not take a message: its last line names the channel and the kind of error,
never an address. The other channels got theirs. The next run tries again; repair the connection, or `alerts.notify`.

**What each kind of incident means, and what to do,** is in docs/operations.md, section "Alerts".
"""

from airflow.sdk import DAG

from txloom.config import names
from txloom.config.models.pipeline import Pipeline
from txloom.orchestration.alerts import alert_task
from txloom.orchestration.pipelines import begins, declared


def watch(pipeline: Pipeline, schedule: str | None) -> DAG:
    """Build the alerts DAG of one pipeline."""
    with DAG(
        dag_id=names.alerts_dag_id(pipeline.name),
        schedule=schedule,
        start_date=begins(pipeline),
        catchup=False,
        max_active_runs=1,
        tags=["txloom", pipeline.name, "alerts"],
        description=f"{pipeline.name}: reports each incident once",
        doc_md=__doc__,
    ) as dag:
        alert_task(pipeline)
    return dag


for declaration in declared():
    if declaration.alerts is not None:
        globals()[names.alerts_dag_id(declaration.name)] = watch(declaration, declaration.alerts.schedule)
