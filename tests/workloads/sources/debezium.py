"""Debezium's JSON as four connectors write it: rows in a topic a table, BEGIN and END in one of their own."""

from base64 import b64encode
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime, time
from random import Random
from typing import Any

from oracle.capture import Image, Message
from oracle.values import array_elements
from workloads.sources.database import Change, Sent, State, positions
from workloads.sources.json_text import Bare, written
from workloads.sources.kinds import digits_of
from workloads.sources.shapes import Shape

METADATA = "srv.transaction"
UNAVAILABLE = "__debezium_unavailable_value"
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
OPERATIONS = {"I": "c", "U": "u", "D": "d", "T": "t"}
LARGE = ("string", "json")
INVENTED = {"string": "", "json": "{}", "boolean": "false", "date": "1970-01-01", "time": "00:00:00", "binary": ""}
INVENTED |= {"timestamp": "1970-01-01 00:00:00", "timestamptz": "1970-01-01 00:00:00+00:00", "uuid": ""}
PARTS = ("total_order", "data_collection_order")


class Debezium:
    """Writes transactions as a connector does, with decimals as text and, where there is no schema, adaptive times."""

    rule = "counts"
    alters, special, moves_serials = True, True, True

    def __init__(self, shape: Shape, chance: Random) -> None:
        self._chance, self._shape = chance, shape
        self.database = shape.dimensions.source.split("/")[1]
        self._headers = self.database == "postgresql" or chance.random() < 0.5
        self.rotates = self._headers and self.database != "mysql"
        self.layout = ", layout: records" if self._headers else ""
        self._schemas = chance.random() < 0.5
        units = "" if self._schemas else ", debezium: {time_unit: adaptive}"
        self.source = f"format: debezium, transaction_topic: {METADATA}{units}"
        self.truncates = {"postgresql": "any", "mysql": "alone"}.get(self.database, "none")
        self._gtids = self.database == "mysql" and chance.random() < 0.5
        self._whole = self.database != "postgresql"
        self._full = {name for name in shape.tables if self._whole or chance.random() < 0.4}
        self._copies = shape.dimensions.copies
        self._xid, self.steps = 700, (1, 4)
        self._compressed = self._gtids and self._copies

    # Transactions.

    def write(self, sent: Sent) -> None:
        """Give a transaction its rows, and its END as metadata; a BEGIN comes with the rows."""
        self._xid += self._chance.randint(*self.steps)
        size, counts = len(sent.changes), Counter[str]()
        sent.rows = []
        places = positions(sent, copies=self._copies)
        if self.database == "mysql":
            places = [sent.csn] * size if self._compressed else list(range(sent.csn - size + 1, sent.csn + 1))
        alike = Counter[str]()
        for number, (change, at) in enumerate(zip(sent.changes, places, strict=True)):
            if change.op == "T" and self.database == "mysql":
                sent.rows.append(self._row(change, "t", (None, None), self._source(change, sent.csn, sent.csn, number)))
                return
            source = self._source(change, at, sent.csn, number)
            for op, before, after, headers in self._parts(change):
                if self._compressed:
                    # One place for all, as of statements of a row each. Nothing tells equal changes apart there.
                    said = repr((change.table.source, op, before, after))
                    source = {**source, "row": alike[said]}
                    alike[said] += 1
                counts[self._counted(change)] += 1
                orders = dict(zip(PARTS, (counts.total(), counts[self._counted(change)]), strict=True))
                block = {"id": self._id(sent, at)} | {k: self._order(v) for k, v in orders.items()}
                sent.rows.append(self._row(change, op, (before, after), source, block, headers))
        if not size and (self._gtids or self.database == "oracle"):
            return
        parts = [{"data_collection": name, "event_count": count} for name, count in counts.items()]
        end = {"status": "END", "id": self._id(sent, sent.csn), "ts_ms": 1700000000000}
        end |= {"event_count": counts.total(), "data_collections": parts}
        sent.metadata = self._message(METADATA, end)
        begin = {"status": "BEGIN", "id": self._id(sent, sent.csn - 2 * size), "ts_ms": 1700000000000}
        sent.rows.append(self._message(METADATA, begin | {"event_count": None, "data_collections": None}))

    def wrap(self) -> None:
        """Count transaction ids anew."""
        self._xid = 700

    def snapshot(self, state: State, csn: int, names: list[str], *, on_demand: bool = False) -> list[list[Message]]:
        """Return the rows of some tables at one moment, table after table, the last one marked.

        on_demand: somebody asked for them while the connector streamed; else it begins its stream with them.
        """
        rows = [(self._shape.tables[name], row, at) for name in names for at, row in enumerate(state[name].values(), 1)]
        sent = []
        for number, (table, row, at) in enumerate(rows, 1):
            change = Change(table, "I", None, row, tuple(table.columns))
            source = self._source(change, csn, csn, 0)
            source |= {"snapshot": _mark(number, len(rows), at, len(state[table.name]))} | self._place(csn, on_demand)
            sent.append([self._row(change, "r", (None, change.image(row)), source)])
        return sent

    def _place(self, csn: int, on_demand: bool) -> dict[str, Any]:
        """Return what shows the place from which a connector reads: a fresh one has nothing of what came before."""
        if self.database == "postgresql":
            return {"sequence": written([str(csn) if on_demand else None, str(csn)])}
        return {"server_id": 1 if on_demand else 0} if self.database == "mysql" else {}

    def history(self, changes: Sequence[Change]) -> int:
        """Return how many rows of history changes are: without headers a key that changes is two."""
        return len(changes) + sum(change.moves and not self._headers for change in changes)

    def _order(self, number: int) -> int | str:
        return str(number) if self._chance.random() < 0.3 else number

    def _id(self, sent: Sent, at: int) -> str:
        if self.database == "postgresql":
            return f"{self._xid}:{at}"
        if self.database == "oracle":
            return f"5.6.{self._xid}"
        if self.database == "sqlserver":
            return lsn_of_sqlserver(sent.csn)
        if self._gtids:
            return f"36090175-0000-0000-0000-080027ab29a2:{self._xid}"
        return "file={},pos={}".format(*binlog(sent.csn))

    def _source(self, change: Change, at: int, csn: int, number: int) -> dict[str, Any]:
        schema, table = change.table.source.split(".")
        about: dict[str, Any] = {
            "version": "3.6.1.Final",
            "connector": self.database,
            "name": "srv",
            "ts_ms": 1700000000000,
        }
        about |= {"snapshot": "false", "db": "db", "schema": schema, "table": table}
        if self.database == "postgresql":
            return about | {"txId": self._xid, "lsn": at}
        if self.database == "mysql":
            file, pos = binlog(at)
            del about["schema"]
            return about | {"db": schema, "file": file, "pos": pos, "row": number, "gtid": None, "server_id": 1}
        if self.database == "oracle":
            return about | {"scn": str(at), "commit_scn": str(csn), "ssn": number, "rs_id": None, "txId": "05000600"}
        lsn = lsn_of_sqlserver(at)
        return about | {"change_lsn": lsn, "commit_lsn": lsn_of_sqlserver(csn), "event_serial_no": number + 1}

    def _counted(self, change: Change) -> str:
        return f"db.{change.table.source}" if self.database in ("oracle", "sqlserver") else change.table.source

    # Rows.

    def _parts(self, change: Change) -> Iterator[tuple[str, Image | None, Image | None, dict[str, Image]]]:
        before, after = change.before, change.after
        if before is None:
            yield OPERATIONS[change.op], None, None if after is None else change.image(after), {}
        elif after is None:
            yield "d", self._deleted(change, before), None, {}
        elif change.moves:
            old, new = change.key(before), change.key(after)
            yield "d", self._deleted(change, before), None, {"__debezium.newkey": new} if self._headers else {}
            image = self._left_out(change, before, after) if self._headers else change.image(after)
            yield "c", None, image, {"__debezium.oldkey": old} if self._headers else {}
        else:
            full = change.table.name in self._full
            yield "u", change.image(before) if full else None, self._left_out(change, before, after), {}

    def _deleted(self, change: Change, before: Image) -> Image:
        """Return the whole deleted row, or what is made up outside its key."""
        if change.table.name in self._full:
            return change.image(before)
        kinds, key = change.table.columns, change.table.key
        return {c: before[c] if c in key else invented(kinds[c]) for c in change.columns}

    def _left_out(self, change: Change, before: Image, after: Image) -> Image:
        """Return the new row, with a placeholder for large values that did not change."""
        image = change.image(after)
        if change.table.name in self._full or self._chance.random() < 0.5:
            return image
        kinds = change.table.columns
        same = [c for c in image if kinds[c] in LARGE and c not in change.table.key]
        return image | {c: UNAVAILABLE for c in same if image[c] is not None and image[c] == before[c]}

    def _row(
        self,
        change: Change,
        op: str,
        whole: tuple[Image | None, Image | None],
        source: dict[str, Any],
        block: dict[str, Any] | None = None,
        headers: dict[str, Image] | None = None,
    ) -> Message:
        images = dict(zip(("before", "after"), whole, strict=True))
        row: dict[str, Any] = {name: self._image(change, image) for name, image in images.items()}
        row |= {"source": source, "transaction": block, "op": op, "ts_ms": 1700000000000}
        fields = [self._field(c, change.table.columns[c]) for c in change.columns]
        schema = {"type": "struct", "fields": [{"type": "struct", "fields": fields, "field": n} for n in images]}
        schema["fields"].append({"type": "string", "field": "op"})  # type: ignore[attr-defined]
        header_texts = {name: written(self._header(change, key)) for name, key in (headers or {}).items()}
        return self._message(f"srv.{change.table.source}", row, schema, header_texts)

    def _header(self, change: Change, key: Image) -> Any:
        """Return a key as a header holds it, in its schema where messages have one."""
        if not self._schemas:
            return self._image(change, key)
        fields = [self._field(column, change.table.columns[column]) for column in key]
        return {"schema": {"type": "struct", "fields": fields}, "payload": self._image(change, key)}

    def _message(
        self, topic: str, content: dict[str, Any], schema: dict[str, Any] | None = None, headers: Any = None
    ) -> Message:
        if self._schemas:
            content = {"schema": schema or {"type": "struct", "fields": []}, "payload": content}
        if not self._headers:
            return topic, written(content)
        record: dict[str, Any] = {"value": written(content)}
        return topic, written(record | ({"headers": list(map(list, headers.items()))} if headers else {}))

    def _image(self, change: Change, image: Image | None) -> dict[str, Any] | None:
        if image is None:
            return None
        kinds = change.table.columns
        return {c: self._value(kinds[c], value) for c, value in image.items()}

    # Values.

    def _value(self, kind: str, value: str | None) -> Any:
        if value is None or value == UNAVAILABLE:
            return value
        if kind.startswith("array<"):
            return [self._value(kind[6:-1], each) for each in array_elements(value)]
        if kind.startswith("decimal("):
            return self._decimal(kind, value)
        if kind in ("long", "int", "boolean") or (kind in ("double", "float") and value[-1].isdigit()):
            return Bare(value)
        return {"date": days, "timestamp": micros, "timestamptz": zoned, "time": micros_of_day, "binary": base64}.get(
            kind, str
        )(value)

    def _decimal(self, kind: str, value: str) -> str:
        if not self._schemas:
            return value
        number = int(value.replace(".", ""))
        size = (number.bit_length() + 8) // 8
        return b64encode(number.to_bytes(size, "big", signed=True)).decode()

    def _field(self, name: str, kind: str) -> dict[str, Any]:
        if kind.startswith("array<"):
            return {"type": "array", "items": self._field("", kind[6:-1]), "field": name}
        if kind.startswith("decimal("):
            scale = str(digits_of(kind)[1])
            about = {"name": "org.apache.kafka.connect.data.Decimal", "parameters": {"scale": scale}}
            return {"type": "bytes", "field": name} | about
        type_, semantic = CONNECT.get(kind, ("string", None))
        return {"type": type_, "field": name} | ({"name": semantic} if semantic else {})


