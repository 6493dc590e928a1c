"""Approvals by a person: who answered is recorded, for an approval and for a refusal."""

from typing import Any

from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk import Context

ANSWER = "txloom_answer"
"""The XCom key of the person who answered: for a refusal Airflow's operator returns nothing."""


class Approval(ApprovalOperator):
    """Asks a person for approval; after a refusal the tasks that directly follow are skipped."""

    def execute_complete(self, context: Context, event: dict[str, Any]) -> Any:
        """Record who answered, then go on or skip what follows."""
        if "error" not in event:
            context["ti"].xcom_push(key=ANSWER, value=who(event))
        return super().execute_complete(context=context, event=event)


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
