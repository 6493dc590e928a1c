"""docs/configuration.md is what the models say: written by scripts/config_reference.py, and every key is in it."""

import importlib.util
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).resolve().parents[2]
PAGE = (PROJECT / "docs" / "configuration.md").read_text()


def script() -> Any:
    """Import scripts/config_reference.py, which lies in no package."""
    spec = importlib.util.spec_from_file_location("config_reference", PROJECT / "scripts" / "config_reference.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def keys(schema: Any) -> Iterator[str]:
    """Yield every key that a declaration may have."""
    if isinstance(schema, dict):
        yield from schema.get("properties", ())
        schema = list(schema.values())
    if isinstance(schema, list):
        for part in schema:
            yield from keys(part)


def test_the_page_is_what_the_models_say() -> None:
    assert script().page() == PAGE, "run: python scripts/config_reference.py"


def test_every_key_has_a_line_with_its_type_default_meaning_and_example() -> None:
    lines = [re.split(r"(?<!\\)\|", line)[1:-1] for line in PAGE.splitlines() if line.startswith("| `")]
    listed = {cells[0].strip(" `"): cells for cells in lines if len(cells) == 5}
    schema = json.loads((PROJECT / "include" / "pipelines" / "schema.json").read_text())
    assert set(keys(schema)) - listed.keys() == set()
    assert [key for key, cells in listed.items() if not all(cell.strip(" `") or "`" in cell for cell in cells)] == []
