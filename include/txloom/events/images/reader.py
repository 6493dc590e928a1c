"""Read images of rows, before and after, as the declared types; an unreadable value is a problem, never a null.

Messages whose column names are known already are read as whole columns; any other is read alone. Both ways give the
same rows.
"""

import re
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import UNSET, UnsetType

from txloom.arrow_types import AnyArray, Lists
from txloom.config.models.pipeline import Table
from txloom.events.garbage_collector import paused
from txloom.events.goldengate.messages import INSERTS, operation
from txloom.events.images.single_message import UNREADABLE, ImageMessages, text_of
from txloom.events.values.columns import read_column
from txloom.events.values.scalars import arrow_type

NAMES = pa.list_(pa.string())
TEXTS = ("string", "json")
ESCAPED = re.compile(r'["\\\x00-\x1f]')
"""Characters that JSON escapes; compiled decoders do not handle names with them."""
LEARNED = 500
"""The most column names of a source that decoders are compiled for; with more, messages are read one at a time."""
_JSON = {"long": str | int, "int": str | int, "boolean": str | bool | int}
"""The JSON types in which a declared type may come, beside null; messages with others are read alone."""
FRACTIONS = ("decimal", "double", "float")
"""Kinds whose numbers are taken as text, because a decoder that parses them loses digits."""


