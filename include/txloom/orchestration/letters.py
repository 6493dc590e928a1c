"""Tasks of the dead letters DAG: show what would be redriven, ask a person, redrive it, and tell what came of it."""

import os
from datetime import timedelta
from typing import Any

from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk import BaseOperator, Context
from airflow.sdk.exceptions import AirflowSkipException

from txloom.config import find
from txloom.config.models import Pipeline
from txloom.errors import TxloomError, told
from txloom.orchestration.failures import failure
from txloom.orchestration.jobs import RETRIES, SparkJob, spark_job
from txloom.orchestration.notes import say
from txloom.orchestration.notices import notices

LIST, APPROVE, REDRIVE, OUTCOME = "list_dead_letters", "approve", "redrive", "outcome"
LONGEST = timedelta(minutes=5)
ALWAYS, NEVER = "always", "never"


class Listing(BaseOperator):
    """Shows the open dead letters, and those of them that the run's form chooses; its result is bounded."""

    def __init__(self, *, pipeline: str, **more: Any) -> None:
        """Keep the pipeline's name: its declaration is read when the task runs."""
        super().__init__(**more)
        self.pipeline = pipeline

    def execute(self, context: Context) -> dict[str, Any]:
        """Return what was chosen: counts, the version of the table, and a page in Markdown."""
        from txloom.pipelines import list_dead_letters as letters
        from txloom.quality.letters import markdown, text

        asked = choice(context)
        try:
            pipeline, warehouse = _there(self.pipeline)
            self.log.info("%s", text(letters.everything(pipeline, warehouse=warehouse)))
            found = letters.chosen(pipeline, warehouse=warehouse, **asked)
        except TxloomError as error:
            raise failure(error.exit_code, told(LIST, error)) from error
        counts = {"events": found.events, "transactions": found.transactions, "causes": len(found.groups)}
        return {**counts, "version": found.version, "markdown": markdown(found)}


class Approval(ApprovalOperator):
    """Asks a person, unless the run's form says never; with nothing to redrive it ends the run here."""

    def execute(self, context: Context) -> Any:
        """Ask, go on, or skip what follows."""
        chosen = context["ti"].xcom_pull(task_ids=LIST)
        if not chosen["events"]:
            raise AirflowSkipException("no open dead letter was chosen: nothing to redrive")
        if context["params"]["approval"] == NEVER:
            self.log.info("The run's form says that nobody is asked.")
            return None
        return super().execute(context)


class Redrive(SparkJob):
    """Runs redrive for what was approved: what the form chose, of the version of the table that was shown."""

    def execute(self, context: Context) -> dict[str, str]:  # type: ignore[override]
        """Add to the job's arguments what was chosen, then run it."""
        version = context["ti"].xcom_pull(task_ids=LIST)["version"]
        asked = choice(context)
        chosen = ["--all"] if asked["everything"] else []
        chosen += [part for cause in asked["causes"] for part in ("--cause", cause)]
        chosen += [part for one in asked["transactions"] for part in ("--transaction", one)]
        self.application_args = [*(self.application_args or []), *chosen, "--version", str(version)]
        return super().execute(context)


class Outcome(BaseOperator):
    """Tells what came of the redrive, in the log and in the run's note; its result is the counts."""

    def __init__(self, *, pipeline: str, **more: Any) -> None:
        """Keep the pipeline's name: its declaration is read when the task runs."""
        super().__init__(**more)
        self.pipeline = pipeline

    def execute(self, context: Context) -> dict[str, Any]:
        """Say it, also where nothing was redriven."""
        instance = context["ti"]
        chosen = instance.xcom_pull(task_ids=LIST)
        answer = instance.xcom_pull(task_ids=APPROVE)
        done = instance.xcom_pull(task_ids=REDRIVE)
        if not chosen["events"]:
            page, counts = "Nothing was redriven: no open dead letter was chosen.", {"redriven": 0}
        elif done is None:
            page, counts = f"Nothing was redriven: {_who(answer)} refused.", {"redriven": 0}
        elif "landing" not in done:
            page, counts = "Nothing was redriven: what was chosen was no longer open.", {"redriven": 0}
        else:
            page, counts = self._came(int(done["landing"]))
            page = page if answer is None else f"{page}\n\nApproved by {_who(answer)}."
        self.log.info("%s", page)
        say(context, page)
        return counts

    def _came(self, landing: int) -> tuple[str, dict[str, Any]]:
        from txloom.pipelines import list_dead_letters as letters
        from txloom.quality.letters import fate_in_markdown

        pipeline, warehouse = _there(self.pipeline)
        came = letters.fate(pipeline, warehouse=warehouse, landing=landing)
        dead = dict(came.dead)
        counts = {"redriven": came.total, "released": came.released, "waiting": came.waiting, "dead": dead}
        return fate_in_markdown(came), {**counts, "still_poison": came.still_poison}


def choice(context: Context) -> dict[str, Any]:
    """Return what the run's form chose."""
    params = context["params"]
    everything = bool(params["everything"])
    return {
        "everything": everything,
        "causes": [] if everything else list(params["causes"] or []),
        "transactions": [] if everything else list(params["transactions"] or []),
    }


def _who(answer: Any) -> str:
    user = (answer or {}).get("responded_by_user") or {}
    return str(user.get("name") or user.get("id") or "somebody")


def _there(name: str) -> tuple[Pipeline, str]:
    if not (warehouse := os.environ.get("TXLOOM_WAREHOUSE")):
        raise TxloomError("no warehouse: set TXLOOM_WAREHOUSE")
    return find(name, connected=False), warehouse


def listing_task(pipeline: Pipeline) -> Listing:
    """Return the task that shows dead letters."""
    own: dict[str, Any] = {**RETRIES, **notices(pipeline)}
    return Listing(task_id=LIST, pipeline=str(pipeline.name), owner=pipeline.owner, execution_timeout=LONGEST, **own)


def approval_task(pipeline: Pipeline) -> Approval:
    """Return the task that asks a person; nobody's time runs out."""
    return Approval(
        task_id=APPROVE,
        subject=f"Redrive dead letters of {pipeline.name}?",
        body=f"{{{{ ti.xcom_pull(task_ids='{LIST}')['markdown'] }}}}",
        owner=pipeline.owner,
        **notices(pipeline),
    )


def redrive_task(pipeline: Pipeline) -> SparkJob:
    """Return the task that redrives what was approved."""
    return spark_job(pipeline, REDRIVE, operator=Redrive)


def outcome_task(pipeline: Pipeline) -> Outcome:
    """Return the task that tells what came of it; it also runs where a person refused."""
    own: dict[str, Any] = {**RETRIES, **notices(pipeline)}
    return Outcome(
        task_id=OUTCOME,
        pipeline=str(pipeline.name),
        owner=pipeline.owner,
        execution_timeout=LONGEST,
        trigger_rule="none_failed",
        **own,
    )
