"""Any workload over any schema, delivered in any way: every state that is shown is one that the source had."""

from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drawn import examples
from oracle import comparison, values
from txloom.config import load
from txloom.transactions import memory
from workloads.core import STEP, Core, Rows
from workloads.delivery import deliver, runs
from workloads.sources.database import Database, Sent
from workloads.sources.goldengate import GoldenGate
from workloads.sources.shapes import Shape, declaration, shape
from workloads.sources.truth import DOCUMENTS, expected_tables, held, keys


def core_of(made: Shape, folder: Path) -> Core:
    file = folder / "workload.yaml"
    file.write_text(declaration(made, folder, patience="10d"))
    return Core(load(file))


def played(seed: int, transactions: int, folder: Path) -> tuple[Random, Shape, list[Sent], Core]:
    """Play transactions over a schema, both drawn from a seed; return them with a core that has seen nothing yet."""
    chance = Random(seed)
    made = shape(chance)
    return chance, made, Database(made, chance, GoldenGate(made, chance)).play(transactions), core_of(made, folder)


def assert_shown(core: Core, made: Shape, sent: list[Sent]) -> None:
    shown: Rows = core.shown()
    differences = comparison.differences(expected_tables(made, sent, core.valid_through), shown)
    assert not differences, f"as of {core.valid_through}:\n{comparison.report(differences)}"


@settings(max_examples=examples(150), deadline=None)
@given(st.integers(0, 2**64 - 1), st.integers(0, 40))
def test_every_state_shown_is_one_that_the_source_had(tmp_path_factory: Any, seed: int, transactions: int) -> None:
    chance, made, sent, core = played(seed, transactions, tmp_path_factory.getbasetemp())
    for landings in runs(deliver(sent, chance, in_order=True), chance):
        core.run(*landings)
        assert_shown(core, made, sent)
        assert core.balanced()
    assert not core.evidence
    assert core.valid_through == (sent[-1].csn if sent else 0)
    assert not core.waiting


@pytest.mark.long
@settings(max_examples=examples(100), deadline=None)
@given(st.integers(0, 2**64 - 1), st.integers(1, 30))
def test_transactions_that_come_late_end_in_the_sources_final_state(
    tmp_path_factory: Any, seed: int, transactions: int
) -> None:
    chance, made, sent, core = played(seed, transactions, tmp_path_factory.getbasetemp())
    for landings in runs(deliver(sent, chance, in_order=False), chance):
        core.run(*landings)
        assert core.balanced()
    assert_shown(core, made, sent)


@settings(max_examples=examples(100), deadline=None)
@given(st.integers(0, 2**64 - 1), st.integers(1, 30))
def test_nothing_above_a_lost_event_is_shown(tmp_path_factory: Any, seed: int, transactions: int) -> None:
    chance, made, sent, core = played(seed, transactions, tmp_path_factory.getbasetemp())
    delivery = deliver(sent, chance, in_order=True, losses=True)
    for landings in runs(delivery, chance):
        core.run(*landings)
        assert_shown(core, made, sent)
    waiting = {standing.csn for standing in core.waiting}
    assert waiting <= delivery.lost
    assert all(core.valid_through < csn for csn in waiting)


@pytest.mark.long
@settings(max_examples=examples(75), deadline=None)
@given(st.integers(0, 2**64 - 1), st.integers(1, 30))
def test_intervals_tell_every_state_that_the_source_had(tmp_path_factory: Any, seed: int, transactions: int) -> None:
    chance, made, sent, core = played(seed, transactions, tmp_path_factory.getbasetemp())
    for landings in runs(deliver(sent, chance, in_order=chance.random() < 0.5), chance):
        core.run(*landings)
    for name, table in made.tables.items():
        intervals = core.intervals(name)
        ends = {row["_txloom_valid_to"] for row in intervals}
        assert all(row["_txloom_is_current"] == (row["_txloom_valid_to"] is None) for row in intervals)
        for each in sent:
            now = [
                row for row in intervals if row["_txloom_valid_from"] <= each.csn < (row["_txloom_valid_to"] or 2**62)
            ]
            there = comparison.keyed([{c: row[c] for c in table.columns} for row in now], table.key)
            different = comparison.differences({name: values.typed_rows(each.state[name], table)}, {name: there})
            assert not different, f"as of {each.csn}:\n{comparison.report(different)}"
        assert ends <= {each.csn for each in sent} | {None}
    if made.aggregate is not None:
        assert_documents_are_intervals(core.document_intervals(), made, sent)


