"""Write images of wal2json rows, which are lists of cells, as objects that `txloom.events.images.reader` reads.

`columns` is the new image and `identity` the old key, or every old column under REPLICA IDENTITY FULL. A large value
that did not change has no cell. NaN and Infinity of any numeric type come as null, and cannot be restored here, unless
the slot has numeric-data-types-as-string.
"""

from collections.abc import Mapping, Sequence

import msgspec

from txloom.config.models.pipeline import Table
from txloom.events import rejections
from txloom.events.goldengate.messages import INSERTS, NULL

FIRST_OF_A_VALUE = frozenset(b'"-0123456789')
"""The first bytes of a key's value when it is text or a number."""
VALUE = b'"value":'
SPELLED = {b"-0": b'"-0"', b"true": b'"true"', b"false": b'"false"'}
"""Values that are written as text: a JSON number loses the sign of zero, and `true` in a column that is named
*_isMissing would be taken for GoldenGate's flag."""

Raw = msgspec.Raw


class _Cell(msgspec.Struct, gc=False):
    name: str
    value: Raw = NULL


class _Line(msgspec.Struct, gc=False):
    columns: list[_Cell] | None = None
    identity: list[_Cell] | None = None


class Wal2JsonImages:
    """Writes the messages of one table in GoldenGate's layout; compiled, so each process makes one."""

    def __init__(self, table: Table) -> None:
        """Compile the decoder of a declared table's messages."""
        self._decode = msgspec.json.Decoder(_Line).decode
        self._sources = {column.source.upper(): column.source for column in table.columns}
        self._labels: dict[str, bytes] = {}
        self._twins: dict[str, str] = {}

    def canonical(
        self,
        values: Sequence[str],
        ops: Sequence[str],
        headers: Sequence[Mapping[str, str] | None] = (),  # noqa: ARG002 - what every format's images take
    ) -> list[bytes]:
        """Return the messages in GoldenGate's layout; numbers keep all their digits.

        A message whose images are not lists of cells gets no images, so that its row lacks its key.
        """
        return [self._message(value, op) for value, op in zip(values, ops, strict=True)]

    def _message(self, value: str, op: str) -> bytes:
        try:
            line = self._decode(value)
        except msgspec.MsgspecError:
            line = _Line()
        before = b"null" if op in INSERTS or op == "T" else self._image(line.identity)
        after = b"null" if op in ("D", "T") else self._image(line.columns)
        return b'{"op_type":"%s","before":%s,"after":%s}' % (op.encode(), before, after)

    def _image(self, cells: list[_Cell] | None) -> bytes:
        if cells is None:
            return b"null"
        labels = self._labels
        for cell in cells:
            if cell.name not in labels:
                self._learn(cell.name)
        if self._twins:
            names = {cell.name for cell in cells}
            cells = [cell for cell in cells if self._twins.get(cell.name) not in names]
        values = [bytes(cell.value) for cell in cells]
        return (
            b"{"
            + b",".join(
                [labels[cell.name] + SPELLED.get(value, value) for cell, value in zip(cells, values, strict=True)]
            )
            + b"}"
        )

    def _learn(self, name: str) -> None:
        """Record a column's name; one that differs from a declared column's only in case is dropped beside that one."""
        self._labels[name] = msgspec.json.encode(name) + b":"
        column = self._sources.get(name.upper())
        if column is not None and column != name:
            self._twins[name] = column


class Target:
    """The meaning of a row's schema and table: a declared table or none, and which rows it takes; compiled."""

    def __init__(self, source: str, table: Table | None, refused: tuple[str, str] | None = None) -> None:
        """Compile the bytes of the key's cells: with names as declared, in upper and in lower case.

        source: schema and table, as the rows name them. table: None for an unwatched one. refused: cause and detail
        for a table that takes no rows.
        """
        self.source, self.name = source, None if table is None else table.name
        self._refused = refused
        self._insert_only = table is not None and table.insert_only
        self._names = {} if table is None else table.key_sources
        sources = [] if table is None else [table.column(name).source for name in table.key]
        spelled = dict.fromkeys(tuple(map(style, sources)) for style in (str, str.lower, str.upper))
        self._styles = [tuple(b'{"name":%s,' % msgspec.json.encode(name) for name in style) for style in spelled]
        self._decode = msgspec.json.Decoder(list[_Cell]).decode

    def refusal(self, op: str, before: bytes, after: bytes) -> tuple[str, str] | None:
        """Return cause and detail of a row that its table cannot take; None for a row that it takes.

        An update must have its old key: without it, the row that it changes is unknown.
        """
        if self._refused is not None:
            return self._refused
        if self.name is None or op == "T":
            return None
        if self._insert_only and op != "I":
            return rejections.INSERT_ONLY, f"operation {op} on {self.name}, whose key is declared none"
        for image, name, ops, sparse in ((before, "identity", "UD", False), (after, "columns", "IU", op == "U")):
            if op in ops and not self._has_keys(image):
                refusal = self._lacking(op, name, image, sparse=sparse)
                if refusal is not None:
                    return refusal
        return None

    def _has_keys(self, image: bytes) -> bool:
        """Return whether an image certainly has every key with a value; the style that fits is tried first later."""
        for number, cells in enumerate(self._styles):
            if cells and _has_cells(image, cells):
                if number:
                    self._styles.insert(0, self._styles.pop(number))
                return True
        return False

    def _lacking(self, op: str, name: str, image: bytes, *, sparse: bool) -> tuple[str, str] | None:
        """Return cause and detail of what an image lacks, None for nothing.

        sparse: whether it may leave out a key column, a large one that did not change.
        """
        if image == b"null":
            return rejections.NO_IMAGE, f"operation {op} without `{name}`"
        try:
            cells = self._decode(image)
        except msgspec.MsgspecError as error:
            return rejections.BROKEN, f"`{name}`: {error}"
        is_null: dict[str, bool] = {}
        for cell in cells:
            source = cell.name.upper()
            is_null[source] = is_null.get(source, False) or bytes(cell.value) != b"null"
        # Former names of a column follow its name in the source, which counts.
        given = {self._names[source]: is_null[source] for source in reversed(self._names) if source in is_null}
        for key in dict.fromkeys(self._names.values()):
            if not given.get(key, sparse):
                return rejections.NO_KEY, f"{key} is {'null' if key in given else 'missing'} in `{name}`"
        return None


def _has_cells(image: bytes, cells: tuple[bytes, ...]) -> bool:
    """Return whether an image certainly has cells that begin with these bytes and hold a value.

    The bytes cannot be inside a text, whose quotes would be escaped.
    """
    for cell in cells:
        start = image.find(cell)
        value = image.find(VALUE, start)
        if (
            start < 0
            or not start < value < image.find(b"}", start)
            or image[value + len(VALUE)] not in FIRST_OF_A_VALUE
        ):
            return False
    return True
