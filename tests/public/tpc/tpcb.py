"""pgbench's TPC-B-like script, played in plain Python: every transaction changes four tables by one amount.

pgbench's history has no primary key, and a row without one can only be inserted; here it has a number, `hid`.
"""

from collections.abc import Mapping
from random import Random
from typing import Any

from public.source import Source, source_of, table

TABLES = (
    table("branches", "bid", bid="int", bbalance="long", filler="string"),
    table("tellers", "tid", tid="int", bid="int", tbalance="long", filler="string"),
    table("accounts", "aid", aid="long", bid="int", abalance="long", filler="string"),
    table("history", "hid", hid="long", tid="int", bid="int", aid="long", delta="long", mtime="timestamp"),
)
BRANCHES, TELLERS, ACCOUNTS = 2, 10, 40
"""pgbench has 10 tellers and 100,000 accounts for each branch."""
LARGEST = 5_000
SUMS = {"branches": "bbalance", "tellers": "tbalance", "accounts": "abalance", "history": "delta"}


def populated() -> Source:
    """Return a source with pgbench's initial rows, loaded in one transaction."""
    source = source_of(*TABLES)
    for bid in range(1, BRANCHES + 1):
        source.insert("branches", bid=bid, bbalance=0)
        for number in range(1, TELLERS + 1):
            source.insert("tellers", tid=(bid - 1) * TELLERS + number, bid=bid, tbalance=0)
        for number in range(1, ACCOUNTS + 1):
            source.insert("accounts", aid=(bid - 1) * ACCOUNTS + number, bid=bid, abalance=0, filler="")
    source.commit()
    return source


def play(source: Source, transactions: int, chance: Random) -> None:
    """Commit transactions of `pgbench --builtin=tpcb-like`."""
    for number in range(1, transactions + 1):
        aid = chance.randint(1, BRANCHES * ACCOUNTS)
        bid = chance.randint(1, BRANCHES)
        tid = chance.randint(1, BRANCHES * TELLERS)
        delta = chance.randint(-LARGEST, LARGEST)
        source.update("accounts", (aid,), abalance=source.rows["accounts"][aid,]["abalance"] + delta)
        source.update("tellers", (tid,), tbalance=source.rows["tellers"][tid,]["tbalance"] + delta)
        source.update("branches", (bid,), bbalance=source.rows["branches"][bid,]["bbalance"] + delta)
        mtime = f"2026-01-01 00:{number // 60 % 60:02}:{number % 60:02}.000000"
        source.insert("history", hid=number, tid=tid, bid=bid, aid=aid, delta=delta, mtime=mtime)
        source.commit()


def sums(shown: Mapping[str, Mapping[Any, Mapping[str, Any]]]) -> set[int]:
    """Return the different sums of the four tables: TPC-B's invariant is that there is one (clause 2.2.1)."""
    return {sum(row[column] for row in shown[name].values()) for name, column in SUMS.items()}
