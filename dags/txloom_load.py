"""Load tables of a pipeline from a snapshot: a first load, or tables that are marked "needs snapshot".

**When to use it.** A finding says that rows of a table changed without events (a column with a default, a rename, a
change of type, a lost record): nothing that was landed holds their present values, so that no backfill can repair them.
The finding "history is not complete" needs a load too: after an edit of the declaration a table lacks rows whose
messages are not kept any more, and cuts leave the table out. Export the table at the source from one consistent read,
with the csn at which the read began, and load it here. The csn must be at or above the csn of each finding.

**Which tables need it** is listed by the first task, `needs_snapshot`, in its log and its XCom. The same list is in
`/txloom/status/<pipeline>_cdc` (`needs_snapshot`; and `findings` with code, column, since which csn and the evidence),
and in the table `findings`.

**What it does.** The rows become one transaction of the stream, with op `r`: changes at or below the csn never
overwrite them, later ones apply. `buffer_transactions` and `merge_current` process it as soon as the stream has
reached the csn, here or in the next cycle, and the findings that it resolves are closed. A snapshot that was loaded
already is skipped.

| task | what it means when it is red | what to do |
|---|---|---|
| load_snapshot | exit code 2: its last line names a file, row or column. Nothing is loaded | repair, clear the task |
| load_snapshot | exit code 12: the folder is not there | see `path`: it holds a folder for each table |
| the others | as in the cdc DAG | as there |
"""

from airflow.providers.standard.operators.python import PythonOperator
from airflow.sdk import DAG, Param

from txloom.config import names
from txloom.config.models.pipeline import Pipeline
from txloom.orchestration import forms
from txloom.orchestration.jobs import cuts_asset, in_turn, spark_job
from txloom.orchestration.pipelines import begins, declared, warehouse

SNAPSHOT = [
    "--path={{ params.path }}",
    "--csn={{ params.csn }}",
    "--time={{ params.time or '' }}",
    "--table={{ params.tables | join(',') }}",
    "{{ '--ahead' if params.ahead else '--no-ahead' }}",
]


def form(pipeline: Pipeline) -> dict[str, Param]:
    """Return the form of a load."""
    tables = sorted(table.name for table in pipeline.tables)
    return {
        "path": Param(
            title="Folder", description="The folder with a folder of rows for each table", type="string", minLength=1
        ),
        "csn": Param(
            title="Csn",
            description="The csn as of which the rows are, taken at the source when the export began",
            type="integer",
            minimum=0,
        ),
        "tables": forms.tables(tables, "The tables to load; none: all that have a folder"),
        "time": Param(
            None,
            title="When",
            description="When that was, for reads as of a moment",
            type=["null", "string"],
            format="date-time",
        ),
        "ahead": Param(
            False,
            title="Far ahead",
            description="The csn is meant, though it is far above the stream's",
            type="boolean",
        ),
    }


def marked(pipeline: str) -> list[str]:
    """Print the findings that need a snapshot, and return their tables; '*' stands for all tables."""
    from txloom.storage.checks import findings
    from txloom.storage.paths import TablePaths

    open_findings = findings.open_findings(TablePaths(warehouse(), pipeline))
    for row in open_findings:
        if row["needs_snapshot"]:
            print(
                f"{row['table'] or '*'} {row['column'] or ''}: {row['code']}, since csn {row['since_csn']}", flush=True
            )
    return findings.needing_snapshot(open_findings)


def load(pipeline: Pipeline) -> DAG:
    """Build the load DAG of one pipeline."""
    with DAG(
        dag_id=names.load_dag_id(pipeline.name),
        schedule=None,
        start_date=begins(pipeline),
        max_active_runs=1,
        params=form(pipeline),
        tags=["txloom", pipeline.name, "load"],
        description=f"{pipeline.name}: load tables from a snapshot",
        doc_md=__doc__,
    ) as dag:
        needs_snapshot = PythonOperator(
            task_id="needs_snapshot",
            python_callable=marked,
            op_args=[str(pipeline.name)],
            **in_turn(pipeline),
        )
        load_snapshot = spark_job(pipeline, "load_snapshot", arguments=SNAPSHOT)
        buffer = spark_job(pipeline, "buffer_transactions")
        merge = spark_job(pipeline, "merge_current")
        publish = spark_job(pipeline, "publish", outlets=[cuts_asset(pipeline)])
        needs_snapshot >> load_snapshot >> buffer >> merge >> publish
    return dag


for declaration in declared():
    globals()[names.load_dag_id(declaration.name)] = load(declaration)
