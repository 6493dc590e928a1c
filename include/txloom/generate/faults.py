"""Simulate faults of delivery between a source and its reader: duplicate, late, damaged and lost messages.

A delay holds a whole topic back and then delivers it in order, as a producer or partition does that stalls for a while.
Every message that is not lost is delivered in the end. Faults never change the source's transactions.
"""

import heapq
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from typing import Any

from txloom.errors import ConfigurationError
from txloom.generate.formats.messages import MARKER, METADATA, ROW, Message, Writer
from txloom.generate.workload.changes import Transaction
from txloom.generate.workload.orders import SEEDS
from txloom.generate.workload.values import Draw

APART = 1 << 64
"""An offset that keeps the seeds of faults apart from those of workloads, so that faults do not change the source."""
LONGEST_STALL = 40
"""The most transactions for which a topic stalls."""
Note = Callable[[dict[str, Any]], None]


@dataclass(frozen=True)
class Faults:
    """How often each fault happens, from 0 to 1.

    Per message: duplicates, lost_rows, lost_metadata, poison (a damaged copy, beside the message itself). Per
    transaction, at which it begins: reorder (one table's rows stall), late_metadata, early_metadata (all rows stall).
    Per file of the last slice: truncated_file (the end of its last line is missing).
    """

    duplicates: float = 0.0
    reorder: float = 0.0
    late_metadata: float = 0.0
    early_metadata: float = 0.0
    lost_metadata: float = 0.0
    lost_rows: float = 0.0
    poison: float = 0.0
    truncated_file: float = 0.0


NAMES = tuple(each.name for each in fields(Faults))
OF_METADATA = ("late_metadata", "early_metadata", "lost_metadata")


def refuse_unfit(faults: Faults, writer: Writer, name: str) -> None:
    """Raise ConfigurationError for faults that a format cannot have; name: the format."""
    unfit = OF_METADATA if writer.metadata_topic is None else ()
    unfit = (*unfit, "reorder") if writer.in_one_stream else unfit
    refused = [fault for fault in unfit if getattr(faults, fault)]
    if refused:
        reason = "all is one stream" if refused == ["reorder"] else "no metadata come apart from the rows"
        raise ConfigurationError(f"--faults: found {', '.join(refused)}, but in {name} {reason}.")


