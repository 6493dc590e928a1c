"""What a declaration of snapshots needs, each mistake with its whole message."""

from collections.abc import Callable
from pathlib import Path

import pytest

from txloom.config import load

Refused = Callable[..., str]
Declared = Callable[..., Path]
TOPIC = "  transaction_topic: dev.transactions\n"
FULL = "  snapshots: {extracts: full}\n"
SNAPSHOTS = (("format: goldengate", "format: snapshots"), ("rule: counts", "rule: single"))


@pytest.mark.parametrize("extracts", ["full", "partial"])
def test_extracts_are_full_or_partial(declared: Declared, extracts: str) -> None:
    source = load(declared(*SNAPSHOTS, (TOPIC, f"  snapshots: {{extracts: {extracts}}}\n"))).source
    assert source.snapshots is not None
    assert source.snapshots.extracts == extracts


def test_what_a_missing_row_means_is_said(refused: Refused) -> None:
    assert refused(TOPIC, "", *SNAPSHOTS) == (
        "shop.yaml:3: source.snapshots: found nothing, expected a mapping with extracts: full or partial."
    )


def test_extracts_of_another_kind_are_refused(refused: Refused) -> None:
    assert refused(TOPIC, "  snapshots: {extracts: some}\n", *SNAPSHOTS) == (
        "shop.yaml:7: source.snapshots.extracts: found 'some', expected full or partial."
    )


def test_other_formats_have_no_snapshots(refused: Refused) -> None:
    assert refused(TOPIC, TOPIC + FULL) == (
        "shop.yaml:8: source.snapshots: found a mapping, expected no snapshots: goldengate has none."
    )


def test_extracts_do_not_come_from_kafka(refused: Refused) -> None:
    kafka = "  kafka: {brokers: kafka-1:9092, topics: [orders]}\n"
    assert refused(TOPIC, FULL, *SNAPSHOTS, ("  files:\n    path: inbox\n", kafka)) == (
        "shop.yaml:5: source.kafka: found kafka, expected files: extracts are folders of files."
    )


def test_snapshots_have_no_transaction_topic(refused: Refused) -> None:
    assert refused(TOPIC, TOPIC + FULL, *SNAPSHOTS) == (
        "shop.yaml:7: source.transaction_topic: found 'dev.transactions', expected no transaction topic: snapshots has "
        "none under the rule single."
    )


def test_a_table_without_a_key_cannot_be_compared(refused: Refused) -> None:
    more = "  - name: visits\n    source: PUBLIC.VISITS\n    columns: {place: string}\n    key: none\ntargets:\n"
    mirrored = ("  mirrors:\n", "  mirrors:\n    - visits\n")
    assert refused("targets:\n", more, *SNAPSHOTS, (TOPIC, FULL), mirrored) == (
        "shop.yaml:30: tables[2].key: found 'none', expected a key. Rows of an extract are told apart by it."
    )


def test_a_table_without_current_rows_cannot_be_compared(refused: Refused) -> None:
    more = "  - name: visits\n    source: PUBLIC.VISITS\n    columns: {id: long}\n    key: [id]\ntargets:\n"
    assert refused("targets:\n", more, *SNAPSHOTS, (TOPIC, FULL)) == (
        "shop.yaml:27: tables[2].name: found 'visits', expected a table that a target writes. Extracts are compared "
        "with its current rows. Add it to targets.mirrors."
    )