class ImageReader:
    """Reads the images of one table's row messages; compiled, so each process makes one."""

    def __init__(self, table: Table) -> None:
        """Compile the readers of a declared table's columns."""
        self._table = table
        self._messages = ImageMessages(table)
        self.schema = image_schema(table)
        self._columns = {source: column.name for source, column in table.columns_by_source.items()}
        self._sources: dict[str, str | None] = {}
        self._fields: dict[str, list[str]] = {}
        self._decoders: list[Callable[[bytes | str], Any]] = []

    @paused()
    def read(self, values: Sequence[bytes | str]) -> pa.Table:
        """Return one row per message, in order, in the schema of `image_schema`.

        values: messages in GoldenGate's layout.
        """
        sure, parsed = self._parsed(values)
        while True:
            try:
                table = self._assembled(parsed)
                break
            except _Bad as bad:
                keep = np.setdiff1d(np.arange(len(sure)), sorted(bad.rows))
                sure, parsed = [sure[i] for i in keep], [parsed[i] for i in keep]
        if len(sure) == len(values):
            return table
        rest = np.setdiff1d(np.arange(len(values)), np.asarray(sure, np.int64))
        others = pa.Table.from_pylist([self._messages.read(values[i]) for i in rest], self.schema)
        order = np.argsort(np.concatenate([np.asarray(sure, np.int64), rest]), kind="stable")
        return pa.concat_tables([table, others]).take(pa.array(order, pa.int64())).combine_chunks()

    def _parsed(self, values: Sequence[bytes | str]) -> tuple[list[int], list[Any]]:
        """Return the indices of the messages that a compiled decoder reads, and these messages parsed.

        A message with new column names gets decoders for them, where possible.
        """
        sure, parsed = [], []
        for position, value in enumerate(values):
            for number, decode in enumerate(self._decoders):
                try:
                    parsed.append(decode(value))
                except UNREADABLE:
                    continue
                sure.append(position)
                if number:
                    self._decoders.insert(0, self._decoders.pop(number))
                break
            else:
                learnt = self._learn(value)
                if learnt is not None:
                    sure.append(position)
                    parsed.append(learnt)
        return sure, parsed

    def _learn(self, value: bytes | str) -> Any | None:
        """Compile decoders for a message's new column names; return it parsed, None if it must be read alone."""
        try:
            names = [name for name in self._messages.names(value) if name not in self._sources]
        except UNREADABLE:
            return None
        if not names or len(self._sources) + len(names) > LEARNED:
            return None
        known = {source.upper() for source in self._sources}
        for name in names:
            odd = name.upper() in known or name.upper().endswith("_ISMISSING") or ESCAPED.search(name) is not None
            if odd or (name.upper() not in self._columns and self._table.undeclared_columns == "quarantine"):
                return None
            known.add(name.upper())
        self._sources |= {name: self._columns.get(name.upper()) for name in names}
        self._fields = self._find_fields()
        kinds = ((str, str), (msgspec.Raw, str), (msgspec.Raw, msgspec.Raw))
        self._decoders = [self._decoder(numbers, texts) for numbers, texts in kinds]
        for decode in self._decoders:
            try:
                return decode(value)
            except UNREADABLE:
                continue
        return None

    def _decoder(self, fractions: type, texts: type) -> Callable[[bytes | str], Any]:
        """Compile a decoder for exactly the known names.

        fractions: the type of decimals, doubles and floats, text or any JSON. texts: the type of strings and json.
        """
        fields = []
        for number, name in enumerate(self._sources.values()):
            json: Any = msgspec.Raw
            if name is not None:
                kind = self._table.column(name).type.kind
                json = fractions if kind in FRACTIONS else texts if kind in TEXTS else _JSON.get(kind, str)
                json = json if json is msgspec.Raw else json | None
            fields.append((f"c{number}", json | UnsetType, UNSET))
        rename = {f"c{number}": source for number, source in enumerate(self._sources)}
        image = msgspec.defstruct("Image", fields, rename=rename, forbid_unknown_fields=True, gc=False)
        images = [(name, image | None, None) for name in ("before", "after")]
        message = msgspec.defstruct("Message", [("op_type", str, ""), *images], gc=False)
        return msgspec.json.Decoder(message).decode

    def _assembled(self, parsed: Sequence[Any]) -> pa.Table:
        ops = [operation(message.op_type) for message in parsed]
        before, known = self._image([None if op in INSERTS else m.before for op, m in zip(ops, parsed, strict=True)])
        after, given = self._image([None if op == "D" else m.after for op, m in zip(ops, parsed, strict=True)])
        op = pa.array(ops, pa.string())
        self._refuse_without_key(op, before, after)
        names = self._table.column_names
        absent = ~given & ~_nulls(after)[:, None]
        update, insert = (pc.is_in(op, pa.array(code)).to_numpy(zero_copy_only=False) for code in (["U"], ["I"]))
        unchanged, lacking = (
            absent & update[:, None],
            absent & insert[:, None] & (self._table.dropped_columns == "clear"),
        )
        columns = [
            after,
            _lists(unchanged, names, unchanged.any(axis=1)),
            before,
            _lists(known, names, ~_nulls(before)),
            pa.nulls(len(parsed), pa.string()),
            _lists(lacking, names, lacking.any(axis=1)),
            self._undeclared(parsed),
        ]
        return pa.Table.from_arrays(columns, schema=self.schema)

    def _undeclared(self, parsed: Sequence[Any]) -> AnyArray:
        """Return for each message its undeclared columns, null for none."""
        strange = {f"c{i}": name for i, (name, images) in enumerate(self._sources.items()) if images is None}
        if not strange:
            return pa.nulls(len(parsed), NAMES)
        images = [[image for image in (message.before, message.after) if image is not None] for message in parsed]
        undeclared = [
            [
                name
                for field, name in strange.items()
                if any(getattr(image, field, UNSET) is not UNSET for image in images)
            ]
            for images in images
        ]
        return pa.array([sorted(names) or None for names in undeclared], NAMES)

    def _image(self, images: Sequence[Any]) -> tuple[pa.StructArray, np.ndarray]:
        """Return images as one struct array, and a mask of the columns that each has.

        Raises _Bad with the messages that have unreadable values.
        """
        has_image = np.array([image is not None for image in images], bool)
        rows = np.flatnonzero(has_image)
        given = [image for image in images if image is not None]
        known = np.zeros((len(images), len(self._table.columns)), bool)
        columns, bad = [], set[int]()
        for number, column in enumerate(self._table.columns):
            values: Sequence[Any] = [None] * len(rows)
            fields = self._fields.get(column.name)
            if fields and len(rows):
                values = _values(given, fields[0])
                for former in fields[1:]:
                    pairs = zip(values, _values(given, former), strict=True)
                    values = [other if value is UNSET else value for value, other in pairs]
                known[rows, number] = True
                kinds = set(map(type, values))
                if UnsetType in kinds:
                    known[rows, number] = [value is not UNSET for value in values]
                    values = [None if value is UNSET else value for value in values]
                if msgspec.Raw in kinds:
                    values = [text_of(value) if isinstance(value, msgspec.Raw) else value for value in values]
            try:
                columns.append(read_column(column.type, values))
            except pa.ArrowInvalid:
                read, unreadable = self._messages.read_values(column, values)
                bad |= {int(rows[i]) for i in unreadable}
                columns.append(read)
        if bad:
            raise _Bad(bad)
        struct = pa.StructArray.from_arrays(columns, fields=list(self.schema.field("after").type))
        if len(rows) == len(images):
            return struct, known
        take = np.cumsum(has_image) - 1
        return struct.take(pa.array(take, mask=~has_image)), known

    def _find_fields(self) -> dict[str, list[str]]:
        """Return by column the decoders' fields of its values, in the order in which its names are looked for."""
        spelled = {name.upper(): f"c{number}" for number, name in enumerate(self._sources)}
        return {
            column.name: [spelled[name.upper()] for name in column.sources if name.upper() in spelled]
            for column in self._table.columns
        }

    def _refuse_without_key(self, op: pa.StringArray, before: pa.StructArray, after: pa.StructArray) -> None:
        row = pc.not_equal(op, pa.scalar("T"))
        for name in self._table.key:
            old, new = pc.struct_field(before, name), pc.struct_field(after, name)
            missing = pc.and_(row, pc.is_null(pc.coalesce(new, old)))
            if pc.any(missing).as_py():
                raise _Bad(set(np.flatnonzero(missing.to_numpy(zero_copy_only=False)).tolist()))


