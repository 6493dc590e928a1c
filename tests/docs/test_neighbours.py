"""Files for other systems: they name what txloom sends, and have what the other system needs to read them."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from txloom.storage.health.metrics import HELP

PROJECT = Path(__file__).resolve().parents[2]
DEPLOY = PROJECT / "include" / "deploy"
PAGE = (PROJECT / "docs" / "neighbours.md").read_text()
SENT = {f"txloom_{name}" for name in HELP}
"""`tests/orchestration/test_gauges.py` sees each of them arrive."""


def named(expression: str) -> set[str]:
    return set(re.findall(r"\btxloom_\w+", expression))


def dashboard() -> dict[str, Any]:
    content: dict[str, Any] = json.loads((DEPLOY / "grafana-dashboard.json").read_text())
    return content


def targets() -> Iterator[dict[str, Any]]:
    for panel in dashboard()["panels"]:
        yield from panel["targets"]


def test_the_page_lists_every_metric_and_no_other() -> None:
    listed = {name.replace(".", "_") for name in re.findall(r"^\| `(txloom\.[a-z_]+)` \|", PAGE, re.MULTILINE)}
    assert listed == SENT


def test_the_dashboard_asks_for_metrics_that_are_sent_and_shows_each_that_is_sent_everywhere() -> None:
    queried = [named(target["expr"]) for target in targets()]
    assert all(queried)
    assert set().union(*queried) == SENT - {"txloom_up"}


def test_the_dashboard_has_what_grafana_needs() -> None:
    content = dashboard()
    assert isinstance(content["schemaVersion"], int) and content["title"] and "id" not in content
    variables = {each["name"]: each for each in content["templating"]["list"]}
    assert (variables["datasource"]["type"], variables["datasource"]["query"]) == ("datasource", "prometheus")
    assert named(variables["pipeline"]["definition"]) <= SENT
    assert all(target["datasource"]["uid"] == "${datasource}" and target["refId"] for target in targets())
    assert all("$pipeline" in target["expr"] and "{{pipeline}}" in target["legendFormat"] for target in targets())
    panels = content["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    cells = [
        (x, y)
        for panel in panels
        for x in range(panel["gridPos"]["x"], panel["gridPos"]["x"] + panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["y"], panel["gridPos"]["y"] + panel["gridPos"]["h"])
    ]
    assert len(cells) == len(set(cells)) and max(x for x, _ in cells) < 24


def test_alerting_rules_are_about_metrics_that_are_sent() -> None:
    (group,) = yaml.safe_load((DEPLOY / "prometheus-rules.yaml").read_text())["groups"]
    assert all({"alert", "expr", "labels", "annotations"} <= rule.keys() for rule in group["rules"])
    assert all(named(rule["expr"]) and named(rule["expr"]) <= SENT for rule in group["rules"])


def test_statsd_exporter_forgets_what_is_not_sent_any_more() -> None:
    mappings = yaml.safe_load((DEPLOY / "statsd-mapping.yaml").read_text())["mappings"]
    assert all(mapping["match"].startswith("airflow.txloom.") and mapping["ttl"] for mapping in mappings)
