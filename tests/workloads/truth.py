"""What the source held, typed, as of any csn; documents stand under the name of their table."""

from collections.abc import Sequence
from typing import Any

from oracle import documents, values
from workloads.database import Sent, State
from workloads.shapes import Shape

DOCUMENTS = "doc_current"


def held(made: Shape, state: State) -> dict[str, Any]:
    """Return the typed rows and documents of a state."""
    found: dict[str, Any] = dict(values.typed_state(state, made.tables))
    if made.aggregate is not None:
        nested = documents.documents(state, made.aggregate, made.tables)
        found[DOCUMENTS] = values.typed_documents(nested, made.tables, made.aggregate)
    return found


def wanted(made: Shape, sent: Sequence[Sent], csn: int) -> dict[str, Any]:
    """Return what the source held as of a csn."""
    empty: State = {name: {} for name in made.tables}
    return held(made, next((each.state for each in reversed(sent) if each.csn <= csn), empty))


def keys(made: Shape) -> dict[str, tuple[str, ...]]:
    """Return the key of every table, and of the documents."""
    found = {name: table.key for name, table in made.tables.items()}
    if made.aggregate is not None:
        found[DOCUMENTS] = made.tables[made.aggregate.root].key
    return found
