"""c. Merge: changed keys, recent and scattered, into tables of three sizes, beside a plain Delta MERGE on the key."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.data import mirrors
from benchmarks.measuring import Failed, Measured, copied, job, made, program
from benchmarks.parts.curve import CLUSTER
from benchmarks.report import Report
from txloom.storage.delta import arrow_tables

SIZES = (500_000, 5_000_000, 50_000_000)
CHANGES = (1_000, 100_000)
MILLION = 1_000_000


def measure(report: Report, rounds: int) -> None:
    """Measure every size with every number and place of changes; the largest table once."""
    for size in SIZES:
        base = made(f"merge/base-{size}", lambda folder, size=size: _base(folder, size))
        for changes in CHANGES:
            for place in ("recent", "scattered"):
                prepared = made(
                    f"merge/{size}-{changes}-{place}",
                    lambda folder, n=changes, p=place, s=size, b=base: _changes(folder, b, s, n, p),
                )
                for _ in range(rounds if size < max(SIZES) else 1):
                    _one(report, prepared, size, changes, place)
    _goals(report)
    for size, place in ((0, "first rows"), (5_000_000, "scattered")):
        base = made(f"merge/base-{size}", lambda folder, size=size: _base(folder, size))
        prepared = made(
            f"merge/{size}-{MILLION}-{place.replace(' ', '-')}",
            lambda folder, s=size, b=base, p=place: _changes(folder, b, s, MILLION, p),
        )
        _one(report, prepared, size, MILLION, place)
        case = _case(size, MILLION, place)
        plain = report.median(case, "plain MERGE")
        report.goal(f"{case}: txloom to plain MERGE", report.median(case, "txloom") / plain, at_most=2)
    first = _case(0, MILLION, "first rows")
    report.goal("1,000,000 first rows in this process, seconds", report.median(first, "txloom"), at_most=4)
    report.goal("1,000,000 first rows by Spark, seconds", report.median(first, "txloom, by Spark's tasks"), at_most=20)


def _case(size: int, changes: int, place: str) -> str:
    return f"{changes:,} {place} into {size:,}"


def _goals(report: Report) -> None:
    largest, least = max(SIZES), min(SIZES)
    recent, scattered = (_case(largest, 1_000, place) for place in ("recent", "scattered"))
    ours, pruned = report.median(recent, "txloom"), report.median(recent, "plain MERGE, literal keys")
    report.goal(f"{recent}: txloom to plain MERGE with the same pruning", ours / pruned, at_most=1.3)
    unpruned = report.median(scattered, "plain MERGE") / report.median(scattered, "txloom")
    report.goal(f"{scattered}: plain unpruned MERGE to txloom", unpruned, at_least=4)
    growth = ours / report.median(_case(least, 1_000, "recent"), "txloom")
    report.goal(f"1,000 recent keys: {largest:,} rows to {least:,}", growth, at_most=1.3)


def _base(folder: Path, size: int) -> None:
    declaration = mirrors.declared(folder, "bench", ["events"], folder / "inbox")
    pipeline, paths = mirrors.pipeline_of(declaration, folder / "warehouse")
    mirrors.write_base(pipeline, paths, "events", size)


def _changes(folder: Path, base: Path, size: int, changes: int, place: str) -> None:
    """Land and buffer the changes beside a copy of the base: nine of ten update a row, one inserts a new one."""
    chance = np.random.default_rng(size + changes)
    new = changes if size == 0 else changes // 10
    known = changes - new
    first = size - min(size, max(known * 2, 50_000)) if place == "recent" else 0
    old = first + chance.choice(max(size - first, 1), known, replace=False) if known else np.array([], np.int64)
    ids = np.concatenate([np.sort(old), size + np.arange(new)]).astype(np.int64)
    changed = mirrors.rows(ids, 1)
    inbox = folder / "inbox"
    mirrors.write_changes(inbox, "events", ["U"] * known + ["I"] * new, changed)
    declaration = mirrors.declared(folder, "bench", ["events"], inbox)
    for step in ("land_events", "buffer_transactions"):
        job(step, declaration, folder / "warehouse")
    pipeline, paths = mirrors.pipeline_of(declaration, base / "warehouse")
    table = mirrors.current_of(pipeline, "events")
    source = Path(paths.table(table))
    mirrors.linked(source, Path(mirrors.pipeline_of(declaration, folder / "warehouse")[1].table(table)))
    place_of = {"_txloom_csn": pa.array([1] * changes), "_txloom_pos": pa.array([0] * changes)}
    plain = changed.append_column("_txloom_csn", place_of["_txloom_csn"])
    plain = plain.append_column("_txloom_pos", place_of["_txloom_pos"])
    plain = plain.append_column("_txloom_xid", pa.repeat("x", changes)).append_column(
        "deleted", pa.repeat(False, changes)
    )
    pq.write_table(plain, folder / "plain.parquet")


def _one(report: Report, prepared: Path, size: int, changes: int, place: str) -> None:
    case, declaration = _case(size, changes, place), prepared / "bench.yaml"
    variants = [("plain MERGE", []), ("plain MERGE, literal keys", ["--literals"])]
    for variant, flags in variants if (size, changes) == (max(SIZES), min(CHANGES)) else variants[:1]:
        pipeline, paths = mirrors.pipeline_of(declaration, copied(prepared / "warehouse", "merge/run"))
        path = paths.table(mirrors.current_of(pipeline, "events"))
        measured = program("plain_merge", path, prepared / "plain.parquet", *flags)
        report.add(case, f"{variant}, session open", Measured(**vars(measured)), measured.result["merge_s"])
        report.add(case, variant, measured)
    forced = [("txloom", {})]
    if place == "first rows":
        forced.append(("txloom, by processes", {"TXLOOM_MERGE_BYTES": "0"}))
        forced.append(("txloom, by Spark's tasks", {"TXLOOM_MERGE_BYTES": "0", "TXLOOM_SPARK_MASTER": CLUSTER}))
    for variant, environment in forced:
        warehouse = copied(prepared / "warehouse", "merge/run")
        report.add(case, variant, job("merge_current", declaration, warehouse, environment=environment))
        _check(declaration, warehouse, prepared / "plain.parquet", size, changes)


def _check(declaration: Path, warehouse: Path, changed: Path, size: int, changes: int) -> None:
    """Refuse a merge that did not show exactly the changed rows, and as many others as before."""
    pipeline, paths = mirrors.pipeline_of(declaration, warehouse)
    path = paths.table(mirrors.current_of(pipeline, "events"))
    new = changes if size == 0 else changes // 10
    total = arrow_tables.select(path, "select count(*) as n, count(distinct id) as k from t").to_pylist()[0]
    shown = arrow_tables.select(path, "select id, status, note, amount, at, day from t where _txloom_csn > 0")
    expected = pq.read_table(changed, columns=shown.column_names)
    if total != {"n": size + new, "k": size + new} or shown.sort_by("id") != expected.cast(shown.schema).sort_by("id"):
        raise Failed(f"{warehouse}: {total}, {shown.num_rows} changed rows: not what {changed} says")
