"""Snapshot by the connector: ask Debezium to read tables anew, beside its stream (an incremental snapshot).

**When to use it.** A finding says that a table needs a snapshot, and the declaration has `source.signals`. The load DAG
does the same with an export that somebody makes; this one needs nobody.

**What it does.** `list_tables` names the tables of such findings, or of the form; `approve` waits for a person;
`request_snapshot` sends the signal. The connector reads the tables in chunks and writes their rows into the topics of
the stream: the cycles that follow take them in as they come, each as of the commit that its csn names, so that no cut
shows a row that the source did not have. Once all are merged, rows that the source no longer has are deleted, and the
findings close. The tab **Findings** of the page shows how far it is.

**The form.** `tables`: only these. `approval: never` asks nobody.

| you see | what it means | what to do |
|---|---|---|
| approve waits | a person has to answer: Required Actions | approve, or refuse: then nothing is asked for |
| list_tables is red (2) | no table needs a snapshot, one has no key, or a request is open | its log says which |
| request_snapshot is red (12) | the brokers do not take the signal | bring them back, clear the task: it asks once |
| finding "snapshot request makes no progress" | a lost signal, or a failed task of the connector | see below |
| the request is `failed` | the connector could not read a table | what the page says; ask again |

**A request that makes no progress.** One request is open at a time. Restart the connector's task. If the request stays
as it is, `python jobs/request_snapshot.py --pipeline NAME --give-up REQUEST` ends it; then ask again.
"""

from airflow.sdk import DAG, Param

from txloom.config import names
from txloom.config.models.pipeline import Pipeline
from txloom.orchestration import forms
from txloom.orchestration.approvals.snapshot_approval import LIST, approval_task, listing_task
from txloom.orchestration.forms import ALWAYS, NEVER
from txloom.orchestration.jobs import spark_job
from txloom.orchestration.pipelines import begins, declared

TABLES = f"--table={{{{ ti.xcom_pull(task_ids='{LIST}')['tables'] | join(',') }}}}"


def snapshot(pipeline: Pipeline) -> DAG:
    """Build the snapshot DAG of one pipeline."""
    tables = sorted(table.name for table in pipeline.tables if table.key)
    with DAG(
        dag_id=names.snapshot_dag_id(pipeline.name),
        schedule=None,
        start_date=begins(pipeline),
        catchup=False,
        max_active_runs=1,
        params={
            "tables": forms.tables(tables, "The tables to read; none: those that a finding says need a snapshot"),
            "approval": Param(ALWAYS, enum=[ALWAYS, NEVER], description="Whether a person is asked", title="Approval"),
        },
        tags=["txloom", pipeline.name, "snapshot"],
        description=f"{pipeline.name}: let the connector read tables anew",
        doc_md=__doc__,
    ) as dag:
        listing_task(pipeline) >> approval_task(pipeline) >> spark_job(pipeline, "request_snapshot", arguments=[TABLES])
    return dag


for declaration in declared():
    if declaration.source.signals is not None:
        globals()[names.snapshot_dag_id(declaration.name)] = snapshot(declaration)
