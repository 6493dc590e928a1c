"""`txloom generate`: realistic order-entry transactions as files in every format, for demos, load tests and trials.

Files lie in a folder for each topic, as a pipeline's `source.files` reads them. Beside them, in `_source`, is the
truth: `final` has the source's last rows, `faults.jsonl` every fault, `versions.jsonl` every state if it was asked for.
The same flags make the same bytes; a run that was killed is repeated with the same flags.
"""

import argparse
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from txloom.errors import ConfigurationError
from txloom.generate.faults import NAMES, Faults
from txloom.generate.formats.known import FORMATS
from txloom.generate.run import BY_DEFAULT, Request, generate
from txloom.generate.workload.changes import micros_of
from txloom.generate.workload.settings import SIZES, read_shares, shares_of, sizes_of
from txloom.generate.workload.tables import TABLES

TRANSACTIONS = 1000
RATE = 20.0
SHAPE = ("format", "layout", "schema", "topic", "transaction_topic", "partitions", "seed", "tables", "start_csn")
LATEST = micros_of(datetime(2500, 1, 1, tzinfo=UTC))
"""The limit of a stream's start time, in microseconds since the epoch."""


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Declare the flags of the command."""
    add = parser.add_argument
    add("--out", type=Path, required=True, metavar="DIR", help="folder to write into: a pipeline's source.files.path")
    add("--format", choices=FORMATS, help="format of the messages; with --append that of the run before")
    add("--layout", choices=("values", "records", "csv"), help="what a line holds: a message, a Kafka record, or CSV")
    add("--schema", help="schema of the source's tables (default: public)")
    add("--topic", metavar="NAME", help="topics of rows, such as dev.{schema}.{table}")
    add("--transaction-topic", metavar="NAME", help="topic of the transaction metadata")
    add("--partitions", type=int, metavar="N", help="partitions of a topic of rows, in records (default: 3)")
    add("--tables", metavar="NAME,...", help="tables that the producer captures (default: all)")
    add("--seed", type=int, metavar="N", help="what decides everything (default: 1)")
    add("--transactions", type=int, metavar="N", help=f"how many transactions (default: {TRANSACTIONS})")
    add("--rate", type=float, metavar="R", help=f"commits a second, by the source's clock (default: {RATE:g})")
    add("--minutes", type=float, metavar="M", help="how long the source works, instead of --transactions")
    add("--rows-per-transaction", default=SIZES, metavar="SIZES", help="such as 8, 1-12 or 1-3:30,4-8:50,200:1")
    add("--large", type=int, default=0, metavar="N", help="make the transaction in the middle one of N rows")
    shares = "NAME=SHARE of statements: deletes, key-changes, truncates; of transactions: empty"
    add("--share-of", nargs="+", default=[], metavar="SHARE", help=shares)
    faults = f"NAME=RATE, from 0 to 1: {', '.join(name.replace('_', '-') for name in NAMES)}"
    add("--faults", nargs="+", default=[], metavar="FAULT", help=faults)
    add("--start-csn", type=int, metavar="N", help=f"where the log begins (default: {BY_DEFAULT['start_csn']})")
    add(
        "--start-time",
        metavar="TIME",
        help="when it begins, ISO 8601 (default: 2026-01-01T00:00:00Z); with --append: goes on",
    )
    add("--files", type=int, default=1, metavar="N", help="slices of the stream, each a file in every topic")
    add("--append", action="store_true", help="go on where the last run into the folder stopped")
    add("--states", action="store_true", help="keep the source's rows after every transaction")
    as_of = "write all rows as of a csn; for change events and change sets, microseconds since 1970"
    add("--as-of", type=int, nargs="+", default=[], metavar="CSN", help=as_of)


def main(arguments: argparse.Namespace) -> int:
    """Run the command and return its exit code, one of those of `txloom.errors`."""
    begun = time.perf_counter()
    try:
        counts = generate(_request(arguments))
    except ConfigurationError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    seconds = time.perf_counter() - begun
    counted = " ".join(f"{name}={count}" for name, count in counts.items())
    print(f"generate: {counted} seconds={seconds:.1f} out={arguments.out}")
    return 0


def _request(given: argparse.Namespace) -> Request:
    for name, least in (("files", 1), ("large", 0), ("partitions", 1), ("seed", 0), ("start_csn", 0)):
        value = getattr(given, name)
        if value is not None and not least <= value < 2**62:
            raise ConfigurationError(f"--{name.replace('_', '-')}: found {value}, expected at least {least}.")
    shape = {name: getattr(given, name) for name in SHAPE}
    shape["tables"] = None if given.tables is None else _tables(given.tables.split(","))
    shape["start_time"] = None if given.start_time is None else _start(given.start_time)
    rate = RATE if given.rate is None else given.rate
    if not 0 < rate <= 1e6:
        raise ConfigurationError(f"--rate: found {rate:g}, expected commits a second, more than 0.")
    return Request(
        folder=given.out,
        shape=shape,
        transactions=_transactions(given, rate),
        files=given.files,
        sizes=sizes_of(given.rows_per_transaction),
        shares=shares_of(given.share_of),
        faults=Faults(**read_shares("--faults", given.faults, NAMES)),
        gap=int(1e6 / rate),
        large=given.large,
        append=given.append,
        states=given.states,
        as_of=given.as_of,
    )


def _transactions(given: argparse.Namespace, rate: float) -> int:
    if given.minutes is None:
        count = TRANSACTIONS if given.transactions is None else given.transactions
    elif given.transactions is not None:
        raise ConfigurationError("--minutes: found beside --transactions, expected one of them.")
    else:
        count = round(rate * 60 * given.minutes) if 0 <= given.minutes <= 1e9 else -1
    if count < 0:
        raise ConfigurationError(f"--transactions, --minutes: found {count} transactions, expected 0 or more.")
    return count


def _tables(names: Sequence[str]) -> list[str]:
    unknown = [name for name in names if name not in TABLES]
    if unknown:
        raise ConfigurationError(f"--tables: found {', '.join(unknown)}, expected some of {', '.join(TABLES)}.")
    return sorted(set(names))


def _start(text: str) -> int:
    try:
        time = datetime.fromisoformat(text)
        micros = micros_of(time if time.tzinfo is not None else time.replace(tzinfo=UTC))
    except ValueError:
        micros = -1
    if not 0 <= micros < LATEST:
        raise ConfigurationError(f"--start-time: found {text!r}, expected a time such as 2026-01-01T00:00:00Z.")
    return micros
