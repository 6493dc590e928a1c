"""What can be done about each cause of dead letters; the list is closed."""

from txloom.events import causes as poison
from txloom.events import change_events, debezium_messages, source_names, wal2json
from txloom.transactions import causes

HINTS = {
    **poison.HINTS,
    **wal2json.HINTS,
    **debezium_messages.HINTS,
    **change_events.HINTS,
    **source_names.HINTS,
    **causes.HINTS,
}
"""A sentence for the person on call, by cause."""
_OF_FORMAT = {"goldengate": causes.GOLDENGATE_HINTS, "debezium": causes.DEBEZIUM_HINTS}


def hints_for(source_format: str | None) -> dict[str, str]:
    """Return the hints as they fit a source's format; None: whatever it is."""
    return {**HINTS, **_OF_FORMAT.get(source_format or "", {})}
