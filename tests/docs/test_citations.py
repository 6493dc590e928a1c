"""Whatever a text of the project cites by its path is in the project."""

import re
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
ROOMS = (".github", "dags", "docs", "include", "jobs", "plugins", "scripts", "tests")
KINDS = {".py", ".md", ".yaml", ".yml", ".sh", ".toml", ".txt", ".html"}
LEFT_OUT = ("include/sample/", "tests/benchmarks/reference/", "tests/docs/test_citations.py")
"""What others wrote, and this file."""
BESIDE = ("", "tests", "include", "include/txloom", "docs", "scripts")
"""Folders from which a path may be told; or that of the text itself."""
CITED = re.compile(r"(?<![\w./${}<>*-])((?:[\w.-]+/)*[\w-]+\.(?:md|py|yaml|sh|toml|txt|json))(?![\w*])")
ELSEWHERE = {
    "CONFIGURATION.md": "librdkafka's",
    "report.md": "of a run",
    "index.md": "of the site",
    "contributing.md": "of the site",
    "changelog.md": "of the site",
    ".state/airflow/passwords.json": "made by Airflow",
    ".state/real/pipelines/orders.yaml": "made by `make up-real`",
    ".state/bank/bank.yaml": "written by whoever follows the tutorial",
    "jobs/STEP.py": "any",
}
"""What no file of the project is, and whose it is."""
INVENTED = {
    "tests/setup/test_mutants.py",
    "tests/config/test_load.py",
    "tests/plugins/test_page_access.py",
    "tests/steps/publish/test_validate.py",
}
"""Tests that make paths up."""
EXAMPLES = {"CONTRIBUTING.md", "tests/docs/test_contributing.py"}
"""They name files that an example makes; tests/docs/test_contributing.py looks at those."""


def texts() -> list[Path]:
    """Return the texts of the project, as far as what they cite is meant to be in it."""
    paths = [path for room in ROOMS for path in (PROJECT / room).rglob("*")] + list(PROJECT.iterdir())
    names = {path: path.relative_to(PROJECT).as_posix() for path in paths if path.suffix in KINDS and path.is_file()}
    return sorted(
        path for path, name in names.items() if not name.startswith(LEFT_OUT) and name not in INVENTED | EXAMPLES
    )


def test_what_is_cited_is_there() -> None:
    gone = []
    assert len(texts()) > 500
    for path in texts():
        folders = [path.parent, *(PROJECT / folder for folder in BESIDE)]
        for number, line in enumerate(path.read_text().splitlines(), 1):
            cited = [each for each in CITED.findall(line) if "/" in each or each.endswith(".md")]
            lacking = [each for each in cited if not any((folder / each).exists() for folder in folders)]
            gone += [f"{path.relative_to(PROJECT)}:{number}: {each}" for each in lacking if each not in ELSEWHERE]
    assert gone == []


def test_promises_that_are_cited_exist() -> None:
    promises = set(re.findall(r"^(\d+)\. \*\*", (PROJECT / "docs" / "architecture.md").read_text(), re.MULTILINE))
    cited = {
        number for path in texts() for number in re.findall(r"architecture\.md, (?:promise )?(\d+)", path.read_text())
    }
    assert len(cited) > 5
    assert cited - promises == set()


def test_the_glossary_has_each_term_once_in_order() -> None:
    glossary = (PROJECT / "docs" / "architecture.md").read_text().split("\n## Glossary\n")[1]
    terms = re.findall(r"^\*\*(.+?)\*\*:", glossary, re.MULTILINE)
    assert len(terms) > 50
    assert terms == sorted(set(terms), key=str.casefold)
