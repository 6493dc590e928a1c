"""Declarations from files: one by path or name, or all of a folder."""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from pydantic import ValidationError

from txloom.config import names
from txloom.config.models.pipeline import Mirror, Pipeline
from txloom.config.problems import Problem, did_you_mean
from txloom.config.project import PROJECT
from txloom.config.validation.cross_checks import check
from txloom.config.validation.draft import mirrored
from txloom.config.validation.model_errors import refusals
from txloom.config.yaml.document import Item, read
from txloom.config.yaml.environment import connections_in, values_in
from txloom.config.yaml.table_ranges import expanded
from txloom.errors import ConfigurationError

LARGEST = 4 * 1024 * 1024
"""The most bytes that a declaration may have."""


def pipelines_dir() -> Path:
    """Return the folder of the declarations: TXLOOM_PIPELINES, or include/pipelines of the project."""
    return Path(os.environ.get("TXLOOM_PIPELINES") or PROJECT / "include" / "pipelines")


def load(path: str | Path, environment: Mapping[str, str] | None = None, *, connected: bool = True) -> Pipeline:
    """Return the pipeline that a file declares.

    Args:
        path: The declaration.
        environment: The variables that texts may name; None: os.environ.
        connected: Whether connections are looked up; if False, a text that names one stays as it is written, for
            callers that need the declaration but not its source.

    Raises:
        ConfigurationError: The declaration is wrong; its message has one line for each mistake.
    """
    text = _text(Path(path))
    root, problems = read(text, str(path), os.environ if environment is None else environment, connected=connected)
    pipeline = None
    if root is None and not problems:
        hint = "include/pipelines/orders.yaml is an example."
        problems = [Problem(str(path), 1, "", "an empty file", "a pipeline", hint)]
    if root is not None:
        root, unfit = expanded(root, str(path))
        problems += unfit
        pipeline, refused = _validated(root, str(path))
        reported = {problem.path for problem in problems}
        problems += [problem for problem in refused if problem.path not in reported]
        problems += check(root, str(path), {problem.path for problem in problems})
    if problems or pipeline is None:
        raise ConfigurationError("\n".join(str(problem) for problem in _sorted(problems)))
    with_mirrors = _with_mirrors(pipeline)
    written = [item.written for item in root.walk() if item.written is not None] if root is not None else []
    known = os.environ if environment is None else environment
    with_mirrors._referenced = frozenset(
        value for text in written for value in values_in(text, known, connected=connected)
    )
    return with_mirrors


def connections_of(path: str | Path) -> list[str]:
    """Return the ids of the Airflow connections that a file's texts name, and that of the audit's database."""
    root, _ = read(_text(Path(path)), str(path), os.environ, connected=False)
    items = list(root.walk()) if root is not None else []
    named = {name for item in items if item.written is not None for name in connections_in(item.written)}
    return sorted({*named, *(str(item.value) for item in items if item.path == "audit.connection")})


def where(path: str | Path, name: str, key: str) -> tuple[int, str]:
    """Return line and path of a key of the expectation with an id in a file; line 1 if there is none."""
    root, _ = read(_text(Path(path)), str(path), os.environ, connected=False)
    for expectation in root.members("expectations") if root is not None else ():
        if expectation.text("id") == name and (item := expectation.get(key)) is not None:
            return item.line, item.path
    return 1, "expectations"


def line_of_key(path: str | Path, key: str) -> tuple[int, str]:
    """Return the line and path of a key in a file, or the line of the part that it belongs to.

    Args:
        path: the declaration.
        key: a part of the declaration and its key, such as `source.format`.
    """
    root, _ = read(_text(Path(path)), str(path), os.environ, connected=False)
    line, item = 1, root
    for name in key.split("."):
        item = None if item is None else item.get(name)
        line = line if item is None else item.line
    return line, key


def line_of_column(path: str | Path, table: str, column: str) -> tuple[int, str]:
    """Return line and path of a column of a watched table in a file, or of the table where it has no such column.

    Args:
        path: the declaration.
        table: the name of the table.
        column: the name of the column.
    """
    root, _ = read(_text(Path(path)), str(path), os.environ, connected=False)
    root = None if root is None else expanded(root, str(path))[0]
    for item in root.members("tables") if root is not None else ():
        if item.text("name") == table:
            columns = item.get("columns") or item
            chosen = columns.get(column) or columns
            return chosen.line, chosen.path
    return 1, "tables"


def line_of_table(path: str | Path, table: str, key: str) -> tuple[int, str]:
    """Return the line and path of a key of a watched table in a file, or of the table if it does not have the key.

    Args:
        path: the declaration.
        table: the name of the table.
        key: of the table, such as `source`.
    """
    root, _ = read(_text(Path(path)), str(path), os.environ, connected=False)
    root = None if root is None else expanded(root, str(path))[0]
    for item in root.members("tables") if root is not None else ():
        if item.text("name") == table:
            chosen = item.get(key) or item
            return chosen.line, chosen.path
    return 1, "tables"


