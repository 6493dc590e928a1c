"""A PostgreSQL with a password lets nobody in without it."""

from pathlib import Path

import psycopg2
import pytest

from services import fetched
from services.absent import needed
from services.process import free_port
from txloom.generate.services.postgres import Postgres


@pytest.fixture
def programs() -> Path:
    return needed(fetched.postgres)


def test_who_does_not_know_the_password_is_refused(tmp_path: Path, programs: Path) -> None:
    with Postgres(tmp_path, programs, free_port(), "kept secret") as server:
        assert server.psql("SHOW wal_level") == "logical"
        address = f"host={server.host} port={server.port} user={server.user} dbname={server.user}"
        psycopg2.connect(address, password="kept secret").close()
        for wrong in ("", "guessed"):
            with pytest.raises(psycopg2.OperationalError, match="password"):
                psycopg2.connect(address, password=wrong)
        # Others may list processes and read settings.
        assert b"kept secret" not in b"".join(file.read_bytes() for file in tmp_path.glob("*.*"))
