"""dismiss: settle dead letters by name, so that nobody is reminded of what needs no redrive."""

from collections.abc import Sequence
from datetime import UTC, datetime

from txloom.config.models.pipeline import Pipeline
from txloom.errors import ConfigurationError
from txloom.steps.dead_letters.list_dead_letters import chosen, refuse_no_choice
from txloom.storage.dead_letters import dismissals
from txloom.storage.dead_letters.listing import among
from txloom.storage.paths import TablePaths


def dismiss(
    _spark: object,
    pipeline: Pipeline,
    *,
    warehouse: str,
    run_id: str,
    person: str,
    reason: str,
    transactions: Sequence[str] = (),
    causes: Sequence[str] = (),
    messages: Sequence[str] = (),
    everything: bool = False,
    version: int | None = None,
    reopen: bool = False,
) -> dict[str, int]:
    """Settle open dead letters of some transactions and causes, at some places, or all; or reopen them.

    The letters stay, with who settled them, why and when; a transaction among them stays a gap of the cuts. What comes
    for it later is a dead letter again, or makes it whole. A run that is repeated settles nothing more. version: only
    what this version of dead_letters has, which somebody approved. Raises ConfigurationError for an id, a cause or a
    place that no open dead letter has, and for a dismissal without a name or a reason.
    """
    refuse_no_choice(transactions, causes, messages, everything)
    if not person.strip() or not reason.strip():
        raise ConfigurationError("a dismissal needs a name and a reason: whoever asks later is shown them")
    paths = TablePaths(warehouse, pipeline.name)
    selection = {"transactions": transactions, "causes": causes, "messages": messages}
    where = "true" if everything else among(**selection)
    if reopen:
        return {"reopened": dismissals.reopen(paths, where, run_id)}
    if done := dismissals.of_run(paths, run_id):
        return {"dismissed": done}
    chosen(pipeline, warehouse=warehouse, everything=everything, **selection)
    said = {"person": person.strip(), "reason": reason.strip(), "run_id": run_id}
    return {"dismissed": dismissals.dismiss(paths, where, version, at=datetime.now(UTC), **said)}
