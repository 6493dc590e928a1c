"""Run a step as a command: flags, session, lease, result file, last line of counts, exit code."""

import argparse
import json
import logging
import os
import sys
import traceback
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, Literal, TypeVar

from txloom.config import find, names
from txloom.config.models.pipeline import Pipeline
from txloom.errors import TxloomError, WriteConflict, message_of
from txloom.quality.dead_letters import Selection
from txloom.steps.step import Step, no_session
from txloom.storage.delta.retry import first_line, is_conflict
from txloom.storage.paths import TablePaths
from txloom.storage.runs.job_results import JobResult, ResultFile
from txloom.storage.runs.lease import held
from txloom.storage.spark import progress_log, tasks

T = TypeVar("T")


def parser(step: str, description: str | None) -> argparse.ArgumentParser:
    """Return a parser with the flags that every job has; a job may add more.

    Args:
        step: the name of the step, which is that of its file in `jobs`.
        description: shown by --help.
    """
    flags = argparse.ArgumentParser(prog=f"jobs/{step}.py", description=description)
    flags.add_argument("--pipeline", required=True, help="a file, or the name of one in include/pipelines")
    flags.add_argument("--warehouse", default=os.environ.get("TXLOOM_WAREHOUSE"), help="default: TXLOOM_WAREHOUSE")
    flags.add_argument("--run-id", default=None, help="names the run in the ledger; default: a new one")
    flags.add_argument("--task-id", default=None, help="names the result file within the run; default: the step")
    return flags


def dead_letter_flags(flags: argparse.ArgumentParser, *, newest_only: bool = False) -> None:
    """Add the flags that choose dead letters.

    Args:
        flags: the parser to add them to.
        newest_only: leave out --all and --version, which choose every dead letter and an older version of their table.
    """
    flags.add_argument("--transaction", action="append", default=[], help="an id in dead_letters; may be repeated")
    flags.add_argument("--cause", action="append", default=[], help="a cause in dead_letters; may be repeated")
    flags.add_argument("--message", action="append", default=[], help="the position of one, as listed; may be repeated")
    if not newest_only:
        flags.add_argument("--all", action="store_true", help="every open dead letter")
        flags.add_argument("--version", type=int, help="of the table dead_letters; default: the newest")


def dead_letter_selection(given: argparse.Namespace) -> Selection:
    """Return the selection that the flags of `dead_letter_flags` were given."""
    whole = {"everything": given.all, "version": given.version} if "all" in given else {}
    return Selection(given.transaction, given.cause, given.message, **whole)


@dataclass(frozen=True)
class Job:
    """One step as a command.

    Args:
        step: its name.
        function: takes a `Step`, and by name what `choices` returns; returns counts.
        flags: its command line.
        session: "open" where it always needs Spark, "lazy" where only large runs do, "none" where it never does.
            `include/bin/spark-submit-bound` reads this word in the job's file.
        writes: whether it holds the pipeline's lease while it runs.
        choices: returns keyword arguments from the parsed flags.
    """

    step: str
    function: Callable[..., Mapping[str, Any]]
    flags: argparse.ArgumentParser
    session: Literal["open", "lazy", "none"] = "open"
    writes: bool = True
    choices: Callable[[argparse.Namespace], Mapping[str, Any]] = lambda _: {}


