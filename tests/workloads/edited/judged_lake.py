"""Workloads over a lake whose declaration is edited, and what must hold of it.

Every cut is what the declaration of its time makes of the source, or leaves a table out by name; and a table is left
out only where that cannot be helped.
"""

from contextlib import suppress
from typing import Any

import pytest

from oracle import comparison
from txloom import read
from txloom.errors import BeforeHistory
from txloom.quality import findings as f
from txloom.steps.settling.forecast import forecast
from txloom.storage.buffer.newest_batch import buffer_state
from txloom.storage.checks import findings
from txloom.storage.dead_letters import open_letters
from txloom.storage.declarations import records as r
from txloom.storage.declarations.incomplete import incomplete_current, incomplete_tables
from txloom.storage.declarations.undeclared_columns import adopted, effective_pipeline
from txloom.storage.publishing.valid_through import valid_through
from workloads.edited.edited_lake import EditedLake
from workloads.edited.retention import is_lost, lost_sources
from workloads.edited.views import View
from workloads.operations import OPERATE
from workloads.sources.database import GIVEN_UP


class Edited(EditedLake):
    """A lake whose declaration is edited between its steps, judged by the source's states."""

    def run(self) -> None:
        """Play the workload, and judge what is shown."""
        chance = self.made.chance
        for number, messages in enumerate(self.made.landings, 1):
            self._deliver(messages, last=number == len(self.made.landings))
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
        if expected.refused:
            # The cycle asserts that it may be.
            self.cycle()
            return
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
