"""`txloom trial`: a source that lives, for `make up`; `make break` damages it, `make repair` makes it good.

`run` lets it work until it is stopped. `break FAULT` damages it as real sources are damaged, and says where to look and
what one should see; without a fault it lists them. `repair` makes all open faults good, or one of them. The source is
one in files (`make up`), or, with `run --real`, a PostgreSQL that Debezium streams into Kafka (`make up-real`).
"""

import argparse
import os
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from txloom.config.problems import did_you_mean
from txloom.errors import ConfigurationError
from txloom.generate.services.process import ServiceFailed
from txloom.generate.trial.catalogue import KINDS
from txloom.generate.trial.damage import Fault
from txloom.generate.trial.killed_jobs import kill_a_job
from txloom.generate.trial.living_source import LivingSource
from txloom.generate.trial.source_folder import Stop

if TYPE_CHECKING:
    from txloom.generate.trial.real_source import RealSource

SECONDS, REAL_SECONDS = 15, 1
"""How long the source works before it delivers; how long a real one waits between two commits, on average."""
PIPELINE = "orders"


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Declare the flags of the command."""
    add = parser.add_argument
    add("action", choices=("run", "break", "repair"))
    add("fault", nargs="?", metavar="FAULT", help=", ".join(KINDS))
    folder = "holds the source and what the pipeline has of it (default: .state/trial, or .state/real if that runs)"
    add("--folder", type=Path, metavar="DIR", help=folder)
    seconds = f"between two deliveries (default: {SECONDS}); between two commits of a real source ({REAL_SECONDS})"
    add("--seconds", type=float, metavar="N", help=seconds)
    add("--real", action="store_true", help="run PostgreSQL, Kafka and Debezium")


def main(given: argparse.Namespace) -> int:
    """Run the command and return its exit code, one of those of `txloom.errors`; 1 where a service failed."""
    try:
        state = Path(os.environ.get("TXLOOM_STATE", ".state"))
        if given.action == "run":
            return _run_real(given, state) if given.real else _run(given, state)
        folder = given.folder or _default_folder(state)
        source = _source(folder)
        if not source.folder.is_dir():
            raise ConfigurationError(f"{source.folder}: no source lives here; `make up` starts it.")
        if given.action == "repair":
            return _repair(source, given)
        if given.fault is None:
            return _list(source)
        return _break(source, _known(source, given.fault), folder / "warehouse")
    except ConfigurationError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    except ServiceFailed as error:
        print(error, file=sys.stderr)
        return 1


def _source(folder: Path) -> "LivingSource | RealSource":
    """Return the source that lives in a folder: a real one where its addresses are there."""
    if (folder / "source" / "addresses.json").exists():
        from txloom.generate.trial.real_source import RealSource

        return RealSource(folder / "source")
    return LivingSource(folder / "source", folder / "inbox")


def _default_folder(state: Path) -> Path:
    """Return the folder of the source that runs; where none does, of the one that there is.

    Raises ConfigurationError where two run.
    """
    folders = [state / "trial", state / "real"]
    running = [folder for folder in folders if _source(folder).is_running()]
    if len(running) > 1:
        both = " and ".join(map(str, running))
        raise ConfigurationError(f"two sources run, in {both}: say which, with `txloom trial ... --folder DIR`.")
    there = [folder for folder in folders if (folder / "source").is_dir()]
    return (running or there or folders)[0]


def _known(source: "LivingSource | RealSource", name: str) -> str:
    name = name.replace("_", "-").replace(" ", "-")
    if name in source.kinds:
        return name
    if name in KINDS:
        from txloom.generate.trial.real_faults import IMPOSSIBLE

        raise ConfigurationError(f"FAULT: {name} cannot be made with a real database: {IMPOSSIBLE[name]}")
    hint = did_you_mean(name, source.kinds)
    raise ConfigurationError(f"FAULT: found {name!r}, expected one of {', '.join(source.kinds)}. {hint}".rstrip())


def _run_real(given: argparse.Namespace, state: Path) -> int:
    from txloom.generate.trial import real_source

    folder = given.folder or state / "real"
    real_source.run(real_source.RealSource(folder / "source"), folder, given.seconds or REAL_SECONDS)
    return 0


def _run(given: argparse.Namespace, state: Path) -> int:
    """Let the source work until it is told to stop."""
    folder, seconds = given.folder or state / "trial", given.seconds or SECONDS
    source = LivingSource(folder / "source", folder / "inbox")
    source.inbox.mkdir(parents=True, exist_ok=True)
    stop = Stop()
    with source.running():
        while not stop.is_due:
            print(f"{datetime.now(UTC):%H:%M:%S} {source.advance(datetime.now(UTC))} transactions", flush=True)
            stop.rest(seconds)
    return 0


def _list(source: "LivingSource | RealSource") -> int:
    for name, kind in source.kinds.items():
        print(f"  make break FAULT={name:19}{kind.summary}{'  (open)' if source.is_open(name) else ''}")
    return 0


def _break(source: "LivingSource | RealSource", name: str, warehouse: Path) -> int:
    kind, url = source.kinds[name], f"http://localhost:{os.environ.get('TXLOOM_PORT', '8080')}"
    if name == "killed-task":
        fault = Fault(name, datetime.now(UTC), kill_a_job(PIPELINE, warehouse))
    else:
        fault = source.damage(name, datetime.now(UTC))
    print(f"broken:  {fault.made or kind.summary}.")
    print(f"look at: {url}/plugin/txloom, pipeline {PIPELINE}, after its next run; one begins each minute.")
    print(f"see:     {kind.see}")
    if not source.is_running():
        print(f"note:    the source does not run now, and nobody reads it: `{source.starts_by}` starts both.")
    print(f"repair:  {f'make repair: {kind.repair}' if kind.repair else kind.yours or 'nothing is left to repair'}.")
    return 0


def _repair(source: "LivingSource | RealSource", given: argparse.Namespace) -> int:
    names = [fault.name for fault in source.open_faults()]
    if given.fault is not None:
        names = [name for name in names if name == _known(source, given.fault)]
    for name in names:
        if done := source.repair(name, datetime.now(UTC)):
            print(f"repaired: {name}: {done}.")
        if yours := source.kinds[name].yours:
            print(f"yours:    {name}: {yours}.")
    if not names:
        print("nothing is broken." if given.fault is None else f"{given.fault} is not open.")
    return 0
