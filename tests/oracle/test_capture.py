"""The sample is what its README says, and the reader counts what is in it."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest

from oracle.capture import SAMPLE, Capture, arrivals, messages, read, truth
from oracle.declarations import TABLES
from oracle.delivery.writing import heard, metadata, row

BIG = "1389"


@pytest.fixture(scope="module")
def sample() -> Capture:
    return read(arrivals())


def test_the_sample_is_small() -> None:
    assert sum(path.stat().st_size for path in SAMPLE.rglob("*") if path.is_file()) < 4_000_000


def test_the_sample_holds_what_its_readme_says(sample: Capture) -> None:
    assert (sample.rows, sample.metadata) == (12_205, 730)
    assert (sample.duplicate_rows, sample.duplicate_metadata) == (239, 13)
    assert sample.unwatched_rows == 72
    assert len(sample.transactions) == 717


def test_every_transaction_is_whole_in_the_end(sample: Capture) -> None:
    assert [transaction.xid for transaction in sample.transactions if not transaction.whole] == []


def test_xid_is_not_in_commit_order(sample: Capture) -> None:
    xids = [int(transaction.xid) for transaction in sample.transactions]
    assert sum(later < earlier for earlier, later in pairwise(xids)) > 100


def test_transactions_straddle_every_cut() -> None:
    paths = arrivals()
    straddling = []
    for number in range(1, len(paths)):
        early, late = read(paths[:number]), read(paths[number:])
        straddling.append(len({t.xid for t in early.transactions} & {t.xid for t in late.transactions}))
    assert len(paths) == 6
    assert min(straddling) > 0


def test_the_transaction_of_5000_rows_is_cut_in_its_middle() -> None:
    paths = arrivals()
    parts = [Counter(read([path]).transaction(BIG).received) for path in paths[2:4]]
    assert min(part["order_line_items"] for part in parts) > 1_000
    assert sum(parts[0].values()) + sum(parts[1].values()) >= 5_000


def test_file_names_differ_between_arrivals() -> None:
    names = [file.relative_to(path) for path in arrivals() for file in path.glob("*/*")]
    assert len(names) == len(set(names))


def test_each_message_lies_under_the_topic_of_its_table() -> None:
    for path in arrivals():
        for topic, message in messages(path):
            name = topic.removeprefix("dev.appuser.").removesuffix(".json").upper()
            assert topic == "dev.transaction_metadata_json" or f'"PUBLIC.{name}"' in message


def test_the_truth_has_all_tables_and_columns() -> None:
    state = truth()
    assert {name: len(rows) for name, rows in state.items()} == {
        "orders": 186,
        "order_details": 176,
        "order_line_items": 1_596,
        "order_attachments": 112,
        "promo_codes": 3,
        "promo_uses": 25,
    }
    for name, rows in state.items():
        assert all(list(image) == list(TABLES[name].columns) for image in rows.values())


def test_a_redelivery_is_counted_once() -> None:
    event = row("I", "promo_codes", at=(5, 1), after={"code": "A"})
    capture = heard([event, metadata(5, promo_codes=1), event, metadata(5, promo_codes=1)])
    assert [(t.xid, t.received, t.whole) for t in capture.transactions] == [("x5", {"promo_codes": 1}, True)]
    assert (capture.duplicate_rows, capture.duplicate_metadata) == (1, 1)


def test_two_payloads_under_one_identity_are_refused() -> None:
    with pytest.raises(ValueError, match="transaction x5, pos 1: two payloads under one identity"):
        heard(row("I", "promo_codes", at=(5, 1), after={"code": code}) for code in "AB")


def test_more_events_than_expected_are_not_whole() -> None:
    events = [row("I", "promo_codes", at=(5, pos), after={"code": str(pos)}) for pos in (1, 2)]
    assert not heard([*events, metadata(5, promo_codes=1)]).transaction("x5").whole


def test_commit_positions_compare_as_numbers() -> None:
    capture = heard([metadata(100), metadata(99), metadata(1_000)])
    assert [transaction.csn for transaction in capture.transactions] == [99, 100, 1_000]
