"""One run of the generator: plays transactions, writes and delivers them with faults, and records the truth."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from txloom.errors import ConfigurationError
from txloom.generate import resume_point, truth
from txloom.generate.faults import Delivery, Faults, refuse_unfit
from txloom.generate.formats.known import CSV, RECORDS, completed, new_writer
from txloom.generate.formats.messages import Writer
from txloom.generate.output_files import Files, Records, value_line
from txloom.generate.resume_point import ResumeState
from txloom.generate.truth import Lines
from txloom.generate.workload.changes import Transaction
from txloom.generate.workload.orders import Position, Workload
from txloom.generate.workload.settings import Shares, Sizes
from txloom.generate.workload.source import Source
from txloom.generate.workload.tables import TABLES

BY_DEFAULT: Mapping[str, Any] = {
    "seed": 1,
    "schema": "public",
    "partitions": 3,
    "tables": sorted(TABLES),
    "start_csn": 334_516_829,
    "start_time": 1_767_225_600_000_000,
}


@dataclass(frozen=True)
class Request:
    """The options of one run.

    folder: to write into. shape: the options that all runs into one folder share, None for one that is not given.
    transactions: how many. files: slices of the stream. gap: microseconds between two commits, on average. large: the
    rows of the transaction in the middle, 0 for none. append: whether to continue an earlier run. states: whether to
    keep every state. as_of: csns as of which all rows are written.
    """

    folder: Path
    shape: Mapping[str, Any]
    transactions: int
    files: int
    sizes: Sizes
    shares: Shares
    faults: Faults
    gap: int
    large: int = 0
    append: bool = False
    states: bool = False
    as_of: Sequence[int] = ()


def generate(request: Request) -> Counter[str]:
    """Generate transactions into a folder; return counts of what was written and of the messages that faults hit.

    Raises:
        ConfigurationError: Options contradict each other, the folder's earlier run, or the format.
    """
    try:
        request.folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigurationError(f"--out: found {request.folder}, expected a folder: {error.strerror}.") from error
    truth_folder = request.folder / truth.FOLDER
    state, source = _begun(request, truth_folder)
    writer = new_writer(state.shape)
    refuse_unfit(request.faults, writer, state.shape["format"])
    truth_folder.mkdir(exist_ok=True)
    workload = Workload(state.shape["seed"], source, state.position, request.sizes, request.shares, request.gap)
    counts = _played(request, state, workload, writer)
    state.position, state.made = workload.position, source.made
    watched = truth.tables_of(state.shape["tables"])
    truth.write_final(truth_folder, source, watched)
    resume_point.save(truth_folder, state, source)
    for csn in request.as_of:
        truth.write_as_of(truth_folder, csn, watched)
    return counts


def _begun(request: Request, truth_folder: Path) -> tuple[ResumeState, Source]:
    """Return the state and the source of the last run, or those with which a first run begins."""
    state = resume_point.load(truth_folder)
    if state is None:
        if request.shape["format"] is None:
            raise ConfigurationError("--format: found nothing, expected the format of the messages.")
        shape = completed({**BY_DEFAULT, **{key: value for key, value in request.shape.items() if value is not None}})
        return ResumeState(shape, Position(0, shape["start_csn"], 0, shape["start_time"])), Source()
    if not request.append:
        hint = "--append goes on where it stopped, another folder begins anew."
        raise ConfigurationError(f"--out: found an earlier run in {request.folder}, expected none. {hint}")
    for key, value in request.shape.items():
        if key != "start_time" and value is not None and value != state[0].shape[key]:
            flag = f"--{key.replace('_', '-')}"
            raise ConfigurationError(f"{flag}: found {value}, but the run before began with {state[0].shape[key]}.")
    state[0].position.until = max(state[0].position.until, request.shape["start_time"] or 0)
    return state


def _played(request: Request, state: ResumeState, workload: Workload, writer: Writer) -> Counter[str]:
    """Play, write and deliver all transactions of a run; update `state` and return the counts."""
    truth_folder, shape, count = request.folder / truth.FOLDER, state.shape, request.transactions
    by_records = shape["layout"] == RECORDS
    line = Records(writer, shape["partitions"], state.offsets).line if by_records else value_line
    out = Files(request.folder, ".csv" if shape["layout"] == CSV else ".jsonl", line, writer)
    out.number = state.files
    with ExitStack() as stack:
        faults = Lines(truth_folder / truth.FAULTS, state.sizes.get(truth.FAULTS, 0))
        stack.callback(faults.close)
        versions = _versions(request, state, workload.source, writer)
        if versions is not None:
            stack.callback(versions.close)
        delivery = Delivery(request.faults, writer, shape["seed"], faults.write, texts_only=by_records)
        stack.callback(out.abandon)
        for number, transaction in enumerate(_chosen(workload, request, shape["tables"]), 1):
            out.write(delivery.deliver(transaction))
            out.counts["transactions"] += 1
            out.counts["rows"] += len(transaction.changes)
            if versions is not None:
                truth.write_versions(versions, transaction, writer.csn_of(transaction))
            if number < count and number * request.files // count > (number - 1) * request.files // count:
                out.close()
        if count:
            out.write(delivery.rest())
            out.close(delivery.truncates)
        state.files = out.number
        state.sizes[truth.FAULTS] = faults.size
        if versions is not None:
            state.sizes[truth.VERSIONS] = versions.size
    return out.counts + delivery.counts


def _versions(request: Request, state: ResumeState, source: Source, writer: Writer) -> Lines | None:
    """Return the file of states, None if they are not kept; once they are, every run into the folder keeps them."""
    size = state.sizes.get(truth.VERSIONS, 0)
    if not (size or request.states or request.as_of):
        return None
    lines = Lines(request.folder / truth.FOLDER / truth.VERSIONS, size)
    if not size:
        truth.write_base(lines, source, truth.tables_of(state.shape["tables"]), writer.csn_of(state.position))
    return lines


def _chosen(workload: Workload, request: Request, names: Sequence[str]) -> Iterator[Transaction]:
    """Yield the transactions with only the changes of tables with these names."""
    chosen = set(names)
    for transaction in workload.transactions(request.transactions, request.large):
        if len(chosen) == len(TABLES):
            yield transaction
        else:
            yield replace(transaction, changes=[item for item in transaction.changes if item.table.name in chosen])
