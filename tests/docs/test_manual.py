"""The manual tells what its readers must know: every key of a declaration, and what nobody can guess."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

PROJECT = Path(__file__).resolve().parents[2]
PAGES = ("README.md", "docs/*.md", "docs/sources/*.md", "docs/concepts/*.md")
NO_MANUAL = ("faults.md", "examination.md", "configuration.md")
"""The last one is made of the models: that a key stands there says of no page that it explains it."""
MANUAL = "\n".join(
    path.read_text()
    for pattern in (*PAGES, "include/pipelines/*.yaml", "include/pipelines/examples/*.yaml")
    for path in sorted(PROJECT.glob(pattern))
    if path.name not in NO_MANUAL
)
SCHEMA = json.loads((PROJECT / "include" / "pipelines" / "schema.json").read_text())


def keys(schema: Any) -> Iterator[str]:
    """Yield every key that a declaration may have."""
    if isinstance(schema, dict):
        yield from schema.get("properties", ())
        schema = list(schema.values())
    if isinstance(schema, list):
        for part in schema:
            yield from keys(part)


@pytest.mark.parametrize("key", sorted(set(keys(SCHEMA))))
def test_every_key_of_a_declaration_is_told(key: str) -> None:
    assert re.search(rf"\b{key}\b", MANUAL)


@pytest.mark.parametrize(
    ("file", "sentence"),
    [
        ("docs/operations.md", "Files of a topic are read in the order of their names"),
        ("docs/operations.md", "it is read on from where it was read to"),
        ("docs/operations.md", "A producer rotates well if"),
        ("docs/operations.md", "an empty field without quotes is null"),
        ("docs/operations.md", "no cut is published while one table is broken"),
        ("docs/operations.md", "may end with `database is locked`"),
        ("docs/operations.md", "If the connector itself changes its mode, do not edit the options."),
        ("docs/schema-changes.md", "where a producer leaves nulls out"),
        ("docs/sources/debezium.md", "time.precision.mode"),
        ("docs/sources/debezium.md", "provide.transaction.metadata"),
    ],
)
def test_what_nobody_can_guess_stands_in_the_manual(file: str, sentence: str) -> None:
    assert sentence in " ".join((PROJECT / file).read_text().split())
