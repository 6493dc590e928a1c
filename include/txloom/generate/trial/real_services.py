"""PostgreSQL, Kafka and Debezium of `make up-real`: their ports, their settings, and who reads them."""

import os
import secrets
import shlex
from collections.abc import Callable
from pathlib import Path

import msgspec

from txloom.config.project import PROJECT
from txloom.errors import ConfigurationError
from txloom.generate.services import connect
from txloom.generate.services.broker import Broker
from txloom.generate.services.connect import STREAMING
from txloom.generate.services.postgres import USER, Postgres
from txloom.generate.services.process import Service, ServiceFailed, free_port, listens, wait_until

DATABASE = "shop"
SLOT, PUBLICATION = "debezium", "dbz_publication"
ADDRESSES = "addresses.json"
PORTS = {"postgres": "TXLOOM_POSTGRES_PORT", "kafka": "TXLOOM_KAFKA_PORT", "connect": "TXLOOM_CONNECT_PORT"}
"""Environment variables that choose ports; by default free ones are taken, and kept."""
TRANSACTIONS = "dev.transaction"
SCHEMA = PROJECT / "include" / "sample" / "schema.sql"
DESK = "CREATE SCHEMA order_entry; CREATE TABLE order_entry.position (number bigint NOT NULL, made jsonb NOT NULL);"
CONNECTOR = {
    "slot.name": SLOT,
    "publication.name": PUBLICATION,
    "publication.autocreate.mode": "filtered",
    "schema.include.list": "public",
    # A slot whose tables are quiet moves on.
    "heartbeat.interval.ms": "10000",
    "signal.enabled.channels": "kafka",
    "signal.kafka.topic": "dev-signals",
    "notification.enabled.channels": "sink",
    "notification.sink.topic.name": "dev-notifications",
    "read.only": "true",
}
"""What docs/sources/debezium.md recommends, beyond what every connector here has."""
PROVIDER = {
    "config.providers": "file",
    "config.providers.file.class": "org.apache.kafka.common.config.provider.FileConfigProvider",
}
"""The worker's REST interface shows settings: with it the password is not among them."""


class Addresses(msgspec.Struct):
    """The ports of the services, and the password of PostgreSQL's user."""

    postgres: int
    kafka: int
    controller: int
    connect: int
    password: str

    @property
    def database(self) -> str:
        """The address of the database, as libpq and Airflow read it."""
        return f"postgresql://{USER}:{self.password}@127.0.0.1:{self.postgres}/{DATABASE}"


def known(folder: Path) -> Addresses:
    """Return the addresses of a source's services.

    Raises ConfigurationError where there are none yet.
    """
    try:
        return msgspec.json.decode((folder / ADDRESSES).read_bytes(), type=Addresses)
    except FileNotFoundError:
        raise ConfigurationError(f"{folder}: no source lives here; `make up-real` starts it.") from None


def chosen(folder: Path) -> Addresses:
    """Return the addresses of a source's services: those it had, else free ports; what the environment says goes first.

    Raises:
        ConfigurationError: A port of the environment is no number, or something listens on a port.
    """
    try:
        addresses = known(folder)
    except ConfigurationError:
        addresses = Addresses(free_port(), free_port(), free_port(), free_port(), secrets.token_urlsafe(18))
    for name, variable in PORTS.items():
        if text := os.environ.get(variable):
            if not (text.isdecimal() and 0 < int(text) < 1 << 16):
                raise ConfigurationError(f"{variable}: found {text!r}, expected the number of a port.")
            setattr(addresses, name, int(text))
        if listens(getattr(addresses, name)):
            hint = f"Stop what listens there, or choose another: {variable}=NUMBER."
            raise ConfigurationError(f"port {getattr(addresses, name)} of {name} is taken. {hint}")
    folder.mkdir(parents=True, exist_ok=True)
    write_privately(folder / ADDRESSES, msgspec.json.encode(addresses))
    return addresses


def write_privately(file: Path, content: bytes) -> None:
    """Write a file that nobody else may read."""
    part = file.with_suffix(".part")
    part.unlink(missing_ok=True)
    part.touch(mode=0o600)
    part.write_bytes(content)
    part.rename(file)


