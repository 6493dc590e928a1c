"""docs/own-tables.md, followed: its commands and statements, in their order, with PostgreSQL, Debezium and Kafka."""

import json
import os
import re
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import pytest

from services.connect import Connect
from services.process import wait_until
from txloom import read

PROJECT = Path(__file__).resolve().parents[2]
PAGE = (PROJECT / "docs" / "own-tables.md").read_text()
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def ended(connect: Connect) -> int:
    """Return how many transactions have their END in the topic."""
    return sum(b'"END"' in (each.value or b"") for each in connect.broker.read("bank.transaction"))


class Reader:
    """Somebody who follows the page."""

    def __init__(self, connect: Connect, folder: Path) -> None:
        self.connect, self.folder = connect, folder
        self.blocks = [(match[1], match[2]) for match in BLOCK.finditer(PAGE)]
        self.said: list[str] = []
        database = f"postgresql://postgres@{connect.postgres.address}/{connect.database}"
        self.environment = {
            **os.environ,
            "DATABASE": database,
            "BROKERS": connect.broker.address,
            "TXLOOM_WAREHOUSE": str(folder / "lake"),
            "TXLOOM_PIPELINES": str(folder),
            "TXLOOM_DRIVER_MEMORY": "1g",
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        }

    def follow(self, kind: str) -> None:
        """Do what the next block says."""
        shown, text = self.blocks.pop(0)
        assert shown == kind, text
        if kind == "sql":
            self.connect.postgres.psql(text, self.connect.database)
        elif kind == "json":
            self.connect.start(connector={**json.loads(text), "heartbeat.interval.ms": "500"})
        elif kind == "yaml":
            file = self.folder / "bank.yaml"
            file.write_text(file.read_text().replace("expectations:\n", f"expectations:\n{text}"))
        else:
            done = subprocess.run(
                ["bash", "-c", text], cwd=PROJECT, env=self.environment, capture_output=True, text=True, check=False
            )
            self.said.append(done.stdout + done.stderr)
            assert done.returncode == 0, self.said[-1]


@pytest.mark.machines
def test_whoever_follows_the_page_has_a_bank_that_is_equal_row_by_row(connect: Connect, tmp_path: Path) -> None:
    connect.postgres.fresh_database(connect.database, "SELECT 1")
    reader = Reader(connect, tmp_path)
    reader.follow("sql")
    reader.follow("json")
    reader.follow("bash")
    assert "2 tables, 0 of what it says are guesses" in reader.said[-1]
    reader.follow("bash")
    reader.follow("yaml")
    wait_until(lambda: connect.place, "the connector's snapshot")
    connect.postgres.psql("INSERT INTO accounts VALUES (9, 'Zoe', 0)", connect.database)
    wait_until(lambda: "bank.transaction" in connect.broker.topics(), "the first transaction")
    reader.follow("bash")
    assert "dead letters: 0 of 0 transactions" in reader.said[-1]
    reader.follow("bash")
    assert "checked=3 failed=0" in reader.said[-1], reader.said[-1]
    reader.follow("sql")
    wait_until(
        lambda: any(b"Cleo" in (each.value or b"") for each in connect.broker.read("bank.public.accounts")), "Cleo"
    )
    reader.follow("bash")
    assert "checked=3 failed=0" in reader.said[-1] and "published=1" in reader.said[-1]
    file, lake = str(tmp_path / "bank.yaml"), str(tmp_path / "lake")
    version = read.versions(file, warehouse=lake)["accounts"]
    rows = read.at_version(file, "accounts", version, warehouse=lake).to_pylist()
    balances = {row["owner"]: row["balance"] for row in rows}
    assert (balances["Ann"], balances["Bob"]) == (Decimal("50.00"), Decimal("50.00"))
    wait_until(lambda: ended(connect) >= 3, "the END of Cleo's transaction")
    reader.follow("bash")
    equal = re.findall(r"^equal +(\w+) +(\d+) +0 +0", reader.said[-1], re.MULTILINE)
    assert equal == [("accounts", "4"), ("transfers", "2")]
    assert reader.blocks == []
