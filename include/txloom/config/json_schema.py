"""The JSON schema of declarations for editors, generated from the models and stored beside the declarations."""

import json
from typing import Any

from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import CoreSchema

from txloom.config.models.pipeline import Pipeline


class _Plain(GenerateJsonSchema):
    """A schema generator that leaves out titles which only repeat a field's name."""

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002
        return False

    def generate(self, schema: CoreSchema, mode: Any = "validation") -> dict[str, Any]:
        return {"$schema": self.schema_dialect, **super().generate(schema, mode)}


def schema_text() -> str:
    """Return the schema as include/pipelines/schema.json holds it."""
    schema = Pipeline.model_json_schema(by_alias=True, schema_generator=_Plain)
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"
