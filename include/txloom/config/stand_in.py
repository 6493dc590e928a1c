"""A declaration in the place of a refused one: it knows the pipeline's name, so that its tables can be looked at."""

from pydantic import ValidationError

from txloom.config.models.pipeline import Pipeline

NOTHING = {
    "source": {"format": "change_events", "files": {"path": "."}},
    "completeness": {"rule": "single"},
    "tables": [{"name": "unknown", "source": "UNKNOWN.UNKNOWN", "key": "none", "columns": {"unknown": "string"}}],
    "targets": {"mirrors": []},
}
"""What a declaration must say, and this one does not know."""


def stand_in(name: str) -> Pipeline | None:
    """Return a declaration that says nothing but a pipeline's name; None where no pipeline can be called so.

    >>> [found and found.name for found in map(stand_in, ("orders", "../orders"))]
    ['orders', None]
    """
    try:
        return Pipeline.model_validate({**NOTHING, "name": name})
    except ValidationError:
        return None
