"""A lake whose declaration is edited at any moment: its steps, its operations, and what each cut has to show."""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

from oracle.capture import Message
from txloom.config import load
from txloom.errors import BeforeHistory, BeyondValidThrough, ConfigurationError, TablesFailed
from txloom.steps.backfill.backfill import backfill
from txloom.steps.merge.merge_current import merge_current
from txloom.steps.publish.publish import publish
from txloom.steps.snapshots.diff_snapshot import diff_snapshot
from txloom.steps.snapshots.load_snapshot import Snapshot, load_snapshot
from txloom.storage.declarations.incomplete import incomplete_current
from txloom.storage.declarations.undeclared_columns import effective_pipeline
from txloom.storage.delta.fencing import Fence
from workloads.edited.dated import Dates
from workloads.edited.edits import Editor
from workloads.edited.retention import forget
from workloads.edited.source_renames import SourceRenames
from workloads.edited.views import View, Watched, content_of
from workloads.inbox import Producer
from workloads.operations import OPERATE
from workloads.play import Play, impatient
from workloads.small_lake import AT_ONCE, Died, SmallLake
from workloads.sources.database import GIVEN_UP, name_after
from workloads.sources.extracts import Extractor, Extracts
from workloads.sources.shapes import SourceText

OPERATIONS = ("clean", "die", "dismiss", "optimize", "rebuild", "redrive", "remember", "vacuum")


@contextmanager
def dying_before(commits: int) -> Iterator[list[Died]]:
    """Let a run die before its next commit after it has made so many commits; the list is empty until then."""
    left, next_write = count(commits, -1), Fence.next_write
    deaths = list[Died]()

    def once(fence: Fence) -> int | None:
        if next(left) <= 0:
            deaths.append(Died())
            raise deaths[-1]
        return next_write(fence)

    with patch.object(Fence, "next_write", once):
        yield deaths


@dataclass
class Shown:
    """What a cut has to show: by which declaration, without which current tables."""

    view: View
    left_out: frozenset[str]


