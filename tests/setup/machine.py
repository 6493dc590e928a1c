"""A doctored machine: a folder with the scripts of set-up, and a PATH that holds only what a test puts there."""

import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
TOOLS = ("bash", "dirname", "sed", "head", "awk", "df", "mkdir", "cat", "cksum", "grep", "rm", "sha256sum")


@dataclass
class Machine:
    """What set-up sees: its root holds scripts/ and bin/, its environment is only what is given."""

    root: Path
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def bin(self) -> Path:
        return self.root / "bin"

    def has(self, command: str, script: str) -> None:
        """Put a command on PATH."""
        path = self.bin / command
        path.unlink(missing_ok=True)
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)

    def has_java(self, version: str) -> None:
        self.has("java", f"echo 'openjdk version \"{version}\" 2025-04-15' >&2")

    def lacks(self, command: str) -> None:
        (self.bin / command).unlink()

    def run(self, script: str, *arguments: str) -> tuple[int, str]:
        """Run one of set-up's scripts and return its exit code and what it said."""
        ran = subprocess.run(
            [self.root / "scripts" / script, *arguments],
            env={"PATH": str(self.bin), **self.environment},
            capture_output=True,
            text=True,
            check=False,
        )
        return ran.returncode, (ran.stdout + ran.stderr).replace(str(self.root), "ROOT")


def whole_machine(root: Path) -> Machine:
    """Return a machine that lacks nothing."""
    shutil.copytree(PROJECT / "scripts", root / "scripts")
    (root / "bin").mkdir()
    for tool in TOOLS:
        (root / "bin" / tool).symlink_to(shutil.which(tool) or tool)
    machine = Machine(root, {"TXLOOM_MIN_FREE_MB": "1"})
    machine.has("python3", f'exec {sys.executable} "$@"')
    machine.has_java("17.0.15")
    return machine
