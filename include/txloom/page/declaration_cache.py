"""The declared pipelines, read again only when one of their files has changed, because every page needs them."""

import os
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from txloom.config import discover, names
from txloom.config.load import pipelines_dir
from txloom.config.models.pipeline import Pipeline
from txloom.errors import ConfigurationError


@dataclass(frozen=True)
class Declarations:
    """Pipelines by the id of their cdc DAG, and the errors of refused declarations by the name of their file."""

    pipelines: Mapping[str, Pipeline]
    refused: Mapping[str, str]


_LOCK = threading.Lock()
_KNOWN: dict[Path, tuple[object, Declarations]] = {}


def declarations() -> Declarations:
    """Return the declarations as they are now; files are read again when a name, size or time of change differs."""
    folder = pipelines_dir()
    state = tuple((path.name, stat.st_mtime_ns, stat.st_size) for path, stat in _files(folder))
    with _LOCK:
        if folder not in _KNOWN or _KNOWN[folder][0] != state:
            _KNOWN[folder] = state, _read(folder)
        return _KNOWN[folder][1]


def _files(folder: Path) -> list[tuple[Path, os.stat_result]]:
    return [(path, path.stat()) for path in sorted(folder.glob("*.yaml"))]


def _read(folder: Path) -> Declarations:
    declared = discover(folder)
    accepted = {names.cdc_dag_id(each.name): each for _, each in declared if isinstance(each, Pipeline)}
    refused = {path.stem: str(each) for path, each in declared if isinstance(each, ConfigurationError)}
    return Declarations(dict(sorted(accepted.items())), refused)
