"""Bank transfers: every state that a reader can see has the same total, and no transfer is ever seen by half."""

from dataclasses import dataclass
from decimal import Decimal
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oracle.capture import Message
from public.source import Source, in_order, pipeline_of, source_of, states, table
from txloom.config.models.pipeline import Pipeline
from workloads.core import Core
from workloads.sources.database import Sent

SOURCE = "CDC Data Gremlins (tabular.io): changes of the table accounts, transactions 344 and 345"
AFTER = {344: {51: Decimal("442.08"), 105: Decimal("351.22")}, 345: {1: Decimal("900.31"), 28: Decimal("124.50")}}
PAID = {344: (51, 105, Decimal("57.92")), 345: (1, 28, Decimal("99.69"))}
"""From, to, amount. The article tells only the balances after; these are one way to get there without losing money."""
BEFORE = {
    tid: {paying: AFTER[tid][paying] + amount, paid: AFTER[tid][paid] - amount}
    for tid, (paying, paid, amount) in PAID.items()
}
OPENED = 343
TOTAL = Decimal("1818.11")


@dataclass(frozen=True)
class Bank:
    """The pipeline, and the transactions: the accounts as they stood before, then the two transfers."""

    pipeline: Pipeline
    opening: Sent
    transfers: tuple[Sent, ...]


def played() -> Source:
    source = source_of(table("accounts", "account_id", account_id="long", balance="decimal(12,2)"))
    for accounts in BEFORE.values():
        for account, balance in accounts.items():
            source.insert("accounts", account_id=account, balance=balance)
    source.commit(OPENED)
    for tid, accounts in AFTER.items():
        for account, balance in accounts.items():
            source.update("accounts", (account,), balance=balance)
        source.commit(tid)
    return source


@pytest.fixture(scope="module")
def bank(tmp_path_factory: pytest.TempPathFactory) -> Bank:
    source = played()
    opening, *transfers = source.sent
    return Bank(pipeline_of(source, tmp_path_factory.mktemp("bank")), opening, tuple(transfers))


def assert_sound(balances: dict[int, Decimal]) -> None:
    assert sum(balances.values()) == TOTAL
    for tid, after in AFTER.items():
        assert {account: balances[account] for account in after} in (BEFORE[tid], after), f"half of {tid}"


@st.composite
def landings(draw: st.DrawFn, messages: list[Message]) -> list[list[Message]]:
    """Draw an order of arrival with messages that come again, cut into landings."""
    again = draw(st.lists(st.sampled_from(messages), max_size=4))
    arrival = draw(st.permutations([*messages, *again]))
    cuts = sorted(draw(st.lists(st.integers(0, len(arrival)), max_size=6)))
    return [arrival[start:end] for start, end in pairwise([0, *cuts, len(arrival)])]


def test_the_balances_before_have_the_total_of_the_balances_after() -> None:
    for tid, after in AFTER.items():
        assert sum(BEFORE[tid].values()) == sum(after.values())
    assert sum(balance for after in AFTER.values() for balance in after.values()) == TOTAL


@settings(max_examples=100, deadline=None, derandomize=True)
@given(st.data())
def test_the_total_is_the_same_in_every_state_that_a_reader_sees(bank: Bank, data: st.DataObject) -> None:
    core = Core(bank.pipeline)
    core.run(in_order([bank.opening]))
    for shown in states(core, data.draw(landings(in_order(bank.transfers)))):
        assert_sound({key: row["balance"] for (key,), row in shown["accounts"].items()})
    assert core.valid_through == 345
    assert {key: row["balance"] for (key,), row in core.shown()["accounts"].items()} == AFTER[344] | AFTER[345]


@pytest.mark.long
@settings(max_examples=50, deadline=None, derandomize=True)
@given(st.data())
def test_a_transfer_of_which_one_row_never_comes_is_never_seen(bank: Bank, data: st.DataObject) -> None:
    """The later one waits behind the earlier one, of which something has been heard."""
    messages = in_order(bank.transfers)
    heard = in_order(bank.transfers[:1])
    lost = data.draw(st.sampled_from(heard))
    core = Core(bank.pipeline)
    core.run([*in_order([bank.opening]), *(message for message in heard if message != lost)])
    for shown in states(core, data.draw(landings([message for message in messages if message != lost]))):
        assert {key: row["balance"] for (key,), row in shown["accounts"].items()} == BEFORE[344] | BEFORE[345]
        assert core.valid_through == OPENED


@pytest.mark.parametrize("first", range(2))
def test_the_rows_of_a_transfer_over_two_landings_show_with_the_second(bank: Bank, first: int) -> None:
    transfer = bank.transfers[0]
    core = Core(bank.pipeline)
    one, other = transfer.rows[first], transfer.rows[1 - first]
    opening = in_order([bank.opening])
    seen = [
        {account: shown["accounts"][account,]["balance"] for account in AFTER[344]}
        for shown in states(core, [opening, [transfer.metadata, one], [other]])
    ]
    assert seen == [BEFORE[344], BEFORE[344], AFTER[344]]
