"""A real stream of wal2json, from empty tables on: what it says of the format, and where its replay ends."""

import gzip
import json
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from oracle import capture
from oracle.comparison import differences, report
from oracle.values import typed_state
from txloom.config import find
from txloom.config.models.pipeline import Table
from txloom.events.images.reader import ImageReader
from txloom.events.wal2json.decoder import Wal2JsonDecoder
from txloom.events.wal2json.images import Wal2JsonImages

CAPTURE = Path(__file__).resolve().parents[2] / "data" / "wal2json" / "from_empty.jsonl.gz"
PIPELINE = find("orders")
Row = dict[str, Any]


def lines() -> list[bytes]:
    """Return the messages of the capture; only a line feed ends one."""
    return gzip.decompress(CAPTURE.read_bytes()).split(b"\n")[:-1]


def transactions() -> list[list[bytes]]:
    """Return the messages of each transaction, its BEGIN first and its COMMIT last."""
    by_transaction: list[list[bytes]] = []
    for line in lines():
        if json.loads(line)["action"] == "B":
            by_transaction.append([])
        by_transaction[-1].append(line)
    return by_transaction


@cache
def envelopes() -> list[Row]:
    return list(Wal2JsonDecoder(PIPELINE.tables).decode("orders", lines()).to_pylist(maps_as_pydicts="strict"))


def read(table: Table) -> list[Row]:
    """Read the images of a table's rows; each with its operation and its place in the capture."""
    of_table = [each for each in envelopes() if each["kind"] == "row" and each["table"] == table.name]
    values, ops = [each["value"] for each in of_table], [each["op"] for each in of_table]
    images = ImageReader(table).read(Wal2JsonImages(table).canonical(values, ops, [None] * len(of_table))).to_pylist()
    return [
        image | {"op": op, "ordinal": each["ordinal"]} for image, op, each in zip(images, ops, of_table, strict=True)
    ]


def replayed(table: Table) -> dict[tuple[Any, ...], Row]:
    """Apply the changes of a table in the order in which they came."""
    rows: dict[tuple[Any, ...], Row] = {}
    for change in read(table):
        assert change["problem"] is None
        if change["op"] == "T":
            rows.clear()
            continue
        image = change["after"]
        if change["op"] in "UD":
            old = rows.pop(tuple(change["before"][name] for name in table.key))
            image = image and image | {name: old[name] for name in change["unchanged"] or ()}
        if image is not None:
            assert rows.setdefault(tuple(image[name] for name in table.key), image) is image
    return rows


def test_a_replay_from_empty_tables_ends_where_the_source_did() -> None:
    replayed_state = {table.name: replayed(table) for table in PIPELINE.tables}
    expected = typed_state(capture.truth())
    assert {name: len(rows) for name, rows in replayed_state.items()} == {
        name: len(rows) for name, rows in expected.items()
    }
    assert not differences(expected, replayed_state), report(differences(expected, replayed_state))


def test_each_message_comes_out_once_and_none_is_poison() -> None:
    counts = dict.fromkeys(("marker", "row", "metadata", "poison"), 0)
    for each in envelopes():
        counts[each["kind"]] += 1
    assert counts == {"marker": 718, "row": 11965, "metadata": 718, "poison": 0}
    assert [each["ordinal"] for each in envelopes()] == list(range(13401))


def test_each_transaction_has_as_many_identities_as_its_commit_counts() -> None:
    received: dict[tuple[str, str], set[str]] = {}
    expected: dict[tuple[str, str], int] = {}
    for each in envelopes():
        if each["kind"] == "row" and each["table"] is not None:
            received.setdefault((each["transaction_id"], each["table"]), set()).add(each["identity"])
        for table, count in (each["expected"] or {}).items():
            expected[each["transaction_id"], table] = count
    assert {name: len(identities) for name, identities in received.items()} == expected
    assert max(expected.values()) == 5001


def test_transactions_come_in_commit_order_which_is_not_the_order_of_their_xids() -> None:
    commits = [(each["csn"], int(each["xid"])) for each in envelopes() if each["kind"] == "metadata"]
    xids = [xid for _, xid in commits]
    assert commits == sorted(commits) and len({csn for csn, _ in commits}) == 718
    assert sum(before > after for before, after in pairwise(xids)) == 125


def test_rows_that_share_a_position_in_the_log_have_identities_of_their_own() -> None:
    seen: dict[tuple[str, str], list[str]] = {}
    for each in envelopes():
        if each["kind"] == "row" and each["csn"] > 2**20:
            seen.setdefault((each["transaction_id"], json.loads(each["value"])["lsn"]), []).append(each["identity"])
    shared = [identities for identities in seen.values() if len(identities) > 1]
    assert shared and all(len(set(identities)) == len(identities) for identities in shared)


def test_one_truncate_of_two_tables_is_two_rows_at_one_position() -> None:
    truncates = [each for each in envelopes() if each["op"] == "T"]
    assert [each["table"] for each in truncates] == ["promo_codes", "promo_codes", "promo_codes", "promo_uses"]
    last = truncates[-2:]
    assert (
        len({each["transaction_id"] for each in last}) == len({json.loads(each["value"])["lsn"] for each in last}) == 1
    )
    assert last[0]["identity"] != last[1]["identity"]


@pytest.mark.parametrize("table", PIPELINE.tables, ids=lambda table: table.name)
def test_a_full_identity_tells_every_old_column_and_any_other_the_key(table: Table) -> None:
    full = table.name == "order_line_items"
    changes = [change for change in read(table) if change["op"] in "UD"]
    assert changes
    for change in changes:
        assert change["before_known"] == list(table.column_names if full else table.key)


def test_unchanged_large_values_are_left_out_of_updates() -> None:
    left_out = {table.name: {name for c in read(table) for name in c["unchanged"] or ()} for table in PIPELINE.tables}
    assert left_out == {
        "orders": set(),
        "order_details": {"address"},
        "order_line_items": {"remark"},
        "order_attachments": {"body"},
        "promo_codes": set(),
        "promo_uses": set(),
    }


def test_rows_of_the_unwatched_table_are_told_but_not_counted() -> None:
    unwatched = [each for each in envelopes() if each["kind"] == "row" and each["table"] is None]
    assert {each["source_table"] for each in unwatched} == {"public.audit_log"} and len(unwatched) == 71
    assert all(set(each["expected"]) <= {t.name for t in PIPELINE.tables} for each in envelopes() if each["expected"])
