"""The decoder and the images of each source format.

Rows that txloom lands itself (loaded snapshots, differences of snapshots) are in GoldenGate's layout, under separate
topics, whatever the source's format is.
"""

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol

import msgspec
import pyarrow as pa

from txloom.config import names
from txloom.config.models.pipeline import Pipeline, Table
from txloom.config.models.source import Source
from txloom.events import rejections
from txloom.events.garbage_collector import paused
from txloom.events.goldengate.decoder import GoldenGateDecoder
from txloom.events.malformed import Poison, Refused, shortened, within_limit, without_blank_lines

if TYPE_CHECKING:
    from txloom.events.wal2json.decoder import Open

KEY_CHANGE = "K"
"""Operation of a row event that only announces a key change; the next event has the change."""
Headers = Sequence[Mapping[str, str] | None]
UNWRITABLE = (Poison, msgspec.MsgspecError, ValueError, ArithmeticError, RecursionError)
"""What a format's images raise for a message that they cannot read."""


class Decoder(Protocol):
    """A format's decoder: one row of the envelope for each message, in order."""

    def decode(self, topic: str, values: Sequence[bytes | None], headers: Headers | None = None) -> pa.Table:
        """Decode messages of one topic."""
        ...


class Images(Protocol):
    """A format's images: at a release it writes one table's messages as `txloom.events.images.reader` reads them."""

    def canonical(self, values: Sequence[str], ops: Sequence[str], headers: Headers) -> list[bytes]:
        """Return the messages in GoldenGate's layout; ops and headers are those of the envelope."""
        ...


class SourceDecoder:
    """Decodes everything that is landed for a pipeline; compiled, so each process makes one."""

    def __init__(
        self,
        pipeline: Pipeline,
        spellings: Mapping[str, str] | None = None,
        *,
        holds_ahead: bool = False,
        again: bool = False,
    ) -> None:
        """Compile the decoders of a pipeline's source and of the rows that txloom lands itself.

        spellings: how names of the source were spelled so far. holds_ahead: whether rows that may be ahead of the
        stream are marked, and get no table. again: whether the messages were landed before; the limit on their size
        was that of their landing.
        """
        self._source = _decoder(pipeline, spellings, holds_ahead=holds_ahead)
        self.declared = [table.source for table in pipeline.tables]
        self._limit = None if again else pipeline.source.max_message_bytes
        self._renamed = _renamed_topics(pipeline.source)
        self._has_lines = pipeline.source.files is not None and pipeline.source.files.layout == "values"
        self.counts_places = pipeline.source.format == "change_sets"
        self._loads = GoldenGateDecoder(pipeline.tables, names.LOAD_METADATA)

    @property
    def spellings(self) -> dict[str, str]:
        """Return how names of the source were spelled so far, in these messages too."""
        return {} if self._source is None else dict(self._source.names.spellings)

    @paused()
    def decode(
        self, topic: str, values: Sequence[bytes | None], headers: Headers | None = None, first: int = 1
    ) -> pa.Table:
        """Decode messages of one topic into the envelope, in order; a malformed one becomes poison with its cause.

        first: the position of the first message in its file.
        """
        if topic in names.LOADS:
            return self._loads.decode(topic, values)
        topic = self._renamed.get(topic, topic)
        values = without_blank_lines(values) if self._has_lines else values
        values = values if self._limit is None else within_limit(values, self._limit)
        if isinstance(self._source, GoldenGateDecoder):
            return self._source.decode(topic, values)
        places = {"first": first} if self.counts_places else {}
        events: pa.Table = self._source.decode(topic, values, headers, **places)
        return events

    def find_table(self, source_table: str) -> str | None:
        """Return the declared table that a name of the source means; None: unwatched, or not certain."""
        try:
            table = None if self._source is None else self._source.names.find(source_table)
        except Poison:
            return None
        return None if table is None else str(table.name)

    def resume(self, topic: str, left: "Open | None") -> None:
        """Continue in a topic where an earlier landing ended; left: the transaction that was open there, if any.

        This matters only for formats whose transactions are marked by order in the topic; others ignore it.
        """
        if hasattr(self._source, "resume"):
            self._source.resume(topic, left)

    def open(self, topic: str) -> "Open | None":
        """Return the transaction that is open after the messages of a topic so far; None for none and other formats."""
        return self._source.open(topic) if hasattr(self._source, "open") else None


