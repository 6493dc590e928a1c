"""Print the list of Great Expectations' expectations that declarations may name, from the installed version.

    python scripts/list_expectations.py > include/txloom/config/validation/great_expectations.json

Declarations are checked against the list, because loading Great Expectations takes seconds. Only those are listed that
judge a pandas frame; tests/quality/test_rules.py fails when the list is not that of the installed version.
"""

import json
import sys
from typing import Any

OURS = {"id", "meta", "notes", "result_format", "description", "catch_exceptions", "rendered_content", "severity"}
OURS |= {"windows", "batch_id", "row_condition", "condition_parser", "library_metadata", "metadata"}
"""Arguments that txloom sets itself; rows are chosen with `where`."""


def listed() -> dict[str, Any]:
    """Return the arguments of each expectation by its class name: their JSON types, and whether they are required."""
    from great_expectations import expectations

    rules = {}
    for name in sorted(vars(expectations)):
        kind = getattr(expectations, name)
        if not name.startswith("Expect") or name == "Expectation" or not isinstance(kind, type):
            continue
        schema = kind.schema()
        about = schema["properties"]["metadata"]["properties"]
        if "Pandas" in about.get("supported_data_sources", {}).get("const", []):
            rules[name] = _arguments(schema)
    return rules


def _arguments(schema: dict[str, Any]) -> dict[str, Any]:
    arguments = {name: about for name, about in schema["properties"].items() if name not in OURS}
    required = schema.get("required", [])
    return {name: {"types": _types(about), "required": name in required} for name, about in sorted(arguments.items())}


def _types(about: dict[str, Any]) -> list[str]:
    """Return the JSON types of an argument, without object (a parameter of a suite) where other types are possible."""
    choices = about.get("anyOf") or about.get("allOf") or [about]
    types = {choice.get("type", "any") for choice in choices}
    types -= {"object"} if len(types) > 1 else set()
    return sorted(types)


if __name__ == "__main__":
    lines = [f"{json.dumps(name)}: {json.dumps(arguments)}" for name, arguments in listed().items()]
    sys.stdout.write("{\n" + ",\n".join(lines) + "\n}\n")
