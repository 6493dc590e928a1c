"""A MariaDB server whose binlog can be read, and its databases."""

import os
import subprocess
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pymysql
from pymysql.constants import CLIENT

from services import fetched
from services.process import Service, ServiceFailed, free_port, tied

USER = "root"
NUMBERS = (
    "(with recursive n (seq) as (select 1 union all select seq + 1 from n where seq < {most}) select seq from n) n"
)
"""The numbers from 1 to another one, as a derived table."""
SETTINGS = {
    "bind-address": "127.0.0.1",
    "server-id": "1",
    "log-bin": "mysql-bin",
    "character-set-server": "utf8mb4",
    "innodb-buffer-pool-size": "32M",
    "innodb-flush-log-at-trx-commit": "0",
}


class Mariadb(Service):
    """A server that keeps its address and databases over stop, kill and start; root comes in without a password."""

    name = "mariadb"
    connector = "io.debezium.connector.mariadb.MariaDbConnector"
    settings = SETTINGS | {"binlog-format": "ROW", "max-recursive-iterations": "100000"}
    nopad = "utf8mb4_nopad_bin"
    """A collation that tells blanks at the end of a text apart."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.port = free_port()
        self.user = USER
        self.host = "127.0.0.1"

    def start(self) -> None:
        data = self.folder / "data"
        if not (data / "mysql").exists():
            self._make(data)
        settings = self.settings | {"port": str(self.port), "socket": str(self.folder / "s"), "datadir": str(data)}
        self._launch([*self._program(), *(f"--{name}={value}" for name, value in settings.items())])
        self._wait(self._serves, "it took connections")

    def connection(self, database: str | None = None, user: str = USER, password: str = "") -> Any:
        """Open a connection that commits each statement."""
        return pymysql.connect(
            host=self.host,
            port=self.port,
            user=user,
            password=password,
            database=database,
            charset="utf8mb4",
            autocommit=True,
            client_flag=CLIENT.MULTI_STATEMENTS,
        )

    def sql(self, text: str, database: str | None = None, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Run SQL statements and return the rows of the last one that has some."""
        rows: list[tuple[Any, ...]] = []
        with closing(self.connection(database)) as connection, connection.cursor() as cursor:
            cursor.execute(text, values or None)
            while True:
                rows = list(cursor.fetchall()) if cursor.description else rows
                if not cursor.nextset():
                    return rows

    def fresh_database(self, name: str, schema: str) -> None:
        """Make a database from statements; one of that name goes first."""
        self.sql(f"DROP DATABASE IF EXISTS `{name}`; CREATE DATABASE `{name}` CHARACTER SET utf8mb4")
        self.sql(schema, name)

    def binlog_file(self) -> str:
        """Return the name of the file that is written."""
        return str(self.sql("SHOW BINARY LOGS")[-1][0])

    def _program(self) -> list[str | Path]:
        root = fetched.mariadb()
        return [root / "sbin" / "mariadbd", "--no-defaults", f"--basedir={root}", *self._account()]

    def _make(self, data: Path) -> None:
        root = fetched.mariadb()
        script = [root / "bin" / "mariadb-install-db", "--no-defaults", f"--basedir={root}", f"--datadir={data}"]
        self._ran([*script, "--auth-root-authentication-method=normal", "--skip-test-db", *self._account()])

    def _ran(self, command: Sequence[str | Path]) -> None:
        ran = subprocess.run(tied(command), cwd=self.folder, capture_output=True, text=True, check=False)
        if ran.returncode:
            raise ServiceFailed(f"{command[0]}: {ran.stderr.strip() or ran.stdout.strip()}")

    def _account(self) -> list[str]:
        """Return what lets root run the server as root."""
        return ["--user=root"] if os.geteuid() == 0 else []

    def _serves(self) -> bool:
        try:
            self.connection().close()
        except pymysql.err.OperationalError:
            return False
        return True
