"""Components that tests share: each starts when a test first asks for it and ends with the tests.

A test that stops, kills or pauses one starts its own: `with Broker(tmp_path) as broker`.
"""

from collections.abc import Iterator

import pytest

from services import fetched
from services.absent import give_up_for, needed
from services.broker import Broker
from services.cluster.hdfs import Hdfs
from services.cluster.s3 import S3
from services.cluster.standalone import Cluster
from services.connect import Connect, MysqlConnect
from services.mariadb import Mariadb
from services.mysql import Mysql
from services.postgres import Postgres
from services.process import ServiceFailed


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker for all tests of this process: give topics names of your own."""
    with Broker(tmp_path_factory.mktemp("broker")) as started:
        yield started


@pytest.fixture(scope="session")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Postgres]:
    """A PostgreSQL server for all tests of this process; where none can be had, the test says so and gives up."""
    needed(fetched.postgres)
    with Postgres(tmp_path_factory.mktemp("postgres")) as started:
        yield started


@pytest.fixture(scope="session")
def wal2json(postgres: Postgres) -> str:
    """The name of the output plugin, when the server can load it; when not, the test says so and gives up."""
    fetched.wal2json()
    try:
        postgres.psql("SELECT pg_create_logical_replication_slot('probe', 'wal2json', true)")
    except ServiceFailed as reason:
        give_up_for(f"this PostgreSQL has no wal2json: {reason}")
    return "wal2json"


@pytest.fixture(scope="session")
def mariadb(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mariadb]:
    """A MariaDB server for all tests of this process; where none can be had, the test says so and gives up."""
    needed(fetched.mariadb)
    with Mariadb(tmp_path_factory.mktemp("mariadb")) as started:
        yield started


@pytest.fixture(scope="session")
def mysql(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mysql]:
    """A MySQL server for all tests of this process; where none can be had, the test says so and gives up."""
    needed(fetched.mysql)
    with Mysql(tmp_path_factory.mktemp("mysql")) as started:
        yield started


@pytest.fixture(scope="module", params=["mariadb", "mysql"])
def server(request: pytest.FixtureRequest) -> Mariadb:
    """Each of the two servers whose binlog is read."""
    started: Mariadb = request.getfixturevalue(request.param)
    return started


@pytest.fixture(scope="session")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3]:
    """A server of S3 for all tests of this process: give buckets names of your own."""
    with S3(tmp_path_factory.mktemp("s3")) as started:
        yield started


@pytest.fixture(scope="session")
def hdfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hdfs]:
    """HDFS for all tests of this process: give folders names of your own."""
    with Hdfs(tmp_path_factory.mktemp("hdfs")) as started:
        yield started


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A standalone cluster of Spark with two workers, for a module."""
    with Cluster(tmp_path_factory.mktemp("cluster")) as started:
        yield started


@pytest.fixture(scope="module")
def connect(broker: Broker, postgres: Postgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Connect]:
    """A Connect worker for a module, not started yet; its topics (dev.*) and its slot go with it."""
    worker = Connect(tmp_path_factory.mktemp("connect"), broker, postgres)
    yield worker
    worker.forget()


@pytest.fixture(scope="module")
def mysql_connect(broker: Broker, server: Mariadb, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MysqlConnect]:
    """A Connect worker for a module that streams from MariaDB or MySQL, not started yet; its topics go with it."""
    worker = MysqlConnect(tmp_path_factory.mktemp("connect"), broker, server)
    yield worker
    worker.forget()
