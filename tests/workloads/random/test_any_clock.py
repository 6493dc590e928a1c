"""Clocks order nothing: of the source, of daylight saving, of the machine that lands; only the csn does."""

import json
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drawn import examples
from oracle.capture import Message
from workloads import core as cores
from workloads.delivery import deliver, runs
from workloads.random.test_any_workload import assert_shown, played

CLOCKS = (
    "2026-03-29 02:30:00.000000",  # an hour that daylight saving skips
    "2026-10-25 02:30:00.000000",  # one that comes twice
    "2026-10-25 01:59:59.999999",
    "1969-12-31 23:59:59.000000",
    "2100-01-01 00:00:00.000000",
    "2026-01-01T00:00:00+14:00",
    "2025-12-31T10:00:00-12:00",
)


def dated(message: Message, chance: Random) -> Message:
    """Give a message any moment of the source: back, ahead, in a zone of its own, or none."""
    topic, text = message
    content = json.loads(text)
    for name in ("op_ts", "tx_ts", "current_ts"):
        if chance.random() < 0.8:
            content[name] = chance.choice(CLOCKS)
    return topic, json.dumps(content)


@settings(max_examples=examples(50), deadline=None)
@given(st.integers(0, 2**64 - 1), st.integers(1, 30))
def test_moments_of_the_source_that_go_back_or_lie_in_an_hour_that_is_none_order_nothing(
    tmp_path_factory: Any, seed: int, transactions: int
) -> None:
    chance, made, sent, core = played(seed, transactions, tmp_path_factory.getbasetemp())
    for landings in runs(deliver(sent, chance, in_order=True), chance):
        core.run(*([dated(message, chance) for message in landing] for landing in landings))
        assert_shown(core, made, sent)
        assert core.balanced()
    assert core.valid_through == sent[-1].csn
    assert not core.waiting


@settings(max_examples=examples(50), deadline=None)
@given(st.integers(0, 2**64 - 1), st.integers(1, 30))
def test_landings_by_machines_whose_clocks_differ_by_hours_show_the_same(
    tmp_path_factory: Any, seed: int, transactions: int
) -> None:
    chance, made, sent, core = played(seed, transactions, tmp_path_factory.getbasetemp())
    with pytest.MonkeyPatch.context() as monkeypatch:
        for landings in runs(deliver(sent, chance, in_order=True), chance):
            skew = timedelta(hours=chance.randint(-30, 30))
            monkeypatch.setattr(cores, "BEGUN", datetime(2026, 1, 1, tzinfo=UTC) + skew)
            core.run(*landings)
            assert_shown(core, made, sent)
            assert core.balanced()
    assert core.valid_through == sent[-1].csn
    assert not core.dead and not core.waiting
