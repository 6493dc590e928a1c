"""A workload drawn from a seed: what its source commits, and the landings in which its messages come."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any

from oracle.capture import Message
from txloom.config import load
from txloom.config.models.pipeline import Pipeline
from workloads.delivery import deliver, deliver_in_turn
from workloads.dimensions import EXTRACTS, Dimensions, drawn
from workloads.inbox import Producer
from workloads.sources.alone import ChangeEvents, ChangeSets
from workloads.sources.database import GIVEN_UP, Change, Database, Sent
from workloads.sources.debezium import Debezium
from workloads.sources.extracts import Extractor, Extracts
from workloads.sources.goldengate import GoldenGate
from workloads.sources.shapes import Shape, SourceText, declaration, shape
from workloads.sources.wal2json import Wal2Json, Wal2JsonOne

WRITERS = {
    "goldengate": GoldenGate,
    "debezium": Debezium,
    "wal2json": Wal2Json,
    "wal2json/1": Wal2JsonOne,
    "change_events": ChangeEvents,
    "change_sets": ChangeSets,
    EXTRACTS: Extracts,
}


@dataclass
class Play:
    """A workload: its source's transactions, and the landings in which their messages come."""

    seed: int
    chance: Random
    dimensions: Dimensions
    made: Shape
    writer: Any
    sent: list[Sent]
    landings: list[list[Message]]
    repeated: int = 0
    """Rows of a snapshot that a connector gave up and began anew."""
    forged: set[str] = field(default_factory=set)
    """Messages of rows that came after their transaction was released."""


def play(
    seed: int, source: str | None = None, dimensions: Dimensions | None = None, *, most: int = 30, renames: bool = False
) -> Play:
    """Draw a workload; most: transactions behind its snapshot. renames: whether the source may rename columns."""
    chance = Random(seed)
    dims = dimensions or drawn(chance, source)
    made = shape(chance, dims)
    writer = WRITERS.get(dims.source, Debezium)(made, chance)
    database = Database(made, chance, writer, csn=2**53 + 1 if dims.far else 100)
    if isinstance(writer, Extracts):
        writer.switches = dims.switches
        days = writer.days(database, most)
        return Play(seed, chance, dims, made, writer, days, [day.rows for day in days])
    before, first, repeated = _snapshots(database, dims, chance)
    # A snapshot that is taken again has the columns' first names, and a file of change sets one header.
    database.renames = renames and not dims.taken_again and (writer.alters or type(writer) is ChangeEvents)
    sent = database.play(chance.randint(1, most))
    if dims.source in ("wal2json", "wal2json/1") or dims.is_alone:
        landings = deliver_in_turn(sent, chance, whole=dims.is_alone, once=dims.source == "change_sets")
    else:
        landings = deliver(sent, chance, in_order=dims.in_order).landings
    if dims.taken_again:
        again, parts = _taken_again(database, chance)
        later = database.play(chance.randint(1, most))
        more = deliver(later, chance, in_order=dims.in_order).landings
        sent, landings = [*sent, *again, *later], [*landings, *parts, *more]
    if dims.wraps:
        writer.wrap()
        later = database.play(chance.randint(1, most))
        more = deliver(later, chance, in_order=dims.in_order).landings
        sent, landings = [*sent, *later], [*landings, *more]
    made = replace(made, renamed=sent[-1].renamed, foretold=not writer.alters, altered=database.altered)
    return Play(seed, chance, dims, made, writer, [*before, *sent], [*first, *landings], repeated)


def _snapshots(database: Database, dims: Dimensions, chance: Random) -> tuple[list[Sent], list[list[Message]], int]:
    """Let a connector take a snapshot of what is there, in one to three landings; once more when it begins anew."""
    if dims.snapshot == "none":
        return [], [], 0
    database.play(chance.randint(1, 20))
    names = sorted(database.shape.tables)
    sent, rows = list[Sent](), list[list[Message]]()
    if dims.snapshot != "whole":
        part = database.writer.snapshot(database.state, database.csn, names)  # type: ignore[attr-defined]
        rows += part[: chance.randint(0, max(len(part) - 1, 0))]
        database.play(chance.randint(0, 5) if dims.snapshot == "changed" else 0)
        database.csn += 3
    repeated = len(rows)
    rows += database.writer.snapshot(database.state, database.csn, names)  # type: ignore[attr-defined]
    sent.append(_taken(database, names))
    return sent, _cut([message for each in rows for message in each], chance), repeated


def _taken_again(database: Database, chance: Random) -> tuple[list[Sent], list[list[Message]]]:
    """Let a connector lose its place, miss some transactions, and take its snapshot again, once or in two attempts.

    Nothing tells of a table without rows: of one that had some before, the connector misses what emptied it later.
    """
    names, known = sorted(database.shape.tables), {name: dict(rows) for name, rows in database.state.items()}
    sent, messages = list[Sent](), list[Message]()
    if chance.random() < 0.4:
        database.play(chance.randint(1, 5))
        database.csn += 3
        part = database.writer.snapshot(database.state, database.csn, names)  # type: ignore[attr-defined]
        part = part[: chance.randint(0, max(len(part) - 1, 0))]
        messages += [message for rows in part for message in rows]
        given_up = [Change(database.shape.tables[names[0]], "r", None, None, ())] * len(part)
        sent.append(Sent("", database.csn, [], None, known, given_up, GIVEN_UP))
    for _ in range(50):
        database.play(chance.randint(1, 8))
        if all(database.state[name] or not known[name] for name in names):
            break
    else:
        return [], []
    database.csn += 3
    rows = database.writer.snapshot(database.state, database.csn, names)  # type: ignore[attr-defined]
    if not rows:
        return [], []
    taken = _taken(database, names)
    messages += [message for each in rows for message in each]
    return [*sent, taken], _cut(messages, chance)


def _taken(database: Database, names: Sequence[str]) -> Sent:
    """Return what a snapshot of tables shows."""
    tables, state = database.shape.tables, {name: dict(rows) for name, rows in database.state.items()}
    changes = [Change(tables[name], "r", None, row, ()) for name in names for row in state[name].values()]
    return Sent("", database.csn, [], None, state, changes, -1)


def _cut(messages: list[Message], chance: Random) -> list[list[Message]]:
    """Return messages in one to three landings."""
    cuts = sorted(chance.randint(0, len(messages)) for _ in range(chance.choice((0, 1, 2))))
    return [messages[a:b] for a, b in zip([0, *cuts], [*cuts, len(messages)], strict=True)]


def impatient(pipeline: Pipeline, complete_now: str = "redrive") -> Pipeline:
    """Return a pipeline that gives up what is not whole with its landing."""
    rule = pipeline.completeness.model_copy(update={"patience": timedelta(0), "complete_now": complete_now})
    return pipeline.model_copy(update={"completeness": rule})


def declared(folder: Path, made: Play) -> tuple[Pipeline, Producer | Extractor]:
    """Declare a workload's pipeline, with an inbox of its own; return what writes its files, too."""
    inbox = folder / "inbox"
    inbox.mkdir()
    file, writer = folder / "workload.yaml", made.writer
    file.write_text(declaration(made.made, inbox, source=SourceText(writer.source, writer.rule, writer.layout, "10d")))
    packed, pipeline = getattr(writer, "packed", None), load(file)
    if made.dimensions.impatient:
        pipeline = impatient(pipeline)
    if isinstance(writer, Extracts):
        return pipeline, Extractor(inbox, made.made, made.chance)
    return pipeline, Producer(inbox, made.dimensions, made.chance, records="records" in writer.layout, packed=packed)