def _values(images: Sequence[Any], field: str) -> list[Any]:
    """Return the values of a field; UNSET for images of a decoder that does not know it."""
    try:
        return list(map(attrgetter(field), images))
    except AttributeError:
        return [getattr(image, field, UNSET) for image in images]


class _Bad(Exception):
    """Messages that must be read alone, as indices into those parsed."""

    def __init__(self, rows: set[int]) -> None:
        super().__init__(rows)
        self.rows = rows


def image_schema(table: Table) -> pa.Schema:
    """Return the schema of an image reader's rows.

    after, before: the images. unchanged: columns that an update leaves out; before_known: those that the image before
    has; problem: why the row cannot be read; absent: declared columns that an insert does not have; undeclared:
    undeclared columns of the message, as the source writes their names.
    """
    image = pa.struct([(column.name, arrow_type(column.type)) for column in table.columns])
    lists = [(name, NAMES) for name in ("absent", "undeclared")]
    fields = [
        ("after", image),
        ("unchanged", NAMES),
        ("before", image),
        ("before_known", NAMES),
        ("problem", pa.string()),
    ]
    return pa.schema([*fields, *lists])


def _nulls(array: AnyArray) -> np.ndarray:
    nulls: np.ndarray = array.is_null().to_numpy(zero_copy_only=False)
    return nulls


def _lists(chosen: np.ndarray, names: Sequence[str], valid: np.ndarray) -> Lists:
    """Return for each row the names that `chosen` flags in it, null where `valid` is False."""
    chosen = chosen & valid[:, None]
    offsets = np.concatenate([[0], np.cumsum(chosen.sum(axis=1))]).astype(np.int32)
    members = pa.array(names, pa.string()).take(pa.array(np.nonzero(chosen)[1], pa.int64()))
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), members, mask=pa.array(~valid))
