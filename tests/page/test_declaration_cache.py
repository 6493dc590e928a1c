"""Declarations are read again when, and only when, a file of theirs changes."""

from pathlib import Path

import pytest

from txloom.page.declaration_cache import declarations

ONE = """
name: {name}
source: {{format: goldengate, files: {{path: inbox}}, transaction_topic: metadata}}
completeness: {{rule: counts, patience: 2h}}
tables:
- {{name: items, source: APP.ITEMS, key: [id], columns: {{id: long}}}}
targets: {{mirrors: ["*"]}}
"""


def test_they_are_kept_until_a_file_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TXLOOM_PIPELINES", str(tmp_path))
    assert declarations().pipelines == {}
    (tmp_path / "b.yaml").write_text(ONE.format(name="b"))
    (tmp_path / "a.yaml").write_text("tables: none\n")
    first = declarations()
    assert list(first.pipelines) == ["b_cdc"] and list(first.refused) == ["a"]
    assert "a.yaml:1" in first.refused["a"]
    assert declarations() is first
    (tmp_path / "a.yaml").write_text(ONE.format(name="a"))
    assert list(declarations().pipelines) == ["a_cdc", "b_cdc"] and declarations().refused == {}
