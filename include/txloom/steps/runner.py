"""What every job file shares: flags, session, one last line of counts, exit code."""

import argparse
import os
import sys
import traceback
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any, Literal, TypeVar

from txloom.config import find, names
from txloom.errors import TxloomError, WriteConflict, message_of
from txloom.storage.delta.retry import first_line, is_conflict
from txloom.storage.paths import TablePaths
from txloom.storage.runs.lease import held
from txloom.storage.spark import progress_log

Counts = Mapping[str, int | str]
T = TypeVar("T")


def parser(step: str, description: str | None) -> argparse.ArgumentParser:
    """Return the flags that every job has; a job may add its own."""
    flags = argparse.ArgumentParser(prog=f"jobs/{step}.py", description=description)
    flags.add_argument("--pipeline", required=True, help="a file, or the name of one in include/pipelines")
    flags.add_argument("--warehouse", default=os.environ.get("TXLOOM_WAREHOUSE"), help="default: TXLOOM_WAREHOUSE")
    flags.add_argument("--run-id", default=None, help="names the run in the ledger; default: a new one")
    return flags


def dead_letter_flags(flags: argparse.ArgumentParser, *, newest_only: bool = False) -> None:
    """Add the flags that choose dead letters; newest_only: neither all of them nor those of an older version."""
    flags.add_argument("--transaction", action="append", default=[], help="an id in dead_letters; may be repeated")
    flags.add_argument("--cause", action="append", default=[], help="a cause in dead_letters; may be repeated")
    flags.add_argument("--message", action="append", default=[], help="where one lies, as listed; may be repeated")
    if not newest_only:
        flags.add_argument("--all", action="store_true", help="every open dead letter")
        flags.add_argument("--version", type=int, help="of the table dead_letters; default: the newest")


def dead_letter_selection(given: argparse.Namespace) -> dict[str, Any]:
    """Return what those flags chose, as the steps that take dead letters name it."""
    chosen = {"transactions": given.transaction, "causes": given.cause, "messages": given.message}
    return chosen | ({"everything": given.all, "version": given.version} if "all" in given else {})


def run(
    step: str,
    function: Callable[..., Counts],
    *,
    doc: str | None = None,
    arguments: Sequence[str] | None = None,
    flags: argparse.ArgumentParser | None = None,
    session: Literal["open", "lazy", "none"] = "open",
    writes: bool = True,
    extra: Callable[[argparse.Namespace], dict[str, Any]] | None = None,
) -> int:
    """Run one step from the command line and return its exit code (`txloom.errors` lists them).

    function takes session and declaration, and warehouse and run_id by name; it returns counts. session: whether it
    gets a Spark session, a function that opens one, or None. writes: it holds the pipeline's lease meanwhile. extra:
    turns a job's own flags into keyword arguments.
    """
    given = (flags or parser(step, doc)).parse_args(arguments)
    run_id = given.run_id or f"manual__{uuid.uuid4().hex[:12]}"
    try:
        if not given.warehouse:
            raise TxloomError("no warehouse: pass --warehouse or set TXLOOM_WAREHOUSE")
        pipeline = find(given.pipeline)
        opened = partial(_session, pipeline.name, step)
        options = extra(given) if extra else {}
        with held(TablePaths(given.warehouse, pipeline.name), run_id, step) if writes else nullcontext():
            spark = opened() if session == "open" else opened if session == "lazy" else None
            with progress_log.reported(step):
                counts = function(spark, pipeline, warehouse=given.warehouse, run_id=run_id, **options)
    except TxloomError as error:
        print(message_of(step, error), file=sys.stderr, flush=True)
        return error.exit_code
    except Exception as error:  # noqa: BLE001 (whatever it is must become an exit code and a sentence)
        traceback.print_exc()
        known = WriteConflict(f"another writer came first: {first_line(error)}") if is_conflict(error) else error
        print(message_of(step, known), file=sys.stderr, flush=True)
        return known.exit_code if isinstance(known, TxloomError) else TxloomError.exit_code
    print(last_line(step, pipeline.name, run_id, counts), flush=True)
    return 0


def _session(pipeline: str, step: str) -> Any:
    from txloom.storage.spark.session import open_session

    return open_session(names.application_name(pipeline, step), step)


def optional(kind: Callable[[str], T]) -> Callable[[str], T | None]:
    """Return the type of a flag that may be empty, as a form leaves it.

    >>> optional(int)("7"), optional(int)("")
    (7, None)
    """
    return lambda text: kind(text) if text else None


def listed(given: Sequence[str]) -> list[str]:
    """Return what a flag lists that is repeated, or holds several names with commas between them.

    >>> listed(["a,b", "", "c"])
    ['a', 'b', 'c']
    """
    return [name for text in given for name in text.split(",") if name]


def last_line(step: str, pipeline: str, run_id: str, counts: Counts) -> str:
    """Return a job's last line of log.

    >>> last_line("publish", "orders", "r1", {"valid_through": 7})
    'txloom publish: pipeline=orders run_id=r1 valid_through=7'
    """
    pairs = " ".join(f"{name}={value}" for name, value in counts.items())
    return f"txloom {step}: pipeline={pipeline} run_id={run_id} {pairs}".rstrip()
