"""Folding against a naive interpreter, over any changes in any order and any split."""

from random import Random

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from current.naive import COLUMNS, Change, Stamp, applied, as_effects, as_table, interpret
from current.texts import row_schema
from drawn import examples
from txloom.current.folding.components import components
from txloom.current.folding.fold import fold

NO_ROWS = row_schema(COLUMNS).empty_table()
KEYS = st.integers(0, 4)
VALUES = st.tuples(st.sampled_from(["a", "b", "c", None]), st.sampled_from(["x", "y", "z", None]))
SPARSE = st.sampled_from([(), (), ("note",), ("name",), ("name", "note"), ("undeclared", "note")])
GONE = st.sampled_from([("note",), ("name",), ("note", "name"), ("other",)])
KNOWN = st.sampled_from([(), ("id",), ("id",), ("id", "note"), ("id", "name", "note"), ("note",)])


@st.composite
def changes_at(draw: st.DrawFn, at: Stamp) -> Change:
    op = draw(st.sampled_from("IIrUUUUUUDDTCC"))
    if op == "T":
        return Change("T", at)
    if op == "C":
        return Change("C", at, absent=draw(GONE))
    key, values, known = draw(KEYS), draw(VALUES), draw(KNOWN)
    image = dict(zip(COLUMNS, (draw(KEYS), *draw(VALUES)), strict=True))
    if op in "Ir" and draw(st.integers(0, 3)) == 0:
        absent = draw(GONE)
        reported = tuple(None if name in absent else value for name, value in zip(COLUMNS[1:], values, strict=True))
        return Change(op, at, key, (reported[0], reported[1]), absent=absent)
    if op != "U":
        return Change(op, at, key, values if op != "D" else (None, None))
    before = tuple((name, image[name]) for name in known)
    return Change(op, at, key, values, draw(SPARSE), before)


@st.composite
def histories(draw: st.DrawFn) -> list[Change]:
    """Draw changes in commit order; csns and positions have gaps and more than one digit."""
    sizes = draw(st.lists(st.integers(1, 5), max_size=8))
    stamps = [(7 * csn + 3, 3 * csn + 4 * i) for csn, size in enumerate(sizes) for i in range(size)]
    return [draw(changes_at(at)) for at in stamps]


def folded(rows: pa.Table, changes: list[Change]) -> pa.Table:
    return fold(rows, as_table(changes), key=["id"], columns=COLUMNS)


@given(histories(), st.randoms(use_true_random=False))
@settings(max_examples=examples(150), deadline=None)
def test_folding_is_what_a_naive_interpreter_does_in_any_order_and_with_duplicates(
    changes: list[Change], random: Random
) -> None:
    arrived = changes + [change for change in changes if random.random() < 0.3]
    random.shuffle(arrived)
    assert as_effects(folded(NO_ROWS, arrived)) == interpret(changes)


@given(histories(), st.randoms(use_true_random=False))
@settings(max_examples=examples(150), deadline=None)
def test_a_split_at_any_transaction_changes_nothing(changes: list[Change], random: Random) -> None:
    whole = applied(NO_ROWS, folded(NO_ROWS, changes))
    rows, batch = NO_ROWS, []
    for i, change in enumerate(changes):
        batch.append(change)
        ends = i + 1 == len(changes) or changes[i + 1].at[0] != change.at[0]
        if ends and random.random() < 0.5:
            rows, batch = applied(rows, folded(rows, batch)), []
    assert applied(rows, folded(rows, batch)).equals(whole)


@given(histories(), st.data())
@settings(max_examples=examples(150), deadline=None)
def test_changes_that_were_applied_before_change_nothing(changes: list[Change], data: st.DataObject) -> None:
    """Any end of what was applied, with what is new behind it: as after a crash, when a merge is repeated."""
    boundaries = [0, *(i for i in range(1, len(changes)) if changes[i].at[0] != changes[i - 1].at[0]), len(changes)]
    done = data.draw(st.sampled_from(boundaries))
    again = data.draw(st.sampled_from([i for i in boundaries if i <= done]))
    rows = applied(NO_ROWS, folded(NO_ROWS, changes[:done]))
    assert applied(rows, folded(rows, changes[again:done])).equals(rows)
    assert applied(rows, folded(rows, changes[again:])).equals(applied(NO_ROWS, folded(NO_ROWS, changes)))


@given(histories(), st.integers(0, 3))
@settings(max_examples=examples(150), deadline=None)
def test_chained_keys_in_one_part_and_truncates_in_all_give_the_same(changes: list[Change], split: int) -> None:
    csn = changes[len(changes) * split // 4].at[0] if changes else 0
    rows = applied(NO_ROWS, folded(NO_ROWS, [change for change in changes if change.at[0] < csn]))
    new = [change for change in changes if change.at[0] >= csn]
    tied = components((change.old, change.id) for change in new if change.old != change.id)
    effects = {}
    for part in range(3):
        mine = [change for change in new if change.op in "TC" or tied.get(change.id, change.id) % 3 == part]
        mine += [Change("C", change.at, absent=change.absent) for change in new if change.absent and change.op != "C"]
        here = [tied.get(key, key) % 3 == part for key in rows.column("id").to_pylist()]
        chosen = rows.filter(pa.array(here, pa.bool_()))
        folded_rows = as_effects(folded(chosen, mine))
        assert not effects.keys() & folded_rows.keys()
        effects |= folded_rows
    assert effects == as_effects(folded(rows, new))
