"""Texts of a source as a terminal may show them: control characters are escaped."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from rich.text import Text

from txloom.storage.views.paging import plain

NOTHING = "-"
COLORS = {"red": "bold red", "amber": "bold yellow", "green": "bold green", "grey": "bright_black"}


def safe(text: str) -> str:
    r"""Return a text on one line; what is not printable, or changes the direction of writing, is shown by its escape.

    >>> safe("a\x1b[31mb\u202ec\n[red]")
    'a\\x1b[31mb\\u202ec\\n[red]'
    """
    return "".join(sign if sign.isprintable() else sign.encode("unicode_escape").decode() for sign in text)


def shown(value: Any, style: str = "") -> Text:
    """Return any value as a rich Text, so that markup in it is not interpreted."""
    return Text(shown_value(value), style=style, overflow="fold")


def shown_value(value: Any) -> str:
    """Return any value as text.

    >>> shown_value({"lines": 2}), shown_value(None), shown_value([])
    ('lines 2', '-', '-')
    """
    if value is None or value in ({}, [], (), ""):
        return NOTHING
    if isinstance(value, datetime):
        return moment(value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        return ", ".join(f"{safe(str(name))} {shown_value(simple)}" for name, simple in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(shown_value(simple) for simple in value)
    simple = plain(value)
    return safe(simple if isinstance(simple, str) else json.dumps(simple, ensure_ascii=False))


def values(row: Mapping[str, Any] | None) -> str:
    """Return columns with their values, texts in quotes where they would be ambiguous.

    >>> values({"id": 1, "note": "a, b=c", "gone": None})
    'id=1, note="a, b=c", gone=null'
    """
    if row is None:
        return "no row"
    return ", ".join(f"{safe(name)}={one_value(member)}" for name, member in row.items()) or NOTHING


def one_value(value: Any) -> str:
    """Return the value of a column as text, in quotes where it would be ambiguous.

    >>> one_value(None), one_value(""), one_value("null"), one_value("x"), one_value('say "no"')
    ('null', '""', '"null"', 'x', '"say \\\\"no\\\\""')
    """
    simple = plain(value)
    if isinstance(simple, str) and simple != "null" and simple and not any(sign in simple for sign in " ,='\""):
        return safe(simple)
    return safe(json.dumps(simple, ensure_ascii=False))


def moment(at: datetime | None) -> str:
    """Return a time in UTC, to the second; a dash for None."""
    if at is None:
        return NOTHING
    return f"{(at.astimezone(UTC) if at.tzinfo else at):%Y-%m-%d %H:%M:%S}" + (" UTC" if at.tzinfo else "")


def age(seconds: float | None) -> str:
    """Return a duration in its largest whole unit.

    >>> age(59), age(60), age(7300), age(200_000), age(-5), age(None)
    ('59 s', '1 min', '2 h', '2 d', '0 s', '-')
    """
    if seconds is None:
        return NOTHING
    whole = max(0, int(seconds))
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if whole >= size:
            return f"{whole // size} {unit}"
    return f"{whole} s"


def ago(at: datetime | None, now: datetime) -> str:
    """Return the age of a time; a dash for None."""
    return NOTHING if at is None else f"{age((now - at).total_seconds())} ago"
