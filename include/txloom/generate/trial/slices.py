"""The messages of one slice of the stream, before a reader gets them: whole transactions, by topic, in order.

They are GoldenGate's: a topic for each table, and one for the transactions' metadata.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from txloom.generate.formats.messages import encode

METADATA = "dev.transaction_metadata_json"
TOPIC = "dev.public.{}.json"
ENDING = ".jsonl"
Lines = dict[str, list[bytes]]
Message = dict[str, Any]
decode = msgspec.json.Decoder().decode


def topic_of(table: str) -> str:
    """Return the topic of a table's rows.

    >>> topic_of("orders")
    'dev.public.orders.json'
    """
    return TOPIC.format(table)


@dataclass
class Slice:
    """One slice. number: of its files; topics: its lines by topic; before: reads those of the slice before it."""

    number: int
    topics: Lines
    before: Callable[[], Lines] = dict

    def messages(self, topic: str) -> Iterator[tuple[int, Message]]:
        """Yield the messages of a topic with their places in it."""
        for place, line in enumerate(self.topics.get(topic, [])):
            yield place, decode(line)

    def replace(self, topic: str, place: int, message: Message) -> None:
        """Put another message at a place."""
        self.topics[topic][place] = encode(message)

    def take(self, topic: str, place: int) -> bytes:
        """Take a message out and return it."""
        return self.topics[topic].pop(place)

    def add_row(self, table: str, row: Message) -> str:
        """Add a row to the slice's last transaction, as its last change, and count it there; return that one's id.

        row: the message without what tells its transaction and its place.
        """
        place, metadata = list(self.messages(METADATA))[-1]
        self._append(table, row, metadata["xid"], metadata["csn"])
        counts = {each["data_collection"]: each["event_count"] for each in metadata["data_collections"]}
        counts[table.upper()] = counts.get(table.upper(), 0) + 1
        metadata["event_count"] += 1
        metadata["data_collections"] = [{"data_collection": key, "event_count": n} for key, n in counts.items()]
        self.replace(METADATA, place, metadata)
        return str(metadata["xid"])

    def add_transaction(self, table: str, row: Message) -> str:
        """Add a transaction of one row behind all others of the slice, and return its id."""
        _, last = list(self.messages(METADATA))[-1]
        csn = str(int(last["csn"]) + 1)
        xid = f"{last['xid']}.{csn}"
        self._append(table, row, xid, csn)
        counts = [{"data_collection": table.upper(), "event_count": 1}]
        metadata = {"xid": xid, "csn": csn, "tx_ts": last["tx_ts"], "event_count": 1, "data_collections": counts}
        self.topics[METADATA].append(encode(metadata))
        return xid

    def _append(self, table: str, row: Message, xid: str, csn: str) -> None:
        """Append a row message behind the last change of the slice."""
        rows = [each for topic in self.topics if topic != METADATA for _, each in self.messages(topic)]
        last = max(rows, key=lambda each: int(each["pos"]))
        about = {key: last[key] for key in ("op_ts", "current_ts")}
        about |= {"pos": f"{int(last['pos']) + 1:020}", "csn": csn, "xid": xid}
        message = {"table": f"PUBLIC.{table.upper()}", **row, **about}
        self.topics.setdefault(topic_of(table), []).append(encode(message))


def staged(folder: Path) -> list[Slice]:
    """Return the slices that were generated into a folder and not delivered, in order."""
    slices: dict[int, Slice] = {}
    for file in sorted(folder.glob(f"*/*{ENDING}")):
        if not file.parent.name.startswith("_"):
            number = int(file.name.removesuffix(ENDING))
            made = slices.setdefault(number, Slice(number, {}))
            made.topics[file.parent.name] = file.read_bytes().splitlines()
    return [slices[number] for number in sorted(slices)]


def forget(folder: Path, number: int) -> None:
    """Remove the files of a slice, where there are any."""
    for file in folder.glob(f"*/{number:08}{ENDING}"):
        file.unlink(missing_ok=True)


def deliver(inbox: Path, name: str, topics: Lines) -> None:
    """Write lines into an inbox, a file for each topic, the metadata last; a file gets its name when it is complete."""
    for topic in sorted(topics, key=lambda topic: (topic == METADATA, topic)):
        if topics[topic]:
            (inbox / topic).mkdir(parents=True, exist_ok=True)
            hidden = inbox / topic / f".{name}{ENDING}.part"
            hidden.write_bytes(b"".join(line + b"\n" for line in topics[topic]))
            hidden.rename(inbox / topic / f"{name}{ENDING}")


def delivered(inbox: Path, number: int) -> Lines:
    """Return the lines of a slice as they lie in an inbox."""
    files = inbox.glob(f"*/{number:08}{ENDING}")
    return {file.parent.name: file.read_bytes().splitlines() for file in files}
