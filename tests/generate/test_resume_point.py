"""What is read back where a run stopped is what it was when it stopped."""

from pathlib import Path
from typing import Any

from txloom.generate import resume_point
from txloom.generate.resume_point import ResumeState
from txloom.generate.workload.orders import Position, Workload
from txloom.generate.workload.settings import SIZES, Shares, sizes_of
from txloom.generate.workload.source import Source
from txloom.generate.workload.tables import WATCHED


def played(count: int) -> Workload:
    """Play some transactions with much deleting."""
    begin = Position(0, 1000, 0, 0)
    workload = Workload(9, Source(), begin, sizes_of(SIZES), Shares(0.3, 0.1, 0.002), 50_000)
    for _ in workload.transactions(count):
        pass
    return workload


def state_of(source: Source) -> dict[str, Any]:
    """Return all that decides what a source does next."""
    keys = [order.row.order_id for order in source.orders]
    return {
        "rows": [list(source.rows_of(table)) for table in WATCHED],
        "places": [order.index for order in source.orders],
        "made": source.made,
        "used": {code: count for code, count in source.used.items() if count},
        "attached": sorted(key for key, order in zip(keys, source.orders, strict=True) if order in source.attached),
        "discounted": sorted(key for key, order in zip(keys, source.orders, strict=True) if order in source.discounted),
        "others": len(source.attached) + len(source.discounted),
    }


def test_a_source_is_read_back_as_it_was(tmp_path: Path) -> None:
    workload = played(700)
    begun = ResumeState({"seed": 9}, workload.position, 3, {"t/0": 7}, workload.source.made, {"faults.jsonl": 5})
    resume_point.save(tmp_path, begun, workload.source)
    loaded = resume_point.load(tmp_path)
    assert loaded is not None
    assert loaded[0] == begun
    assert state_of(loaded[1]) == state_of(workload.source)
    assert state_of(workload.source)["places"] == list(range(len(workload.source.orders)))
    assert all(state_of(workload.source).values())


def test_where_no_run_was_there_is_nothing_to_read(tmp_path: Path) -> None:
    assert resume_point.load(tmp_path) is None
