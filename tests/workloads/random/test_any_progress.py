"""Any workload of a source that counts nothing: a transaction is whole when every partition has gone past it."""

from pathlib import Path
from random import Random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from drawn import examples
from oracle import comparison
from oracle.capture import Message
from txloom.config import load
from txloom.transactions.completeness import UNREADABLE
from workloads.core import Core
from workloads.delivery import HEARTBEATS, deliver_partitions
from workloads.sources.database import Database, Sent
from workloads.sources.goldengate import GoldenGate
from workloads.sources.shapes import Shape, declaration, shape
from workloads.sources.truth import expected_tables


def played(seed: int, transactions: int, folder: Path) -> tuple[Random, Shape, list[Sent], Core]:
    chance = Random(seed)
    made = shape(chance)
    sent = Database(made, chance, GoldenGate(made, chance)).play(transactions)
    file = folder / "workload.yaml"
    file.write_text(declaration(made, folder, progress=True))
    core = Core(load(file))
    core.wait_for([HEARTBEATS, *dict.fromkeys(topic for each in sent for topic, _ in each.rows)])
    return chance, made, sent, core


def csn_of(message: str) -> int:
    return int(message.split('"csn":')[1].split('"')[1])


def past(core: Core, landed: list[Message]) -> int:
    """Return the id that every partition has gone past, in other words: the lowest that any showed last, less one."""
    highest = [max((csn_of(m) for t, m in landed if t == topic), default=None) for topic in core.partitions]
    return -1 if None in highest else min(csn for csn in highest if csn is not None) - 1


def watched(each: Sent) -> bool:
    return any(topic != HEARTBEATS for topic, _ in each.rows)


@settings(max_examples=examples(150), deadline=None)
@given(st.integers(0, 2**64 - 1), st.integers(0, 30))
def test_what_is_shown_is_the_source_as_of_what_all_partitions_have_gone_past(
    tmp_path_factory: Any, seed: int, transactions: int
) -> None:
    chance, made, sent, core = played(seed, transactions, tmp_path_factory.getbasetemp())
    landed: list[Message] = []
    for landing in deliver_partitions(sent, chance):
        core.run(landing)
        landed += landing
        reached = past(core, landed)
        assert core.valid_through == max(
            (each.csn for each in sent if watched(each) and each.csn <= reached), default=0
        )
        differences = comparison.differences(expected_tables(made, sent, core.valid_through), core.shown())
        assert not differences, f"as of {core.valid_through}:\n{comparison.report(differences)}"
        assert core.balanced()
        assert {standing.csn for standing in core.waiting} <= {each.csn for each in sent if each.csn > reached}
    assert not core.waiting
    assert not core.dead


@settings(max_examples=examples(75), deadline=None)
@given(st.integers(0, 2**64 - 1), st.integers(2, 20))
def test_a_transaction_that_may_lack_an_unreadable_event_is_never_shown(
    tmp_path_factory: Any, seed: int, transactions: int
) -> None:
    """Of all others only those may die that its neighbours in the partition are of, and what lies between these."""
    chance, _, sent, core = played(seed, transactions, tmp_path_factory.getbasetemp())
    landings = deliver_partitions(sent, chance)
    places = [(i, j) for i, landing in enumerate(landings) for j in range(len(landing)) if is_watched(landing[j])]
    if not places:
        return
    i, j = chance.choice(places)
    topic, message = landings[i][j]
    came = [(n, k, m) for n, landing in enumerate(landings) for k, (t, m) in enumerate(landing) if t == topic]
    before, after = [m for n, k, m in came if (n, k) < (i, j)], [m for n, k, m in came if (n, k) > (i, j)]
    if message in (*before, *after):
        return
    landings[i][j] = (topic, message[: len(message) // 2])
    for landing in landings:
        core.run(landing)
        assert core.balanced()
    torn = csn_of(message)
    dead = {standing.csn for standing in core.dead}
    assert {standing.cause for standing in core.dead} <= {UNREADABLE}
    others = [row for row in next(each.rows for each in sent if each.csn == torn) if row[1] != message]
    assert (torn in dead) == any(map(is_watched, others))
    assert torn not in core.finished
    assert all((csn_of(before[-1]) if before else 0) <= csn <= csn_of(after[0]) for csn in dead)
    assert not core.waiting


def is_watched(message: Message) -> bool:
    return message[0] != HEARTBEATS and '"APP.HEARTBEAT"' not in message[1]
