"""TPC-C: its twelve consistency conditions hold in every state that is published, however the messages come."""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

import pytest

from oracle import values
from public.source import assert_shown, pipeline_of, shuffled, states
from public.tpc import tpcc
from public.tpc.tpcc_conditions import CONDITIONS, broken
from workloads.core import Core, Rows
from workloads.sources.database import Sent

SOURCE = "TPC Benchmark C, Standard Specification revision 5.11, clause 3.3.2 Consistency Conditions"
TRANSACTIONS, LANDINGS = 120, 14
SEEDS = (1, 2, 4)
BREAKS = {
    "3.3.2.1": ("district", "d_ytd", 1),
    "3.3.2.2": ("district", "d_next_o_id", 1),
    "3.3.2.3": ("new_order", "no_o_id", -1),
    "3.3.2.4": ("orders", "o_ol_cnt", 1),
    "3.3.2.5": ("orders", "o_carrier_id", None),
    "3.3.2.6": ("orders", "o_ol_cnt", -1),
    "3.3.2.7": ("order_line", "ol_delivery_d", None),
    "3.3.2.8": ("history", "h_amount", 1),
    "3.3.2.9": ("district", "d_ytd", -1),
    "3.3.2.10": ("customer", "c_balance", 1),
    "3.3.2.11": ("customer", "c_delivery_cnt", 1),
    "3.3.2.12": ("customer", "c_ytd_payment", 1),
    "2.4.2.2": ("stock", "s_ytd", 1),
}
"""By clause a column of one row, and what is added to it (None: it becomes null)."""


@pytest.fixture(scope="module")
def terminal() -> tpcc.Terminal:
    made = tpcc.Terminal(Random(1992))
    made.populate()
    made.play(TRANSACTIONS)
    return made


@dataclass(frozen=True)
class Published:
    """What was shown as of a valid-through; seed: of the delivery."""

    seed: int
    csn: int
    shown: Rows


@pytest.fixture(scope="module")
def published(terminal: tpcc.Terminal, tmp_path_factory: pytest.TempPathFactory) -> list[Published]:
    """Return what is shown after each landing of each delivery; all of it is what the source held."""
    pipeline = pipeline_of(terminal.source, tmp_path_factory.mktemp("tpcc"))
    cuts = []
    for seed in SEEDS:
        core = Core(pipeline)
        for shown in states(core, shuffled(terminal.source.sent, seed, LANDINGS)):
            assert_shown(core, terminal.source)
            cuts.append(Published(seed, core.valid_through, shown))
    return cuts


def held(state: Any) -> dict[str, dict[Any, Any]]:
    return dict(values.typed_state(state, {each.name: each for each in tpcc.TABLES}))


@pytest.mark.parametrize("clause", CONDITIONS)
def test_the_condition_holds_in_every_published_state(published: Sequence[Published], clause: str) -> None:
    for each in published:
        assert CONDITIONS[clause](each.shown) == [], f"delivery {each.seed} as of {each.csn}"


@pytest.mark.parametrize("seed", SEEDS)
def test_states_are_published_all_along(terminal: tpcc.Terminal, published: Sequence[Published], seed: int) -> None:
    reached = [each.csn for each in published if each.seed == seed]
    assert reached == sorted(reached) and reached[-1] == terminal.source.csn
    assert len(set(reached)) > 5


def test_documents_of_orders_hold_the_conditions_of_one_order(published: Sequence[Published]) -> None:
    """3.3.2.5 to 3.3.2.7, within a document."""
    for each in published:
        for key, order in each.shown["doc_current"].items():
            undelivered = order["o_carrier_id"] is None
            assert (order["new_order"] is not None) == undelivered, (each.csn, key)
            assert len(order["lines"]) == order["o_ol_cnt"], (each.csn, key)
            assert {line["ol_delivery_d"] is None for line in order["lines"]} == {undelivered}, (each.csn, key)


def test_the_source_holds_the_conditions_after_every_transaction(terminal: tpcc.Terminal) -> None:
    assert min(terminal.kinds.count(kind) for kind in ("new-order", "payment", "delivery")) > 5
    for each in terminal.source.sent:
        assert broken(held(each.state)) == {}, each.csn


def test_the_initial_population_has_as_many_delivered_orders_as_the_specification_scaled(
    terminal: tpcc.Terminal,
) -> None:
    """3.3.2.11 as it is written: 2,100 of 3,000 there, 7 of 10 here."""
    shown = held(terminal.source.sent[0].state)
    assert len(shown["orders"]) - len(shown["new_order"]) == len(tpcc.PLACES) * tpcc.DELIVERED
    assert {row["c_delivery_cnt"] for row in shown["customer"].values()} == {0}


@pytest.mark.parametrize("clause", CONDITIONS)
def test_one_wrong_value_breaks_the_condition(terminal: tpcc.Terminal, clause: str) -> None:
    name, column, step = BREAKS[clause]
    shown = held(terminal.source.sent[-1].state)
    key = max(key for key, row in shown[name].items() if row[column] is not None)
    row = shown[name][key]
    shown[name][key] = row | {column: None if step is None else row[column] + step}
    assert CONDITIONS[clause](shown)


@pytest.mark.parametrize("kind", ["new-order", "payment", "delivery"])
def test_a_transaction_that_misses_one_table_breaks_a_condition(terminal: tpcc.Terminal, kind: str) -> None:
    sent = terminal.source.sent
    chosen = [number for number, each in enumerate(terminal.kinds) if each == kind][:4]
    for number in chosen:
        before, after = held(sent[number - 1].state), held(sent[number].state)
        for name in tables_of(sent[number]):
            assert broken(after | {name: before[name]}), f"{kind} at {sent[number].csn} without {name}"


def tables_of(sent: Sent) -> set[str]:
    return {topic.removeprefix("rows.") for topic, _ in sent.rows}
