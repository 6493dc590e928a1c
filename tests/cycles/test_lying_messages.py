"""Messages that lie stop no pipeline: they are dead letters, and what stands beside and behind them goes on."""

import json
from pathlib import Path
from typing import Any

import pytest

from shop import Shop, insert, update
from txloom.events import rejections
from txloom.steps.landing.land_events import land_events

TABLES = """
tables:
  - {name: items, source: APP.ITEMS, key: [id], columns: {id: long, note: string}}
targets: {mirrors: [items]}
"""
COUNTS = [{"data_collection": "ITEMS", "event_count": 1}]
HUGE = {"xid": "x9", "csn": "9", "event_count": 2**63, "data_collections": COUNTS}
ROW = {"table": "APP.ITEMS", "op_type": "I", "pos": "99", "xid": "x9", "csn": "9"}


def dead(shop: Shop) -> list[tuple[Any, ...]]:
    rows = shop.query("dead_letters", "select cause, topic, line from t order by landing, topic, line")
    return [(row["cause"], row["topic"], row["line"]) for row in rows]


def write(shop: Shop, topic: str, name: str, *lines: bytes) -> None:
    (shop.inbox / topic).mkdir(exist_ok=True)
    (shop.inbox / topic / name).write_bytes(b"".join(line + b"\n" for line in lines))


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    """Return a shop whose small runs need no Spark."""
    return Shop(None, tmp_path, TABLES, source=", max_message_bytes: 20000")


def test_each_kind_of_lie_is_a_dead_letter_and_the_next_cycle_goes_on(shop: Shop) -> None:
    shop.commit(1, insert("items", id=1, note="a"))
    write(shop, "metadata", "lies.jsonl", json.dumps(HUGE).encode(), b'{"xid":"x9","csn":"9","event_count":1}', b"")
    rows = [json.dumps({**ROW, "after": after}).encode() for after in (5, {"ID": 1, "NOTE": "a" * 30_000})]
    write(
        shop,
        "rows",
        "lies.jsonl",
        *rows,
        b"\xef\xbb\xbf{}",
        b"",
        b'{"a":"\\ud800"}',
        b'{"tokens":"\xff"}',
        b"[" * 9_000,
    )
    counts = shop.run([land_events])["land_events"]
    assert (counts["poison"], counts["tombstones"]) == (8, 2)
    assert dead(shop) == [
        (rejections.COUNTS, "metadata", 1),
        (rejections.COUNTS, "metadata", 2),
        (rejections.BROKEN, "rows", 1),
        (rejections.TOO_LARGE, "rows", 2),
        (rejections.BOM, "rows", 3),
        (rejections.SURROGATE, "rows", 5),
        (rejections.ENCODING, "rows", 6),
        (rejections.DEEP, "rows", 7),
    ]
    shop.commit(2, update("items", {"ID": 1}, id=1, note="b"))
    assert shop.run([land_events])["land_events"]["rows"] == 1
