"""What the source held, typed, as of any csn; documents stand under the name of their table."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from oracle import comparison, documents, values
from workloads.sources.database import Sent, State
from workloads.sources.shapes import Shape

DOCUMENTS = "doc_current"
Rows = dict[tuple[Any, ...], dict[str, Any]]


def held(made: Shape, state: State) -> dict[str, Any]:
    """Return the typed rows and documents of a state."""
    rows_held: dict[str, Any] = dict(values.typed_state(state, made.tables))
    for name, table in made.tables.items():
        if not table.key:
            rows_held[name] = keyed([values.typed_row(row, table) for row in state[name].values()], ())
    if made.aggregate is not None:
        nested = documents.documents(state, made.aggregate, made.tables)
        rows_held[DOCUMENTS] = values.typed_documents(nested, made.tables, made.aggregate)
    return rows_held


def keyed(rows: Iterable[Mapping[str, Any]], key: tuple[str, ...]) -> Rows:
    """Return rows under their key; those of a table without one under all that they hold, equal ones numbered."""
    if key:
        return comparison.keyed(rows, key)
    by_key, seen = Rows(), Counter[str]()
    for row in rows:
        plain = {name: value for name, value in row.items() if not name.startswith("_txloom_")}
        text = repr(sorted((name, _written(value)) for name, value in plain.items()))
        seen[text] += 1
        by_key[text, seen[text]] = plain
    return by_key


def _written(value: Any) -> str:
    """Write a value; a moment is the same whatever its zone is called."""
    return repr(value.astimezone(UTC) if isinstance(value, datetime) and value.tzinfo else value)


def expected_tables(made: Shape, sent: Sequence[Sent], csn: int) -> dict[str, Any]:
    """Return what the source held as of a csn."""
    empty: State = {name: {} for name in made.tables}
    return held(made, next((each.state for each in reversed(sent) if each.csn <= csn), empty))


def keys(made: Shape) -> dict[str, tuple[str, ...]]:
    """Return the key of every table, and of the documents."""
    key_columns = {name: table.key for name, table in made.tables.items()}
    if made.aggregate is not None:
        key_columns[DOCUMENTS] = made.tables[made.aggregate.root].key
    return key_columns
