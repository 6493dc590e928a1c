"""Tasks of the dead letters DAG: list what was chosen, ask for approval, redrive or dismiss it, report the outcome."""

from dataclasses import replace
from typing import Any

from airflow.sdk import Context
from airflow.sdk.exceptions import AirflowSkipException

from txloom.config.models.pipeline import Pipeline
from txloom.errors import ConfigurationError, TxloomError, message_of
from txloom.orchestration.approvals.approval import APPROVE, Approval, PipelineTask, answered, question, task_of
from txloom.orchestration.failures import failure
from txloom.orchestration.jobs import SparkJob, spark_job
from txloom.orchestration.notes import say

LIST, REDRIVE, DISMISS, OUTCOME = "list_dead_letters", "redrive", "dismiss", "outcome"


class Listing(PipelineTask):
    """Lists the open dead letters, and those of them that the run's form chooses; its result is bounded."""

    def execute(self, context: Context) -> dict[str, Any]:
        """Return the chosen dead letters: counts, the version of the table, and a page in Markdown.

        Raises AirflowFailException where a retry cannot help, such as a dismissal without a reason.
        """
        from txloom.quality.dead_letters import ALL, Selection, markdown, text
        from txloom.steps.dead_letters import list_dead_letters
        from txloom.steps.dead_letters.redrive import effect

        chosen_by, reason = choice(context), dismissed_for(context)
        try:
            if reason == "":
                raise ConfigurationError("a dismissal needs a reason: whoever asks later is shown it")
            step = self.step(context)
            self.log.info("%s", text(list_dead_letters.list_open(step, ALL)))
            selection = list_dead_letters.list_open(step, chosen := Selection(**chosen_by))
            # What a person approves is what is redriven: the version that was listed.
            exact = replace(chosen, version=selection.version)
            planned = effect(step, exact) if reason is None and selection.events else None
        except TxloomError as error:
            raise failure(error.exit_code, message_of(LIST, error)) from error
        counts = {"events": selection.events, "transactions": selection.transactions, "causes": len(selection.groups)}
        return {**counts, "version": selection.version, "markdown": markdown(selection, reason, planned)}


class DeadLettersApproval(Approval):
    """Asks a person, unless the run's form says never; where nothing was chosen, the rest of the run is skipped."""

    def execute(self, context: Context) -> Any:
        """Ask for approval, go on without, or raise AirflowSkipException."""
        chosen = context["ti"].xcom_pull(task_ids=LIST)
        if not chosen["events"]:
            raise AirflowSkipException(f"no open dead letter was chosen: nothing to {context['params']['action']}")
        return super().execute(context)


class Approved(SparkJob):
    """Runs redrive or dismiss for what was approved: the form's choice, at the version of the table that was listed."""

    def execute(self, context: Context) -> dict[str, Any]:  # type: ignore[override]
        """Run the job with the choice as arguments; raises AirflowSkipException where the form has the other action."""
        if context["params"]["action"] != self.task_id:
            raise AirflowSkipException(f"the run's form says: {context['params']['action']}")
        version = context["ti"].xcom_pull(task_ids=LIST)["version"]
        chosen_by, reason = choice(context), dismissed_for(context)
        chosen = ["--all"] if chosen_by["everything"] else []
        for flag in ("cause", "transaction", "message"):
            chosen += [part for entry in chosen_by[f"{flag}s"] for part in (f"--{flag}", entry)]
        if reason is not None:
            chosen += ["--reason", reason, "--by", _who(context)]
        self.application_args = [*(self.application_args or []), *chosen, "--version", str(version)]
        return super().execute(context)


class Outcome(PipelineTask):
    """Reports the outcome in the log and in the run's note; its result is the counts."""

    def execute(self, context: Context) -> dict[str, Any]:
        """Report the outcome, also where nothing was done."""
        from txloom.quality.dead_letters import dismissed_in_markdown

        instance, reason = context["ti"], dismissed_for(context)
        participle = "redriven" if reason is None else "dismissed"
        chosen = instance.xcom_pull(task_ids=LIST)
        person = answered(instance, APPROVE)
        done = instance.xcom_pull(task_ids=REDRIVE if reason is None else DISMISS)
        counts: dict[str, Any] = {participle: 0}
        if not chosen["events"]:
            page = f"Nothing was {participle}: no open dead letter was chosen."
        elif done is None:
            page = f"Nothing was {participle}: {person} refused."
        elif reason is not None:
            counts = {participle: int(done[participle])}
            page = dismissed_in_markdown(counts[participle], _who(context), reason)
        elif "landing" not in done:
            page = f"Nothing was {participle}: what was chosen was no longer open."
        else:
            page, counts = self._came(context, int(done["landing"]), int(done["last_landing"]))
            page = page if person is None else f"{page}\n\nApproved by {person}."
        self.log.info("%s", page)
        say(instance, page)
        return counts

    def _came(self, context: Context, first: int, last: int) -> tuple[str, dict[str, Any]]:
        from txloom.quality.dead_letters import outcome_in_markdown
        from txloom.steps.dead_letters import list_dead_letters

        outcome = list_dead_letters.outcome(self.step(context), first, last)
        dead = dict(outcome.dead)
        counts = {"redriven": outcome.total, "released": outcome.released, "waiting": outcome.waiting, "dead": dead}
        return outcome_in_markdown(outcome), {**counts, "still_poison": outcome.still_poison}


def choice(context: Context) -> dict[str, Any]:
    """Return the choice of the run's form: everything, or lists of causes, transactions and messages."""
    params = context["params"]
    everything = bool(params["everything"])
    return {
        "everything": everything,
        "causes": [] if everything else list(params["causes"] or []),
        "transactions": [] if everything else list(params["transactions"] or []),
        "messages": [] if everything else list(params["messages"] or []),
    }


def dismissed_for(context: Context) -> str | None:
    """Return the reason that the run's form gives for a dismissal; None for a redrive."""
    params = context["params"]
    return str(params["reason"] or "").strip() if params["action"] == DISMISS else None


def _who(context: Context) -> str:
    """Return who dismisses: the person who approved it, else the one who started the run."""
    run: Any = context["dag_run"]
    started = getattr(run, "triggering_user_name", None) or f"whoever started {run.run_id}"
    return answered(context["ti"], APPROVE) or str(started)


def listing_task(pipeline: Pipeline) -> Listing:
    """Return the task that lists dead letters."""
    return task_of(Listing, pipeline, LIST)


def approval_task(pipeline: Pipeline) -> Approval:
    """Return the task that asks a person."""
    subject = f"{{{{ params.action | capitalize }}}} dead letters of {pipeline.name}?"
    return question(pipeline, subject, LIST, DeadLettersApproval)


def approved_task(pipeline: Pipeline, action: str) -> SparkJob:
    """Return the task that redrives or dismisses what was approved."""
    return spark_job(pipeline, action, operator=Approved)


def outcome_task(pipeline: Pipeline) -> Outcome:
    """Return the task that reports the outcome; it also runs where a person refused."""
    return task_of(Outcome, pipeline, OUTCOME, trigger_rule="none_failed")
