"""Form fields that several DAGs share."""

from collections.abc import Sequence

from airflow.sdk import Param

ALWAYS, NEVER = "always", "never"
"""Whether a person must approve before anything is written."""


def tables(names: Sequence[str], description: str) -> Param:
    """Return the form field for some of a pipeline's tables; description: says too what an empty choice means."""
    return Param(
        [],
        title="Tables",
        description=description,
        type="array",
        items={"type": "string", "enum": [*names]},
        examples=[*names],
        uniqueItems=True,
    )
