"""Channels that messages are sent over: the log, a webhook, e-mail, Slack, Apprise; all have one interface.

The fields of a connection come from an environment that has AIRFLOW_CONN_<ID>. Errors name the channel and the kind of
error, and no address or value, which may be secret.
"""

import json
import logging
import smtplib
import ssl
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Mapping
from email.message import EmailMessage
from http.client import HTTPException
from typing import IO, Any, Protocol

from txloom.config.models.alerts import Alerts, AppriseChannel, Channel, EmailChannel, SlackChannel, WebhookChannel
from txloom.config.problems import Unfit
from txloom.config.yaml import connections
from txloom.errors import ConfigurationError, MessageUnsent
from txloom.quality.messages import Message
from txloom.steps.alerts.apprise_notifier import AppriseNotifier

LOG = logging.getLogger(__name__)

PATIENCE = 10
"""Seconds that a channel may take to answer."""


class Notifier(Protocol):
    """A channel that takes messages; its name appears in messages and tables, and is not secret."""

    name: str

    def send(self, message: Message) -> None:
        """Send a message; raise MessageUnsent where that fails."""


def notifiers(alerts: Alerts, environment: Mapping[str, str]) -> list[Notifier]:
    """Return the declared channels. Their names are their kinds, with a number from the second of a kind on.

    Args:
        alerts: the declaration.
        environment: has AIRFLOW_CONN_<ID> of the channels' connections, which are read when a message is sent.
    """
    seen: Counter[str] = Counter()
    made: list[Notifier] = []
    for channel in alerts.notify:
        seen[channel.kind] += 1
        name = channel.kind if seen[channel.kind] == 1 else f"{channel.kind} {seen[channel.kind]}"
        made.append(_notifier(channel, name, environment))
    return made


def _notifier(channel: Channel, name: str, environment: Mapping[str, str]) -> Notifier:
    if isinstance(channel, WebhookChannel):
        return WebhookNotifier(name, channel.url)
    if isinstance(channel, SlackChannel):
        return SlackNotifier(name, channel.connection, environment)
    if isinstance(channel, EmailChannel):
        return EmailNotifier(name, channel.to, channel.connection, environment)
    if isinstance(channel, AppriseChannel):
        return AppriseNotifier(name, channel.url)
    return LogNotifier(name)


class LogNotifier:
    """Logs messages."""

    def __init__(self, name: str) -> None:
        """Keep the name."""
        self.name = name

    def send(self, message: Message) -> None:
        """Log a message."""
        LOG.info(message.text)


class WebhookNotifier:
    """Posts a message's fields and text as JSON; the header Idempotency-Key is the same when it is sent again."""

    def __init__(self, name: str, url: str) -> None:
        """Keep name and URL."""
        self.name, self._url = name, url

    def send(self, message: Message) -> None:
        """Post a message; raise MessageUnsent for any answer but 2xx."""
        content = {**message.fields, "title": message.subject, "text": message.text}
        _post(self.name, self._url, content, {"Idempotency-Key": message.id})


class SlackNotifier:
    """Posts a message to an incoming webhook of Slack: host and password of a connection are URL and token."""

    def __init__(self, name: str, connection: str, environment: Mapping[str, str]) -> None:
        """Keep the name, and where the connection is read from."""
        self.name, self._connection, self._environment = name, connection, environment

    def send(self, message: Message) -> None:
        """Post a message, with Slack's markup escaped; raise MessageUnsent for any answer but 2xx."""
        host = _field(self.name, self._connection, "host", self._environment)
        token = _optional(self._connection, "password", self._environment)
        base = host if "://" in host else f"https://{host}"
        text = message.text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
        _post(self.name, f"{base.rstrip('/')}/{token.lstrip('/')}" if token else base, {"text": text}, {})


