"""Maintenance of a pipeline's tables: clean_history, expire, optimize, vacuum, statistics, register, validate.

**What it does.** `clean_history` removes rows from mirrors' histories that later ones supersede, where
`maintenance.history.keep` is declared; `expire` removes old messages of released events, rows on old runs and replaced
checkpoints; `optimize` joins small files and orders them by the declared columns; `vacuum` removes files that no
version within the declared retention needs, and skips a table of which the newest cut or a reader still needs older
ones: its log names them; `statistics` completes data-skipping statistics and records rows, bytes, files and column
figures in `table_statistics`; `register` lets the catalog of `targets.catalog` know the tables; `validate` lets Great
Expectations judge all declared expectations on the newest cut, as one Checkpoint, and writes Data Docs, which the
pipeline's page links. It takes turns with the cycle in the pipeline's pool, so that it never runs beside a merge.

**When a task is red.** Its last line names the table and the reason. A red task can wait until the morning: nothing is
lost, tables only become slower to read. Clear it when the reason is gone. `validate` is red where an expectation that
blocks fails on what readers see (exit code 20): its last line names the rows, as check_expectations does.
"""

from airflow.sdk import DAG, chain

from txloom.config import names
from txloom.config.models.pipeline import Pipeline
from txloom.orchestration.jobs import spark_job
from txloom.orchestration.pipelines import begins, declared

DECLARED = {
    "clean_history": lambda pipeline: pipeline.maintenance.history.keep is not None,
    "register": lambda pipeline: pipeline.targets.catalog is not None,
}
"""Tasks that are there only where something is declared."""


def upkeep(pipeline: Pipeline) -> DAG:
    """Build the maintenance DAG of one pipeline."""
    validates = (names.VALIDATE,) if pipeline.expectations else ()
    with DAG(
        dag_id=names.maintenance_dag_id(pipeline.name),
        schedule=pipeline.maintenance.schedule,
        start_date=begins(pipeline),
        catchup=False,
        max_active_runs=1,
        tags=["txloom", pipeline.name, "maintenance"],
        description=f"{pipeline.name}: {', '.join((*names.MAINTENANCE_TASKS, *validates))}",
        doc_md=__doc__,
    ) as dag:
        jobs = [
            spark_job(pipeline, "maintain_tables", task_id=task, arguments=["--task", task])
            for task in names.MAINTENANCE_TASKS
            if DECLARED.get(task, lambda _: True)(pipeline)
        ]
        jobs += [spark_job(pipeline, task) for task in validates]
        chain(*jobs)
    return dag


for declaration in declared():
    globals()[names.maintenance_dag_id(declaration.name)] = upkeep(declaration)
