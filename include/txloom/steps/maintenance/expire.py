"""expire: forget what is older than the declaration wants it kept; nothing that a decision still needs goes."""

from datetime import UTC, datetime

from txloom.steps.step import Step
from txloom.storage.checks import results
from txloom.storage.maintenance import expiry
from txloom.storage.runs import result_files


def expire(step: Step) -> dict[str, int]:
    """Take old messages, accounts of runs and replaced checkpoints away; return how many of each."""
    now, maintenance, paths = datetime.now(UTC), step.pipeline.maintenance, step.paths
    keep = maintenance.change_events.keep
    landing = 0 if keep is None else expiry.expired_landing(paths, now - keep)
    reports = now - maintenance.reports.keep
    return {
        "messages": expiry.forget_messages(step.spark, paths, landing) if landing else 0,
        "landing": landing,
        "ledger": expiry.shorten_ledger(paths, reports),
        "reports": expiry.drop_reports(paths, reports),
        "pages": results.drop_pages(paths, reports),
        "runs": result_files.drop(paths, reports),
        "checkpoints": expiry.drop_checkpoints(paths, maintenance.vacuum.retain),
    }
