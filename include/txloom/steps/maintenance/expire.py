"""expire: remove rows and files that are older than the declaration keeps, unless a decision still needs them."""

from datetime import UTC, datetime

from txloom.config import names
from txloom.steps.step import Step
from txloom.storage.buffer.newest_batch import buffer_state
from txloom.storage.dead_letters import open_letters
from txloom.storage.maintenance import expiry, forgotten_messages
from txloom.storage.snapshots import rows_ahead


def expire(step: Step) -> dict[str, int]:
    """Remove old messages, ledger rows, reports, result files and replaced checkpoints; note what is open.

    A repeated call removes nothing more.

    Returns:
        How many of each were removed; landing: the last one whose messages were removed, release: the last one that was
        looked at for that.
    """
    now, maintenance, paths = datetime.now(UTC), step.pipeline.maintenance, step.paths
    keep = maintenance.change_events.keep
    seen = buffer_state(paths)
    landing = messages = 0
    if keep is not None:
        since = forgotten_messages.forgotten(paths)
        landing = expiry.expired_landing(paths, now - keep, since.landing)
        if landing and (waiting := rows_ahead.waiting(step.pipeline, paths)):
            landing = min(landing, waiting[0].landing - 1)
        if landing:
            messages = forgotten_messages.forget_messages(lambda: step.spark, paths, landing, now - keep, since)
    open_letters.remember(paths)
    reports = now - maintenance.reports.keep
    return {
        "messages": messages,
        "landing": landing,
        "release": 0 if seen is None or not landing else seen.release,
        "ledger": expiry.shorten_ledger(paths, reports),
        "reports": expiry.drop_reports(paths, reports),
        "pages": expiry.drop_run_folders(paths, names.REPORTS, reports),
        "runs": expiry.drop_run_folders(paths, names.RUNS, reports),
        "checkpoints": expiry.drop_checkpoints(paths, maintenance.vacuum.retain),
    }
