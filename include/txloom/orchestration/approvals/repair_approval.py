"""Tasks of the repair DAG: list the rows that an audit found to differ, ask for approval, report the outcome."""

from collections.abc import Mapping
from typing import Any

from airflow.sdk import Context, Param
from airflow.sdk.exceptions import AirflowSkipException

from txloom.config.models.pipeline import Pipeline
from txloom.errors import TxloomError, message_of
from txloom.orchestration.approvals.approval import APPROVE, Approval, PipelineTask, answered, question, task_of
from txloom.orchestration.failures import failure
from txloom.orchestration.notes import say

LIST, REPAIR, AUDIT, OUTCOME = "list_rows", "repair", "audit", "outcome"


class DifferingRows(PipelineTask):
    """Lists the rows that an audit found to differ, of the tables that the run's form names; its result is bounded."""

    def execute(self, context: Context) -> dict[str, Any]:
        """Return how many rows there are, their tables, the run ids of their audits, and a page in Markdown.

        folder, csn: those of the files that the audits compared them with, if any. The page names the number of rows
        that a person has to allow, where a large share of a table would be deleted or changed.

        Raises AirflowFailException where the audit lists no rows of these tables.
        """
        from txloom.quality.masking import secret_names
        from txloom.steps.audit.differing_rows import Chosen, chosen_tables, large_shares, markdown, snapshot_of

        params, step = context["params"], self.step(context)
        try:
            chosen = Chosen(params["audit"] or None, params["tables"])
            audits = chosen_tables(step.pipeline, step.paths, chosen)
            folder, csn = snapshot_of(audits) or ("", "")
            large = large_shares(step.pipeline, step.paths, audits)
        except TxloomError as error:
            raise failure(error.exit_code, message_of(LIST, error)) from error
        page = markdown(audits, secret_names(step.pipeline), large)
        self.log.info("%s", page)
        rows = sum(len(each.repairs) for each in audits)
        tables = {each.table: each.run_id for each in audits}
        about = {"rows": rows, "tables": list(tables), "markdown": page, "folder": folder, "csn": csn}
        return about | {"audits": [*map("=".join, tables.items())]}


ALLOW_ROWS = "allow_rows"
"""The field of the run's form, and of the approval, with the rows that may go above `audit.repair.max_share`."""
ALLOWED = (
    f"{{{{ ((ti.xcom_pull(task_ids='{APPROVE}') or {{}}).get('params_input') or {{}}).get('{ALLOW_ROWS}')"
    f" or params.{ALLOW_ROWS} or '' }}}}"
)
"""What was allowed: by the person who approved, else by the run's form; empty: nothing."""


def allow_rows(title: str) -> Param:
    """Return the form field for how many rows may be deleted or changed above `audit.repair.max_share`."""
    return Param(
        None,
        type=["integer", "null"],
        minimum=1,
        title=title,
        description="How many rows may be deleted or changed in tables of which that is a large share: the number that "
        "the listing names. Nothing: no more than audit.repair.max_share",
    )


class RepairApproval(Approval):
    """Asks a person, unless the run's form says never; where no row can be loaded, the rest of the run is skipped.

    The person enters how many rows may go where that is a large share of a table.
    """

    def execute(self, context: Context) -> Any:
        """Ask for approval, go on without, or raise AirflowSkipException where no row can be loaded."""
        if not context["ti"].xcom_pull(task_ids=LIST)["rows"]:
            raise AirflowSkipException("the audit lists no row that could be loaded: audit again")
        return super().execute(context)


class RepairOutcome(PipelineTask):
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
            counts = {name: int(done[name]) for name in ("rows", "changed_since", "left_out", "more")}
            page = f"**{counts['rows']} rows were loaded**{_left(counts)}."
            if seen is not None:
                counts |= {name: int(seen[name]) for name in ("differing", "unsettled", "behind")}
                counts["undecided"] = int(seen.get("undecided", 0))
                page += f"\n\nThe audit after it: {', '.join(_seen(counts))}."
            page += f"\n\nApproved by {person}." if person else ""
        self.log.info("%s", page)
        say(instance, page)
        return counts


def _left(counts: Mapping[str, int]) -> str:
    """Return which rows were left out, in words.

    >>> _left({"changed_since": 2, "left_out": 0}), _left({"changed_since": 0, "left_out": 0})
    ('; of 2 the source says something else by now (see the log of repair)', '')
    """
    parts = [f"of {counts['changed_since']} the source says something else by now"] if counts["changed_since"] else []
    parts += [f"{counts['left_out']} cannot be read as declared"] if counts["left_out"] else []
    return f"; {', '.join(parts)} (see the log of {REPAIR})" if parts else ""


def _seen(counts: Mapping[str, int]) -> list[str]:
    """Return what an audit says in words.

    >>> _seen({"differing": 0, "unsettled": 0, "behind": 0}), _seen({"differing": 0, "unsettled": 0, "behind": 2})
    (['0 rows differ'], ['2 rows may be on their way: no cut came in time that shows the moment of the audit'])
    """
    unsure = [f"{counts['unsettled']} rows were changed at every look"] if counts["unsettled"] else []
    late = "rows may be on their way: no cut came in time that shows the moment of the audit"
    unsure += [f"{counts['behind']} {late}"] if counts["behind"] else []
    undecided = counts.get("undecided", 0)
    unsure += [f"{undecided} tables could not be compared: see the log of {AUDIT}"] if undecided else []
    return [f"{counts['differing']} rows differ", *unsure] if counts["differing"] or not unsure else unsure


def listing_task(pipeline: Pipeline) -> DifferingRows:
    """Return the task that lists the rows."""
    return task_of(DifferingRows, pipeline, LIST)


def approval_task(pipeline: Pipeline) -> Approval:
    """Return the task that asks a person."""
    fields = {ALLOW_ROWS: allow_rows("Rows that may go")}
    return question(pipeline, f"Load these rows of {pipeline.name}?", LIST, RepairApproval, params=fields)


def outcome_task(pipeline: Pipeline) -> RepairOutcome:
    """Return the task that reports the outcome; it also runs where a person refused."""
    return task_of(RepairOutcome, pipeline, OUTCOME, trigger_rule="none_failed")
