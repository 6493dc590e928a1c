"""Rows of real connectors' snapshots say whether the stream begins with them, or somebody asked for them."""

import pytest

from services.connect import MysqlConnect
from services.process import wait_until
from steps.snapshots.test_request_snapshot import SETTINGS, create_topics
from steps.snapshots.test_snapshot_taken_again import blocking, snapshot_rows
from txloom.events.debezium.positions import is_where_streaming_begins

pytestmark = [pytest.mark.stream, pytest.mark.long]
SCHEMA = "create table orders (id int primary key, n int); insert into orders values (1, 1), (2, 2), (3, 3)"


def test_a_snapshot_that_begins_the_stream_has_no_server_and_one_that_somebody_asked_for_has(
    mysql_connect: MysqlConnect,
) -> None:
    mysql_connect.server.fresh_database("shop", SCHEMA)
    create_topics(mysql_connect.broker)
    about = {**SETTINGS, "signal.kafka.bootstrap.servers": mysql_connect.broker.address}
    mysql_connect.start(connector={**about, "signal.data.collection": "shop.signals"})
    wait_until(lambda: len(snapshot_rows(mysql_connect, "dev.shop.orders")) == 3, "the snapshot")
    assert [is_where_streaming_begins(row) for row in snapshot_rows(mysql_connect, "dev.shop.orders")] == [True] * 3
    blocking(mysql_connect, "shop.orders", "dev.shop.orders", "id = 2")
    assert not is_where_streaming_begins(snapshot_rows(mysql_connect, "dev.shop.orders")[-1])
