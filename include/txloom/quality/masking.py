"""Rows and messages as people may see them: secrets masked; samples also bounded, and of values that JSON has."""

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from math import isfinite
from typing import Any

from txloom.config.models.pipeline import Pipeline
from txloom.config.secret_names import MASK, is_secret

LONGEST = 200
"""Characters of a value that a sample shows."""
MOST = 20
"""Rows of a sample, and entries of a list in it; totals count all of them."""


def masked(
    rows: Sequence[Mapping[str, Any]], referenced: Collection[str] = (), secret: Collection[str] = ()
) -> list[dict[str, Any]]:
    """Return the first MOST rows as JSON values, without secrets.

    Masked are values of columns that are named like a secret or are in `secret`, and in all texts what came from the
    environment or a connection (referenced).
    """
    texts = sorted(referenced, key=len, reverse=True)
    return [
        {name: MASK if name in secret else _shown(name, value, texts) for name, value in row.items()}
        for row in rows[:MOST]
    ]


def secret_names(pipeline: Pipeline) -> frozenset[str]:
    """Return the names, declared and in the source, of columns of which either name is like that of a secret."""
    of_columns = [(column.name, *column.sources) for table in pipeline.tables for column in table.columns]
    return frozenset(name for names in of_columns if any(map(is_secret, names)) for name in names)


def hidden(values: Mapping[str, Any], secret: Collection[str] = ()) -> dict[str, Any]:
    """Return values unchanged, but masked where the name is like that of a secret or is in `secret`, at any depth.

    >>> hidden({"id": 7, "pin": "0000", "lines": [{"api_token": "x", "qty": 1}], "pw": None})
    {'id': 7, 'pin': '***', 'lines': [{'api_token': '***', 'qty': 1}], 'pw': None}
    """
    return {name: _hidden(name, value, secret) for name, value in values.items()}


def key_text(key: Mapping[str, Any], secret: Collection[str] = ()) -> str:
    """Return a row's key on one line, its secret values masked.

    >>> key_text({"id": 7, "card_pin": "0000"})
    'id=7, card_pin=***'
    """
    return ", ".join(f"{name}={value}" for name, value in hidden(key, secret).items())


def _hidden(name: str, value: Any, secret: Collection[str]) -> Any:
    if value is None:
        return None
    if name in secret or is_secret(name):
        return MASK
    if isinstance(value, Mapping):
        return hidden(value, secret)
    if isinstance(value, list | tuple):
        return [_hidden(name, inside, secret) for inside in value]
    return value


def message(text: str, secret: Collection[str] = ()) -> str:
    """Return a source's message unchanged, but for values whose names are like that of a secret or are in `secret`.

    Names stand before their values (JSON of most sources), beside them (wal2json, format version 2), or in a list
    beside a list of values (version 1), which is masked as a whole. Where a secret value is cut off, the rest of the
    message is masked.

    >>> message('{"after": {"ID": 7, "PIN": "0000", "PWD": null}}')
    '{"after": {"ID": 7, "PIN": "***", "PWD": null}}'
    >>> message('{"columns":[{"name":"api_key","type":"text","value":"x"}], "n": 1.50}')
    '{"columns":[{"name":"api_key","type":"text","value":"***"}], "n": 1.50}'
    >>> message('{"columnnames":["id","pin"],"columnvalues":[7,"0000"]}')
    '{"columnnames":["id","pin"],"columnvalues":"***"}'
    """
    folded = {name.lower() for name in secret}
    masked, position = [], 0
    for start, end in sorted(_secrets(text, folded)):
        if start >= position:
            masked += [text[position:start], f'"{MASK}"']
            position = end
    return "".join([*masked, text[position:]])


_NAMED = re.compile(r'"([^"\\]+)"\s*:\s*')
_BESIDE = re.compile(r'"name"\s*:\s*"([^"\\]+)"[^{}]*?"value"\s*:\s*')
_LISTED = re.compile(r'"(column|key)names"\s*:\s*')


def _secrets(text: str, secret: Collection[str]) -> Iterator[tuple[int, int]]:
    """Yield the start and end of each secret value in a message."""
    for pattern in (_NAMED, _BESIDE):
        for match in pattern.finditer(text):
            if is_secret(match[1]) or match[1].lower() in secret:
                yield from _value(text, match.end())
    for match in _LISTED.finditer(text):
        listed = "".join(text[start:end] for start, end in _value(text, match.end()))
        secrets = [name for name in re.findall(r'"([^"]*)"', listed) if is_secret(name) or name.lower() in secret]
        values = re.compile(rf'"{match[1]}values"\s*:\s*').search(text, match.end()) if secrets else None
        if values is not None:
            yield from _value(text, values.end())


def _value(text: str, start: int) -> Iterator[tuple[int, int]]:
    """Yield start and end of the JSON value at a position: nothing for null, up to the text's end if it is cut off."""
    try:
        value, end = _DECODER.raw_decode(text, start)
    except (ValueError, RecursionError):
        value, end = "", len(text)
    if value is not None:
        yield start, end


_DECODER = json.JSONDecoder()


def without(text: str, referenced: Collection[str]) -> str:
    """Return a text with a mask in place of every text that came from the environment or a connection.

    >>> without("cannot reach broker-7:9092", {"broker-7:9092", "x"})
    'cannot reach ***'
    """
    for secret in sorted(referenced, key=len, reverse=True):
        text = text.replace(secret, MASK) if len(secret) > SHORT or text == secret else text
    return text


SHORT = 3
"""A text of at most so many characters is masked only where it is the whole value: inside others it is no secret."""


def _shown(name: str, value: Any, texts: Sequence[str]) -> Any:
    if value is None or isinstance(value, bool):
        return value
    if is_secret(name):
        return MASK
    if isinstance(value, Mapping):
        return {str(name): _shown(str(name), inside, texts) for name, inside in value.items()}
    if isinstance(value, list | tuple):
        more = [f"... {len(value) - MOST} more"] if len(value) > MOST else []
        return [*(_shown(name, inside, texts) for inside in value[:MOST]), *more]
    if isinstance(value, bytes):
        return f"{len(value)} bytes"
    if isinstance(value, int) or (isinstance(value, float) and isfinite(value)):
        return value
    text = value.isoformat() if isinstance(value, date | datetime) else str(value)
    text = format(value, "f") if isinstance(value, Decimal) and value.is_finite() else text
    text = without(text, texts)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 3]}..."
