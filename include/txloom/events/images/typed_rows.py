"""Rows that have their declared types already, written as messages column by column: a snapshot in Parquet.

The messages are those that `txloom.storage.sources.row_files.as_json` and GoldenGate's layout make of each row alone,
and every value surely fits its column: nothing has to be read back.
"""

import re
from collections.abc import Mapping, Sequence
from datetime import date
from typing import cast

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from txloom.arrow_types import AnyArray
from txloom.config import identity
from txloom.config.models.pipeline import Table
from txloom.events.values.scalars import arrow_type

KINDS = ("long", "int", "boolean", "string", "decimal", "date", "timestamp", "timestamptz")
"""The declared types of which a column is written as a whole."""
ESCAPED = re.compile(r'["\\\x00-\x1f]').pattern
FIRST_DAY, LAST_DAY = (each.toordinal() - date(1970, 1, 1).toordinal() for each in (date(1, 1, 1), date(9999, 12, 31)))
DAY = 86_400_000_000


def fits(table: Table, schema: pa.Schema) -> bool:
    """Return whether rows with a schema can be written as whole columns, if `images` then returns some.

    They have every declared column once, and none else, in the declared type.
    """
    declared = {column.source.upper(): column for column in table.columns}
    names = [name.upper() for name in schema.names]
    if sorted(names) != sorted(declared) or not all(_is_plain(name) for name in schema.names):
        return False
    columns = zip(names, schema.types, strict=True)
    return all(declared[name].type.kind in KINDS and kind == arrow_type(declared[name].type) for name, kind in columns)


def _is_plain(name: str) -> bool:
    return re.search(ESCAPED, name) is None and not name.upper().endswith("_ISMISSING")


def images(table: Table, rows: pa.RecordBatch) -> pa.StringArray | None:
    """Return rows as JSON objects; None where they have to be written one by one.

    That is where a key is null, or a value has no text that is read as the same value again.

    rows: with a schema that `fits`.
    """
    sources = {column.source.upper(): column.name for column in table.columns}
    keys = [name for name in rows.schema.names if sources[name.upper()] in table.key]
    if any(rows.column(name).null_count for name in keys):
        return None
    parts: list[AnyArray | str] = []
    for number, name in enumerate(rows.schema.names):
        texts = _texts(rows.column(name))
        if texts is None:
            return None
        parts += [("," if number else "{") + msgspec.json.encode(name).decode() + ":", texts]
    return joined([*parts, "}"])


def joined(parts: Sequence[AnyArray | str]) -> pa.StringArray:
    """Return texts that are joined row by row; a part that is one text stands in each row."""
    # The stubs do not know that a scalar may stand among the texts.
    return cast("pa.StringArray", pc.binary_join_element_wise(*parts, ""))  # type: ignore[call-overload]


def content(op: str, after: pa.StringArray) -> Mapping[str, AnyArray]:
    """Return payload and digest of inserted rows (`txloom.config.identity`); after: their images."""
    images_after = cast("list[bytes]", after.cast(pa.binary()).to_pylist())
    return {
        "payload": pa.array([identity.payload(op, b"null", image) for image in images_after], pa.int64()),
        "digest": pa.array([identity.digest(op, b"null", image) for image in images_after], pa.binary()),
    }


def _texts(column: AnyArray) -> pa.StringArray | None:
    """Return a column's values as JSON; None where one has no exact text."""
    kind = column.type
    if pa.types.is_boolean(kind):
        return _or_null(cast("pa.StringArray", column.cast(pa.string())))
    if pa.types.is_string(kind):
        return _quoted(cast("pa.StringArray", column))
    if (pa.types.is_date(kind) or pa.types.is_timestamp(kind)) and not _has_four_digit_years(column):
        return None
    texts = cast("pa.StringArray", column.cast(pa.string()))
    if pa.types.is_decimal(kind) and pc.any(pc.match_substring(texts, "E")).as_py():
        return None
    return _or_null(joined(['"', texts, '"']))


def _or_null(texts: pa.StringArray) -> pa.StringArray:
    return cast("pa.StringArray", texts.fill_null("null"))


def _has_four_digit_years(column: AnyArray) -> bool:
    is_date = pa.types.is_date(column.type)
    first, last = (FIRST_DAY, LAST_DAY) if is_date else (FIRST_DAY * DAY, (LAST_DAY + 1) * DAY - 1)
    numbers: AnyArray = column.cast(pa.int32()) if is_date else column.cast(pa.int64())
    known = numbers.drop_null().to_numpy()
    return not len(known) or bool(first <= known.min() and known.max() <= last)


def _quoted(texts: pa.StringArray) -> pa.StringArray:
    """Return texts as JSON; those with a character that JSON escapes are written one by one."""
    written = _or_null(joined(['"', texts, '"']))
    strange = cast("pa.BooleanArray", pc.match_substring_regex(texts, ESCAPED).fill_null(False))
    if not pc.any(strange).as_py():
        return written
    alone = [msgspec.json.encode(text).decode() for text in texts.filter(strange).to_pylist()]
    return cast("pa.StringArray", pc.replace_with_mask(written, strange, pa.array(alone, pa.string())))
