"""The rules by which a declared pipeline's transactions are decided on."""

from txloom.config.models.pipeline import Pipeline
from txloom.transactions import memory
from txloom.transactions.completeness import Rules
from txloom.transactions.hashes import hash64


def rules_of(pipeline: Pipeline) -> Rules:
    """Return how a pipeline's transactions are decided on.

    Nobody corrects what Debezium counts: two counts of one transaction come from two runs of the connector, and which
    of them is right is not known.
    """
    completeness, debezium = pipeline.completeness, pipeline.source.format == "debezium"
    return Rules(
        int(completeness.patience.total_seconds() * 1_000_000),
        hold=completeness.suspects == "hold",
        progress=completeness.rule == "progress",
        largest=completeness.max_rows,
        remembered=memory.REMEMBERED,
        corrected=not debezium,
        keyless=frozenset(hash64(table.name) for table in pipeline.tables if debezium and table.insert_only),
    )
