"""Names of a source that change while it works: the topic of its metadata, and the fields of change sets."""

import re
from dataclasses import dataclass, field

from oracle.capture import Message

FIELDS = {"flag": "FLAG", "timestamp": "CDC_TIMESTAMP"}
"""The fields of change sets that get other names, by their keys in a declaration."""
TOPIC = re.compile(r"transaction_topic: ([\w.]+)")


@dataclass
class SourceRenames:
    """The present names of a source, by its first ones."""

    times: int = 0
    topics: dict[str, str] = field(default_factory=dict)
    fields: dict[str, str] = field(default_factory=dict)

    def renamed(self, source: str) -> str:
        """Give the names that a declaration has of a source new ones, and return what it says of the source then."""
        self.times += 1
        if (topic := TOPIC.search(source)) is None:
            self.fields = {name: f"{name}_{self.times}" for name in FIELDS.values()}
            named = ", ".join(f"{key}: {self.fields[name]}" for key, name in FIELDS.items())
            return f"format: change_sets, change_sets: {{{named}}}"
        first = next((name for name, now in self.topics.items() if now == topic[1]), topic[1])
        self.topics = {first: f"{first}{self.times}"}
        return TOPIC.sub(f"transaction_topic: {self.topics[first]}", source)

    def named(self, message: Message) -> Message:
        """Return a message under the present names."""
        topic, line = message
        for name, now in self.fields.items():
            line = re.sub(rf'"{name}"(?=\s*:)', f'"{now}"', line, count=1)
        return self.topics.get(topic, topic), line
