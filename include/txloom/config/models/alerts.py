"""The declaration of alerts: what is an incident, and over which channels it is reported."""

from typing import Annotated, Literal

from pydantic import Field

from txloom.config.models.base import Model
from txloom.config.models.fields import Address, AppriseUrl, ConnectionId, Cron, Duration, Url, Whole


class LogChannel(Model):
    """Writes messages into the log of the task that finds an incident."""

    kind: Annotated[Literal["log"], Field(description="The kind of channel")]


class WebhookChannel(Model):
    """Posts messages as JSON."""

    kind: Annotated[Literal["webhook"], Field(description="The kind of channel")]
    url: Annotated[
        Url, Field(description="The URL that takes a POST; keep it out of the file: ${NAME} or ${conn:ID.password}")
    ]


class EmailChannel(Model):
    """Sends messages as plain text e-mail."""

    kind: Annotated[Literal["email"], Field(description="The kind of channel")]
    to: Annotated[tuple[Address, ...], Field(description="A list of addresses", min_length=1)]
    connection: Annotated[
        ConnectionId, Field(description="The Airflow connection of the mail server, of type smtp")
    ] = "smtp_default"


class SlackChannel(Model):
    """Posts messages to an incoming webhook of Slack."""

    kind: Annotated[Literal["slack"], Field(description="The kind of channel")]
    connection: Annotated[
        ConnectionId,
        Field(description="The Airflow connection of the incoming webhook: its URL as host, its token as password"),
    ] = "slack_default"


class AppriseChannel(Model):
    """Sends messages over one of the services that the library Apprise speaks; it has to be installed."""

    kind: Annotated[Literal["apprise"], Field(description="The kind of channel")]
    url: Annotated[
        AppriseUrl, Field(description="The URL of Apprise; keep it out of the file: ${NAME} or ${conn:ID.password}")
    ]


Channel = Annotated[
    LogChannel | WebhookChannel | EmailChannel | SlackChannel | AppriseChannel, Field(discriminator="kind")
]


class Alerts(Model):
    """What is an incident, and who is notified; without a threshold its kind of incident is not looked for."""

    schedule: Annotated[Cron | None, Field(description="When the alerts DAG looks, as cron; nothing: by hand")] = (
        "*/5 * * * *"
    )
    valid_through_age: Annotated[
        Duration | None, Field(description="How old valid-through may be, such as 30m; older: an incident")
    ] = None
    source_quiet: Annotated[
        Duration | None, Field(description="How long the source may send nothing, such as 2h; longer: an incident")
    ] = None
    stuck_after: Annotated[
        Duration | None, Field(description="How long a transaction may wait for its missing parts, such as 10m")
    ] = None
    dead_letters: Annotated[
        Whole | None, Field(description="How many open dead letters are no incident, such as 0")
    ] = None
    notify: Annotated[tuple[Channel, ...], Field(description="A list of channels, such as {kind: log}")] = (
        LogChannel(kind="log"),
    )

    @property
    def connections(self) -> tuple[str, ...]:
        """Return the ids of the Airflow connections that channels need."""
        return tuple(each.connection for each in self.notify if isinstance(each, EmailChannel | SlackChannel))
