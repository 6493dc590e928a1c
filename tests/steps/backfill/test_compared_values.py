"""What a comparison of histories looks at."""

from collections.abc import Mapping

import pyarrow as pa
import pytest

from txloom.steps.backfill.compared_values import Listed
from txloom.steps.backfill.scope import Target
from txloom.steps.backfill.shadow_diff import differing
from txloom.storage.targets.shadow_tables import KIND

NAMES = pa.list_(pa.string())
NUMBERS = ("id", "_txloom_pos", "_txloom_landing", "_txloom_row")
CHANGE = pa.struct([*((name, pa.int64()) for name in NUMBERS), ("_txloom_absent", NAMES)])
FLAT = pa.schema([("id", pa.int64()), ("v", pa.int64()), ("_txloom_landing", pa.int64()), ("_txloom_absent", NAMES)])
NESTED = pa.schema([("id", pa.int64()), ("lines", pa.list_(CHANGE))])


def kinds(
    schema: pa.Schema,
    now: list[dict[str, object]],
    rebuilt: list[dict[str, object]],
    listed: Mapping[str, Listed] | None = None,
) -> list[str]:
    """Return the kinds of differences between rows of a history."""
    target = Target("history", ("id",), schema, is_history=True, listed=listed or {})
    tables = (pa.Table.from_pylist(rows, schema) for rows in (now, rebuilt))
    return [row[KIND] for row in differing(*tables, target).select([KIND]).to_pylist()]


def flat(landing: int, absent: list[str] | None, v: int = 1) -> dict[str, object]:
    return {"id": 1, "v": v, "_txloom_landing": landing, "_txloom_absent": absent}


def nested(*changes: tuple[int, int, list[str] | None]) -> dict[str, object]:
    lines = [{"id": n, "_txloom_landing": at, "_txloom_row": at, "_txloom_absent": absent} for n, at, absent in changes]
    return {"id": 1, "lines": lines}


def test_where_an_event_was_landed_is_no_difference() -> None:
    assert kinds(FLAT, [flat(1, None)], [flat(2, None)]) == []
    assert kinds(NESTED, [nested((1, 1, None), (2, 1, None))], [nested((1, 7, None), (2, 8, None))]) == []


def test_names_of_columns_that_are_not_declared_any_more_are_no_difference() -> None:
    assert kinds(FLAT, [flat(1, ["gone", "v"])], [flat(1, ["v"])]) == []
    assert kinds(FLAT, [flat(1, ["gone"])], [flat(1, [])]) == []
    assert kinds(FLAT, [flat(1, ["gone"])], [flat(1, None)]) == []
    assert kinds(NESTED, [nested((1, 1, ["gone", "id"]), (2, 1, ["gone"]))], [nested((1, 1, ["id"]), (2, 1, []))]) == []


def test_other_names_values_and_changes_are_differences() -> None:
    assert len(kinds(FLAT, [flat(1, ["v"])], [flat(1, None)])) == 1
    assert len(kinds(FLAT, [flat(1, None, 1)], [flat(1, None, 2)])) == 1
    assert len(kinds(NESTED, [nested((1, 1, ["id"]))], [nested((1, 1, []))])) == 1
    assert len(kinds(NESTED, [nested((1, 1, None), (2, 1, None))], [nested((1, 1, None))])) == 1
    assert len(kinds(NESTED, [{"id": 1, "lines": None}], [nested((1, 1, None))])) == 1


def test_null_and_no_change_of_a_member_are_no_difference() -> None:
    assert kinds(NESTED, [{"id": 1, "lines": None}], [nested()]) == []


STAMPS = [("_txloom_release", pa.int64()), ("_txloom_csn", pa.int64())]


@pytest.mark.parametrize(("release", "csn", "is_listed"), [(3, 100, False), (4, 100, True), (3, 110, True)])
def test_inserts_from_before_a_column_was_declared_do_not_list_it(release: int, csn: int, *, is_listed: bool) -> None:
    listed, stamps = {"v": (3, 110)}, {"_txloom_release": release, "_txloom_csn": csn}
    schema = pa.schema([*FLAT, *STAMPS])
    pair = [flat(1, names) | stamps for names in (None, ["v"])]
    assert len(kinds(schema, [pair[0]], [pair[1]], {"": listed})) == is_listed
    assert len(kinds(schema, [pair[0]], [pair[1]], {"": {"v": (3, None)}})) == (release == 4)
    assert len(kinds(schema, [pair[0]], [pair[1]])) == 1
    both = [nested((1, 1, names), (2, 1, ["id"])) | stamps for names in (None, ["id"])]
    schema = pa.schema([*NESTED, *STAMPS])
    assert len(kinds(schema, [both[0]], [both[1]], {"lines": {"id": (3, 110)}})) == is_listed
    assert len(kinds(schema, [both[0]], [both[1]], {"others": {"id": (3, 110)}})) == 1
