"""A person is asked, and what they answered is remembered, whichever it was."""

from typing import Any

from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk import Context

ANSWER = "txloom_answer"
"""Under this key an approval pushes who answered: of a refusal Airflow's own operator returns nothing."""


class Approval(ApprovalOperator):
    """Asks a person; refused, what directly follows is skipped."""

    def execute_complete(self, context: Context, event: dict[str, Any]) -> Any:
        """Remember who answered, and go on or skip what follows."""
        if "error" not in event:
            context["ti"].xcom_push(key=ANSWER, value=who(event))
        return super().execute_complete(context=context, event=event)


def answered(instance: Any, task: str) -> str | None:
    """Return who answered what a task of this run asked; None: nobody was asked."""
    answer = instance.xcom_pull(task_ids=task, key=ANSWER)
    return None if answer is None else str(answer)


def who(answer: dict[str, Any]) -> str:
    """Return who answered what an approval asked.

    >>> who({"responded_by_user": {"id": "7", "name": "ada"}}), who({"responded_by_user": None})
    ('ada', 'somebody')
    """
    user = answer.get("responded_by_user") or {}
    return str(user.get("name") or user.get("id") or "somebody")
