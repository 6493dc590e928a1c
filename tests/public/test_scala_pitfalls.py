"""Five things that went wrong in the Scala article's own job, and do not here."""

import os
import subprocess
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyspark
import pytest
from deltalake import DeltaTable, write_deltalake

from oracle.declarations import Aggregate, Child
from public.source import Source, assert_shown, in_order, pipeline_of, source_of, table
from txloom.config import find, jvm, names
from txloom.config.models.pipeline import Pipeline
from txloom.storage import system_tables
from txloom.storage.delta import small_tables
from txloom.storage.paths import TablePaths
from txloom.storage.spark.session import SETTINGS, launch_settings
from txloom.storage.targets import row_tables
from workloads.core import Core

SOURCE = (
    "Building Transactionally Consistent CDC Pipelines with Spark Structured Streaming and Delta Lake: its pitfalls"
)
ORDERS = table("orders", "id", id="long", status="string")
DETAILS = table("details", "id", id="long", carrier="string")
LINES = table("lines", "line", line="long", id="long", product="string")
DOCUMENT = Aggregate(
    "doc", "orders", (Child("details", "details", "one", ("id",)), Child("lines", "lines", "many", ("id",)))
)
JAVA_17 = (
    *("java.base/java.lang", "java.base/java.net", "java.base/java.nio", "java.base/java.util"),
    *("java.base/java.lang.invoke", "java.base/java.util.concurrent", "java.base/sun.nio.ch"),
)
"""Packages that Spark reaches into: the first four are the article's."""


@pytest.fixture
def source() -> Source:
    return source_of(ORDERS, DETAILS, LINES, aggregate=DOCUMENT)


@pytest.fixture
def core(source: Source, tmp_path: Path) -> Core:
    return Core(pipeline_of(source, tmp_path))


def document(core: Core, key: int) -> dict[str, Any] | None:
    return core.shown()["doc_current"].get((key,))


def take(core: Core, source: Source) -> None:
    """Bring every transaction that the core has not seen, in one landing; the result is what the source holds."""
    core.run(in_order([each for each in source.sent if each.csn > core.valid_through]))
    assert_shown(core, source)


def test_1_empty_arrays_are_empty_and_not_null(core: Core, source: Source) -> None:
    source.insert("orders", id=1, status="new")
    source.commit()
    take(core, source)
    assert document(core, 1) == {"id": 1, "status": "new", "details": None, "lines": []}
    source.insert("lines", line=10, id=1, product="car")
    source.commit()
    source.delete("lines", (10,))
    source.commit()
    take(core, source)
    assert document(core, 1) == {"id": 1, "status": "new", "details": None, "lines": []}
    assert [len(each["lines"]) for each in core.document_intervals()] == [0, 1, 0]
    assert SETTINGS["spark.sql.ansi.enabled"] == "true"


def test_2_child_updates_in_the_same_batch_as_the_parents_creation_are_kept(core: Core, source: Source) -> None:
    source.insert("orders", id=1, status="new")
    source.insert("details", id=1, carrier="ship")
    source.insert("lines", line=10, id=1, product="car")
    source.insert("lines", line=11, id=1, product="van")
    source.commit()
    source.update("lines", (10,), product="bus")
    source.delete("lines", (11,))
    source.insert("lines", line=12, id=1, product="bike")
    source.commit()
    source.update("details", (1,), carrier="rail")
    source.commit()
    take(core, source)
    assert document(core, 1) == {
        "id": 1,
        "status": "new",
        "details": {"id": 1, "carrier": "rail"},
        "lines": [{"line": 10, "id": 1, "product": "bus"}, {"line": 12, "id": 1, "product": "bike"}],
    }
    assert len(core.document_intervals()) == 3


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Pipeline, TablePaths]:
    """Create every current table of the shipped pipeline, and a book, in an empty folder that is also where we are."""
    monkeypatch.chdir(tmp_path)
    pipeline = find("orders")
    paths = TablePaths(str(tmp_path / "lake"), pipeline.name)
    create(pipeline, paths)
    small_tables.ensure(paths.table(names.LEDGER), system_tables.LEDGER)
    return pipeline, paths


def create(pipeline: Pipeline, paths: TablePaths) -> None:
    for flat in row_tables.row_tables(pipeline):
        row_tables.create(flat, paths)
    for aggregate in pipeline.targets.aggregates:
        row_tables.create_documents(pipeline, aggregate, paths)