def is_ordered(pipeline: Pipeline) -> bool:
    """Return whether a topic's messages depend on their order, so that one decoder must read them in sequence."""
    return pipeline.source.format == "wal2json"


def is_in_commit_order(pipeline: Pipeline, topic: str) -> bool:
    """Return whether cuts rely on a topic to show transactions in commit order.

    A landing then takes no file of the topic before an earlier one is finished, which may hold a lower csn:

    - counts: the metadata topic. A row whose metadata has come is waited for, in whatever file it comes.
    - markers: every topic, because a transaction may begin in one file and end in the next.
    - progress: every topic: a partition that shows a csn has shown all rows of lower ones.
    - single: every topic: a cut that shows a change shows the earlier ones of its topic.
    """
    return pipeline.completeness.rule != "counts" or topic == pipeline.source.transaction_topic


def is_by_position(pipeline: Pipeline) -> bool:
    """Return whether rows have no position in their messages, so that the order of landing is their position."""
    return pipeline.source.format in ("change_events", "change_sets")


MADE = {
    "debezium": ("debezium.decoder.DebeziumDecoder", "debezium.images.DebeziumImages"),
    "wal2json": ("wal2json.decoder.Wal2JsonDecoder", "wal2json.images.Wal2JsonImages"),
    "change_events": ("change_events.ChangeEventDecoder", "change_events.ChangeEventImages"),
    "change_sets": ("change_sets.ChangeSetDecoder", "change_sets.ChangeSetImages"),
}
"""By format, its decoder and its images below this package; a process imports only the module that it needs."""


def images(pipeline: Pipeline, table: Table) -> Images | None:
    """Return the images that write a source's messages in GoldenGate's layout; None where they already have it."""
    if pipeline.source.format in ("goldengate", "snapshots"):
        return None
    source = pipeline.source
    options = source.debezium.model_dump() if source.format == "debezium" else {}
    options |= _fields(source)
    reader: Images = _made(MADE[source.format][1])(table, **options)
    return reader


def canonical(source: Images, values: Sequence[str], ops: Sequence[str], headers: Headers) -> Sequence[bytes]:
    """Return messages in the layout that images are read from; one that cannot be written so becomes a Refused message.

    Messages that decoders refuse can still come here, if an earlier version landed them.
    """
    try:
        return source.canonical(values, ops, headers)
    except UNWRITABLE:
        messages = zip(values, ops, headers, strict=True)
        return [message for each in messages for message in _alone(source, *each)]


def _alone(source: Images, value: str, op: str, headers: Mapping[str, str] | None) -> Sequence[bytes]:
    try:
        return source.canonical([value], [op], [headers])
    except UNWRITABLE as error:
        detail = shortened(f"the message cannot be read: {': '.join(map(str, error.args))}")
        return [Refused(b"", rejections.BROKEN, detail)]


def _decoder(pipeline: Pipeline, spellings: Mapping[str, str] | None, *, holds_ahead: bool = False) -> Any:
    source = pipeline.source
    if source.format == "snapshots":
        return None
    ignored = source.ignored_tables if source.unknown_tables == "dead_letter" else None
    if source.format == "goldengate":
        return GoldenGateDecoder(pipeline.tables, source.transaction_topic, source.run_token, ignored, spellings)
    topics = () if source.transaction_topic is None else (source.transaction_topic,)
    options: dict[str, Any] = _fields(source)
    options |= {"holds_ahead": holds_ahead} if source.format == "debezium" else {}
    return _made(MADE[source.format][0])(pipeline.tables, *topics, ignored=ignored, spellings=spellings, **options)


def _fields(source: Source) -> dict[str, Any]:
    """Return, of change sets, what their fields are called, and what they were called before."""
    if source.format != "change_sets":
        return {}
    return {"fields": source.change_sets, "former": tuple(each.change_sets for each in source.former)}


def _renamed_topics(source: Source) -> dict[str, str]:
    """Return the present name of the metadata topic by each of its former names."""
    if source.transaction_topic is None:
        return {}
    former = {each.transaction_topic for each in source.former} - {None, source.transaction_topic}
    return dict.fromkeys((name for name in former if name is not None), source.transaction_topic)


def _made(name: str) -> Any:
    module, _, kind = name.rpartition(".")
    return getattr(import_module(f"{__package__}.{module}"), kind)
