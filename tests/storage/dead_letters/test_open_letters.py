"""Transactions that were given up: few rows are read of a long table, and none is missed."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drawn import examples
from txloom.config import names
from txloom.storage.dead_letters import open_letters
from txloom.storage.delta import small_tables
from txloom.storage.paths import TablePaths
from txloom.storage.system_tables import TRANSACTIONS
from txloom.transactions.causes import COMPLETE

GTID = "3e11fa47-71ca-11e1-9e33-c80aa9429562:7"
ROWS = st.fixed_dictionaries(
    {
        "transaction_id": st.sampled_from(["a", "b", "c", GTID]),
        "csn": st.none() | st.integers(1, 6),
        "status": st.sampled_from(["released", "dead", "dead"]),
        "cause": st.sampled_from(["short", COMPLETE]),
    }
).filter(lambda row: row["status"] == "dead" or row["csn"] in ((6,) if row["transaction_id"] == GTID else range(1, 7)))
"""Rows of `transactions`; what was released has a csn, and that of a GTID is the highest that any part of it had."""


def everything(paths: TablePaths, where: str, dead: str) -> list[dict[str, Any]]:
    """Return what `given_up` chooses from, of one query on the whole table."""
    some = f"select transaction_id from t where {dead}"
    sql = (
        f"select transaction_id, xid, csn, status, cause, {dead} as dead from t"
        f" where ({where}) and transaction_id in ({some}) order by release desc, {open_letters.LAST}"
    )
    return small_tables.query(paths.table(names.TRANSACTIONS), sql)


@settings(deadline=None, max_examples=examples(40))
@given(
    st.lists(st.lists(ROWS, min_size=1, max_size=4), max_size=4),
    st.sampled_from(["true", "csn is null or csn <= 3"]),
    st.sampled_from([open_letters.DEAD, f"cause = '{COMPLETE}'"]),
    st.sampled_from([0, open_letters.FEW]),
)
def test_the_same_transactions_are_given_up_as_by_reading_everything(
    tmp_path_factory: Any, commits: list[list[dict[str, Any]]], where: str, dead: str, few: int
) -> None:
    folder: Path = tmp_path_factory.mktemp("given_up")
    paths = TablePaths(str(folder), "p")
    small_tables.ensure(paths.table(names.TRANSACTIONS), TRANSACTIONS)
    release = 0
    for rows in commits:
        named = []
        for row in rows:
            release += 1
            named.append({**row, "xid": f"x{row['transaction_id']}", "release": release})
        small_tables.append(paths.table(names.TRANSACTIONS), named, TRANSACTIONS)
    with pytest.MonkeyPatch.context() as whole:
        whole.setattr(open_letters, "_rows_of_dead", everything)
        expected = open_letters.given_up(paths, where, dead)
    with pytest.MonkeyPatch.context() as limits:
        limits.setattr(open_letters, "FEW", few)
        actual = open_letters.given_up(paths, where, dead)
    assert actual == expected
