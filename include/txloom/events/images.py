"""Images of rows: before and after, typed as declared."""

from collections.abc import Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import msgspec
import pyarrow as pa

from txloom.config.models import Table
from txloom.config.types import ColumnType


def arrow_type(t: ColumnType) -> pa.DataType:
    if t.kind == "decimal":
        return pa.decimal128(t.precision, t.scale)
    if t.element is not None:
        return pa.list_(arrow_type(t.element))
    return {
        "long": pa.int64(), "int": pa.int32(), "double": pa.float64(), "float": pa.float32(), "boolean": pa.bool_(), "date": pa.date32(),
        "timestamp": pa.timestamp("us"), "timestamptz": pa.timestamp("us", "UTC"), "binary": pa.binary(),
    }.get(t.kind, pa.string())


def _elements(text: str) -> list[str | None]:
    out: list[str | None] = []
    i, body = 0, text[1:-1]
    while i < len(body):
        if body[i] == '"':
            i += 1
            s = ""
            while body[i] != '"':
                if body[i] == "\\":
                    i += 1
                s += body[i]
                i += 1
            out.append(s)
            i += 1
        else:
            j = body.find(",", i)
            j = len(body) if j < 0 else j
            bare = body[i:j]
            out.append(None if bare == "NULL" else bare)
            i = j
        i += 1
    return out


def value(v: Any, t: ColumnType) -> Any:
    if v is None:
        return None
    if t.element is not None:
        return [value(x, t.element) for x in (_elements(v) if isinstance(v, str) else v)]
    match t.kind:
        case "long" | "int":
            return int(v)
        case "double" | "float":
            return float(v)
        case "decimal":
            return Decimal(v)
        case "boolean":
            return str(v).lower() in ("true", "t", "1")
        case "date":
            return date.fromisoformat(v[:10])
        case "timestamp":
            return datetime.fromisoformat(v)
        case "timestamptz":
            return datetime.fromisoformat(v)
        case "binary":
            return bytes.fromhex(v)
    return str(v)


class ImageReader:
    def __init__(self, table: Table) -> None:
        self._table = table
        struct = pa.struct([(c.name, arrow_type(c.type)) for c in table.columns])
        self.schema = pa.schema([("after", struct), ("unchanged", pa.list_(pa.string())), ("before", struct), ("before_known", pa.list_(pa.string())), ("problem", pa.string())])
        self._by_source = {c.source.upper(): c for c in table.columns}

    def read(self, values: Sequence[bytes | str]) -> pa.Table:
        return pa.Table.from_pylist([self._one(v) for v in values], self.schema)

    def _one(self, raw: bytes | str) -> dict[str, Any]:
        m = msgspec.json.decode(raw)
        op = m["op_type"].upper()
        try:
            before, after = self._image(m.get("before")), self._image(m.get("after"))
        except Exception as error:
            return {"problem": str(error)}
        if op == "I":
            before = None
        if op == "D":
            after = None
        missing = [c.name for c in self._table.columns if after is not None and c.name not in after]
        return {"after": after, "unchanged": missing if op == "U" and missing else None, "before": before, "before_known": None if before is None else list(before)}

    def _image(self, image: dict[str, Any] | None) -> dict[str, Any] | None:
        if image is None:
            return None
        return {c.name: value(image[n], c.type) for n in image if (c := self._by_source.get(n.upper())) is not None}
