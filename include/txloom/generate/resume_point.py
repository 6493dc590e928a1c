"""The resume point of a run: the state that the next run needs to continue, in one file that is replaced as a whole."""

from pathlib import Path
from typing import Any

import msgspec

from txloom.errors import ConfigurationError
from txloom.generate.formats.messages import encode
from txloom.generate.workload.orders import Position
from txloom.generate.workload.source import Order, Source
from txloom.generate.workload.tables import AttachmentRow, CodeRow, DetailsRow, LineRow, OrderRow, Row, Text, UseRow

NAME = "state.jsonl"
VERSION = 1
Texts = list[Text]


class ResumeState(msgspec.Struct):
    """The state of a finished run, without the source's rows.

    shape: the flags that all runs into one folder share. position: that of the workload. files: the number of the next
    slice. offsets: the last one of each topic and partition. made: how many rows of each kind were ever made. sizes:
    the bytes of files that grow.
    """

    shape: dict[str, Any]
    position: Position
    files: int = 0
    offsets: dict[str, int] = {}
    made: dict[str, int] = {}
    sizes: dict[str, int] = {}
    version: int = VERSION


class _Order(msgspec.Struct):
    order: Texts
    details: Texts | None
    lines: list[Texts]
    attachments: list[Texts]
    uses: list[Texts]


class _Code(msgspec.Struct):
    code: Texts


def save(folder: Path, state: ResumeState, source: Source) -> None:
    """Write a run's state and the source's rows; a run that is killed before leaves the file of the previous run."""
    path = folder / f".{NAME}.part"
    with path.open("wb") as stream:
        stream.write(encode(state) + b"\n")
        stream.writelines(encode({"code": code}) + b"\n" for code in source.codes)
        for order in source.orders:
            rows: dict[str, Row | list[Any] | None] = {"order": order.row, "details": order.details}
            rows |= {"lines": order.lines, "attachments": order.attachments, "uses": order.uses}
            stream.write(encode(rows) + b"\n")
    path.rename(folder / NAME)


def clock(folder: Path) -> int | None:
    """Return the source's time after the last run, in microseconds since 1970; None if there was none."""
    path = folder / NAME
    if not path.is_file():
        return None
    with path.open("rb") as stream:
        return msgspec.json.decode(stream.readline(), type=ResumeState).position.until


def load(folder: Path) -> tuple[ResumeState, Source] | None:
    """Return the state and the source of the last run; None if there was none.

    Raises:
        ConfigurationError: The file has another version, or is no state of a run.
    """
    path = folder / NAME
    if not path.is_file():
        return None
    source = Source()
    read_code, read_order = msgspec.json.Decoder(_Code).decode, msgspec.json.Decoder(_Order).decode
    try:
        with path.open("rb") as stream:
            state = msgspec.json.decode(stream.readline(), type=ResumeState)
            if state.version != VERSION:
                raise ConfigurationError(f"{path}: found version {state.version}, expected {VERSION}.")
            for line in stream:
                if line.startswith(b'{"code"'):
                    source.codes.append(CodeRow(*read_code(line).code))  # type: ignore[arg-type]
                else:
                    _add(source, read_order(line))
    except (msgspec.MsgspecError, TypeError) as error:
        raise ConfigurationError(f"{path}: found something else than an earlier run's state: {error}.") from error
    source.made = dict(state.made)
    return state, source


def _add(source: Source, saved: _Order) -> None:
    order = Order(OrderRow(*saved.order))  # type: ignore[arg-type]
    source.add(order)
    order.details = None if saved.details is None else DetailsRow(*saved.details)  # type: ignore[arg-type]
    order.lines = [LineRow(*row) for row in saved.lines]  # type: ignore[arg-type]
    for row in saved.attachments:
        source.attach(order, AttachmentRow(*row))  # type: ignore[arg-type]
    for row in saved.uses:
        source.use(order, UseRow(*row))  # type: ignore[arg-type]
