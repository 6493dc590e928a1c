"""list_dead_letters: what waits in dead_letters, by cause; and what came of what was redriven. Nothing is written."""

from collections.abc import Sequence
from typing import Any

from txloom.config.models.pipeline import Pipeline
from txloom.errors import ConfigurationError
from txloom.quality.dead_letters import DeadLetterOutcome, Listing, text
from txloom.storage.dead_letters import listing
from txloom.storage.paths import TablePaths


def list_dead_letters(
    _spark: object,
    pipeline: Pipeline,
    *,
    warehouse: str,
    run_id: str,  # noqa: ARG001 (every step takes it)
    transactions: Sequence[str] = (),
    causes: Sequence[str] = (),
    messages: Sequence[str] = (),
) -> dict[str, int]:
    """Print the open dead letters, all or those chosen, and return how many they are."""
    if transactions or causes or messages:
        selection = {"transactions": transactions, "causes": causes, "messages": messages}
        listed = chosen(pipeline, warehouse=warehouse, everything=False, **selection)
    else:
        listed = everything(pipeline, warehouse=warehouse)
    print(text(listed), flush=True)
    return {"events": listed.events, "transactions": listed.transactions, "causes": len(listed.groups)}


def refuse_no_choice(*chosen: object) -> None:
    """Raise ConfigurationError where nothing was chosen of what redrive and dismiss are to take."""
    if not any(chosen):
        raise ConfigurationError("nothing was chosen: pass --transaction, --cause, --message or --all")


def everything(pipeline: Pipeline, *, warehouse: str) -> Listing:
    """Return all open dead letters."""
    return listing.listing(TablePaths(warehouse, pipeline.name), source_format=pipeline.source.format)


def chosen(
    pipeline: Pipeline,
    *,
    warehouse: str,
    transactions: Sequence[str] = (),
    causes: Sequence[str] = (),
    messages: Sequence[str] = (),
    everything: bool = False,
) -> Listing:
    """Return the open dead letters of some transactions and causes, and at some places.

    Raises ConfigurationError where one has none.
    """
    paths = TablePaths(warehouse, pipeline.name)
    selection = {"transactions": transactions, "causes": causes, "messages": messages}
    for kind, noun in (("transactions", "transaction"), ("causes", "cause"), ("messages", "place")):
        for each in selection[kind]:
            alone: dict[str, Any] = {kind: [each]}
            if not listing.listing(paths, everything=False, **alone).events:
                there = ", ".join(group.cause for group in listing.listing(paths).groups) or "none"
                raise ConfigurationError(f"no open dead letter has the {noun} {each!r}; causes are: {there}")
    return listing.listing(paths, everything=everything, source_format=pipeline.source.format, **selection)


def outcome(pipeline: Pipeline, *, warehouse: str, landing: int, last_landing: int) -> DeadLetterOutcome:
    """Return what came of what a redrive landed, from its first landing to its last."""
    return listing.outcome(TablePaths(warehouse, pipeline.name), landing, last_landing)
