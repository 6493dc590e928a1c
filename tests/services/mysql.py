"""A MySQL server whose binlog can be read, with GTIDs, and its databases."""

from pathlib import Path

from services import fetched
from services.mariadb import SETTINGS, Mariadb


class Mysql(Mariadb):
    """A server that keeps its address and databases over stop, kill and start; root comes in without a password."""

    name = "mysql"
    connector = "io.debezium.connector.mysql.MySqlConnector"
    settings = SETTINGS | {
        "cte-max-recursion-depth": "100000",
        "mysqlx": "OFF",
        "secure-file-priv": "NULL",
        "gtid-mode": "ON",
        "enforce-gtid-consistency": "ON",
    }
    nopad = "utf8mb4_0900_bin"

    def _program(self) -> list[str | Path]:
        root = fetched.mysql()
        return [
            root / "sbin" / "mysqld",
            "--no-defaults",
            f"--basedir={root}",
            f"--pid-file={self.folder / 'pid'}",
            *self._account(),
        ]

    def _make(self, data: Path) -> None:
        self._ran([*self._program(), "--initialize-insecure", f"--datadir={data}"])
