"""Rows given as canonical texts, written as the JSON objects that txloom reads rows from."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from txloom.config.models.column_types import ColumnType
from txloom.config.models.pipeline import Column
from txloom.current.equality.canonical_texts import NULL, readable

_LENGTH = re.compile(rb"(\d+):")


def image(columns: Sequence[Column], texts: Sequence[str | None], widths: Mapping[str, int]) -> str:
    """Return a row as a JSON object, by the names that its columns have in the source.

    Args:
        columns: of the row, or the first of them.
        texts: the canonical text of each.
        widths: by declared name, up to how many characters the source pads a column's texts with blanks.
    """
    values = {
        column.source: _padded(value(text, column.type), widths.get(column.name, 0))
        for column, text in zip(columns, texts, strict=False)
    }
    return msgspec.json.encode(values).decode()


def value(text: str | None, declared: ColumnType) -> Any:
    """Return what stands for a value in JSON.

    >>> value("30001", ColumnType("decimal", 20, 4)), value("t", ColumnType("boolean"))
    ('3.0001', True)
    >>> value("1:a~3:b c", ColumnType("array", element=ColumnType("string")))
    ['a', None, 'b c']
    """
    if text is None:
        return None
    if declared.element is not None:
        return [value(each, declared.element) for each in _elements(text.encode())]
    return text == "t" if declared.kind == "boolean" else readable(text, declared)


def _elements(text: bytes) -> list[str | None]:
    """Return the texts that a row text was made of (`canonical_texts.row_texts`)."""
    made, at = list[str | None](), 0
    while at < len(text):
        if text[at : at + 1] == NULL.encode():
            made.append(None)
            at += 1
            continue
        length = _LENGTH.match(text, at)
        assert length is not None
        begin, at = length.end(), length.end() + int(length[1])
        made.append(text[begin:at].decode())
    return made


def _padded(of: Any, width: int) -> Any:
    """Return a text with blanks up to a width, and an array with such texts.

    >>> _padded("a", 3), _padded(["b", None], 2), _padded(None, 2)
    ('a  ', ['b ', None], None)
    """
    if isinstance(of, list):
        return [_padded(each, width) for each in of]
    return of.ljust(width) if isinstance(of, str) else of
