"""What the forms of several DAGs ask in the same words."""

from collections.abc import Sequence

from airflow.sdk import Param

ALWAYS, NEVER = "always", "never"
"""Whether a person is asked before anything is written."""


def tables(names: Sequence[str], description: str) -> Param:
    """Return the question for some of a pipeline's tables; none chosen is an answer, which the description explains."""
    return Param(
        [],
        title="Tables",
        description=description,
        type="array",
        items={"type": "string", "enum": [*names]},
        examples=[*names],
        uniqueItems=True,
    )
