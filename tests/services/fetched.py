"""Where the components' programs lie, fetched when they are not there yet."""

import functools
import os
import subprocess
import sys
from pathlib import Path

import pyspark

PROJECT = Path(__file__).resolve().parents[2]
SCRIPTS = PROJECT / "scripts"
CANNOT = 3
"""Exit code of a script that says why this machine cannot have what it fetches."""


class NotHere(Exception):
    """This machine cannot have a component; the message says why."""


@functools.cache
def kafka() -> Path:
    """Return the folder with `libs` and `plugins`: .state/kafka, or where TXLOOM_KAFKA says."""
    folder = Path(os.environ.get("TXLOOM_KAFKA") or PROJECT / ".state" / "kafka")
    _fetch("fetch_kafka.sh", sys.executable, str(folder))
    return folder


@functools.cache
def moto() -> Path:
    """Return a Python that has moto, a server of S3."""
    return Path(_fetch("fetch_moto.sh", sys.executable))


@functools.cache
def minicluster() -> str:
    """Return the class path of Hadoop's minicluster: .state/hdfs, with the Hadoop that pyspark ships."""
    folder = PROJECT / ".state" / "hdfs"
    _fetch("fetch_jars.sh", sys.executable, str(folder), "hdfs")
    return f"{folder}/*:{Path(pyspark.__file__).parent / 'jars'}/*"


@functools.cache
def postgres() -> Path:
    """Return the folder with initdb, postgres and psql."""
    return Path(_fetch("fetch_postgres.sh"))


@functools.cache
def wal2json() -> None:
    """Add the wal2json output plugin to PostgreSQL."""
    _fetch("fetch_postgres.sh", "--wal2json")


@functools.cache
def mariadb() -> Path:
    """Return the folder with bin, sbin and share of MariaDB."""
    return Path(_fetch("fetch_mariadb.sh"))


@functools.cache
def mysql() -> Path:
    """Return the folder with sbin and share of MySQL."""
    return Path(_fetch("fetch_mysql.sh"))


@functools.cache
def chromium() -> Path:
    """Return the browser's program."""
    return Path(_fetch("fetch_chromium.sh"))


def _fetch(script: str, *arguments: str) -> str:
    ran = subprocess.run([SCRIPTS / script, *arguments], capture_output=True, text=True, check=False)
    said = ran.stderr.strip() or ran.stdout.strip()
    if ran.returncode == CANNOT:
        raise NotHere(said.splitlines()[-1])
    if ran.returncode:
        raise RuntimeError(f"scripts/{script} ended with exit code {ran.returncode}: {said}")
    return ran.stdout.strip()
