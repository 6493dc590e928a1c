"""Tasks of the repair DAG: list the rows that an audit found to differ, ask for approval, report the outcome."""

from datetime import timedelta
from typing import Any

from airflow.sdk import BaseOperator, Context
from airflow.sdk.exceptions import AirflowSkipException

from txloom.config import find
from txloom.config.models.pipeline import Pipeline
from txloom.errors import TxloomError, message_of
from txloom.orchestration.approvals.approval import Approval, answered
from txloom.orchestration.failures import failure
from txloom.orchestration.forms import NEVER
from txloom.orchestration.jobs import retried
from txloom.orchestration.notes import say
from txloom.orchestration.pipelines import warehouse

LIST, APPROVE, REPAIR, AUDIT, OUTCOME = "list_rows", "approve", "repair", "audit", "outcome"
LONGEST = timedelta(minutes=5)


class DifferingRows(BaseOperator):
    """Lists the rows that an audit found to differ, of the tables that the run's form names; its result is bounded."""

    def __init__(self, *, pipeline: str, **more: Any) -> None:
        """Keep the pipeline's name; its declaration is read when the task runs."""
        super().__init__(**more)
        self.pipeline = pipeline

    def execute(self, context: Context) -> dict[str, Any]:
        """Return how many rows there are, their tables, and a page in Markdown.

        Raises AirflowFailException where the audit lists no rows of these tables.
        """
        from txloom.quality.masking import secret_names
        from txloom.steps.audit.differing_rows import Chosen, chosen_tables, markdown
        from txloom.steps.step import Step

        params, pipeline = context["params"], find(self.pipeline, connected=False)
        try:
            chosen = Chosen(params["audit"] or None, params["tables"])
            audits = chosen_tables(Step.of(pipeline, warehouse(), str(context["run_id"])).paths, chosen)
        except TxloomError as error:
            raise failure(error.exit_code, message_of(LIST, error)) from error
        page = markdown(audits, secret_names(pipeline))
        self.log.info("%s", page)
        rows = sum(len(each.repairs) for each in audits)
        return {"rows": rows, "tables": [each.table for each in audits], "markdown": page}


class RepairApproval(Approval):
    """Asks a person, unless the run's form says never."""

    def execute(self, context: Context) -> Any:
        """Ask for approval, go on without, or raise AirflowSkipException where no row can be loaded."""
        if not context["ti"].xcom_pull(task_ids=LIST)["rows"]:
            raise AirflowSkipException("the audit lists no row that could be loaded: audit again")
        if context["params"]["approval"] == NEVER:
            self.log.info("The run's form says that nobody is asked.")
            return None
        return super().execute(context)


class RepairOutcome(BaseOperator):
    """Reports in the log and in the run's note what was loaded, and what the audit after it found."""

    def execute(self, context: Context) -> dict[str, Any]:
        """Report the outcome, also where nothing was done."""
        instance = context["ti"]
        person = answered(instance, APPROVE)
        done, seen = (instance.xcom_pull(task_ids=task) for task in (REPAIR, AUDIT))
        if done is None:
            page = f"Nothing was loaded: {person} refused." if person else "Nothing was loaded."
            counts = {"rows": 0}
        else:
            counts = {name: int(done[name]) for name in ("rows", "left_out", "more")}
            left = f"; {counts['left_out']} cannot be read as declared (see the log of {REPAIR})"
            page = f"**{counts['rows']} rows were loaded**{left if counts['left_out'] else ''}."
            if seen is not None:
                counts |= {name: int(seen[name]) for name in ("differing", "unsettled", "behind")}
                page += f"\n\nThe audit after it: {counts['differing']} rows differ."
            page += f"\n\nApproved by {person}." if person else ""
        self.log.info("%s", page)
        say(instance, page)
        return counts


def listing_task(pipeline: Pipeline) -> DifferingRows:
    """Return the task that lists the rows."""
    name = str(pipeline.name)
    return DifferingRows(
        task_id=LIST, pipeline=name, owner=pipeline.owner, execution_timeout=LONGEST, **retried(pipeline)
    )


def approval_task(pipeline: Pipeline) -> RepairApproval:
    """Return the task that asks a person; it waits without a time limit."""
    return RepairApproval(
        task_id=APPROVE,
        subject=f"Load these rows of {pipeline.name}?",
        body=f"{{{{ ti.xcom_pull(task_ids='{LIST}')['markdown'] }}}}",
        owner=pipeline.owner,
        **retried(pipeline),
    )


def outcome_task(pipeline: Pipeline) -> RepairOutcome:
    """Return the task that reports the outcome; it also runs where a person refused."""
    return RepairOutcome(
        task_id=OUTCOME,
        owner=pipeline.owner,
        execution_timeout=LONGEST,
        trigger_rule="none_failed",
        **retried(pipeline),
    )
