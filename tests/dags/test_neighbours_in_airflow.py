"""OpenLineage and StatsD in a real Airflow: a cycle's events and metrics, as a lineage server and a StatsD get them."""

import json
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from services.airflow.instance import Airflow
from services.process import wait_until
from txloom.storage.delta import small_tables

DECLARATION = """
name: shop
source: {{format: change_sets, files: {{path: {folder}/inbox, settle: 0s}}}}
completeness: {{rule: single}}
tables:
  - {{name: orders, source: S.ORDERS, key: [id], columns: {{id: long, total: "decimal(12,2)"}}}}
  - {{name: lines, source: S.LINES, key: [line], columns: {{line: long, id: long}}}}
targets:
  mirrors: [lines]
  aggregates:
    - {{name: order, root: orders, children: [{{table: lines, as: items, relation: many, parent_key: [id]}}]}}
alerts: {{}}
"""
Event = dict[str, Any]


class Cycle:
    """What a lineage server and a StatsD server got of one cycle."""

    def __init__(self, folder: Path, events: list[Event], packets: list[str]) -> None:
        self.folder, self.packets = folder, packets
        self.ended = {
            event["job"]["name"].removeprefix("shop_cdc."): event
            for event in events
            if event["eventType"] == "COMPLETE" and event["job"]["name"].startswith("shop_cdc.")
        }

    def datasets(self, task: str, side: str) -> dict[str, Event]:
        """Return what a task read or wrote, by its name within the pipeline's folder of the lake."""
        listed = self.ended[task][side]
        assert {each["namespace"] for each in listed} <= {"file"}
        lake = f"{self.folder}/lake/shop/"
        return {each["name"].removeprefix(lake): each for each in listed}


