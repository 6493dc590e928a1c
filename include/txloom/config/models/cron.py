"""Schedules: five cron fields, or one of Airflow's presets."""

import re
from typing import Any

from txloom.config.problems import Unfit, counted

CONTINUOUS = "@continuous"
PRESETS = ("@hourly", "@daily", "@weekly", "@monthly", "@quarterly", "@yearly")
EXPECTED = "a cron schedule such as '*/15 * * * *'"
MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_MONTHS = {name: n for n, name in enumerate(MONTHS, 1)}
_DAYS = {name: n for n, name in enumerate(DAYS)}
_FIELDS: tuple[tuple[str, int, int, dict[str, int]], ...] = (
    ("minute", 0, 59, {}),
    ("hour", 0, 23, {}),
    ("day of the month", 1, 31, {}),
    ("month", 1, 12, _MONTHS),
    ("day of the week", 0, 7, _DAYS),
)
_FIELD = re.compile(r"(?:\*|(\w+)(?:-(\w+))?)(?:/(\d+))?")
_LONGEST = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


def parse_schedule(value: Any) -> str:
    """Return a checked cron schedule, or `@continuous`, which begins a run when the previous one has ended.

    >>> parse_schedule("@continuous")
    '@continuous'
    """
    return CONTINUOUS if value == CONTINUOUS else parse_cron(value)


def parse_cron(value: Any) -> str:
    """Return a cron schedule after checking each of its fields; raises Unfit if it is not one.

    >>> parse_cron("*/15 8-18 * * mon-fri")
    '*/15 8-18 * * mon-fri'
    """
    if not isinstance(value, str):
        raise Unfit(EXPECTED)
    if value in PRESETS:
        return value
    fields = value.split()
    if len(fields) != len(_FIELDS):
        hint = f"It has {counted(len(fields), 'field')}, not five: minute, hour, day, month, day of the week."
        if value.startswith("@"):
            hint = f"Names that Airflow knows: {', '.join(PRESETS)}."
        raise Unfit(EXPECTED, hint)
    _, _, days, months, weekdays = (_values(text, *field) for text, field in zip(fields, _FIELDS, strict=True))
    if len(weekdays) >= 7 and min(days) > max(_LONGEST[month - 1] for month in months):
        raise Unfit("a cron schedule that comes to pass", "No such month has that day.")
    return value


def _values(text: str, field: str, low: int, high: int, names: dict[str, int]) -> set[int]:
    """Return the numbers that one field stands for; raises Unfit for a field that is not valid."""
    values: set[int] = set()
    for part in text.split(","):
        match = _FIELD.fullmatch(part)
        if match is None:
            raise Unfit(EXPECTED, f"Its {field} is not a number, a range, a list or a step.")
        first, last, step = match.groups()
        start = low if first is None else _number(first, names)
        end = high if first is None or (last is None and step) else _number(last or first, names)
        if not (low <= start <= high and low <= end <= high):
            raise Unfit(EXPECTED, f"Its {field} must lie between {low} and {high}.")
        if start > end or (step is not None and not 0 < int(step) <= high):
            raise Unfit(EXPECTED, f"Its {field} has an empty range or step.")
        values.update(range(start, end + 1, int(step or 1)))
    return values


def _number(text: str, names: dict[str, int]) -> int:
    return int(text) if text.isascii() and text.isdigit() else names.get(text.lower(), -1)
