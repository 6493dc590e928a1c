"""The causes for which a message cannot be taken as an event, each with a hint of what an operator can do."""

BROKEN = "broken JSON"
NOT_AN_OBJECT = "not an object"
EMPTY = "empty message"
SEVERAL = "several objects in one message"
NUL = "NUL byte"
BOM = "byte order mark"
ENCODING = "not UTF-8"
BINARY = "binary message"
SURROGATE = "half a character"
DEEP = "nested too deep"
NO_TRANSACTION = "no transaction id"
NO_CSN = "no csn"
NO_POSITION = "no position"
NO_TABLE = "no table"
OPERATION = "unknown operation"
NO_IMAGE = "no image"
UNKNOWN_TABLE = "unknown table"
NO_KEY = "no key"
INSERT_ONLY = "table without a key"
COUNTS = "unreadable counts"
NO_METADATA = "no transaction metadata"
TOO_LARGE = "message too large"
HEADERS = "unreadable headers"

HINTS = {
    BROKEN: "The message was cut off or garbled on its way: compare it with the producer's own copy.",
    NOT_AN_OBJECT: "Something else writes into this topic or folder: find out who.",
    EMPTY: "The producer sent nothing under this position; harmless where it means a heartbeat.",
    SEVERAL: "The handler concatenates operations: set format mode to operations, one JSON object a message.",
    NUL: "The message holds binary zeros: look for a file that was not closed properly.",
    BOM: "Messages and files are UTF-8 without a byte order mark: set the tool that wrote it so (PowerShell, Excel and "
    ".NET write one), and send the message again.",
    ENCODING: "Messages and files are UTF-8: look at the encoding of the tool that wrote them, and send them again.",
    BINARY: "The message is no JSON text: set the connector's value.converter to "
    "org.apache.kafka.connect.json.JsonConverter, which needs no schema registry, and let compressed files end in .gz.",
    SURROGATE: "JSON escapes one half of a surrogate pair, which no character is: the source cut a text in the middle "
    "of one. Correct the value there.",
    DEEP: "No row holds arrays or objects within each other without end: find out who writes into this topic or "
    "folder.",
    NO_TRANSACTION: "Rows need the xid they were committed under: add it to the handler's template.",
    NO_CSN: "Rows need a csn that is a number of at most 63 bits: add it to the handler's template.",
    NO_POSITION: "Rows need a pos that is a number of at most 63 bits: add it to the handler's template.",
    NO_TABLE: "The message names no table: look at the handler's template.",
    OPERATION: "Only I, U, D and T are operations of rows.",
    UNKNOWN_TABLE: "The row's table is neither watched nor ignored: declare the table under tables, then redrive. "
    "Or name the table in source.ignored_tables, or set source.unknown_tables to count.",
    NO_IMAGE: "An insert or update needs `after`, a delete needs `before`: look at the handler's image settings.",
    NO_KEY: "The image lacks a column of the declared key, or it is null: correct the key or the handler's settings.",
    INSERT_ONLY: "A row of a table without a key cannot be found again, so that it cannot be changed: declare the "
    "key, or give the source table one.",
    COUNTS: "The metadata does not say how many events each table has, or contradicts itself, so that nothing is "
    "released by it. Have the producer send it corrected; tables of one short name in two schemas need full names.",
    NO_METADATA: "A message of the transaction topic counts nothing: rows are written there too, or "
    "source.transaction_topic names a topic of rows.",
    TOO_LARGE: "It has more bytes than source.max_message_bytes allows, and only its first ones are kept: raise the "
    "limit if the tasks have the memory, then have the source deliver the message again.",
    HEADERS: "The `headers` of a record are pairs of names and values, a mapping, or names and values by turns, all "
    "of them text: look at the tool that copied the topic into files.",
}


def describe_unknown(name: str) -> str:
    """Return the detail of a row whose table is neither watched nor ignored; name: the table's name in the source."""
    return f"{name} is neither watched nor ignored"


def name_of_unknown(detail: str) -> str | None:
    """Return the name that `describe_unknown` was called with; None for any other detail."""
    end = describe_unknown("")
    return detail.removesuffix(end) if detail.endswith(end) else None
