"""Measure both repairs of what an audit finds: of just the rows that differ, and by a snapshot of the connector.

    PYTHONPATH=tests python tests/benchmarks/bench_repair.py [--rows 200000] [--snapshot 1000000]

Starts a PostgreSQL and a Kafka broker in a temporary folder. First 10,000 rows of a table are damaged, found by an
audit, loaded as the source has them, and audited again. Then a played connector reads a table of which the lake has
heard nothing, but for 10,000 rows that the source no longer has. Prints seconds of each step.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any

from deltalake import DeltaTable

from called import step_of
from lake import STEPS, Lake
from services import fetched
from services.broker import Broker
from services.postgres import Postgres
from steps.audit.test_audit import SCHEMA, Shop
from steps.snapshots.test_follow_any_snapshots import DECLARED, TABLES, Rows, Source
from txloom.config import load
from txloom.steps.audit.differing_rows import Chosen
from txloom.steps.audit.repair import repair
from txloom.steps.landing import follow_snapshots
from txloom.steps.snapshots.request_snapshot import request_snapshot
from txloom.storage.landing import requested_snapshots
from txloom.storage.paths import TablePaths
from txloom.storage.spark.session import open_session

DAMAGED = 10_000
INSERTS = """
    INSERT INTO orders (id, note, amount, at, doc) SELECT n, 'note ' || n, n / 3.0, timestamptz '2026-01-01 00:00Z',
        '{{"a": 1}}' FROM generate_series(3001, {rows}) n
"""


class Bulk(Source):
    """A source and its connector, whose messages are sent many at once."""

    def __init__(self, broker: Broker, prefix: str) -> None:
        super().__init__(broker, prefix, Random(0))
        self.sent: dict[str, list[str]] = defaultdict(list)

    def _send(self, topic: str, message: str) -> None:
        self.sent[topic].append(message)

    def send(self) -> None:
        """Send what was gathered."""
        for topic, messages in self.sent.items():
            self.broker.produce(topic, [(None, message) for message in messages])
        self.sent.clear()

    def read_all(self, rows: Rows) -> None:
        """Read one table, as a signal asked."""
        (signal,) = self.broker.read(f"{self.prefix}-signals")
        self.signal, self.unread, self.chunk = json.loads(signal.value)["id"], [], ("orders", rows)
        self.taken = 1
        self.read()
        self.send()


@contextmanager
def measured(what: str) -> Iterator[None]:
    begun = time.perf_counter()
    yield
    print(f"{what}: {time.perf_counter() - begun:.1f} s", flush=True)


def of_rows(spark: Any, folder: Path, rows: int) -> None:
    """Repair rows of a live database's table."""
    fetched.postgres()
    fetched.wal2json()
    with Postgres(folder / "postgres") as postgres:
        postgres.fresh_database("audited", SCHEMA)
        shop = Shop(spark, folder / "shop", postgres, "audited")
        os.environ["AIRFLOW_CONN_SHOP_DB"] = shop.airflow_connection
        shop.sql(INSERTS.format(rows=rows))
        with measured(f"cycle of {rows:,} rows"):
            shop.caught_up()
        DeltaTable(shop.path("orders")).update(
            predicate=f"id > 0 and id % {rows // DAMAGED} = 0", updates={"note": "'planted'"}
        )
        with measured(f"audit that finds {DAMAGED:,} rows, with the cycles that it waits for"):
            assert shop.audit_live()["differing"] == DAMAGED
        with measured("their load"):
            assert repair(step_of(shop.pipeline, shop.warehouse, "repair"), Chosen())["rows"] == DAMAGED
        with measured("the cycle that shows it"):
            shop.caught_up()
        with measured("audit that finds all equal, with the cycles that it waits for"):
            assert shop.audit_live()["differing"] == 0


def by_connector(spark: Any, folder: Path, rows: int) -> None:
    """Read a table anew."""
    folder.mkdir()
    follow_snapshots.AFTER = timedelta(0)
    with Broker(folder) as broker:
        for name in ("p-signals", "p-notices", "p.transaction", *(f"p.public.{table}" for table in TABLES)):
            broker.create_topic(name)
        (folder / "shop.yaml").write_text(DECLARED.format(brokers=broker.address, prefix="p"))
        source, lake = Bulk(broker, "p"), Lake(spark, folder, load(folder / "shop.yaml"))
        source.change({("orders", key): key for key in range(rows, rows + DAMAGED)})
        source.send()
        lake.run()
        source.change({("lines", 1): 1})
        source.send()
        lake.run()
        request_snapshot(step_of(lake.pipeline, lake.warehouse, "asked"), ["orders"])
        source.read_all({key: -key for key in range(rows)})
        cycle, paths = 0, TablePaths(lake.warehouse, "shop")
        while requested_snapshots.open_requests(paths):
            cycle += 1
            for step in STEPS:
                with measured(f"snapshot of {rows:,} rows, cycle {cycle}: {step.__name__}"):
                    lake.run([step])
        assert lake.query("orders", "select count(*) as n, max(id) as id from t") == [{"n": rows, "id": rows - 1}]


def main() -> int:
    """Measure and print."""
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("--rows", type=int, default=200_000)
    flags.add_argument("--snapshot", type=int, default=1_000_000)
    given = flags.parse_args()
    spark = open_session("txloom repairs", "repairs")
    with tempfile.TemporaryDirectory(prefix="txloom-repair-") as made:
        of_rows(spark, Path(made), given.rows)
        by_connector(spark, Path(made) / "connector", given.snapshot)
    spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
