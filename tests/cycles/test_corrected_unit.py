"""A unit of time that was declared wrongly: the next cycle corrects what was read by it, as the manual says."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from debezium_shop import DebeziumShop, copied, ended
from txloom import read

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


class TimedShop(DebeziumShop):
    """A lake whose source counts milliseconds."""

    declared = DECLARED

    def commit(self, xid: int, **times: int) -> None:
        """Insert a row for each key `k1`, ... with its time in milliseconds."""
        keys = [int(name[1:]) for name in times]
        rows = copied(xid, xid * 10, keys, "one")
        for (_, record), time in zip(rows, times.values(), strict=True):
            value = json.loads(record["value"])
            value["after"] = {"id": value["after"]["id"], "at": time}
            record["value"] = json.dumps(value)
        self.send(*rows, *ended(xid, xid * 10 + 8, lines=len(keys)))


@pytest.mark.long
def test_the_next_cycle_corrects_times_that_were_read_by_a_wrong_unit(spark: Any, tmp_path: Path) -> None:
    shop = TimedShop(spark, tmp_path, unit=WRONG)
    sent = {1: 20_000 * DAY, 2: 20_001 * DAY + 1, 3: 20_002 * DAY}
    shop.commit(100, k1=sent[1], k2=sent[2])
    shop.run()
    assert {row["at"].year for row in shop.rows("lines")} == {1970}
    shop.declare(unit=RIGHT)
    shop.commit(101, k3=sent[3])
    shop.run()
    source = {key: datetime.fromtimestamp(time / 1000, UTC).replace(tzinfo=None) for key, time in sent.items()}
    assert {row["id"]: row["at"] for row in shop.rows("lines")} == source
    history = shop.rows("lines_changes")
    assert {row["id"]: row["at"] for row in history} == source
    assert read.as_of(shop.file.as_posix(), "lines", csn=1018, warehouse=shop.warehouse)["at"].to_pylist() == [
        *source.values()
    ]
