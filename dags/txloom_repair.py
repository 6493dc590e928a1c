"""Repair of a pipeline: load the rows that an audit found to differ, as the source had them, and no others.

**When to use it.** An audit ended with `different`. See first why: the story of a row on the page says what the lake
was told of it. A cause that is still there makes other rows differ.

**What it does.** `list_rows` shows the rows of the newest audit, with both values; `approve` waits for a person. Then
`repair` reads each row at the source once more: a row that the source has is never deleted, and one of which the source
says something else by now is left out and named in the log. The others become one transaction at the audit's csn: what
the stream says of them later stands, what it says of before changes nothing any more. `buffer_transactions`,
`merge_current` and `publish` process it, and `audit` compares these tables once more, which closes the finding.

**The form.** `audit`: the run id of an audit; without it the newest of each table. `tables`: only these.
`approval: never` asks nobody. `allow_rows`: how many rows may be deleted or changed where that is more of a table than
`audit.repair.max_share`; the person who approves enters it with the answer.

**Undo.** `python jobs/repair.py --pipeline NAME --undo RUN_ID` with the id of this run; the next cycle merges it.

| you see | what it means | what to do |
|---|---|---|
| approve waits | a person has to answer: Required Actions | approve, or refuse: then nothing is loaded |
| list_rows is red (2) | the audit lists no rows of these tables | its log says of which it does |
| repair is red (2): refused | a large share of a table would go | look at the source; run again, enter the number |
| repair is red (12) | the database does not answer, or lags behind the audit | bring it back, clear the task |
| outcome: something else by now | the rows changed since the audit | audit again |
| outcome: rows cannot be read as declared | a value does not fit its column | correct the declaration, audit again |
| outcome: rows differ | their cause is still there, or an audit lists not all | see their stories; repair again |
"""

from typing import Any

from airflow.sdk import DAG, Param

from txloom.config import names
from txloom.config.models.pipeline import Pipeline
from txloom.orchestration import forms
from txloom.orchestration.approvals.repair_approval import (
    ALLOW_ROWS,
    ALLOWED,
    LIST,
    allow_rows,
    approval_task,
    listing_task,
    outcome_task,
)
from txloom.orchestration.forms import ALWAYS, NEVER
from txloom.orchestration.jobs import cuts_asset, spark_job
from txloom.orchestration.pipelines import begins, declared

CHOSEN = f"ti.xcom_pull(task_ids='{LIST}')"
AUDITS = f"--table={{{{ {CHOSEN}['audits'] | join(',') }}}}"
"""The rows that were approved: a newer audit may be there since."""
AGAIN = [
    f"--table={{{{ {CHOSEN}['tables'] | join(',') }}}}",
    f"--snapshot={{{{ {CHOSEN}['folder'] }}}}",
    f"--csn={{{{ {CHOSEN}['csn'] }}}}",
]
"""What was compared, and with what."""


def repair(pipeline: Pipeline) -> DAG:
    """Build the repair DAG of one pipeline."""
    tables = sorted(table.name for table in pipeline.tables if not table.insert_only)
    with DAG(
        dag_id=names.repair_dag_id(pipeline.name),
        schedule=None,
        start_date=begins(pipeline),
        catchup=False,
        max_active_runs=1,
        params={
            "audit": Param(
                None, title="Audit", description="Its run id; none: the newest", type=["string", "null"], minLength=1
            ),
            "tables": forms.tables(tables, "Whose rows are loaded; none: of all that differ"),
            ALLOW_ROWS: allow_rows("Rows that may go, where nobody is asked"),
            "approval": Param(ALWAYS, enum=[ALWAYS, NEVER], description="Whether a person is asked", title="Approval"),
        },
        tags=["txloom", pipeline.name, "repair"],
        description=f"{pipeline.name}: load the rows that an audit found to differ",
        doc_md=__doc__,
    ) as dag:
        loaded = spark_job(pipeline, "repair", arguments=[AUDITS, f"--allow-rows={ALLOWED}"])
        buffer, merge = (spark_job(pipeline, step) for step in ("buffer_transactions", "merge_current"))
        publish = spark_job(pipeline, "publish", outlets=[cuts_asset(pipeline)])
        # Outside the pipeline's pool: it may wait for a cut that the cycle publishes meanwhile. Where nothing was left
        # to publish, publish is skipped.
        aside: dict[str, Any] = {
            "pool": "default_pool",
            "priority_weight": 1,
            "trigger_rule": "none_failed_min_one_success",
        }
        audited = spark_job(pipeline, "audit", arguments=AGAIN, **aside)
        listing_task(pipeline) >> approval_task(pipeline) >> loaded >> buffer >> merge >> publish
        [merge, publish] >> audited >> outcome_task(pipeline)
    return dag


for declaration in declared():
    if declaration.audit is not None:
        globals()[names.repair_dag_id(declaration.name)] = repair(declaration)