def run(job: Job, arguments: Sequence[str] | None = None) -> int:
    """Run one step from the command line and return its exit code (`txloom.errors` lists them).

    Counts, or exit code and message of the error, are also written into the run's result file, for the task that
    started the job. A repeated call with the same run and task replaces this file. No error of the step is
    raised: each becomes an exit code and one line on standard error.
    """
    given = job.flags.parse_args(arguments)
    run_id = given.run_id or f"manual__{uuid.uuid4().hex[:12]}"
    is_name = given.warehouse and given.pipeline.isidentifier()
    paths = TablePaths(given.warehouse, given.pipeline) if is_name else None
    log_to_output()
    try:
        if not given.warehouse:
            raise TxloomError("no warehouse: pass --warehouse or set TXLOOM_WAREHOUSE")
        pipeline = find(given.pipeline)
        paths = TablePaths(given.warehouse, pipeline.name)
        if pipeline.spark.cores:
            os.environ.setdefault(tasks.CORES, str(pipeline.spark.cores))
        opened = no_session if job.session == "none" else cache(partial(_session, pipeline, paths, job.step))
        choices = job.choices(given)
        with held(paths, run_id, job.step) if job.writes else nullcontext(), progress_log.reported(job.step):
            counts = job.function(Step(pipeline, paths, run_id, opened), **choices)
    except TxloomError as error:
        result = JobResult(exit_code=error.exit_code, message=message_of(job.step, error))
    except Exception as error:  # noqa: BLE001 (every error must become an exit code and a message)
        traceback.print_exc()
        known = WriteConflict(f"another writer came first: {first_line(error)}") if is_conflict(error) else error
        code = known.exit_code if isinstance(known, TxloomError) else TxloomError.exit_code
        result = JobResult(exit_code=code, message=message_of(job.step, known))
    else:
        result = JobResult(counts)
    if paths is not None:
        _write_result(ResultFile(paths, run_id, given.task_id or job.step), result)
    if result.message is None:
        print(last_line(job.step, paths.pipeline if paths else "", run_id, result.counts), flush=True)
    else:
        _silence_spark()
        print(result.message, file=sys.stderr, flush=True)
    return result.exit_code


def _silence_spark() -> None:
    """Keep the line that says why a job failed the last one, where the job started Spark."""
    if "pyspark" in sys.modules:
        from txloom.storage.spark.session import silence

        silence()


def _write_result(file: ResultFile, result: JobResult) -> None:
    """Write a result file; where that fails, print a warning, and the job's exit code stays as it is."""
    try:
        file.write(result)
    except OSError as error:
        print(f"warn: the result file of this job cannot be written: {error}", file=sys.stderr, flush=True)


class Output(logging.Handler):
    """Prints messages without their level and logger: a job's log is for people, and its last line is the counts."""

    def emit(self, record: logging.LogRecord) -> None:
        """Print one message."""
        print(self.format(record), flush=True)


def log_to_output() -> None:
    """Send what txloom logs to standard output, one line for each message; a repeated call changes nothing more."""
    logger = logging.getLogger("txloom")
    if any(isinstance(handler, Output) for handler in logger.handlers):
        return
    logger.addHandler(Output())
    logger.setLevel(logging.INFO)


def _session(pipeline: Pipeline, paths: TablePaths, step: str) -> Any:
    from txloom.storage.spark.session import open_session

    return open_session(
        names.application_name(pipeline.name, step), step, paths.table("").rstrip("/"), pipeline.spark.by_name
    )


def optional(kind: Callable[[str], T]) -> Callable[[str], T | None]:
    """Return a type for a flag whose value may be empty, as an Airflow form leaves it; empty becomes None.

    >>> optional(int)("7"), optional(int)("")
    (7, None)
    """
    return lambda text: kind(text) if text else None


def listed(given: Sequence[str]) -> list[str]:
    """Return the names that a flag was given: it may be repeated, and hold several names with commas between them.

    >>> listed(["a,b", "", "c"])
    ['a', 'b', 'c']
    """
    return [name for text in given for name in text.split(",") if name]


def last_line(step: str, pipeline: str, run_id: str, counts: Mapping[str, Any]) -> str:
    """Return a job's last line of log: step, pipeline, run and counts; other values than numbers and text as JSON.

    >>> last_line("publish", "orders", "r1", {"valid_through": 7, "versions": {"orders": 3}})
    'txloom publish: pipeline=orders run_id=r1 valid_through=7 versions={"orders":3}'
    """
    texts = {
        name: count if isinstance(count, int | str) else json.dumps(count, separators=(",", ":"))
        for name, count in counts.items()
    }
    pairs = " ".join(f"{name}={text}" for name, text in texts.items())
    return f"txloom {step}: pipeline={pipeline} run_id={run_id} {pairs}".rstrip()
