"""Runs of the command in tests."""

import argparse
import hashlib
import json
from pathlib import Path
from typing import Any

from txloom.generate import command

LAYOUTS = (
    *(("goldengate", "values"), ("debezium", "records"), ("wal2json", "values"), ("change_events", "values")),
    *(("change_sets", "csv"), ("change_sets", "values")),
)


def generate(folder: Path, *flags: str | int) -> int:
    """Run the command into a folder; return its exit code."""
    parser = argparse.ArgumentParser()
    command.add_flags(parser)
    return command.main(parser.parse_args(["--out", str(folder), *map(str, flags)]))


def generated(folder: Path, *flags: str | int) -> Path:
    """Run the command into a folder, and require that it could."""
    assert generate(folder, *flags) == 0
    return folder


def digests(folder: Path) -> dict[str, str]:
    """Return what every file below a folder holds."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def json_lines(path: Path) -> list[Any]:
    """Return what a file of JSON lines says."""
    return [json.loads(line) for line in path.read_bytes().split(b"\n")[:-1]]
