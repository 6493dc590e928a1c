"""One transaction of very many rows among small ones: exact, in bounded memory, and the small ones do not wait for it.

`TXLOOM_LARGE` says of how many rows; `make soak` plays one of 1,000,000.
"""

import json
import os
import resource
from pathlib import Path

import numpy as np

from oracle.capture import Message
from txloom.config import load
from workloads.core import Core

LARGE = int(os.environ.get("TXLOOM_LARGE", "10000"))
PART = 50_000
"""Rows of a landing."""
BYTES_A_ROW = 6_000
"""Of memory, for all that a test in one process holds of a row: its message, event, history and current row."""
DECLARED = """
name: shop
source: {{format: goldengate, files: {{path: {folder}}}, transaction_topic: metadata}}
completeness: {{rule: counts, patience: 10d}}
tables: [{{name: items, source: APP.ITEMS, key: [id], columns: {{id: long, amount: "decimal(20,4)"}}}}]
targets: {{mirrors: [items]}}
"""


def row(csn: int, pos: int, key: int) -> Message:
    position = {"table": "APP.ITEMS", "op_type": "I", "pos": f"{pos:020}", "xid": f"x{csn}", "csn": str(csn)}
    return "rows.items", json.dumps({**position, "after": {"ID": str(key), "AMOUNT": f"{key}.5"}})


def metadata(csn: int, count: int) -> Message:
    parts = [{"data_collection": "ITEMS", "event_count": count}]
    message = {"xid": f"x{csn}", "csn": str(csn), "event_count": count, "data_collections": parts}
    return "metadata", json.dumps(message)


def test_a_large_transaction_is_released_whole_and_holds_up_no_other(tmp_path: Path) -> None:
    (tmp_path / "shop.yaml").write_text(DECLARED.format(folder=tmp_path))
    core = Core(load(tmp_path / "shop.yaml"))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for begun in range(0, LARGE, PART):
        part = [row(50, key, key) for key in range(begun, min(begun + PART, LARGE))]
        small = 10 + begun // PART
        if small < 50:
            part += [row(small, LARGE + small, -small), metadata(small, 1)]
        if begun + PART >= LARGE:
            part += [row(60, LARGE + 100, -60), metadata(60, 1)]
        core.run(part)
        assert not {key for (key,) in core.shown()["items"] if key >= 0}, "nothing of it shows before all of it came"
        assert core.valid_through >= min(small, 49), "what was committed before it does not wait for it"
        assert core.balanced()
    core.run([metadata(50, LARGE)])
    keys = core.rows["items"].column("id").to_numpy()
    assert core.valid_through == 60 and core.balanced() and not core.waiting
    assert np.array_equal(np.sort(keys[keys >= 0]), np.arange(LARGE))
    assert np.count_nonzero(keys < 0) == min(-(-LARGE // PART), 40) + 1
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
    assert grown < 400_000_000 + LARGE * BYTES_A_ROW, f"{grown / LARGE:.0f} bytes a row"
