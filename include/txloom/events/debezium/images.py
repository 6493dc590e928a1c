"""Write stored Debezium rows of one table in the layout that `txloom.events.images.reader` reads.

A column whose value Debezium did not get, because it is large and did not change, is left out. In the image before a
delete only the key is certain, unless the connector reads a log with the whole row: PostgreSQL's REPLICA IDENTITY is in
no message, and where it is not FULL, Debezium makes up the other values ('', 0, 1970-01-01, or the column's default).

A decimal in bytes (decimal.handling.mode=precise) needs the schema, which has its scale. Without one it is a text that
is no number, and so a problem of its row, except for rare ones whose base64 has digits only: set the mode to string.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache

import msgspec
from msgspec import Raw

from txloom.config.models.column_types import ColumnType
from txloom.config.models.pipeline import Table
from txloom.events.debezium.messages import (
    KEY_CHANGE,
    OLD,
    OLD_KEY,
    has_unavailable,
    is_unavailable,
    key_header,
    read_row,
)
from txloom.events.debezium.positions import CONNECTORS
from txloom.events.debezium.units import Database, PrecisionMode, TimeUnit, units_of
from txloom.events.debezium.values import BinaryMode, Convert, Field, Modes, converter
from txloom.events.goldengate.messages import INSERTS, NULL

Image = dict[str, Raw]
_SCHEMAS = 64
"""How many schemas of one table's messages are kept compiled; each change of the table makes a new one."""


class DebeziumImages:
    """Writes stored messages of one table in the layout that its image reader reads."""

    def __init__(
        self,
        table: Table,
        time_unit: TimeUnit | None = None,
        binary_mode: BinaryMode = "base64",
        database: Database | None = None,
        time_precision_mode: PrecisionMode | None = None,
    ) -> None:
        """Compile the conversions of the declared columns; the options are for messages without a schema.

        time_unit: the unit of times and timestamps (adaptive: microseconds). database, time_precision_mode: decide the
        unit instead of time_unit. binary_mode: how bytes are written.
        """
        self._columns = {source: column.type for source, column in table.columns_by_source.items()}
        self._key = frozenset(table.key_sources)
        self._modes = Modes(units_of(time_unit, database, time_precision_mode), binary_mode)
        self._converters = lru_cache(_SCHEMAS)(self._converters_under)

    def canonical(
        self, values: Sequence[str], ops: Sequence[str], headers: Sequence[Mapping[str, str] | None]
    ) -> list[bytes]:
        """Return the messages in that layout, in order; ops and headers are the envelope's."""
        return [self._canonical(*each) for each in zip(values, ops, headers, strict=True)]

    def _canonical(self, value: str, op: str, headers: Mapping[str, str] | None) -> bytes:
        message, schema = read_row(value)
        assert message is not None and message.source is not None
        before, after = (self._image(image, schema) for image in (message.before, message.after))
        old = key_header(headers, OLD_KEY) if op == "U" else None
        if op in INSERTS:
            before = None
        elif old is not None:
            before = self._converted(*old)
        elif op == KEY_CHANGE or (op == "D" and not CONNECTORS[message.source.connector].full_deletes):
            before = self._key_of(before or {})
        return msgspec.json.encode({"op_type": op, "before": before, "after": None if op in OLD else after})

    def _image(self, raw: Raw, schema: Raw) -> Image | None:
        image = msgspec.json.decode(raw, type=Image | None)
        if image is None:
            return None
        if has_unavailable(bytes(raw)):
            image = {name: raw for name, raw in image.items() if not is_unavailable(bytes(raw))}
        return self._converted(image, schema)

    def _converted(self, image: Image, schema: Raw) -> Image:
        converters, converted = self._converters(bytes(schema)), {}
        for name, raw in image.items():
            convert = converters[name]
            converted[name] = raw if convert is None or raw == NULL else Raw(convert(bytes(raw)))
        return converted

    def _converters_under(self, schema: bytes) -> "_Converters":
        return _Converters(self._columns, _fields(schema), self._modes)

    def _key_of(self, image: Image) -> Image:
        return {name: raw for name, raw in image.items() if name.upper() in self._key}


class _Converters(dict[str, Convert | None]):
    """The conversions of columns under one schema, by the columns' names as messages spell them."""

    def __init__(self, columns: Mapping[str, ColumnType], fields: Mapping[str, Field], modes: Modes) -> None:
        super().__init__()
        self._columns, self._fields, self._modes = columns, fields, modes

    def __missing__(self, name: str) -> Convert | None:
        self[name] = converter(self._columns.get(name.upper()), self._fields.get(name), self._modes)
        return self[name]


def _fields(schema: bytes) -> dict[str, Field]:
    """Return the columns that a schema describes: a message's schema has them in its images, a key's directly."""
    try:
        root = msgspec.json.decode(schema, type=Field | None)
    except msgspec.ValidationError:
        return {}
    fields = {field.field: field for field in (root.fields if root else None) or ()}
    image = fields.get("after") or fields.get("before")
    of_image = image.fields or () if image and "op" in fields else fields.values()
    return {field.field: field for field in of_image if field.field is not None}
