"""Tables are known by name in a catalog: of this session, and of Hive from one process to the next."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from called import step_of
from released import Released
from topics import no_session
from txloom.errors import ConfigurationError
from txloom.steps.maintenance.maintain_tables import maintain_tables
from txloom.steps.step import Counts

HIVE = """
spark:
  settings:
    spark.sql.catalogImplementation: hive
    spark.hadoop.javax.jdo.option.ConnectionURL: "jdbc:derby:;databaseName={folder}/metastore;create=true"
    spark.hadoop.datanucleus.schema.autoCreateAll: "true"
    spark.sql.warehouse.dir: "{folder}/tables"
"""
READER = """
import sys
from txloom.config import load
from txloom.storage.spark.session import open_session

settings = load(sys.argv[1]).spark.by_name
spark = open_session("another reader", None, "", settings)
rows = spark.sql("select id from lake.readings order by id").collect()
print(sorted(row.tableName for row in spark.sql("show tables in lake").collect()), [row.id for row in rows])
"""


def lake(folder: Path, schema: str, more: str = "") -> Released:
    folder.mkdir()
    made = Released(folder, "id: long", more=more)
    made.release(1, [("I", {}, {"id": each}) for each in (1, 2)])
    made.merge(no_session)
    targets = made.pipeline.targets.model_copy(update={"catalog": schema})
    made.pipeline = made.pipeline.model_copy(update={"targets": targets})
    return made


def register(lake: Released, spark: Any) -> Counts:
    return maintain_tables(step_of(lake.pipeline, lake.folder, "registered", spark), "register")


@pytest.mark.session
def test_tables_are_registered_once_and_stay_where_they_are(spark: Any, tmp_path: Path) -> None:
    first = lake(tmp_path / "first", "registered")
    assert register(first, spark) == {"tables": 2, "registered": 2}
    assert register(first, spark) == {"tables": 2, "registered": 0}
    try:
        assert [row.id for row in spark.sql("select id from registered.readings order by id").collect()] == [1, 2]
        assert spark.sql("select count(*) as n from registered.readings_changes").collect()[0].n == 2
        other = lake(tmp_path / "other", "registered")
        with pytest.raises(ConfigurationError, match=r"registered\.readings is registered at .*first/plant/readings"):
            register(other, spark)
    finally:
        spark.sql("drop schema registered cascade")
    assert first.paths and (tmp_path / "first" / "plant" / "readings" / "_delta_log").is_dir()


def test_without_a_schema_nothing_is_registered(tmp_path: Path) -> None:
    made = Released(tmp_path, "id: long")
    assert maintain_tables(step_of(made.pipeline, made.folder, "none"), "register") == {"tables": 0, "registered": 0}


@pytest.mark.long
def test_hives_catalog_shows_them_to_another_process(tmp_path: Path) -> None:
    made = lake(tmp_path / "lake", "lake", HIVE.format(folder=tmp_path))
    file = made.folder / "plant.yaml"
    file.write_text(file.read_text().replace("targets: {", "targets: {catalog: lake, "))
    project = Path(__file__).resolve().parents[3]
    job = [sys.executable, project / "jobs" / "maintain_tables.py", "--pipeline", file, "--task", "register"]
    subprocess.run([*job, "--warehouse", made.folder], check=True, cwd=tmp_path)
    done = subprocess.run(
        [sys.executable, "-c", READER, file], check=True, cwd=tmp_path, capture_output=True, text=True
    )
    assert done.stdout.splitlines()[-1] == "['readings', 'readings_changes'] [1, 2]"
