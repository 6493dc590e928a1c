"""Compare a table's current rows with an extract of it, key by key, by the hashes of their values."""

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from txloom.arrow_types import AnyColumn, Integers
from txloom.current.row_hashes import row_hashes

KEY, VALUES = "_txloom_key", "_txloom_values"
"""The columns of the hashes by which rows are compared: of the key, and of the other columns."""
POSITION = "_txloom_place"


@dataclass(frozen=True)
class Difference:
    """The differences as row numbers in ascending order.

    inserted, updated: rows of the extract. replaced: the current row for each of updated. missing: current rows that
    the extract does not have. repeated: the first two rows of the extract with one key, None where there are none.
    unchanged: how many rows are equal.
    """

    inserted: Integers
    updated: Integers
    replaced: Integers
    missing: Integers
    unchanged: int
    repeated: tuple[int, int] | None = None


def with_hashes(rows: pa.Table, key: Sequence[str], columns: Sequence[str]) -> pa.Table:
    """Return rows with the two hash columns by which they are compared."""
    rest = [name for name in columns if name not in key]
    return rows.append_column(KEY, row_hashes(rows, key)).append_column(VALUES, row_hashes(rows, rest))


def difference(current: pa.Table, extract: pa.Table) -> Difference:
    """Return how an extract differs from current rows; both with the columns of `with_hashes`.

    current: each key once. extract: keys may repeat, which `repeated` reports.
    """
    both = _with_position(extract).join(_with_position(current), KEY, join_type="full outer", right_suffix="_now")
    new, now = both.column(POSITION), both.column(f"{POSITION}_now")
    matched = both.filter(pc.and_(pc.is_valid(new), pc.is_valid(now)))
    same = pc.equal(matched.column(VALUES), matched.column(f"{VALUES}_now"))
    changed = matched.filter(pc.invert(same)).sort_by(POSITION)
    return Difference(
        _sorted(new.filter(pc.is_null(now))),
        changed.column(POSITION).combine_chunks(),
        changed.column(f"{POSITION}_now").combine_chunks(),
        _sorted(now.filter(pc.is_null(new))),
        pc.sum(same).as_py() or 0,  # type: ignore[type-var]  # the stubs do not know that booleans can be summed
        _repeated(extract),
    )


def _with_position(rows: pa.Table) -> pa.Table:
    return rows.select([KEY, VALUES]).append_column(POSITION, pa.array(range(rows.num_rows), pa.int64()))


def _sorted(places: AnyColumn) -> Integers:
    return places.take(pc.sort_indices(places)).combine_chunks()


def _repeated(extract: pa.Table) -> tuple[int, int] | None:
    """Return the row numbers of the first two rows that share a key, None where there are none."""
    spans = _with_position(extract).group_by(KEY).aggregate([(POSITION, "min"), (POSITION, "max")])
    twice = spans.filter(pc.less(spans.column(f"{POSITION}_min"), spans.column(f"{POSITION}_max")))
    first = twice.sort_by(f"{POSITION}_min").slice(0, 1).to_pylist()
    return (first[0][f"{POSITION}_min"], first[0][f"{POSITION}_max"]) if first else None