def assert_documents_are_intervals(intervals: list[dict[str, Any]], made: Shape, sent: list[Sent]) -> None:
    for each in sent:
        there = [row for row in intervals if row["_txloom_valid_from"] <= each.csn < (row["_txloom_valid_to"] or 2**62)]
        expected = {DOCUMENTS: held(made, each.state)[DOCUMENTS]}
        different = comparison.differences(expected, {DOCUMENTS: comparison.keyed(there, keys(made)[DOCUMENTS])})
        assert not different, f"as of {each.csn}:\n{comparison.report(different)}"


@settings(max_examples=examples(38), deadline=None)
@given(st.integers(0, 2**64 - 1), st.integers(1, 30))
def test_a_change_of_what_is_not_tracked_begins_no_interval(
    tmp_path_factory: Any, seed: int, transactions: int
) -> None:
    chance, made, sent, core = played(seed, transactions, tmp_path_factory.getbasetemp())
    core.run(deliver(sent, chance, in_order=True).landings[0])
    core.run([message for each in sent for message in [*each.rows, each.metadata]])
    for name, table in made.tables.items():
        untracked = [column for column in table.columns if column not in table.key][::2]
        fewer, every = core.intervals(name, untracked), core.intervals(name)
        assert len(fewer) <= len(every)
        key = (*table.key, "_txloom_valid_from")
        begun = {tuple(row[column] for column in key): row for row in every}
        for row in fewer:
            first = begun[tuple(row[column] for column in key)]
            tracked = [column for column in table.columns if column not in untracked]
            assert comparison.same([row[c] for c in tracked], [first[c] for c in tracked])


def outcome(core: Core) -> tuple[Any, ...]:
    """Return all that a core has decided so far."""
    waits = sorted((each.tx, each.rows, each.cause) for each in core.waiting)
    dead = sorted((each.tx, each.rows, each.cause) for each in core.dead)
    return dict(core.counts), core.valid_through, waits, dead, set(core.finished), repr(core.shown())


@pytest.mark.long
@settings(max_examples=examples(75), deadline=None)
@given(st.integers(0, 2**64 - 1), st.integers(1, 30), st.integers(0, 3))
def test_what_a_bucket_remembers_decides_nothing(
    tmp_path_factory: Any, seed: int, transactions: int, remembered: int
) -> None:
    """Landings come again and again, some transactions are given up: with any memory all is decided alike."""
    chance, _, sent, core = played(seed, transactions, tmp_path_factory.getbasetemp())
    pipeline = core.pipeline.model_copy(
        update={"completeness": core.pipeline.completeness.model_copy(update={"patience": 3 * STEP})}
    )
    delivery = deliver(sent, chance, in_order=False, losses=True).landings
    again = [chance.choice(delivery) for _ in range(chance.randint(0, 6))]
    landings = [*delivery, *([] for _ in range(4)), *again, []]
    sizes = [chance.randint(1, 3) for _ in landings]
    batches = [chance.choice(((), (1,), (1, 1))) for _ in landings]
    outcomes = []
    for most in (remembered, 1_000_000):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(memory, "REMEMBERED", most)
            core_alone, first, forgotten = Core(pipeline), 0, []
            for size, of_run in zip(sizes, batches, strict=True):
                core_alone.run(*landings[first : first + size], batches=of_run)
                forgotten.append(outcome(core_alone))
                first += size
            assert core_alone.balanced()
            outcomes.append(forgotten)
    assert outcomes[0] == outcomes[1]
