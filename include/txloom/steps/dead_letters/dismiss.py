"""dismiss: close dead letters that need no redrive, with a name and a reason; alerts no longer count them."""

from datetime import UTC, datetime

from txloom.errors import ConfigurationError
from txloom.quality.dead_letters import Selection
from txloom.steps.dead_letters.list_dead_letters import list_open, refuse_no_choice
from txloom.steps.step import Counts, Step
from txloom.storage.dead_letters import dismissals
from txloom.storage.dead_letters.dismissals import Dismissal
from txloom.storage.dead_letters.listing import among


def dismiss(step: Step, selection: Selection, *, person: str, reason: str, reopen: bool = False) -> Counts:
    """Dismiss chosen open dead letters, or reopen them: remove their dismissals.

    The dead letters stay, with who dismissed them, why and when, and a transaction among them stays a gap of the cuts.
    Events that come for it later are dead letters again, or make it whole. A repeated run dismisses nothing more.

    Args:
        step: the pipeline, its tables and the run.
        selection: which dead letters.
        person: who dismisses them.
        reason: why.
        reopen: remove the dismissals of the chosen dead letters instead.

    Returns:
        dismissed, or reopened: the number of dead letters.

    Raises:
        ConfigurationError: for an id, a cause or a position that no open dead letter has, without a choice, and without
            a name or a reason.
    """
    refuse_no_choice(selection)
    if not person.strip() or not reason.strip():
        raise ConfigurationError("a dismissal needs a name and a reason: whoever asks later is shown them")
    paths, where = step.paths, among(selection)
    if reopen:
        return {"reopened": dismissals.reopen(paths, where, step.run_id)}
    if done := dismissals.of_run(paths, step.run_id):
        return {"dismissed": done}
    list_open(step, selection)
    dismissal = Dismissal(person.strip(), reason.strip(), step.run_id, datetime.now(UTC))
    return {"dismissed": dismissals.dismiss(paths, where, selection.version, dismissal)}
