"""One declaration of 65 tables, in one cycle; a table that is broken holds up nobody else."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from lake import Lake
from txloom.config import load
from txloom.errors import TablesFailed

TABLES = 65
ROWS = 50
HEAD = """
name: plant
source: {{format: change_sets, files: {{path: {inbox}}}}}
completeness: {{rule: single}}
tables:
  - {{name: t1, source: PLANT.T1, key: none, columns: &columns {columns}}}
  - {{name: t2, source: PLANT.T2, key: [id, place], columns: *columns}}
  - {{name: "t{{3..{last}}}", source: "PLANT.{{name}}", key: [id], columns: *columns}}
targets:
  mirrors:
    - t1
    - {{table: t2, zorder: [value], partition_by: place}}
    - {{table: "t?", partition_by: year(created), zorder: [id]}}
"""
COLUMNS = "{id: long, place: string, value: long, created: date}"


def plant(spark: Any, folder: Path, tables: int) -> Lake:
    """Return a lake of many tables: one has no key, one a key of two columns, the others are partitioned by pattern."""
    inbox = folder / "inbox"
    inbox.mkdir(exist_ok=True)
    file = folder / "plant.yaml"
    more = '    - {table: "t??", partition_by: month(created)}\n' if tables > 9 else ""
    file.write_text(HEAD.format(inbox=inbox, last=tables, columns=COLUMNS) + more)
    return Lake(spark, folder, load(file))


def put(lake: Lake, name: str, tables: range, flag: str, value: int, day: int) -> None:
    for number in tables:
        rows = [f"{flag},{key},p,{value},{2024 + key % 2}-05-01,2026-01-{day:02} 00:00:00" for key in range(ROWS)]
        folder = lake.inbox / f"t{number}"
        folder.mkdir(exist_ok=True)
        (folder / f"{name}.csv").write_text("\n".join(["FLAG,ID,PLACE,VALUE,CREATED,CDC_TIMESTAMP", *rows]) + "\n")


def sums(lake: Lake, tables: range) -> list[tuple[int, int]]:
    """Return how many rows each table shows, and the sum of their values."""
    query = "select count(*) as n, sum(value) as total from t"
    return [tuple(lake.query(f"t{number}", query)[0].values()) for number in tables]  # type: ignore[misc]


def test_65_tables_take_their_change_sets_in_one_cycle(spark: Any, tmp_path: Path) -> None:
    lake = plant(spark, tmp_path, TABLES)
    every = range(1, TABLES + 1)
    put(lake, "first", every, "I", 1, 1)
    put(lake, "second", range(2, TABLES + 1), "U", 3, 2)
    done = lake.run()
    assert done["merge_current"]["merged"] == TABLES
    assert sums(lake, every) == [(ROWS, ROWS), *[(ROWS, 3 * ROWS)] * (TABLES - 1)]
    (cut,) = lake.query("cuts", "select * from t")
    assert len(cut["versions"]) == TABLES and cut["gaps"] == []
    query = "select distinct _txloom_partition as own from t order by own"
    assert {tuple(row["own"] for row in lake.query(f"t{number}", query)) for number in range(3, 10)} == {(2024, 2025)}
    assert [row["own"] for row in lake.query("t65", query)] == ["2024-05", "2025-05"]
    assert [row["own"] for row in lake.query("t2", query)] == ["p"]


@pytest.mark.parametrize("broken", ["its log", "a file of it"])
def test_one_broken_table_does_not_stop_the_others_and_is_named(spark: Any, tmp_path: Path, broken: str) -> None:
    lake, every = plant(spark, tmp_path, 5), range(1, 6)
    put(lake, "first", every, "I", 1, 1)
    lake.run()
    table = Path(lake.path("t3"))
    kept = tmp_path / "kept"
    shutil.copytree(table, kept)
    for file in table.glob("_delta_log/*.json" if broken == "its log" else "*.parquet"):
        file.write_text("{broken")
    put(lake, "second", range(2, 6), "U", 3, 2)
    with pytest.raises(TablesFailed, match=r"the others are merged, but not t3: \w+"):
        lake.run()
    assert sums(lake, range(1, 3)) + sums(lake, range(4, 6)) == [(ROWS, ROWS), *[(ROWS, 3 * ROWS)] * 3]
    (line,) = lake.query("ledger", "select detail, counts from t where step = 'merge_current' order by at desc limit 1")
    assert line["detail"].startswith("t3: ") and dict(line["counts"])["failed"] == 1
    assert len(lake.query("cuts", "select * from t")) == 1, "no cut without the broken table"
    shutil.rmtree(table)
    shutil.copytree(kept, table)
    lake.run()
    assert sums(lake, every) == [(ROWS, ROWS), *[(ROWS, 3 * ROWS)] * 4]
    (cut,) = lake.query("cuts", "select versions from t order by cut_id desc limit 1")
    assert dict(cut["versions"])["t3"] == 2


def test_a_document_waits_for_all_its_tables(spark: Any, tmp_path: Path) -> None:
    lake = plant(spark, tmp_path, 3)
    root, child = (table.model_copy(update={"key": ("id",)}) for table in lake.pipeline.tables[:2])
    aggregate = {"name": "doc", "root": "t1", "children": [{"table": "t2", "relation": "many", "parent_key": ["id"]}]}
    targets = type(lake.pipeline.targets).model_validate({"aggregates": [aggregate], "mirrors": ["t1", "t2", "t3"]})
    tables = (root, child, lake.pipeline.tables[2])
    lake.pipeline = lake.pipeline.model_copy(update={"tables": tables, "targets": targets})
    put(lake, "first", range(1, 4), "I", 1, 1)
    lake.run()
    broken, kept = Path(lake.path("t2")), tmp_path / "kept"
    shutil.copytree(broken, kept)
    for file in broken.glob("_delta_log/*.json"):
        file.write_text("{broken")
    put(lake, "second", range(1, 4), "U", 3, 2)
    with pytest.raises(TablesFailed, match="the others are merged, but not t2: "):
        lake.run()
    assert sums(lake, range(1, 2)) + sums(lake, range(3, 4)) == [(ROWS, ROWS), (ROWS, 3 * ROWS)]
    shutil.rmtree(broken)
    shutil.copytree(kept, broken)
    lake.run()
    documents = lake.rows("doc_current")
    assert [(row["value"], [line["value"] for line in row["t2"]]) for row in documents] == [(3, [3])] * ROWS
