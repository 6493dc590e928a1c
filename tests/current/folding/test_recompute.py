"""Late changes: keys are folded anew from their whole history, and rows become what the history says."""

from dataclasses import dataclass

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from current.folding.test_fold_any_changes import NO_ROWS, histories
from current.naive import COLUMNS, Change, applied, as_effects, as_table
from current.texts import changes_of, rows_of
from drawn import examples
from txloom.current.folding.column_nulling import of_all_rows
from txloom.current.folding.components import components
from txloom.current.folding.fold import fold
from txloom.current.folding.recompute import recompute


@dataclass(frozen=True)
class Merged:
    """The watermark of rows."""

    valid_through: int
    release: int = 1


def released(changes: list[Change], late: set[int]) -> pa.Table:
    """Return changes as a history; the transactions of late csns came in the second release, others in the first."""
    table = as_table(changes).drop_columns("_txloom_release")
    release = [2 if change.at[0] in late else 1 for change in changes]
    return table.append_column("_txloom_release", pa.array(release, pa.int64()))


@st.composite
def late_histories(draw: st.DrawFn) -> tuple[list[Change], set[int], int]:
    """Draw a history, the csns that come late, and up to which csn rows showed the others."""
    changes = draw(histories())
    csns = sorted({change.at[0] for change in changes})
    if not csns:
        return changes, set(), 0
    return changes, draw(st.sets(st.sampled_from(csns))), draw(st.sampled_from(csns))


def shown(changes: list[Change], late: set[int], through: int) -> pa.Table:
    before = [change for change in changes if change.at[0] <= through and change.at[0] not in late]
    return applied(NO_ROWS, fold(NO_ROWS, as_table(before), key=["id"], columns=COLUMNS))


@given(late_histories())
@settings(max_examples=examples(200), deadline=None)
def test_rows_become_what_the_whole_history_says_whatever_comes_late(drawn: tuple[list[Change], set[int], int]) -> None:
    changes, late, through = drawn
    rows = shown(changes, late, through)
    effects = recompute(rows, released(changes, late), Merged(through), key=["id"], columns=COLUMNS)
    whole = fold(NO_ROWS, as_table(changes), key=["id"], columns=COLUMNS)
    assert applied(rows, effects).equals(applied(NO_ROWS, whole))


@given(late_histories())
@settings(max_examples=examples(150), deadline=None)
def test_keys_in_parts_give_the_same(drawn: tuple[list[Change], set[int], int]) -> None:
    """Keys that key changes connect lie in one part; changes of the whole table are in each."""
    changes, late, through = drawn
    rows, history = shown(changes, late, through), released(changes, late)
    tied = components((change.old, change.id) for change in changes if change.old != change.id)
    whole, effects = of_all_rows(history), {}
    for part in range(3):
        mine = [change.op not in "TC" and tied.get(change.id, change.id) % 3 == part for change in changes]
        here = [tied.get(key, key) % 3 == part for key in rows.column("id").to_pylist()]
        of_part = pa.concat_tables([history.filter(pa.array(mine, pa.bool_())), whole])
        chosen = rows.filter(pa.array(here, pa.bool_()))
        folded = as_effects(recompute(chosen, of_part, Merged(through), key=["id"], columns=COLUMNS))
        assert not effects.keys() & folded.keys()
        effects |= folded
    assert effects == as_effects(recompute(rows, history, Merged(through), key=["id"], columns=COLUMNS))


ROWS = """
id name at
1  Ada  1.1
2  Bob  4.1
9  Zoe  8.1
"""


def recomputed(history: str, key: int | None = None) -> dict[int, str | None]:
    """Return which rows effects leave (None: gone); the rows show csn 5 of release 1."""
    columns = ["id", "name"]
    effects = recompute(
        rows_of(ROWS, columns), changes_of(history, columns), Merged(5), key=["id"], columns=columns
    ).to_pylist()
    return {row["id"]: None if row["_txloom_deleted"] else row["name"] for row in effects}


def test_a_late_truncate_takes_away_rows_that_no_history_names() -> None:
    """A current table is the fold of its history, whatever somebody wrote into it."""
    history = """
    op at  id name release
    I  1.1 1  Ada  1
    I  4.1 2  Bob  1
    T  3.1 -  -    2
    """
    assert recomputed(history) == {1: None, 2: "Bob", 9: None}


def test_a_late_change_of_some_keys_leaves_all_others() -> None:
    """What its key became belongs to it."""
    history = """
    op at  id name release before unchanged
    I  1.1 1  Ada  1       -      -
    I  1.2 7  Gil  1       -      -
    I  4.1 2  Bob  1       -      -
    U  3.2 8  -    1       id=7   name
    U  2.1 1  Eve  2       -      -
    U  2.2 7  Jo   2       -      -
    """
    assert recomputed(history) == {1: "Eve", 7: None, 8: "Jo"}
