"""Send messages over Apprise, a library that speaks a hundred services; it is imported where a message is sent.

Apprise says whether a message was taken and logs why not. An error here names the service, which is the scheme of the
URL, and the HTTP code that Apprise logged; its other words may hold an address, and are not repeated.
"""

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager

from txloom.errors import ConfigurationError, MessageUnsent
from txloom.quality.incident_lifecycle import OPENED
from txloom.quality.messages import Message

LOGGERS = ("apprise", "urllib3")
_CODE = re.compile(r"error=(\d{3})\b")


class AppriseNotifier:
    """Sends a message to one URL of Apprise."""

    def __init__(self, name: str, url: str) -> None:
        """Keep name and URL."""
        self.name, self._url = name, url

    def send(self, message: Message) -> None:
        """Send a message; raises MessageUnsent where the service does not take it.

        Raises ConfigurationError where Apprise is not installed or does not know the URL.
        """
        try:
            import apprise
        except ImportError:
            raise ConfigurationError(f"{self.name}: it needs the package: pip install apprise") from None
        service = self._url.partition("://")[0]
        with _logged() as records:
            client = apprise.Apprise()
            if not client.add(self._url):
                raise ConfigurationError(f"{self.name}: Apprise takes no such URL of {service}://")
            kind = _kind(message)
            if client.notify(body=_body(message), title=message.subject, notify_type=kind, body_format="text"):
                return
        codes = [code for record in records for code in _CODE.findall(record.getMessage())]
        raise MessageUnsent(f"{self.name}: {service}" + (f": HTTP {codes[-1]}" if codes else " did not take it"))


def _kind(message: Message) -> str:
    """Return the type by which services colour a message."""
    if message.fields["event"] != OPENED:
        return "success"
    return "failure" if message.fields["severity"] == "error" else "warning"


def _body(message: Message) -> str:
    """Return a message's text without its first line, which is its title."""
    return message.text.removeprefix(f"{message.subject}\n")


class _Records(logging.Handler):
    """Keeps what is logged."""

    def __init__(self, records: list[logging.LogRecord]) -> None:
        super().__init__(logging.DEBUG)
        self._records = records

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a record."""
        self._records.append(record)


@contextmanager
def _logged() -> Iterator[list[logging.LogRecord]]:
    """Collect what Apprise and its HTTP client log, and keep it out of the task's log: it may hold addresses."""
    records = list[logging.LogRecord]()
    handler, loggers = _Records(records), [logging.getLogger(name) for name in LOGGERS]
    propagate = [logger.propagate for logger in loggers]
    for logger in loggers:
        logger.addHandler(handler)
        logger.propagate = False
    try:
        yield records
    finally:
        for logger, before in zip(loggers, propagate, strict=True):
            logger.propagate = before
            logger.removeHandler(handler)
