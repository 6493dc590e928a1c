"""A unit of time that was declared wrongly: what was read by it is put right by the documented commands."""

import json
import re
import shlex
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from lake import Lake
from pipelines.debezium_shop import copied, ended
from txloom import read
from txloom.config import load

pytestmark = pytest.mark.usefixtures("no_stream")

PROJECT = Path(__file__).resolve().parents[2]
DECLARED = """
name: shop
source:
  format: debezium
  files: {{path: {inbox}, layout: records}}
  transaction_topic: dev.transaction
  debezium: {{{unit}}}
completeness: {{rule: counts, patience: 1h}}
tables:
- {{name: lines, source: public.lines, key: [id], columns: {{id: long, at: timestamp}}}}
targets: {{mirrors: ["*"]}}
"""
WRONG = "time_unit: adaptive"
RIGHT = "database: postgresql, time_precision_mode: connect"
DAY = 86_400_000


class TimedShop(Lake):
    """A lake whose source counts milliseconds."""

    def __init__(self, spark: Any, folder: Path) -> None:
        (folder / "inbox").mkdir()
        self.folder, self.file = folder, folder / "shop.yaml"
        self.declare(WRONG)
        super().__init__(spark, folder, self.pipeline)

    def declare(self, unit: str) -> None:
        self.file.write_text(DECLARED.format(inbox=self.folder / "inbox", unit=unit))
        self.pipeline = load(self.file)

    def commit(self, xid: int, **times: int) -> None:
        """Insert a row for each key `k1`, ... with its time in milliseconds."""
        keys = [int(name[1:]) for name in times]
        rows = copied(xid, xid * 10, keys, "one")
        for (_, record), time in zip(rows, times.values(), strict=True):
            value = json.loads(record["value"])
            value["after"] = {"id": value["after"]["id"], "at": time}
            record["value"] = json.dumps(value)
        for topic, record in [*rows, *ended(xid, xid * 10 + 8, lines=len(keys))]:
            own = self.inbox / topic
            own.mkdir(exist_ok=True)
            with (own / f"{xid}.jsonl").open("a") as file:
                file.write(json.dumps(record) + "\n")


def documented() -> list[str]:
    """Return the commands by which docs/operations.md corrects a unit."""
    page = (PROJECT / "docs" / "operations.md").read_text()
    section = page.split("\nWhere a wrong unit was declared")[1].split("\n#")[0]
    return re.findall(r"^    (python jobs/.*)$", section, re.MULTILINE)


def test_the_documented_commands_put_times_right_that_were_read_by_a_wrong_unit(spark: Any, tmp_path: Path) -> None:
    shop = TimedShop(spark, tmp_path)
    sent = {1: 20_000 * DAY, 2: 20_001 * DAY + 1, 3: 20_002 * DAY}
    shop.commit(100, k1=sent[1], k2=sent[2])
    shop.run()
    assert {row["at"].year for row in shop.rows("lines")} == {1970}
    shop.declare(RIGHT)
    shop.commit(101, k3=sent[3])
    shop.run()
    commands = documented()
    assert len(commands) == 5
    for command in commands:
        words = [str(shop.file) if word == "NAME" else word for word in shlex.split(command)]
        line = [sys.executable, *words[1:], "--warehouse", shop.warehouse]
        done = subprocess.run(line, cwd=PROJECT, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{command}: {done.stdout[-2000:]}{done.stderr[-2000:]}"
        if "compare" in command:
            assert "changes=4 " in done.stdout + " "
    source = {key: datetime.fromtimestamp(time / 1000, UTC).replace(tzinfo=None) for key, time in sent.items()}
    assert {row["id"]: row["at"] for row in shop.rows("lines")} == source
    history = shop.rows("lines_changes")
    assert {row["id"]: row["at"] for row in history} == source
    assert read.as_of(shop.file.as_posix(), "lines", csn=1018, warehouse=shop.warehouse)["at"].to_pylist() == [
        *source.values()
    ]
