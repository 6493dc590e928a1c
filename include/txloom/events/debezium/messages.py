"""The structure of Debezium messages: with or without a schema around them, keys, and placeholders for values."""

import re
from collections.abc import Mapping, Sequence
from hashlib import md5
from typing import Any
from uuid import UUID

import msgspec
from msgspec import UNSET, Raw, UnsetType

from txloom.config.models.pipeline import Table
from txloom.events.envelope import FIRST_OF_TABLE, LAST_OF_SNAPSHOT, LAST_OF_TABLE
from txloom.events.goldengate.messages import NULL
from txloom.events.malformed import Poison

SHAPE = "unknown kind of transaction id"
NOT_GIVEN = "insert without a value"
HEADER = "unreadable key header"
HINTS = {
    SHAPE: "Transaction ids are known as the connectors for PostgreSQL, MySQL, MariaDB, Oracle and SQL Server write "
    "them: look at the connector and its version.",
    NOT_GIVEN: "The value did not change in the source, so that it was not written to its log, and the row that has it "
    "cannot be named. A key change needs the header __debezium.oldkey: keep the headers where topics are copied. "
    "Oracle sends large objects with lob.enabled=true only.",
    HEADER: "Headers of key changes are read as JSON: set header.converter to the JSON converter.",
}
"""Hints for the causes that only this format has."""

NEW_KEY, OLD_KEY = "__debezium.newkey", "__debezium.oldkey"
"""Headers of the two halves of a key change: the delete names the new key, the insert the old one."""
KEY_CHANGE = "K"
"""The operation of the first half, which counts and changes nothing."""
OLD = ("D", KEY_CHANGE)
"""Operations whose row is in the image before."""
UNAVAILABLE = "__debezium_unavailable_value"
"""Debezium's placeholder for a large value that did not change, and that the source therefore did not send."""
INCREMENTAL = b'"incremental"'
"""`source.snapshot` of rows that are read beside the stream."""
MARKS = {
    b'"first"': FIRST_OF_TABLE,
    b'"first_in_data_collection"': FIRST_OF_TABLE,
    b'"last_in_data_collection"': LAST_OF_TABLE,
    b'"last"': LAST_OF_SNAPSHOT,
}
"""`source.snapshot` of the first and last rows of a table and a snapshot; a table's only row is its last."""
WITH_DATABASE = ("oracle", "sqlserver")
"""Connectors whose END names tables with the database in front of schema and table."""
_BASE64 = "X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ=="
_HEX = UNAVAILABLE.encode().hex()
_UUID = str(UUID(bytes=md5(UNAVAILABLE.encode(), usedforsecurity=False).digest(), version=3))
_CODES = ",".join(str(code) for code in UNAVAILABLE.encode())
_SCALARS = frozenset(f'"{text}"'.encode() for text in (UNAVAILABLE, _BASE64, _HEX, f"\\x{_HEX}"))
_NESTED = frozenset(
    text.encode()
    for text in (
        *(f'["{element}"]' for element in (UNAVAILABLE, _BASE64, _HEX, _UUID)),
        f"[{_CODES}]",
        f'{{"{UNAVAILABLE}":"{UNAVAILABLE}"}}',
    )
)
_HSTORE = msgspec.json.encode(f'{{"{UNAVAILABLE}":"{UNAVAILABLE}"}}')
_TRACE = re.compile(rf"{UNAVAILABLE}|{_BASE64[:-2]}|{_HEX}|{_UUID}|95,\s*95,\s*100,".encode())

Number = str | int | None
"""A number as messages write it: as a number or as text."""


class Source(msgspec.Struct, gc=False):
    """The block `source` of a row, with the fields of all connectors."""

    connector: str = ""
    db: str | None = None
    schema: str | None = None
    table: str | None = None
    ts_ms: Number = None
    ts_us: Number = None
    lsn: Number = None
    sequence: str | None = None
    file: str | None = None
    pos: Number = None
    row: Number = None
    server_id: Number = None
    scn: Number = None
    commit_scn: Number = None
    commit_ts_ms: Number = None
    lcr_position: str | None = None
    rs_id: str | None = None
    ssn: Number = None
    row_id: str | None = None
    commit_lsn: str | None = None
    change_lsn: str | None = None
    event_serial_no: Number = None
    snapshot: Raw = NULL

    @property
    def names(self) -> tuple[str, ...]:
        """Return the table's names, the most exact first; the last has the schema (for MySQL the database) in front."""
        namespace = self.schema or self.db
        short = f"{namespace}.{self.table}" if namespace else f"{self.table}"
        return (f"{self.db}.{short}", short) if self.db and self.connector in WITH_DATABASE else (short,)


