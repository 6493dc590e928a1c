"""A placeholder for a refused declaration: it has the pipeline's name, so that its tables can be read."""

from pydantic import ValidationError

from txloom.config.models.pipeline import Pipeline

NOTHING = {
    "source": {"format": "change_events", "files": {"path": "."}},
    "completeness": {"rule": "single"},
    "tables": [{"name": "unknown", "source": "UNKNOWN.UNKNOWN", "key": "none", "columns": {"unknown": "string"}}],
    "targets": {"mirrors": []},
}
"""Values for the required fields of a declaration, which the placeholder does not know."""


def stand_in(name: str) -> Pipeline | None:
    """Return a declaration with only a pipeline's name; None where the name is not valid.

    >>> [pipeline and pipeline.name for pipeline in map(stand_in, ("orders", "../orders"))]
    ['orders', None]
    """
    try:
        return Pipeline.model_validate({**NOTHING, "name": name})
    except ValidationError:
        return None
