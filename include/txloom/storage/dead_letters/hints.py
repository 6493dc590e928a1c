"""What to do about each cause of dead letters; the list is closed."""

from txloom.events import change_events, rejections, source_names
from txloom.events.debezium import messages
from txloom.events.wal2json import decoder
from txloom.transactions import causes

HINTS = {
    **rejections.HINTS,
    **decoder.HINTS,
    **messages.HINTS,
    **change_events.HINTS,
    **source_names.HINTS,
    **causes.HINTS,
}
"""By cause, a sentence for the person on call."""
_OF_FORMAT = {"goldengate": causes.GOLDENGATE_HINTS, "debezium": causes.DEBEZIUM_HINTS}


def hints_for(source_format: str | None) -> dict[str, str]:
    """Return the hints by cause as they fit a source format; None: whatever the format."""
    return {**HINTS, **_OF_FORMAT.get(source_format or "", {})}
