"""The parts of a declaration that decide what its tables contain, as plain values that can be stored and compared.

Left out is what only says when and how a pipeline runs: schedules, alerts, expectations, maintenance, order of files.
"""

import json
from collections.abc import Mapping
from hashlib import blake2b
from typing import Any

from txloom.config.models.pipeline import Aggregate, Mirror, Pipeline, Table
from txloom.config.models.source import Source

Content = dict[str, Any]
"""Nested mappings, lists and texts, as JSON has them."""
ALIASES = "source_aliases"
"""The key of a table's content that has the former names of its columns in the source."""
VALUES = "values"
"""The key of a table's content that has, by kind of values, the options by which messages without a schema are read."""
TIMES, BYTES = "times", "bytes"
"""The kinds of values that options decide. A date does not depend on any option."""
_KINDS = {"timestamp": TIMES, "timestamptz": TIMES, "time": TIMES, "binary": BYTES}
_OPTIONS = {TIMES: ("time_unit", "database", "time_precision_mode"), BYTES: ("binary_mode",)}
"""The entries of `source.debezium`, by kind of values."""


def table_content(pipeline: Pipeline, table: Table) -> Content:
    """Return what decides the rows of a watched table: source, key, columns, and what a column that is left out means.

    columns: by name in the lake, the type and the name in the source. source_aliases: by name in the lake, the former
    names in the source, newest first; left out if no column has any. values: as `values_content` returns them; left out
    if there are none.
    """
    aliases = {column.name: list(column.source_aliases) for column in table.columns if column.source_aliases}
    content = {
        "source": table.source,
        "key": list(table.key),
        "columns": {column.name: [str(column.type), column.source] for column in table.columns},
        "dropped_columns": table.dropped_columns,
    }
    values = values_content(pipeline, table)
    return content | ({ALIASES: aliases} if aliases else {}) | ({VALUES: values} if values else {})


def values_content(pipeline: Pipeline, table: Table) -> Content:
    """Return, by kind of values that a table's columns have, the options that are set for messages without a schema."""
    if pipeline.source.format != "debezium":
        return {}
    options = pipeline.source.debezium.model_dump(exclude_none=True)
    kinds = {_KINDS.get((column.type.element or column.type).kind) for column in table.columns}
    of_kinds = {
        kind: {name: options[name] for name in named if name in options}
        for kind, named in _OPTIONS.items()
        if kind in kinds
    }
    return {kind: values for kind, values in of_kinds.items() if values}


def aggregate_content(pipeline: Pipeline, aggregate: Aggregate) -> Content:
    """Return what decides the documents of an aggregate: its root, its children with their relations, their tables."""
    children = [[child.table, child.as_, child.relation, list(child.parent_key)] for child in aggregate.children]
    members = [aggregate.root, *(child.table for child in aggregate.children)]
    return {
        "root": aggregate.root,
        "children": children,
        "tables": {name: table_content(pipeline, pipeline.table(name)) for name in members},
    }


def pipeline_content(pipeline: Pipeline) -> Content:
    """Return what decides the contents of all tables of a pipeline."""
    return {
        "tables": {table.name: table_content(pipeline, table) for table in pipeline.tables},
        "mirrors": [_mirror_content(mirror) for mirror in pipeline.targets.mirrors],
        "aggregates": [
            {"current": each.current, "history": each.history} | aggregate_content(pipeline, each)
            for each in pipeline.targets.aggregates
        ],
    }


def _mirror_content(mirror: Mirror) -> list[str]:
    return [mirror.table, mirror.current, mirror.history, str(mirror.partition_by or "")]


def watched_content(pipeline: Pipeline) -> Content:
    """Return what decoders know of the watched tables: their sources, and the source's names of their key columns."""
    return {
        table.name: [table.source, *(source for name in table.key for source in table.column(name).sources)]
        for table in pipeline.tables
    }


def reading_content(pipeline: Pipeline) -> Content:
    """Return how messages of the source are read, whatever tables are watched: names of topics and fields.

    Two sources of another format, and change sets under another completeness rule, have csns of another kind.
    """
    of_sets = {"rule": pipeline.completeness.rule} if pipeline.source.format == "change_sets" else {}
    return {"format": pipeline.source.format, **of_sets, **names_content(pipeline.source)}


def names_content(source: Source) -> Content:
    """Return the names by which messages of a source are read."""
    content: Content = {"transaction_topic": source.transaction_topic, "run_token": source.run_token}
    return content | ({"change_sets": source.change_sets.model_dump()} if source.format == "change_sets" else {})


def digest_of(content: Mapping[str, Any]) -> str:
    """Return a digest of content, which does not depend on the order of its names.

    >>> digest_of({"a": 1, "b": [2]}) == digest_of({"b": [2], "a": 1}), len(digest_of({}))
    (True, 16)
    """
    return blake2b(to_json(content).encode(), digest_size=8).hexdigest()


def table_digests(pipeline: Pipeline) -> dict[str, str]:
    """Return, by name of a watched table, a digest of what decides its rows."""
    return {table.name: digest_of(table_content(pipeline, table)) for table in pipeline.tables}


def to_json(content: Mapping[str, Any]) -> str:
    """Return content as JSON, with its names in order."""
    return json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
