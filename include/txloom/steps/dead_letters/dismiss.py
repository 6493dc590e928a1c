"""dismiss: close dead letters by name, so that nobody is reminded of what needs no redrive."""

from datetime import UTC, datetime

from txloom.errors import ConfigurationError
from txloom.quality.dead_letters import Selection
from txloom.steps.dead_letters.list_dead_letters import chosen, refuse_no_choice
from txloom.steps.step import Counts, Step
from txloom.storage.dead_letters import dismissals
from txloom.storage.dead_letters.dismissals import Dismissal
from txloom.storage.dead_letters.listing import among


def dismiss(step: Step, selection: Selection, *, person: str, reason: str, reopen: bool = False) -> Counts:
    """Dismiss the open dead letters that were chosen, or reopen them: take their dismissals back.

    The dead letters stay, with who dismissed them, why and when; a transaction among them stays a gap of the cuts. What
    comes for it later is a dead letter again, or makes it whole. A run that is repeated dismisses nothing more. Raises
    ConfigurationError for an id, a cause or a position that no open dead letter has, and for a dismissal without a name
    or a reason.
    """
    refuse_no_choice(selection)
    if not person.strip() or not reason.strip():
        raise ConfigurationError("a dismissal needs a name and a reason: whoever asks later is shown them")
    paths, where = step.paths, among(selection)
    if reopen:
        return {"reopened": dismissals.reopen(paths, where, step.run_id)}
    if done := dismissals.of_run(paths, step.run_id):
        return {"dismissed": done}
    chosen(step, selection)
    dismissal = Dismissal(person.strip(), reason.strip(), step.run_id, datetime.now(UTC))
    return {"dismissed": dismissals.dismiss(paths, where, selection.version, dismissal)}
