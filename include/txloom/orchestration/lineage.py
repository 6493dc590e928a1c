"""The datasets that a step reads and writes, and what it did, for OpenLineage; nothing here runs without its provider.

Datasets have the names that OpenLineage's specification gives them, so that they meet those of other producers: a topic
is `kafka://BROKER:PORT` and its name, a table of the lake is its store and its path there.
"""

import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import attr
from airflow.providers.openlineage.extractors import OperatorLineage
from openlineage.client.event_v2 import Dataset
from openlineage.client.facet_v2 import (
    RunFacet,
    column_lineage_dataset,
    dataset_version_dataset,
    schema_dataset,
)

from txloom.config import names
from txloom.config.models.pipeline import Aggregate, Mirror, Pipeline, Table
from txloom.config.project import PROJECT

Field = schema_dataset.SchemaDatasetFacetFields
FACET = "txloom"
"""The name of the run facet."""
SAID = ("csn_after", "valid_through", "cut_id", "committed_at")
"""Counts of a step that the run facet has by name; None where the step does not say it."""


@attr.define
class TxloomRunFacet(RunFacet):
    """What a run of a step did.

    csn_after and valid_through bound what readers of a new cut see more than those of the cut before: every transaction
    above the one, up to the other. counts: the numbers of the step's last line.
    """

    pipeline: str
    step: str
    run_id: str
    csn_after: int | None
    valid_through: int | None
    cut_id: int | None
    committed_at: str | None
    counts: dict[str, int]


class Name(NamedTuple):
    """Namespace and name of a dataset."""

    namespace: str
    name: str


def lineage(
    pipeline: Pipeline, warehouse: str, step: str, counts: Mapping[str, Any]
) -> OperatorLineage[Dataset, RunFacet]:
    """Return what a step of a pipeline read and wrote.

    Args:
        pipeline: the declaration.
        warehouse: the path or URI below which its tables lie.
        step: one of those that bring the source to its readers; for any other there are no datasets.
        counts: what the step returned; {} where it failed.
    """
    reads, writes = _datasets(pipeline, warehouse, counts).get(step, ((), ()))
    numbers = {name: value for name, value in counts.items() if type(value) is int and name not in SAID}
    said: dict[str, Any] = {name: counts.get(name) for name in SAID}
    run_id = str(counts.get("run_id", ""))
    facet = TxloomRunFacet(pipeline=pipeline.name, step=step, run_id=run_id, counts=numbers, **said)
    return OperatorLineage([*reads], [*writes], {FACET: facet} if counts else {})


def _datasets(
    pipeline: Pipeline, warehouse: str, counts: Mapping[str, Any]
) -> dict[str, tuple[Sequence[Dataset], Sequence[Dataset]]]:
    """Return by step what it reads and writes."""

    def system(table: str) -> Dataset:
        return Dataset(*at(names.table_path(warehouse, pipeline.name, table)))

    events, dead, sent = system(names.CHANGE_EVENTS), system(names.DEAD_LETTERS), _source(pipeline)
    targets: list[Aggregate | Mirror] = [*pipeline.targets.aggregates, *pipeline.targets.mirrors]
    history = [_history(pipeline, warehouse, each) for each in targets]
    current = [_current(pipeline, warehouse, each, counts) for each in targets]
    return {
        "land_events": (sent, [events, dead]),
        "diff_snapshot": ([*sent, *current], [events]),
        "load_snapshot": ((), [events]),
        "redrive": ([dead], [events]),
        "buffer_transactions": ([events], [*history, dead]),
        "merge_current": (history, current),
        "check_expectations": (current, ()),
        "publish": (current, [system(names.CUTS)]),
    }


