"""A sample of the messages that lie in a folder: some of the first and of the last file of each topic."""

import gzip
import json
import zlib
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from txloom.errors import ConfigurationError

LINES = 2_000
"""Lines of a file that are looked at."""
ENDINGS = (".jsonl", ".json", ".jsonl.gz", ".json.gz", ".ndjson")


@dataclass
class Sample:
    """Messages that were seen. topics: their values by topic; keys: the keys of records, by topic.

    has_records: whether a line is a record of a topic, with a message in it.
    """

    topics: dict[str, list[Mapping[str, Any]]] = field(default_factory=lambda: defaultdict(list))
    keys: dict[str, list[Mapping[str, Any]]] = field(default_factory=lambda: defaultdict(list))
    has_records: bool = False

    def has_schemas(self) -> bool:
        """Return whether messages carry the schema of their rows, as Connect's JSON converter can write it."""
        return any(isinstance(each.get("schema"), dict) for messages in self.topics.values() for each in messages)

    def format(self) -> str:
        """Return the format of the messages.

        Raises ConfigurationError where it is none that is known.
        """
        for messages in self.topics.values():
            for message in messages:
                if known := _format_of(message):
                    return known
        expected = "expected messages of debezium, wal2json or goldengate"
        raise ConfigurationError(f"--files: found {sum(map(len, self.topics.values()))} messages, {expected}.")


def _format_of(message: Mapping[str, Any]) -> str:
    body = message.get("payload", message)
    if isinstance(body, dict) and isinstance(body.get("source"), dict) and "op" in body:
        return "debezium"
    if ("action" in message and ("lsn" in message or "schema" in message)) or "change" in message:
        return "wal2json"
    return "goldengate" if "op_type" in message and "table" in message else ""


def sample(folder: Path) -> Sample:
    """Read a sample.

    Raises ConfigurationError for a folder that is not there, or has no messages.
    """
    if not folder.is_dir():
        raise ConfigurationError(f"--files: found {folder}, expected a folder with one sub-folder for each topic.")
    made = Sample()
    for topic in sorted(each for each in folder.iterdir() if each.is_dir() and not each.name.startswith((".", "_"))):
        files = sorted(
            each for each in topic.iterdir() if each.name.endswith(ENDINGS) and not each.name.startswith(".")
        )
        for file in dict.fromkeys([*files[:1], *files[-1:]]):
            for message in _messages(file):
                _take(made, topic.name, message)
    if not made.topics:
        raise ConfigurationError(f"--files: found no messages below {folder}, expected TOPIC/FILE.jsonl.")
    return made


def _messages(file: Path) -> Iterator[Mapping[str, Any]]:
    try:
        yield from _parsed_lines(file)
    except (OSError, EOFError, zlib.error) as error:
        raise ConfigurationError(f"--files: {file} cannot be read: {error}.") from error


def _parsed_lines(file: Path) -> Iterator[Mapping[str, Any]]:
    with gzip.open(file) if file.suffix == ".gz" else file.open("rb") as stream:
        for line in islice(stream, LINES):
            try:
                message = json.loads(line)
            except (ValueError, RecursionError):
                continue
            if isinstance(message, dict):
                yield message


def _take(made: Sample, topic: str, message: Mapping[str, Any]) -> None:
    """Add a message; of a record of a topic its value and key, each of which may be JSON or the text of it."""
    if "value" not in message or "offset" not in message:
        made.topics[topic].append(message)
        return
    made.has_records = True
    value, key = _parsed(message["value"]), _parsed(message.get("key"))
    if value is not None:
        made.topics[topic].append(value)
    if key is not None:
        made.keys[topic].append(key)


def _parsed(text: Any) -> Mapping[str, Any] | None:
    try:
        value = json.loads(text) if isinstance(text, str) else text
    except ValueError:
        return None
    return value if isinstance(value, dict) else None
