"""Values as the page shows them: escaped text, times in UTC with their age, numbers with commas."""

import json
import unicodedata
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

from markupsafe import Markup, escape

from txloom.storage.views.paging import plain

LONGEST = 1_000
"""Characters of a value that are shown; a longer one shows its length too."""
UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))
UNSEEN = ("Cc", "Cf", "Co", "Cs", "Zl", "Zp")
"""Unicode categories of invisible characters: control characters, right-to-left marks, joiners, private ones."""


def visible(text: object, longest: int = LONGEST) -> Markup:
    r"""Return a text of the source as escaped HTML; invisible characters are shown by their code point.

    >>> visible("<b>\u202eno")
    Markup('&lt;b&gt;<span class="sign">U+202E</span>no')
    """
    whole = str(text)
    first = whole[:longest]
    plainly = first.replace("\n", "").isprintable()
    parts = [escape(first)] if plainly else [_sign(s) if _is_unseen(s) else escape(s) for s in first]
    more = f'<span class="more"> … {len(whole):,} characters</span>' if len(whole) > longest else ""
    return Markup("").join(parts) + Markup(more)


def _is_unseen(sign: str) -> bool:
    return sign != "\n" and unicodedata.category(sign) in UNSEEN


def _sign(sign: str) -> Markup:
    return Markup('<span class="sign">U+{:04X}</span>').format(ord(sign))


def value(raw: Any) -> Markup:
    """Return a value of a row as HTML: null, numbers, times and nested values as people read them.

    >>> value(None), value(Decimal("1.50")), value(["a"])
    (Markup('<span class="null">null</span>'), Markup('1.50'), Markup('[&#34;a&#34;]'))
    """
    if raw is None:
        return Markup('<span class="null">null</span>')
    if isinstance(raw, bool):
        return Markup("true" if raw else "false")
    if isinstance(raw, datetime):
        return escape(_instant(raw))
    if isinstance(raw, bytes):
        return visible(f"0x{raw.hex()}")
    if isinstance(raw, int | float | Decimal | date | time):
        return escape(str(raw))
    if isinstance(raw, list | tuple | dict):
        return visible(json.dumps(plain(raw), ensure_ascii=False))
    return visible(raw) if raw != "" else Markup('<span class="null">empty text</span>')


def _instant(at: datetime) -> str:
    shown = at if at.tzinfo is None else at.astimezone(UTC)
    return shown.isoformat(" ") if at.tzinfo is None else f"{shown:%Y-%m-%d %H:%M:%S} UTC"


def count(number: int | None) -> str:
    """Return a number with commas; a dash for None.

    >>> count(10000), count(None)
    ('10,000', '-')
    """
    return "-" if number is None else f"{number:,}"


def many(number: int, one: str, more: str = "") -> str:
    """Return a number with its noun.

    >>> many(1, "transaction"), many(2000, "transaction"), many(2, "entry", "entries")
    ('1 transaction', '2,000 transactions', '2 entries')
    """
    return f"{number:,} {one if number == 1 else more or one + 's'}"


def span(seconds: float | None) -> str:
    """Return a duration in its two largest units; from ten minutes on without seconds.

    >>> span(59), span(127), span(725), span(3_725), span(90_000), span(None)
    ('59 s', '2 min 7 s', '12 min', '1 h 2 min', '1 d 1 h', '-')
    """
    if seconds is None:
        return "-"
    left = max(0, int(seconds))
    left -= left % 60 if left >= 600 else 0
    parts: list[str] = []
    for size, unit in UNITS:
        if left >= size and len(parts) < 2:
            parts.append(f"{left // size} {unit}")
            left %= size
        elif parts:
            break
    return " ".join(parts) or "0 s"


def moment(at: datetime | None) -> Markup:
    """Return a time in UTC as HTML."""
    if at is None:
        return Markup('<span class="null">never</span>')
    return Markup('<time datetime="{}">{}</time>').format(at.astimezone(UTC).isoformat(), _instant(at))


def ago(at: datetime | None, now: datetime) -> Markup:
    """Return the age of a time as HTML, with the time as its title; the page's script updates it."""
    if at is None:
        return Markup('<span class="null">never</span>')
    text = f"{span((now - at).total_seconds())} ago"
    mark = '<time class="ago" datetime="{}" title="{}">{}</time>'
    return Markup(mark).format(at.astimezone(UTC).isoformat(), _instant(at), text)
