"""`txloom trial`: a source that lives, for `make up`; `make break` damages it, `make repair` makes it good.

`run` lets it work until it is stopped. `break FAULT` damages it as real sources are damaged, and says where to look and
what one should see; without a fault it lists them. `repair` makes all open faults good, or one of them.
"""

import argparse
import os
import signal
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

from txloom.config.problems import did_you_mean
from txloom.errors import ConfigurationError
from txloom.generate.trial.catalogue import KINDS
from txloom.generate.trial.damage import Fault
from txloom.generate.trial.killed_jobs import kill_a_job
from txloom.generate.trial.living_source import LivingSource

SECONDS = 15
"""How long the source works before it delivers."""
PIPELINE = "orders"


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Declare the flags of the command."""
    add = parser.add_argument
    add("action", choices=("run", "break", "repair"))
    add("fault", nargs="?", metavar="FAULT", help=", ".join(KINDS))
    folder = "holds the source, and the inbox of the pipeline (default: .state/trial)"
    add("--folder", type=Path, default=_folder(), metavar="DIR", help=folder)
    add("--seconds", type=float, default=SECONDS, metavar="N", help=f"between two deliveries (default: {SECONDS})")


def _folder() -> Path:
    return Path(os.environ.get("TXLOOM_STATE", ".state"), "trial")


def main(given: argparse.Namespace) -> int:
    """Run the command and return its exit code, one of those of `txloom.errors`."""
    source = LivingSource(given.folder / "source", given.folder / "inbox")
    try:
        if given.action == "run":
            return _run(source, given.seconds)
        if not source.folder.is_dir():
            raise ConfigurationError(f"{source.folder}: no source lives here; `make up` starts it.")
        if given.action == "repair":
            return _repair(source, given)
        if given.fault is None:
            return _list(source)
        return _break(source, _known(given.fault), given.folder / "warehouse")
    except ConfigurationError as error:
        print(error, file=sys.stderr)
        return error.exit_code


def _known(name: str) -> str:
    name = name.replace("_", "-").replace(" ", "-")
    if name not in KINDS:
        hint = did_you_mean(name, KINDS)
        raise ConfigurationError(f"FAULT: found {name!r}, expected one of {', '.join(KINDS)}. {hint}".rstrip())
    return name


def _run(source: LivingSource, seconds: float) -> int:
    """Let the source work until it is told to stop."""
    source.inbox.mkdir(parents=True, exist_ok=True)
    stopped: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: stopped.append(number))
    with source.running():
        while not stopped:
            print(f"{datetime.now(UTC):%H:%M:%S} {source.advance(datetime.now(UTC))} transactions", flush=True)
            until = time.monotonic() + seconds
            while not stopped and time.monotonic() < until:
                time.sleep(min(0.2, seconds))
    return 0


def _list(source: LivingSource) -> int:
    for name, kind in KINDS.items():
        print(f"  make break FAULT={name:19}{kind.summary}{'  (open)' if source.is_open(name) else ''}")
    return 0


def _break(source: LivingSource, name: str, warehouse: Path) -> int:
    kind, url = KINDS[name], f"http://localhost:{os.environ.get('TXLOOM_PORT', '8080')}"
    if name == "killed-task":
        fault = Fault(name, datetime.now(UTC), kill_a_job(PIPELINE, warehouse))
    else:
        fault = source.damage(name, datetime.now(UTC))
    print(f"broken:  {fault.made or kind.summary}.")
    print(f"look at: {url}/plugin/txloom, pipeline {PIPELINE}, after its next run; one begins each minute.")
    print(f"see:     {kind.see}")
    if not source.is_running():
        print("note:    the source does not run now, and nobody reads it: `make up` starts both.")
    print(f"repair:  {f'make repair: {kind.repair}' if kind.repair else kind.yours or 'nothing is left to repair'}.")
    return 0


def _repair(source: LivingSource, given: argparse.Namespace) -> int:
    names = [fault.name for fault in source.open_faults()]
    if given.fault is not None:
        names = [name for name in names if name == _known(given.fault)]
    for name in names:
        if done := source.repair(name, datetime.now(UTC)):
            print(f"repaired: {name}: {done}.")
        if KINDS[name].yours:
            print(f"yours:    {name}: {KINDS[name].yours}.")
    if not names:
        print("nothing is broken." if given.fault is None else f"{given.fault} is not open.")
    return 0
