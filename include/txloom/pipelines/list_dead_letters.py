"""list_dead_letters: what waits in dead_letters, by cause; and what came of what was redriven. Nothing is written."""

from collections.abc import Sequence

from txloom.config.models import Pipeline
from txloom.errors import ConfigurationError
from txloom.quality.letters import Fate, Listing, text
from txloom.storage import listing
from txloom.storage.place import Place


def list_dead_letters(
    _spark: object,
    pipeline: Pipeline,
    *,
    warehouse: str,
    run_id: str,  # noqa: ARG001 (every step takes it)
    transactions: Sequence[str] = (),
    causes: Sequence[str] = (),
) -> dict[str, int]:
    """Print the open dead letters, all or those chosen, and return how many they are."""
    found = chosen(pipeline, warehouse=warehouse, transactions=transactions, causes=causes, everything=False)
    if not (transactions or causes):
        found = everything(pipeline, warehouse=warehouse)
    print(text(found), flush=True)
    return {"events": found.events, "transactions": found.transactions, "causes": len(found.groups)}


def everything(pipeline: Pipeline, *, warehouse: str) -> Listing:
    """Return all open dead letters."""
    return listing.listing(Place(warehouse, pipeline.name))


def chosen(
    pipeline: Pipeline, *, warehouse: str, transactions: Sequence[str], causes: Sequence[str], everything: bool
) -> Listing:
    """Return the open dead letters of some transactions and causes; raises ConfigurationError where one has none."""
    place = Place(warehouse, pipeline.name)
    for what, asked in (("transaction", transactions), ("cause", causes)):
        for each in asked:
            own = {"transactions": [each], "causes": []} if what == "transaction" else {"causes": [each]}
            if not listing.listing(place, everything=False, **own).events:
                there = ", ".join(group.cause for group in listing.listing(place).groups) or "none"
                raise ConfigurationError(f"no open dead letter has the {what} {each!r}; causes are: {there}")
    return listing.listing(place, transactions=transactions, causes=causes, everything=everything)


def fate(pipeline: Pipeline, *, warehouse: str, landing: int) -> Fate:
    """Return what came of what a redrive landed."""
    return listing.fate(Place(warehouse, pipeline.name), landing)
