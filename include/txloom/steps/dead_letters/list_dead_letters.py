"""list_dead_letters: what waits in dead_letters, by cause; and what came of what was redriven. Nothing is written."""

import logging

from txloom.errors import ConfigurationError
from txloom.quality.dead_letters import ALL, DeadLetterOutcome, Listing, Selection, text
from txloom.steps.step import Counts, Step
from txloom.storage.dead_letters import listing

LOG = logging.getLogger(__name__)


def list_dead_letters(step: Step, selection: Selection = ALL) -> Counts:
    """Print the open dead letters, all or those chosen, and return how many they are."""
    listed = chosen(step, ALL if selection.is_empty else selection)
    LOG.info(text(listed))
    return {"events": listed.events, "transactions": listed.transactions, "causes": len(listed.groups)}


def refuse_no_choice(selection: Selection) -> None:
    """Raise ConfigurationError where nothing was chosen of what redrive and dismiss are to take."""
    if selection.is_empty:
        raise ConfigurationError("nothing was chosen: pass --transaction, --cause, --message or --all")


def chosen(step: Step, selection: Selection) -> Listing:
    """Return the open dead letters that were chosen.

    Raises ConfigurationError for a transaction, a cause or a position that none of them has.
    """
    single = [("transaction", each, Selection(transactions=[each])) for each in selection.transactions]
    single += [("cause", each, Selection(causes=[each])) for each in selection.causes]
    single += [("place", each, Selection(messages=[each])) for each in selection.messages]
    for noun, each, alone in single:
        if not listing.listing(step.paths, alone).events:
            there = ", ".join(group.cause for group in listing.listing(step.paths).groups) or "none"
            raise ConfigurationError(f"no open dead letter has the {noun} {each!r}; causes are: {there}")
    return listing.listing(step.paths, selection, source_format=step.pipeline.source.format)


def outcome(step: Step, first: int, last: int) -> DeadLetterOutcome:
    """Return what came of what a redrive landed, from its first landing to its last."""
    return listing.outcome(step.paths, first, last)
