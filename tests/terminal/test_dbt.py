"""`txloom dbt`: the sources have the columns that the tables have, and a freshness query that Spark answers."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import yaml

from called import step_of
from released import BEGAN, Released
from topics import no_session
from txloom import cli
from txloom.config import load
from txloom.config.models.pipeline import Pipeline
from txloom.steps.publish.publish import publish
from txloom.storage.targets import schemas
from txloom.terminal.dbt import sources

PIPELINES = Path(__file__).resolve().parents[2] / "include" / "pipelines"
AGES = """
expectations:
  - {kind: valid_through_age, id: old, older_than: 90m, severity: warn, sentence: It is fresh., hint: Look.}
  - {kind: valid_through_age, id: dead, older_than: 2d, severity: block, sentence: It lives., hint: Look.}
"""


def source(pipeline: Pipeline, *arguments: Any) -> dict[str, Any]:
    (only,) = sources(pipeline, "s3://lake/", *arguments)["sources"]
    return only


@pytest.mark.parametrize("file", sorted(PIPELINES.rglob("*.yaml")), ids=lambda file: file.stem)
def test_every_table_that_readers_see_is_a_source_with_the_columns_that_it_has(file: Path) -> None:
    pipeline = load(file, connected=False)
    tables = {table["name"]: [each["name"] for each in table["columns"]] for table in source(pipeline)["tables"]}
    documents = {each.current: schemas.document_schema(pipeline, each) for each in pipeline.targets.aggregates}
    rows = {each.current: schemas.current_schema(pipeline.table(each.table)) for each in pipeline.targets.mirrors}
    changes = {each.history: schemas.changes_schema(pipeline.table(each.table)) for each in pipeline.targets.mirrors}
    assert tables == {name: declared(schema) for name, schema in {**documents, **rows, **changes}.items()}


def declared(schema: pa.Schema) -> list[str]:
    return [name for name in schema.names if not name.startswith("_txloom_")]


def test_alerts_and_expectations_that_block_are_errors_and_others_are_warnings(tmp_path: Path) -> None:
    made = Released(tmp_path, "id: long", more=AGES)
    assert source(made.pipeline)["config"]["freshness"] == {
        "warn_after": {"count": 90, "period": "minute"},
        "error_after": {"count": 2, "period": "day"},
    }
    made.more = "alerts: {valid_through_age: 61s}" + AGES
    made.declare("")
    assert source(made.pipeline)["config"]["freshness"]["error_after"] == {"count": 2, "period": "minute"}


def test_spark_takes_tables_by_name_and_duckdb_by_path(tmp_path: Path) -> None:
    pipeline = Released(tmp_path, "id: long").pipeline
    assert source(pipeline)["schema"] == "plant"
    named = source(pipeline, "spark", "unity.lake")
    assert (named["database"], named["schema"]) == ("unity", "lake")
    by_path = source(pipeline, "duckdb")
    assert "schema" not in by_path
    assert by_path["config"]["meta"]["external_location"] == "delta_scan('s3://lake/plant/{name}')"
    assert by_path["config"]["loaded_at_query"].endswith(" from delta_scan('s3://lake/plant/cuts')")


def test_the_freshness_query_is_the_time_of_the_newest_commit_that_readers_see(spark: Any, tmp_path: Path) -> None:
    lake = Released(tmp_path, "id: long")
    for csn in (1, 2):
        lake.release(csn, [("I", {}, {"id": csn})])
        lake.merge(no_session)
        publish(step_of(lake.pipeline, lake.folder, "r"))
    (only,) = sources(lake.pipeline, str(tmp_path))["sources"]
    ((at,),) = spark.sql(f"select unix_micros(at) from ({only['config']['loaded_at_query']}) as t(at)").collect()
    assert at == round((BEGAN + timedelta(days=2)).timestamp() * 1e6)


def test_the_command_writes_yaml_whole_lines_and_replaces_no_file_by_itself(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = Released(tmp_path, "id: long")
    deep = f"/{'deep' * 60}"
    command = ["dbt", str(tmp_path / "plant.yaml"), "--warehouse", deep]
    assert cli.main(command) == 0
    printed = capsys.readouterr().out
    assert yaml.safe_load(printed) == sources(made.pipeline, deep)
    assert "plant declares no limit" in printed
    file = tmp_path / "sources.yml"
    assert cli.main([*command, "--out", str(file)]) == 0
    assert file.read_text() == printed
    assert cli.main([*command, "--out", str(file)]) == 2
    assert "--force replaces it" in capsys.readouterr().err
    assert cli.main([*command, "--out", str(file), "--force"]) == 0
