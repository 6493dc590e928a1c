"""The command line of txloom.

`txloom init` writes a first declaration, `txloom check` validates declarations, `txloom schema` prints their JSON
schema for editors, `txloom plan` shows what one will make, `txloom dry-run` tries it on a sample of its source, and
`txloom generate` writes a stream to try it on. `txloom status` shows the state of pipelines, and `txloom explain` the
story of a transaction or of a row; `txloom audit` compares the lake with the live database, or with files.
`txloom dbt` writes the tables as sources of dbt. `txloom trial` is the source that lives of `make up`.

Exit codes are 0; 2 where a declaration or an argument is wrong; 5 where the transaction or row to explain is unknown;
6 where an audit ends with rows that differ, or a dry run with trouble.
"""

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path

from txloom.config import connections_of, discover, load, pipelines_dir
from txloom.config.json_schema import schema_text
from txloom.config.models.pipeline import Pipeline
from txloom.config.problems import counted
from txloom.errors import ConfigurationError
from txloom.generate import command as generation
from txloom.generate.trial import trial_command as trial
from txloom.terminal import flags

Verdict = tuple[Path, Pipeline | ConfigurationError]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    given = _parser().parse_args(arguments)
    if given.command == "generate":
        return generation.main(given)
    if given.command == "trial":
        return trial.main(given)
    if given.command in ("status", "explain", "audit", "plan", "dry-run"):
        from txloom.terminal import commands

        return commands.main(given)
    if given.command == "dbt":
        from txloom.terminal import dbt

        return dbt.main(given)
    if given.command == "init":
        from txloom.terminal import initial

        return initial.main(given)
    if given.command == "schema":
        print(schema_text(), end="")
        return 0
    return check([Path(file) for file in given.files], given.warehouse)


def check(paths: Sequence[Path], warehouse: str | None = None) -> int:
    """Print the verdict on files and on all declarations of folders; without any, on the project's own.

    With a warehouse, also what the next cycle does to its tables because a declaration changed.
    """
    rows = [_planned(*verdict) for path in paths or [_near(pipelines_dir())] for verdict in _verdicts(path)]
    edits = dict[Path, list[str]]()
    for number, (path, verdict) in enumerate(rows):
        if warehouse is not None and isinstance(verdict, Pipeline):
            rows[number], edits[path] = _edited(path, verdict, warehouse)
    for path, verdict in rows:
        print(_result_lines(path, verdict))
        for line in edits.get(path, ()):
            print(f"  {line}")
    return ConfigurationError.exit_code if any(isinstance(verdict, ConfigurationError) for _, verdict in rows) else 0


def _verdicts(path: Path) -> Iterator[Verdict]:
    if not path.is_dir():
        yield path, _loaded(path)
        return
    verdicts: list[Verdict] = list(discover(path))
    ending = "found the ending .yml, expected .yaml. Nothing runs it as it is."
    verdicts += [(stray, ConfigurationError(f"{stray}: {ending}")) for stray in sorted(path.glob("*.yml"))]
    if not verdicts:
        verdicts.append(
            (path, ConfigurationError(f"{path}: found no declaration, expected at least one file NAME.yaml."))
        )
    yield from verdicts


def _loaded(path: Path) -> Pipeline | ConfigurationError:
    try:
        return load(path, connected=False)
    except ConfigurationError as error:
        return error


def _planned(path: Path, verdict: Pipeline | ConfigurationError) -> Verdict:
    """Return the verdict after planning the SQL of expectations on empty tables; Delta is imported only for SQL."""
    if isinstance(verdict, ConfigurationError) or not any(
        each.kind == "invariant" or getattr(each, "where", None) for each in verdict.expectations
    ):
        return path, verdict
    from txloom.steps.publish.check_expectations import unplanned

    problems = unplanned(verdict, path)
    return path, ConfigurationError("\n".join(problems)) if problems else verdict


def _edited(path: Path, pipeline: Pipeline, warehouse: str) -> tuple[Verdict, list[str]]:
    """Return the verdict after comparing with the tables of a warehouse, and what the next cycle does to them."""
    from txloom.terminal import plan

    try:
        return (path, pipeline), plan.edits(pipeline, warehouse, str(path))
    except ConfigurationError as error:
        return (path, error), []


def _result_lines(path: Path, verdict: Pipeline | ConfigurationError) -> str:
    if isinstance(verdict, ConfigurationError):
        return f"{verdict}\n{path}: refused, {counted(len(str(verdict).splitlines()), 'problem')}"
    parts = {
        "table": verdict.tables,
        "aggregate": verdict.targets.aggregates,
        "mirror": verdict.targets.mirrors,
        "expectation": verdict.expectations,
    }
    line = f"{path}: ok, {', '.join(counted(len(part), noun) for noun, part in parts.items())}"
    return f"{line}; connections that its jobs need: {', '.join(ids)}" if (ids := connections_of(path)) else line


def _near(folder: Path) -> Path:
    """Return a folder relative to the working directory if it is below it, else as it is."""
    working = Path.cwd()
    return folder.relative_to(working) if folder.is_relative_to(working) else folder


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="txloom", description="Transaction-consistent CDC for Delta Lake.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    checks = commands.add_parser("check", help="name every mistake in declarations", description=check.__doc__)
    checks.add_argument("files", nargs="*", metavar="FILE", help="file or folder; default: include/pipelines")
    warehouse = "also say what the next cycle does to the tables there, because a declaration changed"
    checks.add_argument("--warehouse", metavar="URI", help=warehouse)
    commands.add_parser("schema", help="print the JSON schema of declarations")
    summary = "write order-entry transactions in any format"
    generation.add_flags(commands.add_parser("generate", help=summary, description=generation.__doc__))
    summary = "a source that lives, and can be broken and repaired"
    trial.add_flags(commands.add_parser("trial", help=summary, description=trial.__doc__))
    flags.add_flags(commands)
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
