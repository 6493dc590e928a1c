"""Make the history rows of released transactions again: of many transactions at once, or of a large one in parts.

A part of a large transaction is a part of a data file of change_events. A task makes history rows of the events that
would be released if the part were the whole transaction, and returns what a judgment needs of them, without their
messages. The transaction is then judged as a whole. A part that has other events than were taken is made again.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Generic, Protocol, TypeVar, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from txloom.config.models.pipeline import Pipeline
from txloom.steps.backfill.redeclared_events import JudgedByTable, read_redeclared, with_csns
from txloom.steps.backfill.released_events import (
    OUTCOMES,
    JudgedWhole,
    Share,
    of_tables,
    read_released,
)
from txloom.steps.backfill.scope import Scope
from txloom.steps.buffer.release import Release, made_of
from txloom.storage.buffer.buffer_stream import RELEASED_ROWS
from txloom.storage.delta import arrow_tables
from txloom.storage.delta.sql import int_list
from txloom.storage.landing import event_files
from txloom.storage.targets.row_tables import row_tables
from txloom.transactions.redelivered import KEYS, Flags, Positions
from txloom.transactions.reused_ids import REUSED, in_turn, without_others

BUCKET_BITS = 20
"""Transactions are counted by this many bits of their hash before the large ones are counted one by one."""
AT_ONCE_ROWS = 5_000_000
"""About how many rows of large transactions are judged at once; one transaction may have more."""
K = TypeVar("K")
Keep = Callable[[str, pa.Table], K]
"""Keeps rows of a history, and returns what is known of them then."""


@dataclass(frozen=True)
class Rebuilt:
    """Rebuilt transactions.

    Args:
        history: rows by history table.
        outcomes: in the schema OUTCOMES.
    """

    history: Mapping[str, pa.Table]
    outcomes: pa.Table


@dataclass(frozen=True)
class Large:
    """A large transaction.

    Args:
        rows: how many rows of it were landed.
        shares: the transaction with each part of change_events that has events of it.
    """

    rows: int
    shares: Sequence[Share]


@dataclass(frozen=True)
class Part:
    """A part of a large transaction.

    Args:
        share: the transaction, and the part of change_events.
        taken: for each pipeline of its judgment, which of the part's events rows are made of; None: not known yet.
        pos: the positions of the part's events; None: not known yet.
    """

    share: Share
    taken: Sequence[Flags] | None = None
    pos: Positions | None = None


@dataclass(frozen=True)
class MadePart(Generic[K]):
    """What a task made of a part.

    Args:
        share: the transaction, and the part of change_events.
        events: the part's events without messages, if the part was not judged yet.
        csn: the csn of the rows.
        taken: for each pipeline, the events that the rows are made of.
        pos: the positions of the events.
        kept: for each pipeline, what `Keep` returned.
        unreadable: for each pipeline, whether a value does not fit its declared type.
    """

    share: Share
    events: pa.Table
    csn: int
    taken: Sequence[Flags]
    pos: Positions
    kept: Sequence[Sequence[K]]
    unreadable: Sequence[bool]


Work = Callable[[Iterable[Part]], Iterator[MadePart[K]]]
Run = Callable[[Sequence[Part], Work[K]], list[MadePart[K]]]
"""Calls work with each part, and returns all that it yields, in the order of the parts."""


class Judged(Protocol):
    """The events of transactions, and which of them make the rows of which targets."""

    @property
    def chosen(self) -> pa.Table:
        """The transactions, ordered by tx, at their csn."""
        ...

    @property
    def pipelines(self) -> Sequence[Pipeline]:
        """The declaration with some of its targets at a time: those that are made of the same transactions."""
        ...

    def candidates(self, pipeline: Pipeline) -> Flags:
        """Return which events rows are made of if their transaction is there."""
        ...

    def taken(self, pipeline: Pipeline) -> Flags:
        """Return which events rows are made of."""
        ...

    @property
    def pos(self) -> Positions:
        """The position under which each event was released."""
        ...

    def outcomes(self, unreadable: set[int]) -> pa.Table:
        """Return the outcomes of the transactions; unreadable: hashes of those with a value that does not fit."""
        ...


def rebuild(scope: Scope, share: Share) -> Rebuilt:
    """Make the history rows of transactions again; nothing is written.

    Args:
        scope: the backfill.
        share: the transactions.
    """
    history, outcomes = dict[str, list[pa.Table]](), [OUTCOMES.empty_table()]
    for chosen in in_turn(share.chosen):
        events = _read(scope, replace(share, chosen=chosen))
        judged = _judge(scope, chosen, _without_messages(events))
        releases = [
            _made(judged, pipeline, judged.taken(pipeline), events, judged.pos) for pipeline in judged.pipelines
        ]
        for name, rows in (each for release in releases for each in release.history.items()):
            history.setdefault(name, []).append(rows)
        outcomes.append(judged.outcomes({tx for each in releases for tx in each.unreadable}))
    # Rows of documents lack the members of which no transaction in turn has a change.
    made = {name: arrow_tables.joined(rows) for name, rows in history.items()}
    return Rebuilt(made, pa.concat_tables(outcomes))


def _read(scope: Scope, share: Share) -> pa.Table:
    """Return the events of transactions, as they were decoded or as they are declared now."""
    read = read_released if scope.redeclared is None else read_redeclared
    return without_others(share.chosen, read(scope, share))


def _judge(scope: Scope, chosen: pa.Table, events: pa.Table) -> Judged:
    """Judge transactions by their events without messages."""
    if scope.redeclared is None:
        return JudgedWhole(scope, chosen, events)
    return JudgedByTable(scope, with_csns(chosen, events), events)


def _without_messages(events: pa.Table) -> pa.Table:
    """Return what a judgment needs of events: no messages, and the counts of metadata only."""
    judged = events.select([*KEYS, "kind", "landing", "row", "pos", "landed_at", "csn"])
    judged = judged.append_column("has_message", pc.is_valid(events.column("value")))
    if "counts" not in events.column_names:
        return judged
    is_metadata = pc.equal(events.column("kind"), pa.scalar("metadata"))
    places = pc.if_else(is_metadata, pa.array(np.arange(events.num_rows)), pa.scalar(None, pa.int64()))
    return judged.append_column("counts", events.column("counts").take(places))


def _made(judged: Judged, pipeline: Pipeline, taken: Flags, events: pa.Table, pos: Positions) -> Release:
    """Make the history rows of the targets of a pipeline; taken: of which events; pos: their positions."""
    tables = [row_table.table.name for row_table in row_tables(pipeline)]
    rows = events.filter(pa.array(taken))
    at = rows.column_names.index("pos")
    rows = of_tables(rows.set_column(at, rows.schema.field("pos"), pa.array(pos[taken])), judged.chosen, tables)
    return made_of(pipeline, rows, judged.chosen.select(RELEASED_ROWS.names), 0)


def large_transactions(scope: Scope, chosen: pa.Table, between: tuple[int, int], rows: int) -> list[Large]:
    """Return the transactions that have more landed rows than `rows`.

    There are none if an aggregate is made again: its changes in one transaction are one row. Transactions whose id was
    used again are left out.

    Args:
        scope: the backfill.
        chosen: the transactions.
        between: the first and last landing that may have their events.
        rows: about how many rows a part has at most.
    """
    if scope.pipeline.targets.aggregates:
        return []
    path, bucket = scope.paths.change_events, f"tx >> {64 - BUCKET_BITS}"
    landed = f"landing between {between[0]} and {between[1]}"
    sql = f"select {bucket} as bucket from t where kind = 'row' and {landed} group by {bucket}"
    buckets = arrow_tables.select(path, f"{sql} having count(*) > {rows}")
    if not buckets.num_rows:
        return []
    full = cast("list[int]", buckets.column("bucket").to_pylist())
    among = f"kind in ('metadata', 'row') and {landed} and {bucket} in ({int_list(full)})"
    sql = "select tx, landing, sum(case when kind = 'row' then 1 else 0 end) as n"
    counts = arrow_tables.select(path, f"{sql} from t where {among} group by tx, landing")
    sizes = counts.group_by("tx").aggregate([("n", "sum")])
    large = sizes.filter(pc.greater(sizes.column("n_sum"), pa.scalar(rows, pa.int64())))
    known = chosen.filter(pc.invert(chosen.column(REUSED)))
    return [
        _large(scope, known.filter(is_one), between, counts.filter(pc.equal(counts.column("tx"), tx)), rows)
        for tx in large.column("tx")
        if pc.any(is_one := pc.equal(known.column("tx"), tx)).as_py()
    ]


def _large(scope: Scope, chosen: pa.Table, between: tuple[int, int], counts: pa.Table, rows: int) -> Large:
    """Cut one transaction; counts: the landings that have its events, and how many rows each has (`n`)."""
    tx, landings = _tx(chosen), cast("list[int]", counts.column("landing").to_pylist())
    parts = event_files.parts_of(scope.paths, tx, landings, rows)
    return Large(pc.sum(counts.column("n")).as_py(), [Share(chosen, between, (tx, tx), part) for part in parts])


def rebuild_large(
    scope: Scope, large: Sequence[Large], keep: Keep[K], run: Run[K]
) -> Iterator[tuple[list[K], pa.Table]]:
    """Make the history rows of large transactions again, part by part; yield for each what is kept, and its outcome.

    Args:
        scope: the backfill.
        large: the transactions.
        keep: keeps the rows of a part. What it kept of a part that is made again is not yielded.
        run: runs the work on all parts.
    """

    def work(some: Iterable[Part]) -> Iterator[MadePart[K]]:
        for part in some:
            yield _make_part(scope, part, keep)

    for some in _at_once(large):
        made = deque(run([Part(share) for each in some for share in each.shares], work))
        wholes = [_whole(scope, [made.popleft() for _ in each.shares]) for each in some]
        outdated = [(whole, number) for whole in wholes for number in whole.outdated()]
        again = run([whole.part(number) for whole, number in outdated], work)
        for (whole, number), part in zip(outdated, again, strict=True):
            whole.made[number] = part
        for whole in wholes:
            yield whole.kept, whole.outcome


def _at_once(large: Sequence[Large]) -> Iterator[list[Large]]:
    """Yield the transactions that are judged at once."""
    held, rows = list[Large](), 0
    for each in large:
        if held and rows + each.rows > AT_ONCE_ROWS:
            yield held
            held, rows = [], 0
        held.append(each)
        rows += each.rows
    if held:
        yield held


def _make_part(scope: Scope, part: Part, keep: Keep[K]) -> MadePart[K]:
    """Make the history rows of a part: of the events that are taken, or if these are not known, of the candidates."""
    events = _read(scope, part.share)
    light = _without_messages(events)
    judged = _judge(scope, part.share.chosen, light)
    taken = part.taken or [judged.candidates(pipeline) for pipeline in judged.pipelines]
    pos = judged.pos if part.pos is None else part.pos
    made = [_made(judged, *each, events, pos) for each in zip(judged.pipelines, taken, strict=True)]
    kept = [[keep(name, rows) for name, rows in each.history.items() if rows.num_rows] for each in made]
    unreadable = [bool(each.unreadable) for each in made]
    light = light if part.taken is None else light.schema.empty_table()
    return MadePart(part.share, light, _csn(judged), taken, pos, kept, unreadable)


def _tx(chosen: pa.Table) -> int:
    """Return the hash of the one transaction that is chosen."""
    tx: int = chosen.column("tx")[0].as_py()
    return tx


def _csn(judged: Judged) -> int:
    """Return the csn of the one transaction that is judged."""
    csn: int = judged.chosen.column("csn")[0].as_py()
    return csn


@dataclass
class Whole(Generic[K]):
    """A large transaction whose parts were made.

    Args:
        judged: the judgment of all parts' events.
        made: the parts.
        taken: for each part, and each pipeline of the judgment, the events that rows are made of.
        pos: for each part, the positions of its events.
    """

    judged: Judged
    made: list[MadePart[K]]
    taken: list[list[Flags]]
    pos: list[Positions]

    def outdated(self) -> list[int]:
        """Return the numbers of the parts whose rows were made of other events, or at another csn or position."""
        csn = _csn(self.judged)

        def is_other(part: MadePart[K], taken: Sequence[Flags], pos: Positions) -> bool:
            pairs = [each for each in zip(taken, part.taken, strict=True) if each[0].any()]
            are_moved = any((pos[flags] != part.pos[flags]).any() for flags, _ in pairs)
            is_same = part.csn == csn and not are_moved and all(np.array_equal(*pair) for pair in pairs)
            return bool(pairs) and not is_same

        of_parts = zip(self.made, self.taken, self.pos, strict=True)
        return [number for number, each in enumerate(of_parts) if is_other(*each)]

    def part(self, number: int) -> Part:
        """Return a part that is made again."""
        return Part(replace(self.made[number].share, chosen=self.judged.chosen), self.taken[number], self.pos[number])

    @property
    def kept(self) -> list[K]:
        """What is kept of the parts: nothing of the targets for which a value does not fit its declared type."""
        readable = {number for number, _ in enumerate(self.judged.pipelines)} - self._unreadable
        parts = zip(self.made, self.taken, strict=True)
        return [each for made, taken in parts for n in sorted(readable) if taken[n].any() for each in made.kept[n]]

    @property
    def outcome(self) -> pa.Table:
        """The row of OUTCOMES."""
        return self.judged.outcomes({_tx(self.judged.chosen)} if self._unreadable else set())

    @property
    def _unreadable(self) -> set[int]:
        """The numbers of the pipelines for which a value does not fit."""
        parts = zip(self.made, self.taken, strict=True)
        return {n for made, taken in parts for n, flags in enumerate(taken) if flags.any() and made.unreadable[n]}


def _whole(scope: Scope, made: list[MadePart[K]]) -> Whole[K]:
    """Judge a large transaction by the events of all its parts."""
    events = pa.concat_tables(each.events for each in made).combine_chunks()
    judged = _judge(scope, made[0].share.chosen, events)
    borders = np.cumsum([each.events.num_rows for each in made])[:-1]
    by_pipeline = [np.split(judged.taken(pipeline), borders) for pipeline in judged.pipelines]
    taken = [[flags[number] for flags in by_pipeline] for number in range(len(made))]
    pos = np.split(judged.pos, borders)
    return Whole(judged, [replace(each, events=events.schema.empty_table()) for each in made], taken, pos)
