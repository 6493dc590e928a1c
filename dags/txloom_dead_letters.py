"""Dead letters of a pipeline: list them by cause, redrive or dismiss what a person approves, report the outcome.

**What it does.** `list_dead_letters` shows what is open, by cause, with what to do about it and the positions of the
first few (their payload stays in the table). `approve` waits for a person, who sees exactly what would be redriven.
`redrive` lands that once more and nothing else; buffer, merge and publish process it; `outcome` writes into the run's
note which transactions were released, and which are dead again with which cause. `dismiss` closes by name what needs no
redrive: nobody gets reminders of it any more, nothing else changes.

**Before you start it,** repair what the cause names: send what is missing, correct the counts, or the declaration. A
redrive without a repair changes nothing: the transaction is dead again, with the same cause.

**Dismiss** a message that could not be read and was sent again whole, or a transaction that nobody can repair. The
dead letters stay in the table dead_letters, the table dismissals records who dismissed them and why, and cuts go on
listing such a transaction as a gap. What comes for it later makes it whole, or is a dead letter again.

**The form.** `action`: redrive or dismiss, which needs a `reason`. `causes`, one a line, as the listing names them;
`transactions`, ids of the table dead_letters; `messages`, their positions as in the listing (`rows/7.jsonl, line 3`, or
`rows[0] at offset 7`); or `everything`. With none of them the run only lists. `approval: never` asks nobody.

| you see | what it means | what to do |
|---|---|---|
| approve waits | a person has to answer: Required Actions | approve, or refuse: then nothing is redriven |
| approve is skipped | nothing was chosen, or there is nothing | the log of list_dead_letters shows what is open |
| list_dead_letters is red (2) | no open dead letter has the cause, id or position; no reason | its log says which |
| redrive is red (2) | somebody else redrove it meanwhile | start again, with the list as it is now |
| outcome: dead again | the repair was not enough | its cause says what is still wrong |
"""

from typing import Any

from airflow.sdk import DAG, Param

from txloom.config import names
from txloom.config.models.pipeline import Pipeline
from txloom.orchestration.approvals.dead_letter_approval import (
    DISMISS,
    REDRIVE,
    approval_task,
    approved_task,
    listing_task,
    outcome_task,
)
from txloom.orchestration.forms import ALWAYS, NEVER
from txloom.orchestration.jobs import cuts_asset, spark_job
from txloom.orchestration.pipelines import begins, declared

TEXTS: dict[str, Any] = {"type": ["array", "null"], "items": {"type": "string", "minLength": 1}, "maxItems": 1000}


def letters(pipeline: Pipeline) -> DAG:
    """Build the dead letters DAG of one pipeline."""
    with DAG(
        dag_id=names.dead_letters_dag_id(pipeline.name),
        schedule=None,
        start_date=begins(pipeline),
        catchup=False,
        max_active_runs=1,
        tags=["txloom", pipeline.name, "dead letters"],
        description=f"{pipeline.name}: list dead letters, redrive or dismiss what a person approves",
        doc_md=__doc__,
        params={
            "action": Param(REDRIVE, enum=[REDRIVE, DISMISS], description="What is done with them", title="Action"),
            "reason": Param(None, type=["string", "null"], description="Why they are dismissed", title="Reason"),
            "causes": Param([], description="Causes, one a line", title="Causes", **TEXTS),
            "transactions": Param([], description="Ids of transactions, one a line", title="Transactions", **TEXTS),
            "messages": Param([], description="Their positions as listed, one a line", title="Messages", **TEXTS),
            "everything": Param(False, type="boolean", description="All that is open", title="Everything"),
            "approval": Param(ALWAYS, enum=[ALWAYS, NEVER], description="Whether a person is asked", title="Approval"),
        },
    ) as dag:
        again = [spark_job(pipeline, step) for step in ("buffer_transactions", "merge_current")]
        publish = spark_job(pipeline, "publish", outlets=[cuts_asset(pipeline)])
        listed, approved = listing_task(pipeline), approval_task(pipeline)
        redriven, outcome = approved_task(pipeline, REDRIVE), outcome_task(pipeline)
        listed >> approved >> redriven >> again[0] >> again[1] >> publish >> outcome
        approved >> approved_task(pipeline, DISMISS) >> outcome
    return dag


for declaration in declared():
    globals()[names.dead_letters_dag_id(declaration.name)] = letters(declaration)
