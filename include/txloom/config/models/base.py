"""The base model of every part of a declaration."""

from pydantic import BaseModel, ConfigDict


class Model(BaseModel):
    """A part of a declaration: it never changes, and takes no key that it does not know."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", validate_by_name=True, validate_by_alias=True, hide_input_in_errors=True
    )
