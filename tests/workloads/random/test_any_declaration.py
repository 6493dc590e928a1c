"""Any workload under a declaration that is edited at any moment: every cut is a state that the source had.

TXLOOM_EDITED says how many (9; `make soak` runs 2,000), TXLOOM_SEED where they begin.
"""

import os
from pathlib import Path
from random import Random
from typing import Any

import pytest

from oracle import comparison
from txloom import read
from txloom.config import load
from txloom.errors import BeforeHistory
from txloom.quality import findings as f
from txloom.steps.backfill.backfill import backfill
from txloom.storage.checks import findings
from txloom.storage.dead_letters import open_letters
from txloom.storage.declarations.incomplete import incomplete_current
from txloom.storage.targets.undeclared_columns import effective_pipeline
from txloom.transactions import memory
from workloads.dimensions import ALONE, DEBEZIUM, GOLDENGATE, WAL2JSON
from workloads.drawn_lakes import cases
from workloads.edits import Editor
from workloads.inbox import Producer
from workloads.operations import OPERATE
from workloads.play import Play, impatient, play
from workloads.small_lake import AT_ONCE, SmallLake
from workloads.sources.shapes import SourceText

LAKES = int(os.environ.get("TXLOOM_EDITED", "9"))
SEED = int(os.environ.get("TXLOOM_SEED", "51000000"))
SOURCES = (GOLDENGATE, *DEBEZIUM, *WAL2JSON, *ALONE)
OPERATIONS = ("die", "optimize", "rebuild", "redrive", "remember")


@pytest.mark.parametrize(("source", "seed"), cases(SOURCES, LAKES, SEED))
def test_every_cut_is_a_state_by_the_declaration_of_its_time(
    tmp_path: Path, monkeypatch: Any, source: str, seed: int
) -> None:
    made = play(seed, source)
    monkeypatch.setattr(memory, "REMEMBERED", made.dimensions.remembered)
    try:
        Edited(tmp_path, made).run()
    except BaseException as error:
        error.add_note(f"seed {seed}: {made.dimensions}")
        raise


class Edited:
    """A lake whose declaration is edited between its runs."""

    def __init__(self, folder: Path, made: Play) -> None:
        inbox, writer = folder / "inbox", made.writer
        inbox.mkdir()
        self.made = made
        source = SourceText(writer.source, writer.rule, writer.layout, "10d")
        self.editor = Editor(made.made, made.chance, inbox, folder / "workload.yaml", source)
        packed = getattr(writer, "packed", None)
        self.producer = Producer(inbox, made.dimensions, made.chance, records="records" in writer.layout, packed=packed)
        self.lake = SmallLake(folder, load(self.editor.write()))
        self.lake.at_once = Random(made.seed).choice(AT_ONCE)
        self._declare()

    def _declare(self) -> None:
        pipeline = load(self.editor.write())
        self.lake.pipeline = impatient(pipeline) if self.made.dimensions.impatient else pipeline

    def run(self) -> None:
        chance, lake = self.made.chance, self.lake
        for number, messages in enumerate(self.made.landings, 1):
            self.producer.deliver(messages, last=number == len(self.made.landings))
            if number < len(self.made.landings) and chance.random() < 0.25:
                lake.land()
                self._perhaps_edit()
                continue
            lake.run()
            self._operate()
            if self.made.dimensions.in_order:
                self.judge()
            self._perhaps_edit()
        lake.run()
        lake.run()
        self.judge()
        self.judge_end()

    def _perhaps_edit(self) -> None:
        if self.made.chance.random() < 0.4:
            self.editor.edit()
            self._declare()

    def _operate(self) -> None:
        for each in sorted(self.made.dimensions.operations & set(OPERATIONS)):
            if self.made.chance.random() < 0.5:
                OPERATE[each](self.lake, self.made)
        if "backfill" in self.made.dimensions.operations and self.made.chance.random() < 0.5:
            self._backfill()

    def _backfill(self) -> None:
        """Compare everything with what landed messages say; rows of what is no longer declared stay in histories."""
        self.lake.runs += 1
        if not self.lake.rows("transactions"):
            return
        with self.lake.in_pieces():
            self.lake.step(backfill, self.lake.session, "rebuild")
            counts = self.lake.step(backfill, self.lake.session, "compare")
        assert counts["changes"] == 0, f"a backfill of what is right differs: {counts}"
        self.lake.step(backfill, self.lake.session, "drop")

    def judge(self) -> None:
        """The newest cut shows every table as the source had it, or leaves it out by name."""
        lake, view = self.lake, self.editor.view
        cuts = lake.rows("cuts")
        if not cuts:
            return
        cut = max(cuts, key=lambda each: each["cut_id"])
        if cut["gaps"] and self.made.dimensions.impatient:
            return
        assert not cut["gaps"], f"gaps: {cut['gaps']}"
        versions = dict(cut["versions"])
        left_out = set(incomplete_current(effective_pipeline(lake.pipeline, lake.paths), lake.paths))
        assert versions.keys() | left_out >= view.keys.keys(), f"not in the cut: {view.keys.keys() - versions.keys()}"
        shown = {name: lake.rows(name, versions[name]) for name in view.keys if name in versions}
        expected = view.expected(self.made.made, self.made.sent, self._end(cut["valid_through"]))
        self._same({name: expected[name] for name in shown}, view.actual(shown), f"cut {cut['cut_id']}", cut)

    def _end(self, csn: int) -> int:
        """Return the csn of the commit that a csn is of: where each change stands alone, of one in the middle of it."""
        later = [each.csn for each in self.made.sent if each.csn >= csn]
        return min(later, default=csn) if self.made.dimensions.is_alone else csn

    def _same(self, expected: Any, actual: Any, what: str, cut: Any) -> None:
        differences = comparison.differences(expected, actual)
        assert not differences, f"{what} as of {cut['valid_through']}:\n{comparison.report(differences)}"

    def judge_end(self) -> None:
        """All is there: nothing waits, nothing is dead, and history has every state."""
        lake, view = self.lake, self.editor.view
        assert not lake.rows("pending_transactions"), lake.rows("pending_transactions")
        letters = open_letters.open_dead_letters(lake.paths, "value, transaction_id, cause, detail").to_pylist()
        letters = [row for row in letters if row["value"] not in self.producer.junk]
        assert not letters, f"dead: {letters[:3]}"
        open_findings = [row for row in findings.open_findings(lake.paths) if row["code"] == f.INCOMPLETE]
        assert not open_findings, f"incomplete: {open_findings}"
        cut = max(lake.rows("cuts"), key=lambda each: each["cut_id"], default=None)
        if cut is None:
            return
        assert not incomplete_current(lake.pipeline, lake.paths)
        csns = [each.csn for each in self.made.sent if each.csn <= cut["valid_through"]]
        for csn in self.made.chance.sample(csns, min(len(csns), 3)):
            expected = view.expected(self.made.made, self.made.sent, csn)
            rows = {}
            for name in view.keys:
                try:
                    rows[name] = read.as_of(lake.pipeline, name, csn=csn, warehouse=lake.warehouse).to_pylist()
                except BeforeHistory:
                    continue
            expected = {name: expected[name] for name in rows}
            self._same(expected, view.actual(rows), f"as of {csn}", cut)
