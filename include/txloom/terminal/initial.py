"""`txloom init`: write a first declaration out of a database, a sample of a stream, or a folder of extracts."""

import argparse
import sys
from pathlib import Path

from txloom.config import load, pipelines_dir
from txloom.config.problems import counted
from txloom.errors import ConfigurationError, TxloomError
from txloom.steps.propose.proposal import NAME
from txloom.steps.propose.propose import Request, propose

SHOWN = 20
"""Guesses that are printed; the file marks all of them."""


def main(given: argparse.Namespace) -> int:
    """Run the command and return its exit code, one of those of `txloom.errors`."""
    try:
        file = _write(given)
    except TxloomError as error:
        print(f"txloom init: {error}", file=sys.stderr)
        return error.exit_code
    return 0 if file is None else _checked(file)


def _write(given: argparse.Namespace) -> Path | None:
    """Write the declaration, and say what was guessed; return its file, None where it went to standard output."""
    if not NAME.fullmatch(given.name):
        raise ConfigurationError(f"NAME: found {given.name!r}, expected lower-case letters, digits and underscores.")
    file = given.out or pipelines_dir() / f"{given.name}.yaml"
    if str(file) != "-" and file.exists() and not given.force:
        raise ConfigurationError(f"{file}: it exists already; --force replaces it, --out - prints instead.")
    made = propose(
        Request(
            name=given.name,
            format=given.format,
            files=given.files,
            brokers=given.kafka,
            prefix=given.prefix,
            database=given.database,
            schemas=_listed(given.schema),
            tables=_listed(given.tables),
            connection=given.connection,
        )
    )
    guesses = made.guesses()
    print(f"{counted(len(made.tables), 'table')}, {len(guesses)} of what it says are guesses", file=sys.stderr)
    for guess in guesses[:SHOWN]:
        print(f"  guess: {guess}", file=sys.stderr)
    if len(guesses) > SHOWN:
        print(f"  and {len(guesses) - SHOWN} more, marked in the file", file=sys.stderr)
    for sentence in made.open_questions:
        print(f"  only you know: {sentence}", file=sys.stderr)
    if str(file) == "-":
        print(made.text(), end="")
        return None
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(made.text())
    return Path(file)


def _listed(text: str | None) -> list[str]:
    return [name.strip() for name in (text or "").split(",") if name.strip()]


def _checked(file: Path) -> int:
    """Say whether the declaration is right, and what comes next."""
    try:
        load(file, connected=False)
    except ConfigurationError as error:
        print(f"{file}: written; before it runs:\n{error}")
        return error.exit_code
    print(
        f"{file}: written, and right as far as one can see without its source. Next: look at what is marked with guess."
    )
    return 0