class EmailNotifier:
    """Sends a message as plain text over the mail server of an Airflow connection of type smtp."""

    def __init__(self, name: str, to: tuple[str, ...], connection: str, environment: Mapping[str, str]) -> None:
        """Keep name and addresses, and where the connection is read from."""
        self.name, self._to, self._connection, self._environment = name, to, connection, environment

    def send(self, message: Message) -> None:
        """Send a message, with the same Message-ID when it is sent again; raise MessageUnsent where that fails."""
        try:
            with self._client() as client:
                client.send_message(self._mail(message))
        except (smtplib.SMTPException, OSError) as error:
            code = getattr(error, "smtp_code", None)
            raise MessageUnsent(f"{self.name}: {type(error).__name__}" + (f" {code}" if code else "")) from None

    def _mail(self, message: Message) -> EmailMessage:
        login = _optional(self._connection, "login", self._environment)
        sender = _optional(self._connection, "extra.from_email", self._environment) or login
        if not sender:
            raise ConfigurationError(f"{self.name}: the connection {self._connection} has no extra from_email")
        mail = EmailMessage()
        mail["Subject"] = " ".join(message.subject.split())
        mail["From"], mail["To"] = sender, ", ".join(self._to)
        mail["Message-ID"] = f"<{message.id.encode().hex()}@txloom>"
        mail.set_content(message.text)
        return mail

    def _client(self) -> smtplib.SMTP:
        """Connect as Airflow's SMTP hook does: with SSL unless the extra disable_ssl is true, else with STARTTLS."""
        host = _field(self.name, self._connection, "host", self._environment)
        port = int(_optional(self._connection, "port", self._environment) or 0)
        checked = ssl.create_default_context()
        if not self._is_set("disable_ssl"):
            client: smtplib.SMTP = smtplib.SMTP_SSL(host, port, timeout=PATIENCE, context=checked)
        else:
            client = smtplib.SMTP(host, port, timeout=PATIENCE)
            if not self._is_set("disable_tls"):
                client.starttls(context=checked)
        login = _optional(self._connection, "login", self._environment)
        password = _optional(self._connection, "password", self._environment)
        if login and password:
            client.login(login, password)
        return client

    def _is_set(self, name: str) -> bool:
        return _optional(self._connection, f"extra.{name}", self._environment).lower() == "true"


def _field(channel: str, connection: str, name: str, environment: Mapping[str, str]) -> str:
    try:
        return connections.field(connection, name, environment)
    except Unfit as unfit:
        raise ConfigurationError(f"{channel}: {unfit}") from None


def _optional(connection: str, name: str, environment: Mapping[str, str]) -> str:
    try:
        return connections.field(connection, name, environment)
    except Unfit:
        return ""


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Treats a redirect as an error: following one would turn the POST of a message into a GET."""

    def redirect_request(self, req: Any, fp: IO[bytes], code: int, msg: str, headers: Any, newurl: str) -> None:
        """Return None, so that no redirect is followed."""


_OPENER = urllib.request.build_opener(_NoRedirect)


def _post(channel: str, url: str, content: Mapping[str, Any], headers: Mapping[str, str]) -> None:
    body = json.dumps(content, ensure_ascii=False).encode()
    try:
        sent_headers = {
            "Content-Type": "application/json; charset=utf-8",
            **{k: _header(v) for k, v in headers.items()},
        }
        with _OPENER.open(urllib.request.Request(url, body, sent_headers, method="POST"), timeout=PATIENCE):
            return
    except urllib.error.HTTPError as error:
        raise MessageUnsent(f"{channel}: HTTP {error.code}") from None
    except (OSError, HTTPException, ValueError) as error:
        reason = getattr(error, "reason", error)
        raise MessageUnsent(f"{channel}: {type(reason).__name__}") from None


def _header(text: str) -> str:
    """Return a text as an HTTP header can have it: ASCII on one line."""
    return text.encode("ascii", "backslashreplace").decode().replace("\n", " ").replace("\r", " ")
