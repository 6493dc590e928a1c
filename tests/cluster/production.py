"""An Airflow as in production, with four pipelines: the sample, wal2json, Debezium through Kafka, and 65 tables."""

import json
import time
from copy import deepcopy
from itertools import pairwise
from pathlib import Path
from typing import Any

import yaml

from cluster.sample import OrdersLake, StoredLake
from cluster.streams import Row, by_debezium, by_wal2json
from cluster.submitted import works
from oracle import capture
from oracle.state import Source
from services.airflow.instance import Airflow
from services.broker import Broker
from services.cluster.standalone import Cluster, Worker
from txloom.config.project import PROJECT

DATA = PROJECT / "tests" / "data"
TASKS = ("land_events", "buffer_transactions", "merge_current", "check_expectations", "publish")
DEBEZIUM_PARTS = (0, 1_795_230_205_000, 1_795_230_218_000, 1 << 62)
"""Milliseconds of Kafka's clock at which the capture is cut."""
DRIFT = 300
"""Milliseconds by which each topic is cut later than the one before it."""
TABLES = 65
LARGE = (1, 2, 30, 65)
"""Tables of the plant that have so many rows that the cluster merges them."""
PLANT: dict[str, Any] = {
    "name": "plant",
    "source": {"format": "change_sets", "files": {}},
    "completeness": {"rule": "single"},
    "tables": [
        {
            "name": f"t{{1..{TABLES}}}",
            "source": "PLANT.{name}",
            "key": ["id"],
            "columns": {"id": "long", "value": "long"},
        }
    ],
    "targets": {"mirrors": ["*"]},
}


class Production:
    """Runs of pipelines in an Airflow whose jobs go to a cluster, with a lake below a URI.

    Args:
        airflow: the running Airflow.
        cluster: the cluster of Spark.
        root: the URI.
    """

    def __init__(self, airflow: Airflow, cluster: Cluster, root: str) -> None:
        self.airflow, self.cluster, self.root = airflow, cluster, root
        self.runs = list[tuple[str, str]]()

    def begin(self, pipeline: str) -> tuple[str, str]:
        """Let a cycle begin and return its DAG and its run."""
        dag = f"{pipeline}_cdc"
        self.airflow.unpause(dag)
        self.runs.append((dag, self.airflow.trigger(dag)))
        return self.runs[-1]

    def end(self, dag: str, run_id: str) -> None:
        """Wait until a cycle has succeeded."""
        assert self.airflow.wait(dag, run_id, 900) == "success", self._failures(dag, run_id)

    def cycle(self, pipeline: str, lost: str = "", worker: int = 0) -> None:
        """Run a cycle; while a task of it has work on the cluster, a worker may die."""
        dag, run_id = self.begin(pipeline)
        if lost:
            self._lose(self.cluster.workers[worker], self._log(dag, run_id, lost))
        self.end(dag, run_id)

    def logs(self) -> list[str]:
        """Return what every task said."""
        return [
            self.airflow.log(dag, run_id, name, each["try_number"])
            for dag, run_id in self.runs
            for name, each in self.airflow.tasks(dag, run_id).items()
            if name in TASKS
        ]

    def _lose(self, worker: Worker, log: Path) -> None:
        """Wait until executors work for a task, let a machine of theirs die, and let another take its place."""
        until = time.monotonic() + 600
        while not any(map(works, _lines(log))):
            assert time.monotonic() < until, f"nothing ran on the cluster: {_lines(log)[-20:]}"
            time.sleep(0.1)
        worker.die()
        worker.start()

    def _log(self, dag: str, run_id: str, task: str) -> Path:
        folder = self.airflow.folder / "logs" / f"dag_id={dag}" / f"run_id={run_id}" / f"task_id={task}"
        return folder / "attempt=1.log"

    def _failures(self, dag: str, run_id: str) -> dict[str, str]:
        tasks = self.airflow.tasks(dag, run_id)
        return {
            name: self.airflow.log(dag, run_id, name)[-3000:]
            for name, each in tasks.items()
            if each["state"] == "failed"
        }


