"""list_dead_letters: open dead letters by cause, and the outcome of a redrive. Nothing is written."""

import logging

from txloom.errors import ConfigurationError
from txloom.quality.dead_letters import ALL, DeadLetterOutcome, Listing, Selection, text
from txloom.steps.step import Counts, Step
from txloom.storage.dead_letters import listing

LOG = logging.getLogger(__name__)


def list_dead_letters(step: Step, selection: Selection = ALL) -> Counts:
    """Log the open dead letters, all or the chosen ones.

    Args:
        step: the pipeline, its tables and the run.
        selection: which dead letters; an empty one: all.

    Returns:
        events, transactions and causes: how many there are.

    Raises:
        ConfigurationError: as `list_open` does.
    """
    listed = list_open(step, ALL if selection.is_empty else selection)
    LOG.info(text(listed))
    return {"events": listed.events, "transactions": listed.transactions, "causes": len(listed.groups)}


def refuse_no_choice(selection: Selection) -> None:
    """Raise ConfigurationError for an empty selection: redrive and dismiss need a choice."""
    if selection.is_empty:
        raise ConfigurationError("nothing was chosen: pass --transaction, --cause, --message or --all")


def list_open(step: Step, selection: Selection) -> Listing:
    """Return the chosen open dead letters, by cause.

    Args:
        step: the pipeline and its tables.
        selection: which dead letters.

    Raises:
        ConfigurationError: for a transaction, a cause or a position that no open dead letter has.
    """
    single = [("has the transaction", each, Selection(transactions=[each])) for each in selection.transactions]
    single += [("has the cause", each, Selection(causes=[each])) for each in selection.causes]
    single += [("is at position", each, Selection(messages=[each])) for each in selection.messages]
    for relation, each, alone in single:
        if not listing.listing(step.paths, alone).events:
            there = ", ".join(group.cause for group in listing.listing(step.paths).groups) or "none"
            raise ConfigurationError(f"no open dead letter {relation} {each!r}; causes are: {there}")
    return listing.listing(step.paths, selection, source_format=step.pipeline.source.format)


def outcome(step: Step, first: int, last: int) -> DeadLetterOutcome:
    """Return the outcome of what a redrive landed, from its first landing to its last."""
    return listing.outcome(step.paths, first, last)