def at(path: str) -> Name:
    """Return the name of a file or folder: namespace and name.

    >>> at("s3a://bucket/lake/orders/cuts"), at("/lake/orders/cuts"), at("hdfs://name:8020/lake/cuts")
    (Name(namespace='s3://bucket', name='lake/orders/cuts'), Name(namespace='file', name='/lake/orders/cuts'), \
Name(namespace='hdfs://name:8020', name='/lake/cuts'))
    """
    parts = urlsplit(path)
    if parts.scheme in ("", "file"):
        return Name("file", os.path.normpath(PROJECT / parts.path))
    scheme = {"s3a": "s3", "s3n": "s3", "gcs": "gs"}.get(parts.scheme, parts.scheme)
    return Name(f"{scheme}://{parts.netloc}", parts.path if scheme == "hdfs" else parts.path.strip("/"))


def _source(pipeline: Pipeline) -> list[Dataset]:
    """Return the topics, or the folder of files."""
    kafka, files = pipeline.source.kafka, pipeline.source.files
    if kafka is not None:
        broker = kafka.brokers.split(",")[0].strip()
        server = broker if ":" in broker else f"{broker}:9092"
        topic = pipeline.source.transaction_topic
        topics = dict.fromkeys([*kafka.topics, *([topic] if topic else [])])
        return [Dataset(f"kafka://{server}", each) for each in topics]
    return [] if files is None else [Dataset(*at(files.path))]


def _history(pipeline: Pipeline, warehouse: str, target: Aggregate | Mirror) -> Dataset:
    """Return a history table; that of an aggregate has the changes of each member nested."""
    if isinstance(target, Mirror):
        fields = _fields(pipeline.table(target.table))
    else:
        root = pipeline.table(target.root)
        members = [(root, root.name), *((pipeline.table(each.table), each.as_) for each in target.children)]
        fields = [field for field in _fields(root) if field.name in root.key]
        fields += [Field(name, "array", fields=_fields(table)) for table, name in members]
    return _table(pipeline, warehouse, target.history, fields)


def _current(pipeline: Pipeline, warehouse: str, target: Aggregate | Mirror, counts: Mapping[str, Any]) -> Dataset:
    """Return a current table: its columns, where they come from, and the Delta version that a new cut names."""
    if isinstance(target, Mirror):
        fields = _fields(pipeline.table(target.table))
    else:
        fields = _fields(pipeline.table(target.root))
        fields += [
            Field(each.as_, "struct" if each.relation == "one" else "array", fields=_fields(pipeline.table(each.table)))
            for each in target.children
        ]
    history = at(names.table_path(warehouse, pipeline.name, target.history))
    root = "" if isinstance(target, Mirror) else f"{target.root}."
    nested = () if isinstance(target, Mirror) else [each.as_ for each in target.children]
    inputs = {each.name: each.name if each.name in nested else f"{root}{each.name}" for each in fields}
    table = _table(pipeline, warehouse, target.current, fields)
    assert table.facets is not None
    table.facets["columnLineage"] = column_lineage_dataset.ColumnLineageDatasetFacet(
        {name: _comes_from(history, column) for name, column in inputs.items()}
    )
    if (version := (counts.get("versions") or {}).get(target.current)) is not None:
        table.facets["version"] = dataset_version_dataset.DatasetVersionDatasetFacet(str(version))
    return table


def _comes_from(history: Name, column: str) -> column_lineage_dataset.Fields:
    newest = column_lineage_dataset.Transformation("DIRECT", "IDENTITY", "the value of the newest change")
    return column_lineage_dataset.Fields([column_lineage_dataset.InputField(*history, column, [newest])])


def _table(pipeline: Pipeline, warehouse: str, table: str, fields: Sequence[Field]) -> Dataset:
    schema = schema_dataset.SchemaDatasetFacet([*fields])
    return Dataset(*at(names.table_path(warehouse, pipeline.name, table)), facets={"schema": schema})


def _fields(table: Table) -> list[Field]:
    """Return the declared columns of a table; the types are Spark's."""
    return [Field(column.name, column.type.spark) for column in table.columns]
