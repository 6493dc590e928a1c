"""The names of datasets are those of OpenLineage's specification; tests/dags has whole events."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from txloom.config import load
from txloom.config.models.pipeline import Pipeline
from txloom.orchestration.lineage import lineage

PIPELINES = Path(__file__).resolve().parents[2] / "include" / "pipelines"
DECLARED = """
name: shop
source:
  format: debezium
  kafka: {brokers: "kafka-1, kafka-2:9093", topics: [shop.orders, shop.lines]}
  transaction_topic: shop.transaction
completeness: {rule: counts, patience: 30m}
tables: [{name: rows, source: S.ROWS, key: [id], columns: {id: long}}]
targets: {mirrors: [rows]}
"""


@pytest.fixture
def shop(tmp_path: Path) -> Pipeline:
    (tmp_path / "shop.yaml").write_text(DECLARED)
    return load(tmp_path / "shop.yaml")


def named(datasets: list[Any]) -> list[tuple[str, str]]:
    return [(each.namespace, each.name) for each in datasets]


def test_topics_are_named_by_their_broker_and_tables_by_their_bucket(shop: Pipeline) -> None:
    events = lineage(shop, "s3a://lake/prod/", "land_events", {})
    topics = ("shop.orders", "shop.lines", "shop.transaction")
    assert named(events.inputs) == [("kafka://kafka-1:9092", each) for each in topics]
    assert named(events.outputs) == [("s3://lake", f"prod/shop/{each}") for each in ("change_events", "dead_letters")]


@pytest.mark.parametrize(
    ("warehouse", "dataset"),
    [
        ("file:///lake", ("file", "/lake/shop/cuts")),
        ("/lake/", ("file", "/lake/shop/cuts")),
        ("hdfs://name:8020/lake", ("hdfs://name:8020", "/lake/shop/cuts")),
        ("gs://bucket/lake", ("gs://bucket", "lake/shop/cuts")),
        ("abfss://c@a.dfs.core.windows.net/lake", ("abfss://c@a.dfs.core.windows.net", "lake/shop/cuts")),
    ],
)
def test_a_lake_is_named_by_its_store(shop: Pipeline, warehouse: str, dataset: tuple[str, str]) -> None:
    assert named(lineage(shop, warehouse, "publish", {}).outputs) == [dataset]


def test_a_step_that_failed_has_its_datasets_and_says_nothing_of_what_it_did(shop: Pipeline) -> None:
    failed = lineage(shop, "/lake", "merge_current", {})
    assert (named(failed.outputs), failed.run_facets) == ([("file", "/lake/shop/rows")], {})


def test_another_step_has_no_datasets_and_its_counts(shop: Pipeline) -> None:
    kept = lineage(shop, "/lake", "maintain_tables", {"run_id": "r", "files": 7, "text": "x", "flag": True})
    assert (kept.inputs, kept.outputs) == ([], [])
    facet: Any = kept.run_facets["txloom"]
    assert (facet.run_id, facet.counts, facet.cut_id) == ("r", {"files": 7}, None)


@pytest.mark.parametrize("file", sorted(PIPELINES.rglob("*.yaml")), ids=lambda file: file.stem)
def test_every_shipped_pipeline_leads_from_its_source_to_its_cut(file: Path) -> None:
    pipeline = load(file, connected=False)
    steps = ("diff_snapshot" if pipeline.source.format == "snapshots" else "land_events", "buffer_transactions")
    flow = [lineage(pipeline, "/lake", step, {}) for step in (*steps, "merge_current", "publish")]
    assert flow[0].inputs
    for earlier, later in pairwise(flow):
        assert set(named(later.inputs)) <= set(named(earlier.outputs))