def line_of_target(path: str | Path, kind: str, name: str, key: str) -> tuple[int, str]:
    """Return line and path of a key of a target in a file, or of the target where it has no such key.

    Args:
        path: the declaration.
        kind: `mirrors` or `aggregates`.
        name: the table of the mirror, or the name of the aggregate.
        key: of the target.
    """
    root, _ = read(_text(Path(path)), str(path), os.environ, connected=False)
    targets = root.get("targets") if root is not None else None
    for target in targets.members(kind) if targets is not None else ():
        if name in (target.value, target.text("table"), target.text("name")):
            item = target.get(key) or target
            return item.line, item.path
    return (1, f"targets.{kind}") if targets is None else (targets.line, f"targets.{kind}")


def find(
    name_or_file: str | Path,
    pipelines: Path | None = None,
    environment: Mapping[str, str] | None = None,
    *,
    connected: bool = True,
) -> Pipeline:
    """Return the pipeline of a file, or the one that a file in the folder of declarations names so; see `load`."""
    return load(locate(name_or_file, pipelines), environment, connected=connected)


def locate(name_or_file: str | Path, pipelines: Path | None = None) -> Path:
    """Return the file of a pipeline, given as for `find`.

    Raises:
        ConfigurationError: No file in the folder declares a pipeline of this name.
    """
    folder = pipelines or pipelines_dir()
    name = str(name_or_file)
    if Path(name).suffix or len(Path(name).parts) > 1:
        return Path(name)
    if (file := folder / f"{name}.yaml").is_file():
        return file
    loaded = discover(folder)
    for path, declared in loaded:
        if isinstance(declared, Pipeline) and declared.name == name:
            return path
    names = [path.stem for path, _ in loaded]
    hint = did_you_mean(name, names) or f"It has {', '.join(names) or 'none'}."
    raise ConfigurationError(f"{folder}: found no pipeline {name!r}, expected a file {name}.yaml. {hint}")


def discover(folder: str | Path | None = None) -> list[tuple[Path, Pipeline | ConfigurationError]]:
    """Return every declaration of a folder, sorted by path: the pipeline, or the error that refuses it.

    No connection is looked up, because DAG files are parsed where the secrets are not available.
    """
    declarations: list[tuple[Path, Pipeline | ConfigurationError]] = []
    owners: dict[str, Path] = {}
    for path in _declarations(Path(folder) if folder is not None else pipelines_dir()):
        try:
            pipeline = load(path, connected=False)
            if (other := owners.setdefault(pipeline.name, path)) != path:
                problem = Problem(str(path), 1, "name", f"the name of {other.name}", "a name that no other file has")
                raise ConfigurationError(str(problem))
            declarations.append((path, pipeline))
        except ConfigurationError as error:
            declarations.append((path, error))
    return declarations


def _declarations(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("*.yaml") if path.is_file() and not path.name.startswith("."))


def _text(path: Path) -> str:
    try:
        content = path.read_bytes()
    except OSError as error:
        trouble = "no such file" if isinstance(error, FileNotFoundError) else error.strerror
        raise ConfigurationError(f"{path}: found {trouble}, expected a declaration of a pipeline.") from None
    if len(content) > LARGEST:
        raise ConfigurationError(f"{path}: found {len(content)} bytes, expected a declaration of at most {LARGEST}.")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
    raise ConfigurationError(str(Problem(str(path), line, "", "bytes that are not UTF-8", "text in UTF-8")))


def _validated(root: Item, file: str) -> tuple[Pipeline | None, list[Problem]]:
    """Validate with the models, and return the pipeline or its problems.

    Pydantic's error holds values, which may be secret, so it is not raised to the caller.
    """
    try:
        return Pipeline.model_validate(root.plain, by_alias=True, by_name=False), []
    except ValidationError as error:
        details = error.errors(include_url=False, include_input=False)
    return None, refusals(details, root, file)


def _with_mirrors(pipeline: Pipeline) -> Pipeline:
    """Return the pipeline with each mirror of a pattern replaced by a mirror with the same options for each table."""
    mirrors = pipeline.targets.mirrors
    declared = [mirror.table for mirror in mirrors]
    expanded: list[Mirror] = []
    for mirror, tables in zip(mirrors, mirrored(declared, [table.name for table in pipeline.tables]), strict=True):
        named = [{"table": table, "current": table, "history": names.changes_table(table)} for table in tables]
        expanded += [mirror] if tables == [mirror.table] else [mirror.model_copy(update=options) for options in named]
    targets = pipeline.targets.model_copy(update={"mirrors": tuple(expanded)})
    return pipeline.model_copy(update={"targets": targets})


def _sorted(problems: Iterable[Problem]) -> list[Problem]:
    return sorted(set(problems), key=lambda problem: (problem.line, problem.path, str(problem)))