@dataclass
class EditedLake:
    """A lake whose declaration is edited between its steps.

    before_each: called before each step of a cycle, by the chance of the workload.
    """

    folder: Path
    made: Play
    make_lake: Callable[..., SmallLake] = SmallLake
    before_each: Callable[[], object] = lambda: None
    drawn: Counter[str] = field(default_factory=Counter)
    shown: dict[int, Shown] = field(default_factory=dict)

    def __post_init__(self) -> None:
        inbox, writer, made = self.folder / "inbox", self.made.writer, self.made
        inbox.mkdir()
        source = SourceText(writer.source, writer.rule, writer.layout, "10d")
        self.editor = Editor(made.made, made.chance, inbox, self.folder / "workload.yaml", source, drawn=self.drawn)
        self.dates = Dates(self.folder, inbox, made) if isinstance(writer, Extracts) else None
        packed = getattr(writer, "packed", None)
        self.producer: Producer | Extractor = Producer(
            inbox, made.dimensions, made.chance, records="records" in writer.layout, packed=packed
        )
        if self.dates is not None:
            self.producer = self.dates.producer
        self.lake = self.make_lake(self.folder, load(self.editor.write()))
        self.lake.at_once = Random(made.seed).choice(AT_ONCE)
        self.loads, self.names = 0, SourceRenames()
        self.merged, self.is_behind = self.editor.view, False
        self.merge = Shown(self.editor.view, frozenset())
        self._declare()

    def _declare(self) -> None:
        pipeline = load(self.editor.write())
        self.lake.pipeline = impatient(pipeline) if self.made.dimensions.impatient else pipeline

    def _deliver(self, messages: Sequence[Message], *, last: bool) -> None:
        """Deliver the messages of a landing; from some on, topics or fields have other names, and are declared so."""
        made, source = self.made, self.editor.source
        if made.dimensions.renames and made.chance.random() < 0.2:
            self.editor.source = replace(source, source=self.names.renamed(source.source))
            self._declare()
            self.drawn["topic or fields get other names"] += 1
        self.producer.deliver([*map(self.names.named, messages)], last=last)

    def cycle(self, *, edits: bool = False, dies: bool = False) -> None:
        """Run one cycle; edits: the declaration may be edited between its steps; dies: the merge may die."""
        self.before_each()
        landed = self.editor.view
        self._land(again=True)
        if edits:
            self._perhaps_edit("after landing")
        self.before_each()
        self._buffer()
        if edits:
            self._perhaps_edit("after the buffer")
        self.before_each()
        counts = self._merge(dies=dies)
        self._note_merge(counts)
        if counts is None:
            return
        if self.editor.view is landed:
            self.merged = landed
        if edits:
            self._perhaps_edit("after the merge")
        self._publish()

    def _land(self, *, again: bool = False) -> None:
        """Land what is new, or the next date of extracts; again: if it is refused, buffer, merge and land it again."""
        lake, view, dates = self.lake, self.editor.view, self.dates
        if dates is None:
            lake.land()
            return
        lake.runs += 1
        if (day := dates.next_day(view)) is None:
            return
        if (source := dates.writer.source_of(day)) != self.editor.source.source:
            self.editor.source = replace(self.editor.source, source=source)
            self._declare()
            self.drawn["extracts become full or partial"] += 1
        try:
            lake.step(diff_snapshot, lake.session, day=day)
        except BeyondValidThrough as refusal:
            self.drawn["date waits for an edit" if "edited" in str(refusal) else "date waits for a merge"] += 1
            if not again:
                return
            lake.buffer()
            self._note_merge(self._merge(dies=False))
            lake.step(diff_snapshot, lake.session, day=day)
        dates.landed(day, view, effective_pipeline(lake.pipeline, lake.paths))

    def _buffer(self) -> None:
        """Buffer; where an edit of a key is refused, take it back and land again, as an operator does.

        A history may have deletes with the columns of an earlier key alone: a connector that does not read whole rows
        tells no other columns of these.
        """
        try:
            self.lake.buffer()
        except ConfigurationError as refusal:
            if "in the key" not in str(refusal) or self.made.dimensions.family != "debezium":
                raise
            self.editor.view = replace(self.editor.view, watched=self._with_followed_keys())
            self._declare()
            self.drawn["key is refused"] += 1
            self._land(again=True)
            self.lake.buffer()

    def _with_followed_keys(self) -> dict[str, Watched]:
        """Return the watched tables with the keys that the newest merge had of them."""
        before, now = self.merge.view.watched, self.editor.view.watched
        return {name: replace(seen, key=before[name].key) if name in before else seen for name, seen in now.items()}

    def _note_merge(self, counts: Mapping[str, Any] | None) -> None:
        # If the merge died or left its work to the next cycle, the tables are those of the merge before it.
        self.is_behind = counts is None or "release" not in counts
        if not self.is_behind:
            self.merge = Shown(self.editor.view, self._left_out())

    def _merge(self, *, dies: bool) -> Mapping[str, Any] | None:
        """Merge and return its counts; None: the run died between two commits, and any declaration may follow."""
        lake, chance = self.lake, self.made.chance
        if not (dies and "die" in self.made.dimensions.operations and chance.random() < 0.3):
            with lake.in_pieces():
                return lake.step(merge_current, lake.session)
        with dying_before(chance.randrange(8)) as deaths:
            try:
                with lake.in_pieces():
                    return lake.step(merge_current, lake.session)
            except (Died, TablesFailed):
                assert deaths
        self.drawn["merge dies"] += 1
        self._perhaps_edit("after a merge that died")
        return None

    def _publish(self) -> None:
        lake, view = self.lake, self.editor.view
        merged, left_out = self.merge.view, self.merge.left_out
        counts = lake.step(publish, None)
        if left_out and view.incomplete == "hold":
            assert not counts["published"], f"published without {left_out} although cuts are held"
            self.drawn["cut is held"] += 1
        if counts["published"]:
            assert content_of(view) == content_of(merged), "published by another declaration than the merge's"
        self._note_cuts(left_out)

    def _left_out(self) -> frozenset[str]:
        return frozenset(incomplete_current(effective_pipeline(self.lake.pipeline, self.lake.paths), self.lake.paths))

    def _perhaps_edit(self, when: str) -> None:
        if self.made.chance.random() < 0.4:
            before = self.editor.view
            self.editor.edit()
            self._declare()
            self.drawn[f"edited {when}"] += self.editor.view != before

    def _operate(self) -> None:
        chosen = self.made.dimensions.operations
        for each in sorted(chosen & set(OPERATIONS)):
            if self.made.chance.random() < 0.5:
                self.drawn[f"operation {each}"] += 1
                OPERATE[each](self.lake, self.made)
                self._note_cuts(self._left_out())
        if "forget" in chosen and self.made.chance.random() < 0.5:
            self.drawn[f"operation {forget(self.lake, self.made.chance) or 'nothing'}"] += 1
        if "backfill" in chosen and self.made.chance.random() < 0.5:
            self._backfill()
        if "load" in chosen and self.made.chance.random() < 0.5:
            name = self.made.chance.choice(sorted(self.editor.view.watched))
            self._load(name, self._draw_csn(0, self.lake.shown_through() or 0))

    def _note_cuts(self, left_out: frozenset[str]) -> None:
        """Note by which declaration new cuts were published."""
        for cut in self.lake.rows("cuts"):
            self.shown.setdefault(cut["cut_id"], Shown(self.editor.view, left_out))

    def _backfill(self) -> None:
        """Compare everything with what landed messages say; rows of what is no longer declared stay in histories."""
        self.lake.runs += 1
        if not self.lake.rows("transactions"):
            return
        if any(content_of(view) != content_of(self.editor.view) for view in (self.merged, self.merge.view)):
            # It refuses tables that did not take up their declaration.
            return
        with self.lake.in_pieces():
            try:
                self.lake.step(backfill, self.lake.session, "rebuild")
            except (BeforeHistory, ConfigurationError):
                assert self.is_behind
                self.drawn["backfill is refused before the next cycle"] += 1
                return
            counts = self.lake.step(backfill, self.lake.session, "compare")
        if self.is_behind:
            # Some tables may be as of the merge that died, and the others behind them: it brings these to it too.
            assert counts["missing"] == counts["different"] == 0, f"a backfill of right histories differs: {counts}"
            self.lake.step(backfill, self.lake.session, "apply")
            self.drawn["backfill goes on where a merge died"] += counts["changes"] > 0
        else:
            assert counts["changes"] == 0 or self._left_out(), f"a backfill of what is right differs: {counts}"
        self.lake.step(backfill, self.lake.session, "drop")
        self.drawn["operation backfill"] += 1

    def _draw_csn(self, first: int, last: int) -> int:
        """Draw the csn as of which a table is loaded: that of a commit from `first` to `last`, or `last` itself."""
        committed = [each.csn for each in self.made.sent if each.number != GIVEN_UP and first <= each.csn <= last]
        return self.made.chance.choice([last, *committed])

    def _load(self, name: str, csn: int) -> None:
        """Load a table as the source had it as of a csn."""
        if not csn:
            return
        seen = self.editor.view.watched[name]
        end = self._end(csn)
        last = next((each for each in reversed(self.made.sent) if each.csn <= end), None)
        renamed = {} if last is None else last.renamed.get(name, {})
        # An extract has every column of the source, under its name of then, whatever is declared today.
        rows = [
            {name_after(column, renamed.get(column, 0)): seen.exported(column, value) for column, value in row.items()}
            for row in ({} if last is None else last.state[name]).values()
        ]
        self.loads += 1
        folder = self.folder / f"load-{self.loads}" / seen.name
        folder.mkdir(parents=True)
        (folder / "rows.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
        self.lake.step(load_snapshot, self.lake.session, Snapshot(str(folder.parent), csn, ahead=True))
        if self.dates is not None:
            self.dates.loaded(name, csn)
        self.drawn["operation load"] += 1
        self.cycle()

    def _end(self, csn: int) -> int:
        """Return the csn of the commit that a csn lies in.

        A change that stands alone has a csn of its own, and so has each row of MySQL's log: there the last watched row
        of a transaction gives it its csn.
        """
        later = [each.csn for each in self.made.sent if each.csn >= csn]
        lies_inside = self.made.dimensions.is_alone or self.made.dimensions.source == "debezium/mysql"
        return min(later, default=csn) if lies_inside else csn
