"""Approvals by a person: who answered is recorded, for an approval and for a refusal.

A run that asks has a task before the question, which lists what is asked about, and often one at the end, which reports
the outcome.
"""

from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar

from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk import BaseOperator, Context

from txloom.config import find
from txloom.config.models.pipeline import Pipeline
from txloom.orchestration.forms import NEVER
from txloom.orchestration.jobs import retried
from txloom.orchestration.pipelines import warehouse

if TYPE_CHECKING:
    from txloom.steps.step import Step

APPROVE = "approve"
ANSWER = "txloom_answer"
"""The XCom key of the person who answered: for a refusal Airflow's operator returns nothing."""
LONGEST = timedelta(minutes=5)
"""How long a task may take that lists or reports."""
T = TypeVar("T", bound="PipelineTask")


class PipelineTask(BaseOperator):
    """A task in Airflow's process that is about a pipeline: it lists, or reports."""

    def __init__(self, *, pipeline: str, **more: Any) -> None:
        """Keep the pipeline's name; its declaration is read when the task runs."""
        super().__init__(**more)
        self.pipeline = pipeline

    def step(self, context: Context) -> "Step":
        """Return the pipeline, its tables and the run."""
        from txloom.steps.step import Step

        return Step.of(find(self.pipeline, connected=False), warehouse(), str(context["run_id"]))


class Approval(ApprovalOperator):
    """Asks a person for approval, unless the run's form says never.

    After a refusal the tasks that directly follow are skipped.
    """

    def execute(self, context: Context) -> Any:
        """Ask for approval, or go on without."""
        if context["params"].get("approval") == NEVER:
            self.log.info("The run's form says that nobody is asked.")
            return None
        return super().execute(context)

    def execute_complete(self, context: Context, event: dict[str, Any]) -> Any:
        """Record who answered, then go on or skip what follows."""
        if "error" not in event:
            context["ti"].xcom_push(key=ANSWER, value=who(event))
        return super().execute_complete(context=context, event=event)


def task_of(kind: type[T], pipeline: Pipeline, task_id: str, **more: Any) -> T:
    """Return a task that lists or reports."""
    about: dict[str, Any] = {"pipeline": str(pipeline.name), "owner": pipeline.owner, "execution_timeout": LONGEST}
    return kind(task_id=task_id, **about, **retried(pipeline), **more)


def question(pipeline: Pipeline, subject: str, listing: str, kind: type[Approval] = Approval, **more: Any) -> Approval:
    """Return the task that asks a person; it waits without a time limit.

    An answer within a second of the question can arrive while the process that asked is still ending (Airflow 3.3 then
    takes the task for killed): the retry asks again.

    Args:
        pipeline: the declared pipeline.
        subject: the question.
        listing: the task whose result has the page that is shown below it, in Markdown.
        kind: the class of the task.
        more: further arguments of the task, such as the fields of its form.
    """
    body = f"{{{{ ti.xcom_pull(task_ids='{listing}')['markdown'] }}}}"
    return kind(task_id=APPROVE, subject=subject, body=body, owner=pipeline.owner, **retried(pipeline), **more)


def answered(instance: Any, task: str) -> str | None:
    """Return who answered the approval task of this run; None: the task did not ask."""
    answer = instance.xcom_pull(task_ids=task, key=ANSWER)
    return None if answer is None else str(answer)


def who(answer: dict[str, Any]) -> str:
    """Return the name of the person in an approval's answer.

    >>> who({"responded_by_user": {"id": "7", "name": "ada"}}), who({"responded_by_user": None})
    ('ada', 'somebody')
    """
    user = answer.get("responded_by_user") or {}
    return str(user.get("name") or user.get("id") or "somebody")
