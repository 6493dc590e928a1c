"""Audit of a pipeline's tables: are they equal to the live source, row by row?

**What it does.** `audit` reads the database of `audit.connection` in one read-only transaction, and the newest cut that
shows the same moment: of each range of keys the number of rows and a sum of digests, which the database computes
itself; rows only where these differ. Rows that change meanwhile are looked at again. It runs beside the cycle, whose
next cut it waits for, and asks the database for no more than `audit.rows_per_second`.

**The form.** `tables`: only these. `folder`: the files of a snapshot folder stand for the database, as of `csn` (of
extracts by date it is the date). Without `audit.connection` a run needs a folder.

**What it finds** is in its log, in the table `audit_results` (verdict, and each row and column that differs with both
values), and as a finding `differs from the source` for each table, which an audit closes that finds all rows equal, or
a snapshot that is loaded (the load DAG).

| verdict | what it means | what to do |
|---|---|---|
| equal | every row was equal at one moment | nothing |
| different | rows differ, and the lake shows the snapshot's moment | `txloom explain` a row, the repair DAG |
| behind | rows differ, and the lake had not reached that moment | see why the stream is late, run it again |
| unsettled | rows differ that were being changed at every look | run it when the source is quieter |

**When the task is red.** Exit code 2: the database lacks a table or column that is declared, or is older than
PostgreSQL 14; of MySQL also where a table has another engine than InnoDB. Exit code 12: it does not answer, or a
statement took longer than `audit.statement_timeout`.
"""

from typing import Any

from airflow.sdk import DAG, Param

from txloom.config import names
from txloom.config.models.pipeline import Pipeline
from txloom.orchestration import forms
from txloom.orchestration.jobs import spark_job
from txloom.orchestration.pipelines import begins, declared

ARGUMENTS = [
    "--table={{ params.tables | join(',') }}",
    "--snapshot={{ params.folder or '' }}",
    "--csn={{ '' if params.csn is none else params.csn }}",
]


def audit(pipeline: Pipeline) -> DAG:
    """Build the audit DAG of one pipeline."""
    tables = sorted(table.name for table in pipeline.tables if not table.insert_only)
    assert pipeline.audit is not None
    about = "A folder with a folder of rows for each table, in place of the database"
    given: dict[str, Any] = {"type": "string"}
    if pipeline.audit.connection is not None:
        given = {"default": None, "type": ["null", "string"]}
    folder = Param(title="Folder", description=about, minLength=1, **given)
    with DAG(
        dag_id=names.audit_dag_id(pipeline.name),
        schedule=pipeline.audit.schedule,
        start_date=begins(pipeline),
        catchup=False,
        max_active_runs=1,
        params={
            "tables": forms.tables(tables, "The tables to compare; none: all that have a key"),
            "folder": folder,
            "csn": Param(
                None,
                title="Csn",
                description="As of which the folder's rows are; none: its date's",
                type=["null", "integer"],
                minimum=0,
            ),
        },
        tags=["txloom", pipeline.name, "audit"],
        description=f"{pipeline.name}: compare the tables with the live source",
        doc_md=__doc__,
    ) as dag:
        # Outside the pipeline's pool: it waits for a cut that the cycle publishes meanwhile.
        spark_job(pipeline, "audit", arguments=ARGUMENTS, pool="default_pool", priority_weight=1)
    return dag


for declaration in declared():
    if declaration.audit is not None:
        globals()[names.audit_dag_id(declaration.name)] = audit(declaration)