CONNECT = {
    "long": ("int64", None),
    "int": ("int32", None),
    "double": ("double", None),
    "float": ("float", None),
    "boolean": ("boolean", None),
    "date": ("int32", "io.debezium.time.Date"),
    "timestamp": ("int64", "io.debezium.time.MicroTimestamp"),
    "timestamptz": ("string", "io.debezium.time.ZonedTimestamp"),
    "time": ("int64", "io.debezium.time.MicroTime"),
    "binary": ("bytes", None),
    "uuid": ("string", "io.debezium.data.Uuid"),
    "json": ("string", "io.debezium.data.Json"),
}


def invented(kind: str) -> str | None:
    """Return what stands for a value that PostgreSQL's log does not have."""
    if kind.startswith("array<"):
        return "{}"
    if kind.startswith("decimal("):
        scale = digits_of(kind)[1]
        return f"0.{'0' * scale}" if scale else "0"
    return INVENTED.get(kind, "0")


def binlog(number: int) -> tuple[str, int]:
    """Return a place in a binlog: its file and the place there."""
    return f"mysql-bin.{number >> 40:06}", number & (2**40 - 1)


def lsn_of_sqlserver(number: int) -> str:
    """Write a place in SQL Server's log as it does."""
    return f"{number >> 40:08x}:{number >> 16 & 0xFFFFFF:08x}:{number & 0xFFFF:04x}"