def tables_of(pipeline: Pipeline) -> list[str]:
    aggregates = [aggregate.current for aggregate in pipeline.targets.aggregates]
    return [*(flat.current for flat in row_tables.row_tables(pipeline)), *aggregates, names.LEDGER]


def test_3_every_table_opens_by_its_path_alone(lake: tuple[Pipeline, TablePaths], tmp_path: Path) -> None:
    pipeline, paths = lake
    for name in tables_of(pipeline):
        table = DeltaTable(str(tmp_path / "lake" / "orders" / name))
        assert paths.table(name) == f"{tmp_path}/lake/orders/{name}"
        assert (table.version(), table.metadata().name) == (0, None)
    assert [each.name for each in tmp_path.iterdir()] == ["lake"]  # no metastore_db, no spark-warehouse


def test_3_a_table_that_is_there_is_not_created_again(lake: tuple[Pipeline, TablePaths]) -> None:
    pipeline, paths = lake
    path = paths.table("promo_codes")
    write_deltalake(path, pa.Table.from_pylist([{"code": "P1"}], small_tables.schema_of(path)), mode="append")
    create(pipeline, paths)
    assert {name: DeltaTable(paths.table(name)).version() for name in tables_of(pipeline)} == {
        name: int(name == "promo_codes") for name in tables_of(pipeline)
    }
    assert [row["code"] for row in small_tables.query(path, "select code from t")] == ["P1"]


@pytest.mark.parametrize("step", [None, "land_events", "merge_current"])
def test_4_the_jvm_starts_with_the_module_options_of_java_17_and_with_our_flags(step: str | None) -> None:
    """Spark's launcher opens the packages by itself; our flags stand beside its options and replace none."""
    command = launched(step)
    opened = {option.removeprefix("--add-opens=").removesuffix("=ALL-UNNAMED") for option in command}
    assert opened.issuperset(JAVA_17)
    assert set(jvm.flags(step).split()) <= set(command)
    assert not any("hive" in option.lower() for option in SETTINGS)


@pytest.mark.parametrize("step", [None, "land_events", "merge_current"])
def test_4_java_takes_our_flags(step: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TXLOOM_CLASS_ARCHIVE", str(tmp_path / "none"))  # an archive fits Spark's class path alone
    done = subprocess.run([java(), *jvm.flags(step).split(), "-version"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def java() -> str:
    home = os.environ.get("JAVA_HOME")
    return str(Path(home) / "bin" / "java") if home else "java"


def launched(step: str | None) -> list[str]:
    """Return the command with which Spark's launcher would start the JVM of a step; nothing is started."""
    home = Path(pyspark.__file__).parent
    settings = [part for pair in launch_settings(step).items() for part in ("--conf", "=".join(pair))]
    main = ["org.apache.spark.launcher.Main", "org.apache.spark.deploy.SparkSubmit", *settings, "pyspark-shell"]
    environment = os.environ | {"SPARK_HOME": str(home), "SPARK_SCALA_VERSION": "2.13"}
    done = subprocess.run([java(), "-cp", f"{home}/jars/*", *main], capture_output=True, check=True, env=environment)
    return [part.decode().strip() for part in done.stdout.split(b"\0")]


def test_5_rows_without_a_parent_wait_and_appear_when_it_comes(core: Core, source: Source) -> None:
    source.insert("lines", line=10, id=1, product="car")
    source.insert("details", id=1, carrier="ship")
    source.commit()
    take(core, source)
    assert core.shown()["doc_current"] == {} and core.document_intervals() == []
    assert set(core.shown()["lines"]) == {(10,)}
    source.insert("orders", id=1, status="new")
    source.commit()
    take(core, source)
    assert document(core, 1) == {
        "id": 1,
        "status": "new",
        "details": {"id": 1, "carrier": "ship"},
        "lines": [{"line": 10, "id": 1, "product": "car"}],
    }
    assert [each["_txloom_valid_from"] for each in core.document_intervals()] == [source.csn]


def test_5_a_child_that_outlives_its_parent_makes_no_row_of_nulls(core: Core, source: Source) -> None:
    source.insert("orders", id=1, status="new")
    source.insert("lines", line=10, id=1, product="car")
    source.commit()
    source.delete("orders", (1,))
    source.commit()
    source.update("lines", (10,), product="bus")
    source.commit()
    take(core, source)
    assert core.shown()["doc_current"] == {}
    assert core.shown()["lines"][10,]["product"] == "bus"
