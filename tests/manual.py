"""The commands that docs/operations.md gives to people, run as they stand there."""

import re
import shlex
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]


def commands(under: str) -> list[str]:
    """Return the commands between a text of the manual, such as a heading, and the next heading."""
    _, section = (PROJECT / "docs" / "operations.md").read_text().split(f"\n{under}")
    return re.findall(r"^    (python jobs/.*)$", section.split("\n#")[0], re.MULTILINE)


def line(command: str, warehouse: str, variables: Mapping[str, str]) -> list[str]:
    """Return a command as a process gets it; variables: a test's words for those of the manual."""
    words = [variables.get(word, word) for word in shlex.split(command)]
    return [sys.executable, *words[1:], "--warehouse", warehouse]


def run(command: str, warehouse: str, variables: Mapping[str, str]) -> str:
    """Run a command, which must end well, and return what it prints; variables: as in `line`."""
    words = line(command, warehouse, variables)
    done = subprocess.run(words, cwd=PROJECT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}: {done.stdout[-2000:]}{done.stderr[-2000:]}"
    return done.stdout