class Delivery:
    """Delivers transactions' messages, with faults; note: called with each fault, its topic and its csn.

    counts: how many messages each fault hit: duplicates, delayed and lost messages, metadata that came before its rows,
    and damaged copies.
    """

    def __init__(self, faults: Faults, writer: Writer, seed: int, note: Note, *, texts_only: bool) -> None:
        """Begin with no message held back; texts_only: whether damaged messages are still valid text."""
        self._faults, self._writer, self._note = faults, writer, note
        self._first_seed, self._texts_only = (seed + APART) * SEEDS, texts_only
        self._draw = Draw()
        self._now = 0
        self._until: Counter[str] = Counter()
        self._topics: list[str] = []
        self._held: dict[str, list[Message]] = {}
        self._again: list[tuple[int, int, Message]] = []
        self.counts: Counter[str] = Counter()

    def deliver(self, transaction: Transaction) -> Iterator[Message]:
        """Yield the messages that a reader receives when a transaction commits."""
        if self._faults == Faults():
            yield from self._writer.messages(transaction)
            return
        self._now = transaction.number
        self._draw.restart(self._first_seed + transaction.number)
        yield from self._due()
        if self._writer.in_one_stream:
            yield from self._streamed(transaction)
        else:
            self._stall()
            yield from self._apart(transaction)

    def rest(self) -> Iterator[Message]:
        """Yield all messages that are still held back."""
        self._now += LONGEST_STALL + 1
        yield from self._due()
        self._now += LONGEST_STALL + 1
        yield from self._due()

    def truncates(self, topic: str) -> bool:
        """Return whether a topic's last file is cut off."""
        cut = self._draw.happens(self._faults.truncated_file)
        if cut:
            self._hit("truncated_file", topic)
        return cut

    def _streamed(self, transaction: Transaction) -> Iterator[Message]:
        """Yield a transaction in one stream; a duplicate is a repeated beginning of it, as after a reader's crash."""
        messages = [message for message in self._writer.messages(transaction) if not self._is_lost(message)]
        if self._draw.happens(self._faults.duplicates):
            read = messages[: 1 + self._draw.below(len(messages))]
            self._hit("duplicates", messages[0].topic, transaction.csn, len(read))
            yield from read
        yield from messages
        for message in messages:
            yield from self._damaged(message)

    def _apart(self, transaction: Transaction) -> Iterator[Message]:
        """Yield the messages of a transaction that are not held back; each topic is delayed by itself."""
        ahead = False
        for message in self._writer.messages(transaction):
            if self._is_lost(message):
                continue
            fault = self._waits(message.topic)
            if fault is None:
                if ahead and message.kind == METADATA:
                    self._hit("early_metadata", message.topic, message.csn)
                yield from self._delivered(message)
                continue
            self._held.setdefault(message.topic, []).append(message)
            ahead = ahead or fault == "early_metadata"
            if message.kind == (METADATA if fault == "late_metadata" else ROW) and fault != "early_metadata":
                self._hit(fault, message.topic, message.csn)

    def _stall(self) -> None:
        """Choose at random topics that stall from now on; metadata and all rows never stall at the same time."""
        draw, faults, until = self._draw, self._faults, self._until
        if self._topics and draw.happens(faults.reorder):
            self._stop(draw.pick(self._topics))
        for fault, other in (("late_metadata", "early_metadata"), ("early_metadata", "late_metadata")):
            if draw.happens(getattr(faults, fault)) and until[other] <= self._now:
                self._stop(fault)

    def _stop(self, what: str) -> None:
        if self._until[what] <= self._now:
            self._until[what] = self._now + 1 + self._draw.below(LONGEST_STALL)

    def _waits(self, topic: str) -> str | None:
        """Return the fault that holds a topic back now, None without any."""
        if topic == self._writer.metadata_topic:
            return "late_metadata" if self._until["late_metadata"] > self._now else None
        if topic not in self._topics:
            self._topics.append(topic)
        if self._until["early_metadata"] > self._now:
            return "early_metadata"
        return "reorder" if self._until[topic] > self._now else None

    def _due(self) -> Iterator[Message]:
        """Yield the messages that are no longer held back, and the duplicates that are due."""
        for topic in [topic for topic in self._held if self._waits(topic) is None]:
            for message in self._held.pop(topic):
                yield from self._delivered(message)
        while self._again and self._again[0][0] <= self._now:
            yield heapq.heappop(self._again)[2]

    def _delivered(self, message: Message) -> Iterator[Message]:
        yield message
        yield from self._damaged(message)
        if message.value is not None and self._draw.happens(self._faults.duplicates):
            self._hit("duplicates", message.topic, message.csn)
            due = self._now + 1 + self._draw.below(LONGEST_STALL)
            heapq.heappush(self._again, (due, self.counts["duplicates"], message))

    def _damaged(self, message: Message) -> Iterator[Message]:
        if message.value is None or not self._draw.happens(self._faults.poison):
            return
        garbled = self._writer.garbled(message.value)
        value = self._draw.pick([each for each in garbled if not self._texts_only or _is_text(each)])
        self._hit("poison", message.topic, message.csn)
        yield message._replace(value=value, kind=MARKER)

    def _is_lost(self, message: Message) -> bool:
        fault = {ROW: "lost_rows", METADATA: "lost_metadata"}.get(message.kind)
        if fault is None or not self._draw.happens(getattr(self._faults, fault)):
            return False
        self._hit(fault, message.topic, message.csn)
        return True

    def _hit(self, fault: str, topic: str, csn: int | None = None, messages: int = 1) -> None:
        self.counts[fault] += messages
        self._note({"fault": fault, "topic": topic, "csn": csn, "messages": messages})


def _is_text(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True
