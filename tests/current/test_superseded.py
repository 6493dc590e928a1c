"""What goes from a history changes nothing from the horizon on, whatever comes late."""

import pyarrow as pa
import pyarrow.compute as pc
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from current.folding.test_fold_any_changes import NO_ROWS, changes_at, histories
from current.naive import COLUMNS, Change, applied, as_effects, as_table, interpret
from current.texts import row_schema
from drawn import examples
from txloom.current.folding.fold import fold
from txloom.current.superseded import superseded
from txloom.current.versions import intervals, versions


def interval_rows_of(changes: list[Change]) -> list[Change]:
    """Return changes as a history has them: clears are no rows of it."""
    return [change for change in changes if change.op != "C"]


def history(changes: list[Change], released: dict[int, int] | None = None) -> pa.Table:
    """Return changes as a history, each transaction with its release."""
    table = as_table(changes)
    csn = table.column("_txloom_csn").to_pylist()
    release = pa.array([(released or {}).get(at, 1) for at in csn], pa.int64())
    return table.drop_columns("_txloom_release").append_column("_txloom_release", release)


def gone(changes: list[Change], horizon: int, released: dict[int, int] | None = None) -> list[bool]:
    removed = superseded(history(changes, released), key=["id"], horizon=horizon, release=1)
    return list(removed.to_pylist())


def kept(changes: list[Change], horizon: int, released: dict[int, int] | None = None) -> list[Change]:
    return [change for change, goes in zip(changes, gone(changes, horizon, released), strict=True) if not goes]


def state(changes: list[Change], upto: int | None = None) -> list[dict[str, object]]:
    chosen = [change for change in changes if upto is None or change.at[0] <= upto]
    return applied(NO_ROWS, fold(NO_ROWS, as_table(chosen), key=["id"], columns=COLUMNS)).to_pylist()


def since(changes: list[Change], horizon: int) -> list[tuple[object, ...]]:
    """Return the intervals that reach beyond the horizon; of what began before it, only that it held there."""
    table = as_table(changes).append_column("_txloom_committed_at", pa.nulls(len(changes), pa.timestamp("us", "UTC")))
    interval_rows = versions(table, key=["id"], columns=COLUMNS, schema=row_schema(COLUMNS))
    rows = intervals(interval_rows, key=["id"], columns=COLUMNS).to_pylist()
    shown = [
        (*(row[name] for name in COLUMNS), max(row["_txloom_valid_from"], horizon), row["_txloom_valid_to"])
        for row in rows
        if row["_txloom_valid_to"] is None or row["_txloom_valid_to"] > horizon
    ]
    return sorted(shown, key=repr)


@given(histories(), st.integers(0, 60))
@settings(max_examples=examples(200))
def test_states_and_intervals_from_the_horizon_on_stay(drawn: list[Change], horizon: int) -> None:
    changes = interval_rows_of(drawn)
    left = kept(changes, horizon)
    for csn in {horizon, *(change.at[0] for change in changes if change.at[0] > horizon)}:
        assert state(left, csn) == state(changes, csn)
    assert since(left, horizon) == since(changes, horizon)
    assert [change for change in changes if change.at[0] > horizon] == [c for c in left if c.at[0] > horizon]
    assert gone(left, horizon) == [False] * len(left), "cleaning again finds nothing"


@given(histories(), st.integers(0, 60), st.integers(0, 60), st.data())
@settings(max_examples=examples(300))
def test_a_late_transaction_ends_in_the_same_state(
    drawn: list[Change], horizon: int, csn: int, data: st.DataObject
) -> None:
    """It may do anything but one thing: change a key, below the horizon, and leave columns of the row unchanged."""
    changes = interval_rows_of(drawn)
    late = [data.draw(changes_at((csn, 1000 + pos))) for pos in range(data.draw(st.integers(1, 4)))]
    late = interval_rows_of(late)
    assume(all(change.at[0] > horizon or change.old == change.id or not change.unchanged for change in late))
    assert state(kept(changes, horizon) + late) == state(changes + late)
    effects = interpret(changes + late)
    again = as_effects(fold(NO_ROWS, as_table(kept(changes, horizon) + late), key=["id"], columns=COLUMNS))
    alive = {key: effect[1] for key, effect in effects.items() if effect[1] is not None}
    assert {key: effect[1] for key, effect in again.items() if effect[1] is not None} == alive


