"""Tasks of the snapshot DAG: say what the connector would be asked for, and ask a person."""

from datetime import timedelta
from typing import Any

from airflow.sdk import BaseOperator, Context

from txloom.config import find
from txloom.config.models.pipeline import Pipeline
from txloom.errors import TxloomError, message_of
from txloom.orchestration.approvals.approval import Approval
from txloom.orchestration.failures import failure
from txloom.orchestration.forms import NEVER
from txloom.orchestration.jobs import retried
from txloom.orchestration.pipelines import warehouse

LIST, APPROVE = "list_tables", "approve"
LONGEST = timedelta(minutes=5)


class SnapshotTables(BaseOperator):
    """Lists the tables that the connector would be asked to read: those of the run's form, else those of findings."""

    def __init__(self, *, pipeline: str, **more: Any) -> None:
        """Keep the pipeline's name; its declaration is read when the task runs."""
        super().__init__(**more)
        self.pipeline = pipeline

    def execute(self, context: Context) -> dict[str, Any]:
        """Return the tables, and a page in Markdown; raises AirflowFailException where there are none."""
        from txloom.steps.snapshots.request_snapshot import chosen_tables, markdown
        from txloom.steps.step import Step

        pipeline = find(self.pipeline, connected=False)
        paths = Step.of(pipeline, warehouse(), str(context["run_id"])).paths
        try:
            tables = chosen_tables(pipeline, paths, context["params"]["tables"] or ())
        except TxloomError as error:
            raise failure(error.exit_code, message_of(LIST, error)) from error
        page = markdown(paths, tables)
        self.log.info("%s", page)
        return {"tables": tables, "markdown": page}


class SnapshotApproval(Approval):
    """Asks a person, unless the run's form says never."""

    def execute(self, context: Context) -> Any:
        """Ask for approval, or go on without."""
        if context["params"]["approval"] == NEVER:
            self.log.info("The run's form says that nobody is asked.")
            return None
        return super().execute(context)


def listing_task(pipeline: Pipeline) -> SnapshotTables:
    """Return the task that lists the tables."""
    name = str(pipeline.name)
    return SnapshotTables(
        task_id=LIST, pipeline=name, owner=pipeline.owner, execution_timeout=LONGEST, **retried(pipeline)
    )


def approval_task(pipeline: Pipeline) -> SnapshotApproval:
    """Return the task that asks a person; it waits without a time limit."""
    return SnapshotApproval(
        task_id=APPROVE,
        subject=f"Let the connector of {pipeline.name} read these tables anew?",
        body=f"{{{{ ti.xcom_pull(task_ids='{LIST}')['markdown'] }}}}",
        owner=pipeline.owner,
        **retried(pipeline),
    )