def days(text: str) -> Bare:
    """Return a day as a number since 1970."""
    return Bare((date.fromisoformat(text) - EPOCH.date()).days)


def micros(text: str) -> Bare:
    """Return a moment without zone as microseconds since 1970."""
    since = datetime.fromisoformat(text).replace(tzinfo=UTC) - EPOCH
    return Bare((since.days * 86400 + since.seconds) * 10**6 + since.microseconds)


def zoned(text: str) -> str:
    """Return a moment with zone as text."""
    time = datetime.fromisoformat(text)
    return f"{time.replace(tzinfo=None).isoformat()}Z"


def micros_of_day(text: str) -> Bare:
    """Return a time of day as microseconds."""
    time_of_day = time.fromisoformat(text)
    return Bare(
        ((time_of_day.hour * 60 + time_of_day.minute) * 60 + time_of_day.second) * 10**6 + time_of_day.microsecond
    )


def base64(text: str) -> str:
    """Return bytes in base64."""
    return b64encode(bytes.fromhex(text)).decode()


def _mark(number: int, size: int, at: int, rows: int) -> str:
    """Return what Debezium says of a row: the how manieth it is of all, and of its table."""
    if number == size:
        return "last"
    if number == 1:
        return "first"
    return "last_in_data_collection" if at == rows else "first_in_data_collection" if at == 1 else "true"
