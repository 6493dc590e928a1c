"""A PostgreSQL server whose changes can be decoded."""

import functools
import os
import pwd
import shutil
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from txloom.generate.services.process import Service, ServiceFailed, tied

USER = "postgres"
SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "wal_level": "logical",
    "max_wal_senders": "16",
    "max_replication_slots": "16",
    "shared_buffers": "32MB",
    "jit": "off",
    # Shared memory as files in the data folder is gone with it.
    "dynamic_shared_memory_type": "mmap",
}
PLUGINS = {"output_plugin_libraries": "pgoutput,wal2json"}
"""Newer minor versions load only the output plugins that they are told of; older ones do not know the setting."""


class Postgres(Service):
    """A server that keeps its address and databases over stop, kill and start; only this machine reaches it.

    Args:
        folder: of its data and its log.
        programs: the folder with initdb, postgres and psql.
        port: where it listens.
        password: of its superuser, `user`; without one everyone on this machine may come in.
    """

    name = "postgres"
    # A postmaster that is killed outright leaves its children and its shared memory; SIGQUIT is its own kind of crash:
    # nothing is written, and the next start recovers from the log.
    dies_by = signal.SIGQUIT
    crashes_by = signal.SIGQUIT
    ends_by = signal.SIGINT
    settings: Mapping[str, str] = SETTINGS

    def __init__(self, folder: Path, programs: Path, port: int, password: str = "") -> None:
        """Start nothing yet."""
        super().__init__(folder)
        self.programs, self.port, self.password = programs, port, password
        self.user = USER
        self.host = "127.0.0.1"

    @property
    def address(self) -> str:
        """Where clients reach it."""
        return f"{self.host}:{self.port}"

    def start(self) -> None:
        """Start it, the first time with an empty database, and wait until it takes connections."""
        data = self.folder / "data"
        if not (data / "PG_VERSION").exists():
            self._make(data)
        settings = {**self.settings, "port": str(self.port)} | (PLUGINS if self._knows(data, *PLUGINS) else {})
        flags = [flag for name, value in settings.items() for flag in ("-c", f"{name}={value}")]
        self._launch([self.programs / "postgres", "-D", data, *flags], _privileges())
        self._wait(self._serves, "it took connections")

    def psql(self, sql: str, database: str = USER) -> str:
        """Run SQL statements and return what they print: rows as lines, columns parted by tabs, no headings.

        Raises:
            ServiceFailed: A statement failed; those before it stand.
        """
        ran = self._psql(sql, database)
        if ran.returncode:
            raise ServiceFailed(f"psql: {ran.stderr.strip()}")
        return ran.stdout.rstrip("\n")

    def _make(self, data: Path) -> None:
        """Make the data folder, owned by whom the server will run as."""
        data.mkdir(exist_ok=True)
        if os.geteuid() == 0:
            os.chown(data, *_account())
        flags: list[object] = ["-D", data, "-U", USER, "-E", "UTF8", "--locale=C", "--no-sync"]
        if self.password:
            # Read before initdb is another user.
            flags += ["-A", "scram-sha-256", "--pwfile=/dev/stdin"]
        else:
            flags += ["-A", "trust"]
        ran = self._run([self.programs / "initdb", *flags], self.password)
        if ran.returncode:
            raise ServiceFailed(f"initdb: {ran.stderr.strip() or ran.stdout.strip()}")

    def _knows(self, data: Path, setting: str) -> bool:
        return self._run([self.programs / "postgres", "-D", data, "-C", setting]).returncode == 0

    def _run(self, command: Sequence[object], typed: str = "") -> subprocess.CompletedProcess[str]:
        whole = tied(command, _privileges())
        return subprocess.run(whole, cwd=self.folder, input=typed, capture_output=True, text=True, check=False)

    def _serves(self) -> bool:
        return self._psql("SELECT 1", USER).returncode == 0

    def _psql(self, sql: str, database: str) -> subprocess.CompletedProcess[str]:
        where = ["-h", self.host, "-p", str(self.port), "-U", self.user, "-d", database]
        how = ["-X", "-q", "-A", "-t", "-F", "\t", "-v", "ON_ERROR_STOP=1", "-f", "-"]
        command = [str(self.programs / "psql"), *where, *how]
        environment = {**os.environ, "PGPASSWORD": self.password} if self.password else None
        return subprocess.run(command, input=sql, capture_output=True, text=True, check=False, env=environment)


def _account() -> tuple[int, int]:
    """Return the user and group that stand in for root, which PostgreSQL refuses to be."""
    for name in (USER, "nobody"):
        try:
            account = pwd.getpwnam(name)
        except KeyError:
            continue
        return account.pw_uid, account.pw_gid
    raise ServiceFailed("PostgreSQL does not run as root, and this machine has neither a user postgres nor nobody")


@functools.cache
def _privileges() -> tuple[str, ...]:
    """Return what makes the server another user than root, one who still reaches folders that are closed to others."""
    if os.geteuid() != 0:
        return ()
    if not shutil.which("setpriv"):
        raise ServiceFailed("PostgreSQL does not run as root, and this machine has no setpriv to make it another user")
    user, group = _account()
    still = ("--inh-caps", "+dac_override", "--ambient-caps", "+dac_override")
    return ("--reuid", str(user), "--regid", str(group), "--clear-groups", *still)
