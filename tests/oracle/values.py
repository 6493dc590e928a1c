"""Turn the capture's text (what PostgreSQL prints) into Python values of the declared type."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime
from decimal import Context, Decimal
from typing import Any

from oracle.capture import Image, Key
from oracle.declarations import ORDER, TABLES, Aggregate, Table

TypedKey = tuple[Any, ...]
TypedRow = dict[str, Any]
_EXACT = Context(prec=60)
_ELEMENT = re.compile(r'"((?:[^"\\]|\\.)*)"|([^",{}\\\s][^",{}\\]*)', re.DOTALL)


def typed(text: str | None, declared: str) -> Any:
    """Return the value that a text means under a declared type; raise ValueError when it means none."""
    if text is None:
        return None
    try:
        return _parsed(text, declared)
    except (KeyError, ArithmeticError) as error:
        raise ValueError(f"{text!r} is no {declared}") from error


def _parsed(text: str, declared: str) -> Any:
    if declared.startswith("decimal("):
        return _decimal(text, declared)
    if declared.startswith("array<"):
        return [typed(element, declared[6:-1]) for element in array_elements(text)]
    return _PARSERS[declared](text)


def typed_row(row: Image, table: Table) -> TypedRow:
    """Return a row with every column as its declared type."""
    return {column: typed(row[column], declared) for column, declared in table.columns.items()}


def typed_rows(rows: Mapping[Key, Image], table: Table) -> dict[TypedKey, TypedRow]:
    """Return a table's rows as typed values under typed keys."""
    typed_ones = [typed_row(row, table) for row in rows.values()]
    return {tuple(row[column] for column in table.key): row for row in typed_ones}


def typed_state(
    state: Mapping[str, Mapping[Key, Image]], tables: Mapping[str, Table] = TABLES
) -> dict[str, dict[TypedKey, TypedRow]]:
    """Return every table's rows as typed values under typed keys."""
    return {name: typed_rows(rows, tables[name]) for name, rows in state.items()}


def typed_documents(
    documents_of: Mapping[Key, Mapping[str, Any]], tables: Mapping[str, Table] = TABLES, aggregate: Aggregate = ORDER
) -> dict[TypedKey, TypedRow]:
    """Return documents as typed values under typed keys."""
    root = tables[aggregate.root]
    typed_ones = [_typed_document(document, root, tables, aggregate) for document in documents_of.values()]
    return {tuple(document[column] for column in root.key): document for document in typed_ones}


def array_elements(literal: str) -> list[str | None]:
    """Return the elements of a one-dimensional PostgreSQL array literal; an unquoted NULL is null."""
    if not (literal.startswith("{") and literal.endswith("}")):
        raise ValueError(f"not an array: {literal!r}")
    elements: list[str | None] = []
    at, end = 1, len(literal) - 1
    while at < end:
        element = _ELEMENT.match(literal, at, end)
        if element is None:
            raise ValueError(f"not an array: {literal!r}")
        quoted, bare = element.groups()
        elements.append(re.sub(r"\\(.)", r"\1", quoted, flags=re.DOTALL) if bare is None else _unless_null(bare))
        at = element.end()
        if at < end and (literal[at] != "," or at + 1 == end):
            raise ValueError(f"not an array: {literal!r}")
        at += 1
    return elements


def _typed_document(
    document: Mapping[str, Any], root: Table, tables: Mapping[str, Table], aggregate: Aggregate
) -> TypedRow:
    result = typed_row(dict(document), root)
    for child in aggregate.children:
        nested, table = document[child.field], tables[child.table]
        if child.relation == "many":
            result[child.field] = [typed_row(row, table) for row in nested]
        else:
            result[child.field] = None if nested is None else typed_row(nested, table)
    return result


def _unless_null(bare: str) -> str | None:
    return None if bare.upper() == "NULL" else bare


def _decimal(text: str, declared: str) -> Decimal:
    precision, scale = (int(part) for part in declared[8:-1].split(","))
    value = Decimal(text)
    exact = value.quantize(Decimal(1).scaleb(-scale), context=_EXACT)
    if exact != value or len(exact.as_tuple().digits) > precision:
        raise ValueError(f"{text} is no {declared}")
    return exact


def _long(text: str, bits: int = 64) -> int:
    value = int(text)
    if not -(2 ** (bits - 1)) <= value < 2 ** (bits - 1):
        raise ValueError(f"{text} does not fit {bits} bits")
    return value


def _instant(text: str) -> datetime:
    value = datetime.fromisoformat(text)
    if value.tzinfo is None:
        raise ValueError(f"{text} has no zone")
    return value.astimezone(UTC)


def _local(text: str) -> datetime:
    value = datetime.fromisoformat(text)
    if value.tzinfo is not None:
        raise ValueError(f"{text} has a zone")
    return value


_PARSERS: dict[str, Callable[[str], Any]] = {
    "short": lambda text: _long(text, 16),
    "int": lambda text: _long(text, 32),
    "long": _long,
    "float": lambda text: float(struct.unpack("f", struct.pack("f", float(text)))[0]),
    "double": float,
    "boolean": lambda text: {"true": True, "t": True, "false": False, "f": False}[text],
    "date": date.fromisoformat,
    "timestamp": _local,
    "timestamptz": _instant,
    "binary": bytes.fromhex,
    "string": str,
    "time": str,
    "uuid": str,
    "json": str,
}