class Block(msgspec.Struct, gc=False):
    """The block `transaction` of a row."""

    id: Number = None
    total_order: Number = None


class Message(msgspec.Struct, gc=False):
    """A row event, bare or wrapped in `schema` and `payload`."""

    op: str | None = None
    before: Raw = NULL
    after: Raw = NULL
    source: Source | None = None
    transaction: Block | None = None
    schema: Raw | UnsetType = UNSET
    payload: Raw | UnsetType = UNSET


class Count(msgspec.Struct):
    """How many events a transaction has of one table."""

    data_collection: str
    event_count: Number


class Border(msgspec.Struct):
    """The BEGIN or END of a transaction."""

    status: str | None = None
    id: Number = None
    ts_ms: Number = None
    event_count: Number = None
    data_collections: list[Count] | None = None
    schema: Raw | UnsetType = UNSET
    payload: Raw | UnsetType = UNSET


_row = msgspec.json.Decoder(Message | None).decode
_border = msgspec.json.Decoder(Border | None).decode


def read_row(value: bytes | str) -> tuple[Message | None, Raw]:
    """Return a message of a row topic (None: a tombstone) and the schema around it, if there is one."""
    message = _row(value)
    if message is None or message.op is not None or isinstance(message.payload, UnsetType):
        return message, NULL
    if isinstance(message.schema, UnsetType):
        return message, NULL
    return _row(message.payload), message.schema


def read_border(value: bytes) -> Border:
    """Return a message of the transaction topic, wrapped in its schema or not."""
    message = _border(value)
    if message is not None and message.status is None and not isinstance(message.payload, UnsetType):
        message = _border(message.payload)
    return message or Border()


def key_header(headers: Mapping[str, str] | None, name: str) -> tuple[dict[str, Raw], Raw] | None:
    """Return the key that a header holds, and the schema around it; None where there is no such header.

    Raises Poison for a header that is no JSON object.
    """
    text = headers.get(name) if headers else None
    if text is None:
        return None
    try:
        key = msgspec.json.decode(text, type=dict[str, Raw])
        if key.keys() == {"schema", "payload"} and bytes(key["payload"])[:1] == b"{":
            return msgspec.json.decode(key["payload"], type=dict[str, Raw]), key["schema"]
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise Poison(HEADER, f"{name} is no JSON object: {text[:80]!r}") from error
    return key, NULL


def is_unavailable(raw: bytes) -> bool:
    """Return whether a column's value is a placeholder for one that did not change.

    >>> [is_unavailable(text) for text in (b'"__debezium_unavailable_value"', b'"__debezium_unavailable"', b'["a"]')]
    [True, False, False]
    """
    if raw[:1] not in (b"[", b"{"):
        return raw in _SCALARS or raw == _HSTORE
    return len(raw) < 400 and has_unavailable(raw) and msgspec.json.format(raw, indent=-1) in _NESTED


def has_unavailable(image: bytes) -> bool:
    """Return whether an image may have a placeholder for a value that did not change."""
    return _TRACE.search(image) is not None


class KeyReader:
    """Reads the key of one table's images; names of columns are compared without case."""

    def __init__(self, table: Table) -> None:
        """Compile the reader for the names as they are declared; `read` recompiles it for other spellings."""
        self._names = table.key
        self._sources = [table.column(name).sources for name in table.key]
        self._compile([sources[0] for sources in self._sources])

    def read(self, image: bytes | Raw) -> dict[str, bytes | None]:
        """Return the key's values as JSON by their declared names; None for one that is missing."""
        fields = msgspec.structs.astuple(self._decode(image))
        if UNSET in fields:
            names = {name.upper(): name for name in msgspec.json.decode(image, type=dict[str, Raw])}
            upper = [[source.upper() for source in sources] for sources in self._sources]
            spelled = [next((names[source] for source in sources if source in names), None) for sources in upper]
            self._compile([name or sources[0] for name, sources in zip(spelled, self._sources, strict=True)])
            fields = msgspec.structs.astuple(self._decode(image))
        values = (None if value is UNSET else bytes(value) for value in fields)
        return dict(zip(self._names, values, strict=True))

    def is_given(self, key: Mapping[str, Any]) -> bool:
        """Return whether a key from a header has all columns of the declared key."""
        names = {name.upper() for name in key}
        return all(any(source.upper() in names for source in sources) for sources in self._sources)

    def _compile(self, spelled: Sequence[str]) -> None:
        fields = [(f"k{number}", Raw | UnsetType, UNSET) for number in range(len(spelled))]
        rename = {f"k{number}": name for number, name in enumerate(spelled)}
        self._decode = msgspec.json.Decoder(msgspec.defstruct("Key", fields, rename=rename, gc=False)).decode
