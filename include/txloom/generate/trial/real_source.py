"""Order entry that goes on in a real PostgreSQL, which Debezium streams into Kafka.

One process runs all of it: the three services, and the desk that commits. What they have lies in one folder.
"""

import os
import random
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psycopg2

from txloom.errors import ConfigurationError
from txloom.generate.services.process import ServiceFailed
from txloom.generate.trial import real_faults
from txloom.generate.trial.catalogue import Kind
from txloom.generate.trial.damage import Fault
from txloom.generate.trial.database_desk import OrderDesk
from txloom.generate.trial.real_services import Addresses, RealServices, environment, exports, known, write_privately
from txloom.generate.trial.source_folder import FIRST, SourceFolder, Stop
from txloom.generate.workload.changes import micros_of

ENVIRONMENT, READY = "env", "ready"
SAYS = 60
"""Seconds between two lines of the log."""


@dataclass(frozen=True)
class RealSource(SourceFolder):
    """A source in a folder."""

    folder: Path
    starts_by = "make up-real"

    @property
    def kinds(self) -> Mapping[str, Kind]:
        """The faults that can be made."""
        return real_faults.REAL_KINDS

    def advance(self, desk: OrderDesk) -> int:
        """Let the desk commit a transaction, unless the source is quiet; return how many were committed."""
        with self._alone():
            if self.is_open("quiet-source"):
                return 0
            desk.commit(micros_of(datetime.now(UTC)))
            return 1

    def damage(self, name: str, now: datetime) -> Fault:
        """Make a fault and return it.

        Raises:
            ConfigurationError: It is open already, or the source does not answer.
        """
        kind, fault = self.kinds[name], Fault(name, now)
        with self._alone():
            self._refuse_open(name)
            if change := real_faults.IN_DATABASE.get(name):
                self._in_database(lambda connection: change(connection, fault))
            elif name == "connector-restart":
                try:
                    real_faults.restart_connector(known(self.folder), fault)
                except OSError as error:
                    raise ConfigurationError(f"{name}: Kafka Connect does not answer: {error}.") from None
            if kind.repair or kind.lasts:
                self._save(fault)
        return fault

    def repair(self, name: str, now: datetime) -> str:  # noqa: ARG002 (what is written is of the database's own clock)
        """Make an open fault good and return what was done; nothing for one that only a person can repair."""
        with self._alone():
            fault, kind = self._load(name), self.kinds[name]
            if not kind.repair:
                return ""
            said = kind.repair
            if fault.planted is not None:
                said = self._in_database(lambda connection: real_faults.remove_orphan(connection, fault))
            self._file(name).unlink()
            return said

    def _in_database(self, do: Callable[[Any], Any]) -> Any:
        try:
            with closing(_connected(known(self.folder))) as connection:
                return do(connection)
        except psycopg2.OperationalError as error:
            said = str(error).strip().splitlines()[0]
            raise ConfigurationError(f"{self.folder}: PostgreSQL does not answer: {said}") from None


def run(source: RealSource, trial: Path, gap: float) -> None:
    """Start the services and let the source work until SIGTERM; then end them.

    Writes `env`, the variables that others read it with, and `ready` when the first transaction is in Kafka, into the
    folder of the trial. Raises ServiceFailed where a service does not start, or ends.

    Args:
        source: what runs.
        trial: the folder that holds the source, the declaration and the warehouse.
        gap: seconds between two commits, on average.
    """
    stop = Stop()
    with source.running():
        (trial / READY).unlink(missing_ok=True)
        services = RealServices(source.folder, _folder_of("TXLOOM_POSTGRES"), _folder_of("TXLOOM_KAFKA"))
        write_privately(trial / ENVIRONMENT, exports(environment(trial, services.addresses)).encode())
        try:
            services.start_database()
            with closing(_connected(services.addresses)) as connection:
                desk = OrderDesk(connection)
                # The connector reads these as a snapshot.
                while desk.number < FIRST:
                    desk.commit(micros_of(datetime.now(UTC)))
                services.start_stream()
                services.wait_for_transactions(lambda: source.advance(desk))
                (trial / READY).touch()
                _work(source, desk, services, stop, gap)
        except psycopg2.Error:
            if not stop.is_due:
                services.refuse_ended()
                raise
        except ServiceFailed:
            if not stop.is_due:
                raise
        finally:
            (trial / READY).unlink(missing_ok=True)
            services.stop()


def _work(source: RealSource, desk: OrderDesk, services: RealServices, stop: Stop, gap: float) -> None:
    """Commit transactions, at irregular times, until the source is stopped."""
    committed, said = 0, time.monotonic()
    while not stop.is_due:
        committed += source.advance(desk)
        services.refuse_ended()
        if time.monotonic() - said > SAYS:
            print(f"{datetime.now(UTC):%H:%M:%S} {committed} transactions", flush=True)
            committed, said = 0, time.monotonic()
        stop.rest(random.uniform(0, 2 * gap))


def _connected(addresses: Addresses) -> Any:
    return psycopg2.connect(addresses.database, options="-c TimeZone=UTC", application_name="order entry")


def _folder_of(variable: str) -> Path:
    if not (folder := os.environ.get(variable)):
        raise ConfigurationError(f"{variable}: found nothing, expected a folder; `make up-real` sets it.")
    return Path(folder)
