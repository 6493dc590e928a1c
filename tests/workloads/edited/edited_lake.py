"""A lake whose declaration is edited at any moment, and what must hold of it.

Every cut is what the declaration of its time makes of the source, or leaves a table out by name; and a table is left
out only where that cannot be helped.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

import pytest

from oracle import comparison
from txloom import read
from txloom.config import load
from txloom.errors import BeforeHistory, BeyondValidThrough, ConfigurationError, TablesFailed
from txloom.quality import findings as f
from txloom.steps.backfill.backfill import backfill
from txloom.steps.merge.merge_current import merge_current
from txloom.steps.publish.publish import publish
from txloom.steps.settling.forecast import forecast
from txloom.steps.snapshots.diff_snapshot import diff_snapshot
from txloom.steps.snapshots.load_snapshot import Snapshot, load_snapshot
from txloom.storage.buffer.newest_batch import buffer_state
from txloom.storage.checks import findings
from txloom.storage.dead_letters import open_letters
from txloom.storage.declarations import records as r
from txloom.storage.declarations.incomplete import incomplete_current, incomplete_tables
from txloom.storage.declarations.undeclared_columns import adopted, effective_pipeline
from txloom.storage.delta.fencing import Fence
from txloom.storage.publishing.valid_through import valid_through
from workloads.edited.dated import Dates
from workloads.edited.edits import Editor
from workloads.edited.retention import forget, is_lost, lost_sources
from workloads.edited.views import View, content_of
from workloads.inbox import Producer
from workloads.operations import OPERATE
from workloads.play import Play, impatient
from workloads.small_lake import AT_ONCE, Died, SmallLake
from workloads.sources.database import GIVEN_UP, name_after
from workloads.sources.extracts import Extractor, Extracts
from workloads.sources.shapes import SourceText

OPERATIONS = ("clean", "die", "optimize", "rebuild", "redrive", "remember", "vacuum")
Rows = Mapping[str, Any]


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
class Edited:
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
        self.loads = 0
        self.merged, self.is_behind = self.editor.view, False
        self.merge = Shown(self.editor.view, frozenset())
        self._declare()

    def _declare(self) -> None:
        pipeline = load(self.editor.write())
        self.lake.pipeline = impatient(pipeline) if self.made.dimensions.impatient else pipeline

    # What happens.

    def run(self) -> None:
        """Play the workload, and judge what is shown."""
        chance = self.made.chance
        for number, messages in enumerate(self.made.landings, 1):
            self.producer.deliver(messages, last=number == len(self.made.landings))
            if number < len(self.made.landings) and chance.random() < 0.25:
                self._land()
                self._perhaps_edit("between landings")
                continue
            self.cycle(edits=chance.random() < 0.3, dies=True)
            while self.dates is not None and self.dates.next_day(self.editor.view):
                self.cycle(edits=chance.random() < 0.3, dies=True)
            self._operate()
            if self.made.dimensions.in_order:
                self.judge()
            self._perhaps_edit("between runs")
        if self.dates is not None:
            # With one more date, the buffer follows the last edit.
            self.dates.repeat()
        self.cycle()
        self.cycle()
        if self.made.dimensions.in_order or self.editor.view.incomplete != "hold" or not self._left_out():
            # While cuts are held, the newest one lacks transactions that came later with a lower csn.
            self.judge()
        self.load_incomplete()
        self.judge()
        self.judge_end()
        self.judge_plan()

    def cycle(self, *, edits: bool = False, dies: bool = False) -> None:
        """Run one cycle; edits: the declaration may be edited between its steps; dies: the merge may die."""
        lake = self.lake
        self.before_each()
        landed = self.editor.view
        self._land(again=True)
        if edits:
            self._perhaps_edit("after landing")
        self.before_each()
        lake.buffer()
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
            {name_after(column, renamed.get(column, 0)): value for column, value in row.items()}
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

    def load_incomplete(self) -> None:
        """Load each incomplete table as of its last missing csn or a later one, and check that it is complete then."""
        lake = self.lake
        # The last transactions of the source may have no watched row, so that nothing shows how far it is.
        cut_csn = valid_through(lake.paths, seen) if (seen := buffer_state(lake.paths)) is not None else 0
        states = r.states(r.read(lake.paths))
        pairs = (
            [pair for pair in sorted(r.declared_pairs(lake.pipeline)) if not states[pair].is_complete] if states else []
        )
        since = dict[str, int]()
        for pair in pairs:
            since[pair[1]] = max(since.get(pair[1], 0), states[pair].newest.since_csn)
        for member in sorted(since):
            name = next(name for name, seen in self.editor.view.watched.items() if seen.name == member)
            csn = self._draw_csn(since[member] - 1, cut_csn)
            self._load(name, csn)
            self.drawn["incomplete table is loaded" + " as of an earlier csn" * (csn < cut_csn)] += 1
        if pairs:
            self.cycle()
            assert not self._left_out(), f"not complete though loaded as of {cut_csn}: {self._left_out()}"

    # What must hold.

    def judge(self) -> None:
        """The newest cut shows every table as the source had it, or leaves it out by name, for a reason."""
        self.judge_incomplete()
        cuts = self.lake.rows("cuts")
        if not cuts:
            return
        cut = max(cuts, key=lambda each: int(each["cut_id"]))
        if cut["gaps"] and self.made.dimensions.impatient:
            return
        assert not cut["gaps"], f"gaps: {cut['gaps']}"
        shown, versions = self.shown[cut["cut_id"]], dict(cut["versions"])
        view = shown.view
        lacking = view.keys.keys() - versions.keys() - shown.left_out
        assert not lacking, f"not in the cut, and not named as incomplete: {lacking}"
        self.drawn["cut is judged"] += 1
        self.drawn["cut leaves a table out"] += bool(view.keys.keys() - versions.keys())
        csn = self._end(cut["valid_through"])
        rows = {name: self.lake.rows(name, version) for name, version in versions.items()}
        view = view.with_taken_up(rows, lost=lost_sources(self.lake, csn))
        self.drawn["taken-up column is judged"] += sum(len(seen.taken_up) for seen in view.watched.values())
        rows = self._judged(csn, view, rows)
        expected = view.expected(self.made.made, self.made.sent, csn)
        differences = comparison.differences({name: expected[name] for name in rows}, view.actual(rows))
        what = f"cut {cut['cut_id']} as of {cut['valid_through']}"
        assert not differences, f"{what}:\n{comparison.report(differences)}"

    def _judged(self, csn: int, view: View, rows: dict[str, Any]) -> dict[str, Any]:
        """Return the tables whose rows are certain; rows: by current table."""
        if self.dates is None:
            return rows
        judged = self.dates.judged(csn, view)
        self.drawn["table is not judged"] += len(rows.keys() - judged)
        self.drawn["table is judged"] += len(rows.keys() & judged)
        return {name: rows[name] for name in rows.keys() & judged}

    def judge_incomplete(self) -> None:
        """Only where messages are gone is a history not complete."""
        if self.made.dimensions.impatient:
            return
        lake, view = self.lake, self.editor.view
        states = r.states(r.read(lake.paths))
        lacking = [pair for pair, state in states.items() if state.newest.status == r.INCOMPLETE]
        lacking = [pair for pair in lacking if pair in r.declared_pairs(lake.pipeline)]
        for pair in lacking:
            if self.dates is not None:
                (seen,) = [each for each in view.watched.values() if each.name == pair[1]]
                if self.dates.may_lack(states[pair].newest.since_csn - 1, seen):
                    self.drawn["history is incomplete for a reason"] += 1
                    continue
            upto = states[pair].newest.since_csn - 1
            lost = lost_sources(lake, upto)
            sources = [view.watched[name].source.source for name in view.members(pair[0])]
            is_helpless = any(is_lost(source, lost) for source in sources)
            assert is_helpless, f"{pair} is not complete although no message of it is gone: {states[pair].newest}"
            self.drawn["history is incomplete for a reason"] += 1

    def _end(self, csn: int) -> int:
        """Return the csn of the commit that a csn lies in.

        A change that stands alone has a csn of its own, and so has each row of MySQL's log: there the last watched row
        of a transaction gives it its csn.
        """
        later = [each.csn for each in self.made.sent if each.csn >= csn]
        lies_inside = self.made.dimensions.is_alone or self.made.dimensions.source == "debezium/mysql"
        return min(later, default=csn) if lies_inside else csn

    def judge_end(self) -> None:
        """All is there: nothing waits, nothing is dead, and history has every state."""
        lake, view = self.lake, self.editor.view
        assert not lake.rows("pending_transactions"), lake.rows("pending_transactions")
        if self.made.dimensions.impatient and self._dead():
            # An edit can complete what was given up: a row that is missing is of a table that is not watched any more.
            OPERATE["redrive"](lake, self.made)
            self.cycle()
            self.drawn["dead transactions are redriven at the end"] += 1
        assert not self._dead(), f"dead: {self._dead()[:3]}"
        open_findings = [row for row in findings.open_findings(lake.paths) if row["code"] == f.INCOMPLETE]
        assert not open_findings, f"incomplete: {open_findings}"
        cut = max(lake.rows("cuts"), key=lambda each: int(each["cut_id"]), default=None)
        if cut is None:
            return
        assert not incomplete_current(lake.pipeline, lake.paths)
        self.judge_given_up(cut["valid_through"])
        known = [each.csn for each in self.made.sent if each.number != GIVEN_UP]
        csns = [csn for csn in known if csn <= cut["valid_through"]]
        for csn in self.made.chance.sample(csns, min(len(csns), 3)):
            expected = view.expected(self.made.made, self.made.sent, csn)
            rows = {}
            for name in view.keys:
                with suppress(BeforeHistory):
                    rows[name] = read.as_of(lake.pipeline, name, csn=csn, warehouse=lake.warehouse).to_pylist()
            rows = self._judged(csn, view, rows)
            differences = comparison.differences({name: expected[name] for name in rows}, view.actual(rows))
            assert not differences, f"as of {csn}:\n{comparison.report(differences)}"
            self.drawn["table is read as of a csn"] += len(rows)

    def judge_given_up(self, valid_through: int) -> None:
        """No table can be read as of a snapshot that the connector gave up: it is not a state of the source."""
        sent = self.made.sent
        given_up = [each.csn for each in sent if each.number == GIVEN_UP and each.changes and each.csn < valid_through]
        if "forget" in self.made.dimensions.operations:
            # Its rows may be gone before the one that was taken instead is whole.
            return
        for csn in given_up:
            for name in self.editor.view.keys:
                with pytest.raises(BeforeHistory):
                    read.as_of(self.lake.pipeline, name, csn=csn, warehouse=self.lake.warehouse)
                self.drawn["given-up snapshot is refused"] += 1

    def _dead(self) -> list[dict[str, Any]]:
        """Return the open dead letters that are not junk."""
        letters = open_letters.open_dead_letters(self.lake.paths, "value, transaction_id, cause, detail").to_pylist()
        return [row for row in letters if row["value"] not in self.producer.junk]

    def judge_plan(self) -> None:
        """What a plan says of one more edit is what the next cycle does."""
        lake = self.lake
        self.editor.edit()
        self._declare()
        if buffer_state(lake.paths) is None:
            return
        expected = forecast(lake.pipeline, lake.paths)
        if self.dates is not None:
            self.dates.repeat()
        entered, taken_up = len(self._merges()), len(adopted(lake.paths))
        self.cycle()
        pipeline = effective_pipeline(lake.pipeline, lake.paths)
        incomplete = incomplete_tables(pipeline, r.states(r.read(lake.paths)))
        # The plan does not know that a later date will have what a table lacks.
        known = (
            expected.incomplete if self.dates is None else [each for each in expected.incomplete if each in incomplete]
        )
        assert [*known] == incomplete
        counts = self._merges()[entered:]
        computed = sum(each.get("anew", 0) for each in counts)
        if self.dates is None or len(adopted(lake.paths)) == taken_up:
            assert len(expected.anew) == computed, f"{expected} {counts}"
        else:
            # Nor does the plan know that a later date will have a column that a table takes up.
            assert len(expected.anew) <= computed, f"{expected} {counts}"
        self.drawn["plan is followed"] += bool(expected.anew or expected.made)
        left = forecast(lake.pipeline, lake.paths)
        assert (dict(left.made), left.anew) == ({}, ()), left

    def _merges(self) -> list[dict[str, int]]:
        """Return the counts of all merges, the newest one last."""
        merges = [row for row in self.lake.rows("ledger") if row["step"] == "merge_current"]
        return [dict(row["counts"]) for row in sorted(merges, key=lambda row: int(row["entered"]))]
