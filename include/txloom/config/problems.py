"""Problems of a declaration as messages: file and line, the value, what was expected, and a hint."""

from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

LONGEST_TEXT = 60
"""The most characters of a text from the declaration that a message repeats."""


class Unfit(ValueError):
    """A value does not fit its field of the declaration."""

    def __init__(self, expected: str, hint: str = "") -> None:
        """Store what was expected and a hint; the caller, who knows the item, adds the value and its line."""
        super().__init__(f"expected {expected}. {hint}".strip())
        self.expected = expected
        self.hint = hint


@dataclass(frozen=True, order=True)
class Problem:
    """One mistake in a declaration; `str` gives the message that people read.

    >>> print(Problem("orders.yaml", 7, "completeness.rule", "'count'", "'counts'", "Did you mean 'counts'?"))
    orders.yaml:7: completeness.rule: found 'count', expected 'counts'. Did you mean 'counts'?
    """

    file: str
    line: int
    path: str
    value: str
    expected: str
    hint: str = ""

    def __str__(self) -> str:
        """Return the message."""
        where = f"{self.file}:{self.line}: {self.path}: " if self.path else f"{self.file}:{self.line}: "
        return f"{where}found {self.value}, expected {self.expected}. {self.hint}".rstrip()


def show(value: Any) -> str:
    r"""Return a value from the declaration as messages show it.

    >>> show("a\nb"), show(True), show(None), show([1]), show({}), show(12)
    ("'a\\nb'", 'true', 'nothing', 'a list', 'an empty mapping', '12')
    """
    if isinstance(value, str):
        return repr(value if len(value) <= LONGEST_TEXT else value[: LONGEST_TEXT - 3] + "...")
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict | list):
        kind = "mapping" if isinstance(value, dict) else "list"
        return f"a {kind}" if value else f"an empty {kind}"
    return "nothing" if value is None else str(value)


def named(text: str) -> str:
    r"""Return a name as messages show it: bare, or quoted if it is empty, long or has spaces or unprintable characters.

    >>> named("orders"), named("${TABLE}"), named("or\nders")
    ('orders', '${TABLE}', "'or\\nders'")
    """
    return text if text and text.isprintable() and " " not in text and len(text) <= LONGEST_TEXT else show(text)


def listed(names: Iterable[str], join: str = "or") -> str:
    """Return names as a list in a sentence; `join` is the word before the last one.

    >>> listed(["a", "b", "c"])
    'a, b or c'
    """
    *most, last = names
    return f"{', '.join(most)} {join} {last}" if most else last


def counted(number: int, noun: str) -> str:
    """Return a number with its noun, in the plural where needed.

    >>> counted(1, "column"), counted(2, "column")
    ('1 column', '2 columns')
    """
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def did_you_mean(written: str, names: Iterable[str]) -> str:
    """Return the question `Did you mean ...?` with the name nearest to a text, or an empty text.

    >>> did_you_mean("patiance", ["rule", "patience"])
    "Did you mean 'patience'?"
    >>> did_you_mean("primary_key", ["name", "key"])
    "Did you mean 'key'?"
    """
    near = nearest(written, names)
    return f"Did you mean {near!r}?" if near else ""


def nearest(written: str, names: Iterable[str]) -> str | None:
    """Return the name that is most similar to a text, None where none is similar enough."""
    near = {_plain(name): name for name in names}
    text = _plain(written)
    close = get_close_matches(text, near, n=1, cutoff=0.7)
    close = close or [name for name in near if len(name) > 2 and name in text.split("_")]
    return near[close[0]] if close else None


def _plain(name: str) -> str:
    return name.strip().lower().replace("-", "_").replace(" ", "_")