def environment(folder: Path, addresses: Addresses) -> dict[str, str]:
    """Return the variables with which txloom reads this source, from declaration to audit; folder: of the trial."""
    return {
        "TXLOOM_PIPELINES": str(folder.absolute() / "pipelines"),
        "TXLOOM_WAREHOUSE": str(folder.absolute() / "warehouse"),
        "KAFKA_BROKERS": f"127.0.0.1:{addresses.kafka}",
        "AIRFLOW_CONN_ORDERS_DB": addresses.database,
    }


def exports(variables: dict[str, str]) -> str:
    """Return the lines of a shell that set variables.

    >>> exports({"A": "b c"})
    "export A='b c'\\n"
    """
    return "".join(f"export {name}={shlex.quote(value)}\n" for name, value in variables.items())


class _Debezium(connect.Connect):
    """The worker that streams the database, and how one sees that it does."""

    def __init__(self, folder: Path, kafka: Path, addresses: Addresses, postgres: Postgres) -> None:
        super().__init__(folder, kafka, addresses.connect, f"127.0.0.1:{addresses.kafka}")
        self._postgres = postgres

    def _reads_log(self) -> bool:
        return self._postgres.psql(STREAMING.format(slot=SLOT)) == "1"


class RealServices:
    """The three services of a source.

    Args:
        folder: of the source.
        programs: the folder with initdb, postgres and psql.
        kafka: the folder with Kafka's `libs` and the connectors in `plugins`.
    """

    def __init__(self, folder: Path, programs: Path, kafka: Path) -> None:
        """Choose ports; nothing is started."""
        self.addresses = chosen(folder)
        self._postgres = Postgres(folder / "postgres", programs, self.addresses.postgres, self.addresses.password)
        self._broker = Broker(folder / "kafka", kafka, self.addresses.kafka, self.addresses.controller)
        self._broker.settings = "auto.create.topics.enable=true\n"
        self._debezium = _Debezium(folder / "connect", kafka, self.addresses, self._postgres)
        for service in self._all:
            # `make down` ends a session, and waits until nothing is left of it.
            service.leads_session = False

    @property
    def _all(self) -> tuple[Service, ...]:
        """In the order in which they end: whoever reads before whom it reads."""
        return self._debezium, self._broker, self._postgres

    def start_database(self) -> None:
        """Start PostgreSQL; the first time with the tables of include/sample/schema.sql, which are empty."""
        self._postgres.start()
        if not self._postgres.psql(f"SELECT 1 FROM pg_database WHERE datname = '{DATABASE}'"):
            self._postgres.psql(f"CREATE DATABASE {DATABASE}")
        if not self._postgres.psql("SELECT to_regclass('order_entry.position')", DATABASE):
            self._postgres.psql(f"BEGIN;\n{SCHEMA.read_text()}\n{DESK}\nCOMMIT;", DATABASE)

    def start_stream(self) -> None:
        """Start Kafka, and Debezium's connector in Kafka Connect, and wait until it streams."""
        self._broker.start()
        secret = self._debezium.folder / "secret.properties"
        write_privately(secret, f"password={self.addresses.password}\n".encode())
        database = {
            "database.hostname": self._postgres.host,
            "database.port": str(self._postgres.port),
            "database.user": self._postgres.user,
            "database.password": f"${{file:{secret}:password}}",
            "database.dbname": DATABASE,
            "signal.kafka.bootstrap.servers": self._broker.address,
        }
        self._debezium.start(connector=CONNECTOR | database, worker=PROVIDER)

    def wait_for_transactions(self, commit: Callable[[], object]) -> None:
        """Wait until the topic of transactions is there, while something commits some."""

        def is_there() -> bool:
            commit()
            return (self._broker.topics_folder / f"{TRANSACTIONS}-0").is_dir()

        wait_until(is_there, f"the first message of topic {TRANSACTIONS}", 60)

    def refuse_ended(self) -> None:
        """Raise ServiceFailed where one of them has ended."""
        for service in self._all:
            if service.pid is None:
                raise ServiceFailed(f"{service.name} has ended; the end of {service.log}:\n{service.tail()}")

    def stop(self) -> None:
        """End all of them."""
        for service in self._all:
            service.stop(within=8)