@pytest.fixture(scope="module")
def cycle(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cycle]:
    folder = tmp_path_factory.mktemp("lineage")
    (folder / "pipelines").mkdir()
    (folder / "pipelines" / "shop.yaml").write_text(DECLARATION.format(folder=folder))
    sent = {"orders": {"ID": 1, "TOTAL": "9.50"}, "lines": {"LINE": 11, "ID": 1}}
    for number, (table, row) in enumerate(sent.items()):
        (folder / "inbox" / table).mkdir(parents=True)
        line = json.dumps({"FLAG": "I", "CDC_TIMESTAMP": 1000 + number, **row})
        (folder / "inbox" / table / "1.jsonl").write_text(f"{line}\n")
    events: list[Event] = []

    class LineageServer(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            content = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            events.extend(content if isinstance(content, list) else [content])
            self.send_response(201)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with (
        ThreadingHTTPServer(("127.0.0.1", 0), LineageServer) as server,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as statsd,
    ):
        statsd.bind(("127.0.0.1", 0))
        packets: list[str] = []
        threading.Thread(target=server.serve_forever, daemon=True).start()
        threading.Thread(target=_receive, args=(statsd, packets), daemon=True).start()
        transport = {"type": "http", "url": f"http://127.0.0.1:{server.server_port}", "endpoint": "api/v1/lineage"}
        environment = {
            "AIRFLOW__OPENLINEAGE__TRANSPORT": json.dumps(transport),
            "AIRFLOW__OPENLINEAGE__NAMESPACE": "production",
            "AIRFLOW__METRICS__STATSD_ON": "True",
            "AIRFLOW__METRICS__STATSD_HOST": "127.0.0.1",
            "AIRFLOW__METRICS__STATSD_PORT": str(statsd.getsockname()[1]),
            "AIRFLOW__METRICS__STATSD_INFLUXDB_ENABLED": "True",
        }
        with Airflow(folder / "airflow", folder / "pipelines", folder / "lake", environment) as airflow:
            airflow.unpause("shop_cdc")
            run_id = airflow.trigger("shop_cdc")
            assert airflow.wait("shop_cdc", run_id, 600) == "success"
            wait_until(lambda: "publish" in Cycle(folder, events, packets).ended, "publish's event", 60)
            yield Cycle(folder, events, packets)
        server.shutdown()


def _receive(statsd: socket.socket, packets: list[str]) -> None:
    while True:
        try:
            packets.append(statsd.recv(65536).decode())
        except OSError:
            return


def test_the_events_of_a_cycle_lead_from_the_source_to_the_cut(cycle: Cycle) -> None:
    flow = {
        task: (set(cycle.datasets(task, "inputs")), set(cycle.datasets(task, "outputs")))
        for task in ("land_events", "buffer_transactions", "merge_current", "publish")
    }
    history, current = {"order_stream", "lines_changes"}, {"order_current", "lines"}
    assert flow == {
        "land_events": ({f"{cycle.folder}/inbox"}, {"change_events", "dead_letters"}),
        "buffer_transactions": ({"change_events"}, history | {"dead_letters"}),
        "merge_current": (history, current),
        "publish": (current, {"cuts"}),
    }
    assert {event["job"]["namespace"] for event in cycle.ended.values()} == {"production"}


def test_tables_have_their_columns_and_where_these_come_from(cycle: Cycle) -> None:
    tables = cycle.datasets("merge_current", "outputs")
    lines, orders = (tables[name]["facets"] for name in ("lines", "order_current"))
    assert _columns(lines["schema"]) == [("line", "bigint"), ("id", "bigint")]
    assert _columns(orders["schema"]) == [("id", "bigint"), ("total", "decimal(12,2)"), ("items", "array")]
    assert _columns(orders["schema"]["fields"][2]) == [("line", "bigint"), ("id", "bigint")]
    assert _inputs(lines) == {"line": ("lines_changes", "line"), "id": ("lines_changes", "id")}
    assert _inputs(orders) == {
        "id": ("order_stream", "orders.id"),
        "total": ("order_stream", "orders.total"),
        "items": ("order_stream", "items"),
    }


def _columns(facet: Event) -> list[tuple[str, str]]:
    return [(each["name"], each["type"]) for each in facet["fields"]]


def _inputs(facets: Event) -> dict[str, tuple[str, str]]:
    lineage = facets["columnLineage"]["fields"]
    assert all(len(each["inputFields"]) == 1 for each in lineage.values())
    first = {column: each["inputFields"][0] for column, each in lineage.items()}
    return {column: (each["name"].rsplit("/", 1)[1], each["field"]) for column, each in first.items()}


def test_a_run_says_which_csns_it_brought_to_readers_and_the_versions_of_its_cut(cycle: Cycle) -> None:
    facet = cycle.ended["publish"]["run"]["facets"]["txloom"]
    assert (facet["pipeline"], facet["step"], facet["cut_id"]) == ("shop", "publish", 1)
    assert (facet["csn_after"], facet["valid_through"]) == (0, 1001)
    assert (facet["counts"]["published"], facet["counts"]["gaps"]) == (1, 0)
    assert cycle.ended["land_events"]["run"]["facets"]["txloom"]["counts"]["landed"] == 2
    (cut,) = small_tables.query(f"{cycle.folder}/lake/shop/cuts", "select versions from t")
    shown = {
        name: each["facets"]["version"]["datasetVersion"] for name, each in cycle.datasets("publish", "inputs").items()
    }
    assert shown == {name: str(version) for name, version in dict(cut["versions"]).items()}


def test_the_tasks_of_airflow_send_seconds_and_the_state_of_the_pipeline(cycle: Cycle) -> None:
    def received(start: str) -> bool:
        return any(
            line.startswith(f"airflow.txloom.{start}") for packet in cycle.packets for line in packet.splitlines()
        )

    wait_until(lambda: received("last_cut_age_seconds,pipeline=shop:"), "the state, sent by the task alert", 60)
    for task in ("land_events", "buffer_transactions", "merge_current", "publish"):
        assert received(f"step_seconds,pipeline=shop,task={task}:")
