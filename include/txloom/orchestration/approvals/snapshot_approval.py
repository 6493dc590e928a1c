"""Tasks of the snapshot DAG: say what the connector would be asked for, and ask a person."""

from typing import Any

from airflow.sdk import Context

from txloom.config.models.pipeline import Pipeline
from txloom.errors import TxloomError, message_of
from txloom.orchestration.approvals.approval import Approval, PipelineTask, question, task_of
from txloom.orchestration.failures import failure

LIST = "list_tables"


class SnapshotTables(PipelineTask):
    """Lists the tables that the connector would be asked to read: those of the run's form, else those of findings."""

    def execute(self, context: Context) -> dict[str, Any]:
        """Return the tables, and a page in Markdown; raises AirflowFailException where there are none.

        It does so too where a request is open already.
        """
        from txloom.steps.snapshots.request_snapshot import chosen_tables, markdown, refuse_open

        step = self.step(context)
        try:
            tables = chosen_tables(step.pipeline, step.paths, context["params"]["tables"] or ())
            refuse_open(step.paths, step.run_id)
        except TxloomError as error:
            raise failure(error.exit_code, message_of(LIST, error)) from error
        page = markdown(step.paths, tables)
        self.log.info("%s", page)
        return {"tables": tables, "markdown": page}


def listing_task(pipeline: Pipeline) -> SnapshotTables:
    """Return the task that lists the tables."""
    return task_of(SnapshotTables, pipeline, LIST)


def approval_task(pipeline: Pipeline) -> Approval:
    """Return the task that asks a person."""
    return question(pipeline, f"Let the connector of {pipeline.name} read these tables anew?", LIST)
