"""A connector of MariaDB or MySQL is asked to read a table anew while it is written to: every cut is a state it had."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest

from called import step_of
from lake import Lake
from services.connect import MysqlConnect
from services.process import wait_until
from steps.snapshots.test_request_snapshot import EXTRA, LOST, SETTINGS, WRONG, create_topics, damage
from txloom.config import load
from txloom.steps.landing import follow_snapshots
from txloom.steps.snapshots.request_snapshot import request_snapshot
from txloom.storage.landing import requested_snapshots
from txloom.storage.paths import TablePaths

pytestmark = [pytest.mark.stream, pytest.mark.long]
SCHEMA = """
    create table orders (id int primary key, n int);
    create table signals (id varchar(64) primary key, type varchar(32), data varchar(2048));
"""
DECLARED = """
name: live
source:
  format: debezium
  kafka: {{brokers: '{brokers}', topics: [dev.shop.orders]}}
  transaction_topic: dev.transaction
  signals: {{topic: live-signals, notifications: live-notices}}
completeness: {{rule: counts, patience: 2h}}
tables: [{{name: orders, source: shop.orders, key: [id], columns: {{id: int, n: int}}}}]
targets: {{mirrors: ["*"]}}
"""
Rows = dict[int, int]


class Shop(Lake):
    """A lake of a table that transactions change, each of which writes a number that no other one did."""

    def __init__(self, spark: Any, folder: Path, connect: MysqlConnect) -> None:
        file = folder / "live.yaml"
        file.write_text(DECLARED.format(brokers=connect.broker.address))
        super().__init__(spark, folder, load(file))
        self.connect, self.chance = connect, Random(20261127)
        self.states: list[Rows] = [{}]
        self.left_alone = set[int]()

    def commit(self) -> None:
        """Change a few rows in one transaction."""
        rows, number, statements = dict(self.states[-1]), len(self.states), ["begin"]
        for key in self.chance.sample([key for key in range(1, 41) if key not in self.left_alone], 3):
            if key not in rows:
                statements.append(f"insert into orders values ({key}, {number})")
            elif self.chance.random() < 0.3:
                statements.append(f"delete from orders where id = {key}")
                del rows[key]
                continue
            else:
                statements.append(f"update orders set n = {number} where id = {key}")
            rows[key] = number
        self.connect.server.sql("; ".join([*statements, "commit"]), "shop")
        self.states.append(rows)

    def shown(self) -> Rows:
        return {row["id"]: row["n"] for row in self.rows("orders")}

    def caught_up(self) -> None:
        """Run until all transactions are shown, but for the rows that were damaged; these are there."""
        self.commit()
        while not {LOST, WRONG} <= self.states[-1].keys():
            self.commit()

        def shows() -> bool:
            self.run()
            return self.is_a_state(self.shown(), self.states[-1:])

        wait_until(shows, "the last transaction", within=180)

    def is_a_state(self, rows: Rows, states: list[Rows]) -> bool:
        damaged = (LOST, WRONG, EXTRA)
        there = {key: n for key, n in rows.items() if key not in damaged}
        return there in [{key: n for key, n in state.items() if key not in damaged} for state in states]


@pytest.fixture(params=["read only", "a table has the watermarks"])
def shop(mysql_connect: MysqlConnect, spark: Any, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Shop]:
    connect = mysql_connect
    connect.server.fresh_database("shop", SCHEMA)
    create_topics(connect.broker)
    watermarks = {"signal.enabled.channels": "source,kafka", "signal.data.collection": "shop.signals"}
    how = {"read.only": "true"} if request.param == "read only" else {"read.only": "false", **watermarks}
    about = {**SETTINGS, "signal.kafka.bootstrap.servers": connect.broker.address, **how}
    connect.start(connector=about)
    made = Shop(spark, tmp_path, connect)
    for _ in range(20):
        made.commit()
    wait_until(lambda: "dev.transaction" in connect.broker.topics(), "the first transaction")
    yield made
    connect.forget()


def test_what_was_wrong_is_right_once_the_connector_read_it_and_every_cut_is_a_state(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follow_snapshots, "AFTER", timedelta(seconds=2))
    shop.caught_up()
    assert shop.shown() == shop.states[-1]
    # Only the snapshot mends them: no transaction changes them from here on.
    shop.left_alone = damage(shop, {"n": "-1"})
    paths = TablePaths(shop.warehouse, "live")
    request_snapshot(step_of(shop.pipeline, shop.warehouse, "asked"), ["orders"])
    while requested_snapshots.open_requests(paths):
        for _ in range(3):
            shop.commit()
        shop.run()
        assert shop.is_a_state(shop.shown(), shop.states)
    (request,) = requested_snapshots.requests(paths)
    assert (request.status, request.removed) == ("loaded", 1)
    shop.caught_up()
    assert shop.shown() == shop.states[-1]
    assert shop.query("dead_letters", "select cause, detail from t") == []
