"""Transactions that wait or were given up, one by one."""

from dataclasses import dataclass

import pyarrow as pa


@dataclass(frozen=True)
class Unfinished:
    """A row of UNFINISHED_ROWS (`txloom.transactions.completeness`)."""

    tx: int
    csn: int
    cause: str
    first_at: int
    rows: int
    landings: list[int]
    expected: dict[int, int] | None
    received: dict[int, int]
    runs: int


def each(rows: pa.Table) -> list[Unfinished]:
    return [Unfinished(**row) for row in rows.to_pylist(maps_as_pydicts="strict")]
