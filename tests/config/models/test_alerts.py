"""The block `alerts`, each mistake with its whole message."""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from txloom.config import connections_of, load
from txloom.config.models.alerts import Alerts

Refused = Callable[..., str]
Declared = Callable[..., Path]
MAINTENANCE = "maintenance:\n"


def alerts(*lines: str) -> tuple[str, str]:
    return MAINTENANCE, "alerts:\n" + "".join(f"  {line}\n" for line in lines) + MAINTENANCE


def test_without_the_block_nobody_is_told(declared: Declared) -> None:
    assert load(declared()).alerts is None


def test_what_is_left_out_is_not_looked_at_and_the_log_is_told_every_five_minutes(declared: Declared) -> None:
    loaded = load(declared(alerts("dead_letters: 0"))).alerts
    assert loaded == Alerts(dead_letters=0)
    assert (loaded.schedule, loaded.valid_through_age, loaded.stuck_after) == ("*/5 * * * *", None, None)
    assert [each.kind for each in loaded.notify] == ["log"]


def test_every_channel_and_threshold(declared: Declared, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOOK", "https://hooks.example/x?token=t")
    file = declared(
        alerts(
            "valid_through_age: 30m",
            "stuck_after: 10m",
            "source_quiet: 2h",
            "dead_letters: '5'",
            'notify: [{kind: webhook, url: "${HOOK}"}, {kind: email, to: [a@b.c]}, {kind: slack, connection: team}]',
        )
    )
    loaded = load(file).alerts
    assert loaded is not None
    assert (loaded.valid_through_age, loaded.stuck_after, loaded.source_quiet, loaded.dead_letters) == (
        timedelta(minutes=30),
        timedelta(minutes=10),
        timedelta(hours=2),
        5,
    )
    assert loaded.notify[0].url == "https://hooks.example/x?token=t"  # type: ignore[union-attr]
    assert loaded.connections == ("smtp_default", "team")


def test_a_webhooks_url_may_come_from_a_connection(declared: Declared) -> None:
    file = declared(alerts('notify: [{kind: webhook, url: "${conn:hook.password}"}]'))
    assert connections_of(file) == ["hook"]
    assert load(file, connected=False).alerts.notify[0].url == "${conn:hook.password}"  # type: ignore[union-attr]
    there = load(file, {"AIRFLOW_CONN_HOOK": '{"password": "http://h/secret"}'})
    assert there.alerts.notify[0].url == "http://h/secret"  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (
            ["stuck_after: 30m"],
            "shop.yaml:55: alerts.stuck_after: found '30m', expected less than completeness.patience (30m). A "
            "transaction that waits longer has become dead letters: this alert could never come.",
        ),
        (["dead_letters: -1"], "shop.yaml:55: alerts.dead_letters: found -1, expected a whole number."),
        (
            ["valid_through_age: 30"],
            "shop.yaml:55: alerts.valid_through_age: found 30, expected a duration such as 30s, 15m, 2h or 7d. "
            "A number alone does not say its unit.",
        ),
        (
            ["notify: [{kind: pager}]"],
            "shop.yaml:55: alerts.notify[0].kind: found 'pager', expected log, webhook, email, slack or apprise.",
        ),
        (["notify: [log]"], "shop.yaml:55: alerts.notify[0]: found 'log', expected a mapping with kind."),
        (
            ["notify: [{kind: webhook, url: hooks.example}]"],
            "shop.yaml:55: alerts.notify[0].url: found 'hooks.example', expected a URL that begins with http:// or "
            "https://, or ${NAME} that holds one.",
        ),
        (
            ["notify: [{kind: apprise, url: slack}]"],
            "shop.yaml:55: alerts.notify[0].url: found 'slack', expected a URL of Apprise, such as slack://..., or "
            "${NAME} that holds one.",
        ),
        (
            ["notify: [{kind: email, to: [on-call]}]"],
            "shop.yaml:55: alerts.notify[0].to: found a list, expected at least one entry.\n"
            "shop.yaml:55: alerts.notify[0].to[0]: found 'on-call', expected an e-mail address.",
        ),
        (
            ["valid_trough_age: 30m"],
            "shop.yaml:55: alerts.valid_trough_age: found an unknown key, expected schedule, valid_through_age, "
            "source_quiet, stuck_after, dead_letters or notify. Did you mean 'valid_through_age'?",
        ),
    ],
)
def test_a_mistake_is_refused_with_file_and_line(refused: Refused, lines: list[str], message: str) -> None:
    assert refused(*alerts(*lines)) == message


def test_a_url_out_of_the_environment_that_is_none_is_not_shown(
    refused: Refused, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOOK", "token-4711")
    message = refused(*alerts('notify: [{kind: webhook, url: "${HOOK}"}]'))
    assert "4711" not in message
    assert message.startswith("shop.yaml:55: alerts.notify[0].url: found '${HOOK}'")
