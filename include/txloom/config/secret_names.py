"""Columns whose values nobody is shown: those that are named like a secret."""

import re

MASK = "***"
"""What is shown in place of a secret value."""
_INSIDE = re.compile(
    r"passw(or)?d|passphrase|secret|token|credential|api_?key|private_?key|access_?key|authorization", re.IGNORECASE
)
_WORDS = frozenset(("pwd", "pw", "pin", "cvv", "cvc", "auth"))


def is_secret(column: str) -> bool:
    """Return whether a column's name says that its values are secret.

    >>> is_secret("api_token"), is_secret("userPassword"), is_secret("card_pin"), is_secret("shipping_city")
    (True, True, True, False)
    """
    return _INSIDE.search(column) is not None or not _WORDS.isdisjoint(column.lower().split("_"))