def _lines(log: Path) -> list[str]:
    return log.read_text().splitlines() if log.exists() else []


def declare(folder: Path, root: str) -> None:
    """Write the declarations of the four pipelines, that run when they are told to, by jobs on the cluster."""
    examples = PROJECT / "include" / "pipelines"
    files = (
        examples / "orders.yaml",
        *(examples / "examples" / f"orders_{name}.yaml" for name in ("wal2json", "debezium")),
    )
    declared: list[Any] = [*(yaml.safe_load(file.read_text()) for file in files), deepcopy(PLANT)]
    for each in declared:
        each["schedule"] = None
        each["spark"] = {"connection": "cluster", "executors": 2, "executor_cores": 1, "executor_memory": "1g"}
        if "files" in each["source"]:
            each["source"]["files"]["path"] = StoredLake(root, each["name"]).inbox
        (folder / f"{each['name']}.yaml").write_text(yaml.safe_dump(each, sort_keys=False))


def orders(production: Production) -> OrdersLake:
    """Run the sample, a cycle for three arrivals."""
    lake = OrdersLake(production.root)
    for arrivals in ((1, 2, 3), (4, 5, 6)):
        for arrival in arrivals:
            lake.deliver(capture.SAMPLE / "arrivals" / f"{arrival:02}")
        production.cycle("orders")
    return lake


def wal2json(production: Production) -> tuple[OrdersLake, Source]:
    """Run a stream that is cut within a transaction; a worker dies while it is buffered, and one while it is merged."""
    lake, lines = (
        OrdersLake(production.root, "orders_wal2json"),
        capture.lines(DATA / "wal2json" / "from_empty.jsonl.gz"),
    )
    middle = len(lines) // 2
    for number, (part, lost) in enumerate(((lines[:middle], TASKS[1]), (lines[middle:], TASKS[2]))):
        lake.put("shop", f"{number}.jsonl", "".join(f"{line}\n" for line in part).encode())
        production.cycle("orders_wal2json", lost, number)
    return lake, by_wal2json(lines)


def debezium(production: Production, broker: Broker) -> tuple[OrdersLake, Source]:
    """Run records of topics, each topic cut at a place of its own; the snapshot is shown behind the second part."""
    files = sorted((DATA / "orders" / "debezium").iterdir())
    topics: dict[str, list[Row]] = {
        file.name.removesuffix(".jsonl.gz"): [json.loads(line) for line in capture.lines(file)] for file in files
    }
    for topic, records in topics.items():
        broker.create_topic(topic, max(each["partition"] for each in records) + 1)
    for begin, end in pairwise(DEBEZIUM_PARTS):
        for number, (topic, records) in enumerate(topics.items()):
            sent = [each for each in records if begin <= each["timestamp"] - number * DRIFT < end]
            broker.produce(topic, [(e["key"], e["value"], dict(e["headers"]), e["partition"]) for e in sent])
        production.cycle("orders_debezium")
    for topic in topics:
        broker.delete_topic(topic)
    return OrdersLake(production.root, "orders_debezium"), by_debezium(
        each for part in topics.values() for each in part
    )


def plant(production: Production) -> StoredLake:
    """Insert rows into 65 tables, and change the first of each."""
    lake = StoredLake(production.root, "plant")
    for day, (flag, value) in enumerate((("I", 1), ("U", 3)), 1):
        for number in range(1, TABLES + 1):
            keys = range(1) if flag == "U" else range(rows_of(number))
            rows = [f"{flag},{key},{value},2026-01-{day:02} 00:00:00" for key in keys]
            lake.put(f"t{number}", f"{day}.csv", ("\n".join(["FLAG,ID,VALUE,CDC_TIMESTAMP", *rows]) + "\n").encode())
        production.cycle("plant")
    return lake


def rows_of(number: int) -> int:
    """Return how many rows a table of the plant has."""
    return 200 if number in LARGE else 10
