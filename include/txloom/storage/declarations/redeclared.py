"""What a changed declaration means for messages that were landed before it."""

from collections.abc import Mapping, Set
from dataclasses import dataclass
from typing import cast

import pyarrow as pa
import pyarrow.compute as pc

from txloom.config.contents import Content
from txloom.config.models.pipeline import Pipeline
from txloom.config.models.source import Source
from txloom.events import formats
from txloom.events.formats import SourceDecoder
from txloom.storage.declarations.source_samples import redriven_rows, source_samples, watched_sources
from txloom.storage.landing import landing_plan, name_spellings
from txloom.storage.landing.decoding import decode_by_topic
from txloom.storage.paths import TablePaths


@dataclass(frozen=True)
class Redeclared:
    """What a changed declaration means for messages that were landed before.

    Args:
        border: the first landing whose messages were decoded as they are declared now; those of earlier ones are
            decoded again. 0: there are none.
        sources: the names of source tables, as messages have them, each with the table that it is declared as now.
        since: by table, the first landing from which on its messages were decoded as they are now.
        spellings: how names of the source were spelled so far.
        source: the source, with what it was declared as before.
        redriven: landing and row of redriven rows that first came before their table was declared as it is now.
    """

    border: int
    sources: Mapping[str, str]
    since: Mapping[str, int]
    spellings: Mapping[str, str]
    source: Source
    redriven: Set[tuple[int, int]] = frozenset()


DECODED = ("kind", "table", "op", "identity", "payload", "digest")
"""Columns that a message is decoded to again. In change sets, equal rows of a file are numbered as they come: what
identifies them is known only when the whole file is decoded, and no declaration changes it."""


def redeclared_of(pipeline: Pipeline, paths: TablePaths, following: Content | None = None) -> Redeclared | None:
    """Return what messages of an earlier declaration mean; None where the watched tables never changed.

    Args:
        pipeline: the declaration.
        paths: where the tables are.
        following: how the next landing decodes, as `landing_plan.decoded_since` takes it.
    """
    border, since = landing_plan.decoded_since(paths, following)
    return _redeclared(pipeline, paths, border, since) if border else None


def declared_over(pipeline: Pipeline, paths: TablePaths, following: Content | None = None) -> Redeclared:
    """Return what the declaration means for messages that were landed before; arguments as for `redeclared_of`."""
    return _redeclared(pipeline, paths, *landing_plan.decoded_since(paths, following))


def _redeclared(pipeline: Pipeline, paths: TablePaths, border: int, since: Mapping[str, int]) -> Redeclared:
    """Return what the declaration means; border, since: as `Redeclared` has them."""
    spellings, pipeline = name_spellings.known(paths), landing_plan.as_landed(pipeline, paths)
    sources = watched_sources(pipeline, source_samples(paths), spellings)
    redriven = frozenset((row["landing"], row["row"]) for row in redriven_rows(paths, since))
    return Redeclared(border, sources, since, spellings, pipeline.source, redriven)


def as_declared(pipeline: Pipeline, redeclared: Redeclared, events: pa.Table) -> pa.Table:
    """Return events under the names of tables, identities and counts that the present declaration gives them.

    Rows whose message was removed have their table by the name of its source. A row that cannot be read as declared now
    has the kind `poison`.

    Args:
        pipeline: the declaration.
        redeclared: what it means for messages that were landed before.
        events: rows of change_events with their messages, identities and counts (`expected`, in the result `counts`).
    """
    events = events.append_column("counts", events.column("expected")).drop_columns(["expected"])
    old = pc.less(events.column("landing"), pa.scalar(redeclared.border))
    if not pc.any(old).as_py():
        return events
    rest, before = events.filter(pc.invert(old)), events.filter(old)
    named = cast("list[str]", before.column("source_table").to_pylist())
    names = [redeclared.sources.get(name) for name in named]
    is_row = pc.equal(before.column("kind"), pa.scalar("row"))
    table = pc.if_else(is_row, pa.array(names, pa.string()), pa.nulls(len(names), pa.string()))
    before = before.set_column(before.column_names.index("table"), "table", table)
    before = before.filter(pc.or_(pc.invert(is_row), pc.is_valid(table)))
    if not formats.is_ordered(pipeline):
        has_message = pc.is_valid(before.column("value"))
        decoded = _decoded(pipeline, redeclared, before.filter(has_message))
        before = pa.concat_tables([decoded, before.filter(pc.invert(has_message))])
    return pa.concat_tables([rest, before]).combine_chunks()


def _decoded(pipeline: Pipeline, redeclared: Redeclared, events: pa.Table) -> pa.Table:
    """Return events whose messages are decoded again."""
    pipeline = pipeline.model_copy(update={"source": redeclared.source})
    decoder, parts = SourceDecoder(pipeline, dict(redeclared.spellings), again=True), [events.slice(0, 0)]
    columns = DECODED[: DECODED.index("identity")] if pipeline.source.format == "change_sets" else DECODED
    for messages, again in decode_by_topic(decoder, events):
        decoded = messages
        for name in columns:
            values = again.column(name)
            if name == "identity":
                # Where a message has no identity, its landing gave it one of its place in the topic or file.
                values = pc.coalesce(values, messages.column(name))
            if name == "table":
                # A message that cannot be read as declared now keeps its table, because it is missing from that table.
                is_poison = pc.equal(again.column("kind"), pa.scalar("poison"))
                values = pc.if_else(is_poison, messages.column(name), values)
            decoded = decoded.set_column(decoded.column_names.index(name), name, values)
        counts = decoded.column_names.index("counts")
        parts.append(decoded.set_column(counts, "counts", again.column("expected")))
    return pa.concat_tables(parts, promote_options="permissive")