@given(histories(), st.integers(0, 60), st.data())
@settings(max_examples=examples(150))
def test_what_is_not_merged_yet_neither_goes_nor_supersedes(
    drawn: list[Change], horizon: int, data: st.DataObject
) -> None:
    changes = interval_rows_of(drawn)
    csns = sorted({change.at[0] for change in changes})
    released = {csn: data.draw(st.integers(1, 2)) for csn in csns}
    merged = [change for change in changes if released[change.at[0]] == 1]
    left = kept(changes, horizon, released)
    assert [c for c in left if released[c.at[0]] == 2] == [c for c in changes if released[c.at[0]] == 2]
    assert state([c for c in left if released[c.at[0]] == 1], horizon) == state(merged, horizon)
    assert state(left) == state(changes)


@given(histories(), st.integers(20, 60), st.integers(2, 4))
@settings(max_examples=examples(100))
def test_parts_that_hold_whole_chains_say_the_same(drawn: list[Change], horizon: int, parts: int) -> None:
    """As Spark spreads them: a change of a key goes to the parts of both keys, a truncate to all."""
    changes = interval_rows_of(drawn)
    removed_by_key: dict[int, bool] = {}
    for part in range(parts):
        mine = [
            position
            for position, change in enumerate(changes)
            if change.op == "T" or part in ((change.id or 0) % parts, (change.old or 0) % parts)
        ]
        goes = gone([changes[position] for position in mine], horizon)
        removed_by_key |= {position: goes_now for position, goes_now in zip(mine, goes, strict=True) if goes_now}
    assert sorted(removed_by_key) == [position for position, goes in enumerate(gone(changes, horizon)) if goes]


def rows(*given: tuple[object, ...]) -> list[Change]:
    """Write changes shortly: operation, csn, key, name, and more fields of a change."""
    return [
        Change(op, (csn, 0), key, (name, None), **(dict(more[0]) if more else {}))  # type: ignore[arg-type]
        for op, csn, key, name, *more in given
    ]


def test_the_last_row_that_tells_a_key_anew_stays_and_what_follows_it() -> None:
    sparse = {"unchanged": ("note",)}
    story = rows(
        ("I", 1, 1, "a"), ("U", 2, 1, "b", sparse), ("U", 3, 1, "c"), ("U", 4, 1, "d", sparse), ("U", 9, 1, "e"),
        ("I", 1, 2, "a"), ("D", 2, 2, None), ("I", 3, 3, "only"),
    )  # fmt: skip
    assert gone(story, 5) == [True, True, False, False, False, True, False, False]
    assert gone(story, 9) == [True, True, True, True, False, True, False, False]
    assert gone(story, 0) == [False] * 8


def test_a_truncate_supersedes_everything_before_it_and_stays() -> None:
    story = rows(("I", 1, 1, "a"), ("I", 2, 2, "b"), ("T", 3, None, None), ("r", 4, 2, "c"), ("T", 8, None, None))
    assert gone(story, 5) == [True, True, False, False, False]
    assert gone(story, 8) == [True, True, False, True, False]


def test_keys_that_changed_are_left_alone() -> None:
    moved = {"before": (("id", 1),)}
    story = rows(("I", 1, 1, "a"), ("U", 2, 1, "b"), ("U", 3, 2, "c", moved), ("D", 4, 2, None), ("I", 1, 5, "x"))
    assert gone([*story, *rows(("D", 2, 5, None))], 9) == [False, False, False, False, True, False]


def test_a_row_that_shows_a_dropped_column_stays() -> None:
    story = rows(("I", 1, 1, "a", {"absent": ("note",)}), ("I", 2, 1, "b"), ("I", 3, 1, "c"))
    assert gone(story, 9) == [False, True, False]


def test_most_of_a_busy_history_goes() -> None:
    story = rows(*[("U", csn, csn % 7, "x") for csn in range(1, 701)])
    assert sum(gone(story, 700)) == 693
    assert pc.sum(superseded(history(story), key=["id"], horizon=350, release=1)).as_py() == 343
