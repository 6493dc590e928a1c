"""The examples of CONTRIBUTING.md, followed step by step in a copy of the project: what they say works."""

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[2]
PAGE = PROJECT / "CONTRIBUTING.md"
COPIED = ("include/txloom", "include/pipelines", "jobs", "dags", "tests")
NOT_COPIED = shutil.ignore_patterns("__pycache__", "data", "benchmarks", "reference")
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FILE = re.compile(r"^(New file|In) `([\w./]+)`:$", re.MULTILINE)


@dataclass(frozen=True)
class Edit:
    """A block of code: a new file, or a change of one that exists."""

    file: str
    is_new: bool
    text: str

    def make(self, project: Path) -> None:
        """Do in a project what the page tells its reader to do."""
        target = project / self.file
        if self.is_new:
            assert not target.exists(), f"{self.file} exists already"
            target.write_text(self.text)
            return
        before, after = self.sides()
        text = target.read_text()
        assert text.count(before) == 1, f"{self.file} holds {text.count(before)} times what the page changes:\n{before}"
        target.write_text(text.replace(before, after))

    def sides(self) -> tuple[str, str]:
        """Return the lines of a diff before and after it."""
        lines = self.text.splitlines(keepends=True)
        assert {line[0] for line in lines if line.strip()} <= set(" +-"), self.file
        before, after = ([line[1:] or "\n" for line in lines if line[0] in kept] for kept in (" -\n", " +\n"))
        return "".join(before), "".join(after)


def example(title: str) -> list[Edit]:
    """Return the edits of one example, in the order of the page."""
    section = PAGE.read_text().split(f"\n## Example: {title}\n")[1].split("\n## ")[0]
    places = [(match.start(), match[1] == "New file", match[2]) for match in FILE.finditer(section)]
    edits = []
    for block in BLOCK.finditer(section):
        if block[1] in ("python", "diff"):
            _, is_new, file = next(place for place in reversed(places) if place[0] < block.start())
            assert is_new == (block[1] == "python"), file
            edits.append(Edit(file, is_new, block[2]))
    return edits


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """Return a copy of the project, as far as its library and tests need it."""
    project = tmp_path / "project"
    for room in COPIED:
        shutil.copytree(PROJECT / room, project / room, ignore=NOT_COPIED)
    shutil.copy(PROJECT / "pyproject.toml", project)
    return project


def run(project: Path, *command: str) -> str:
    """Run a module of Python's in a copy and return what it printed; a failure shows all of it."""
    paths = os.pathsep.join(str(project / room) for room in ("include", "tests"))
    environment = {**os.environ, "PYTHONPATH": paths, "AIRFLOW_HOME": str(project / ".state" / "airflow")}
    ended = subprocess.run(
        [sys.executable, *command], cwd=project, env=environment, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


@pytest.mark.long
@pytest.mark.parametrize(
    ("title", "test", "passing"),
    [
        ("add a source format", "tests/events/test_audit_log.py", 7),
        ("add an expectation", "tests/steps/publish/test_check_expectations_unique.py", 2),
        ("add a step", "tests/steps/publish/test_count_rows.py", 2),
    ],
)
def test_an_example_that_is_followed_works(copy: Path, title: str, test: str, passing: int) -> None:
    edits = example(title)
    for edit in edits:
        edit.make(copy)
    assert test in [edit.file for edit in edits if edit.is_new]
    changed = sorted({edit.file for edit in edits})
    run(copy, "-m", "ruff", "check", "--no-cache", *changed)
    run(copy, "-m", "ruff", "format", "--check", "--no-cache", *changed)
    run(copy, "-c", "from importlinter.cli import lint_imports_command as check; check(['--no-cache'])")
    assert f"{passing} passed" in run(copy, "-m", "pytest", "-q", test)


def test_the_task_of_the_new_step_is_in_its_dag(copy: Path) -> None:
    for edit in example("add a step"):
        edit.make(copy)
    script = (
        "import runpy; dag = runpy.run_path('dags/txloom_maintenance.py')['orders_maintenance']; print(dag.task_ids)"
    )
    assert "'count_rows'" in run(copy, "-W", "ignore", "-c", script)


def test_every_file_that_the_page_names_exists_or_is_made_by_it() -> None:
    text = PAGE.read_text()
    made = {file for kind, file in FILE.findall(text) if kind == "New file"}
    cited = set(re.findall(r"`((?:include|tests|docs|dags|jobs|scripts|\.github)/[\w./-]+)`", text)) - made
    assert len(cited) > 15
    assert sorted(file for file in cited if not (PROJECT / file).exists()) == []
