"""Extracts of dates while the declaration is edited: their folders, and which parts of them the lake kept.

The transaction of a date has only the declared columns of watched tables. The lake did not keep anything else of an
extract, and cannot show it until a later date has it again.
"""

import shutil
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path

from txloom.config.models.pipeline import Pipeline
from workloads.edited.views import View, Watched
from workloads.play import Play
from workloads.sources.extracts import Extractor, Extracts


@dataclass
class Dates:
    """The dates of a source's extracts, named by the source's tables, and the next date, named by a view's tables.

    Args:
        folder: the folder of the workload.
        inbox: the folder from which the lake reads.
        made: the workload.
        merging: by csn of a date, the tables some of whose rows may be several rows of the source.
        kept: by csn of a date and table, the columns that the lake kept.
    """

    folder: Path
    inbox: Path
    made: Play
    merging: dict[int, set[str]] = field(default_factory=dict)
    kept: dict[int, dict[str, set[str]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.extracts = self.folder / "extracts"
        self.extracts.mkdir()
        self.producer = Extractor(self.extracts, self.made.made, self.made.chance)
        self._delivered: list[date] = []

    @property
    def writer(self) -> Extracts:
        """Return what writes the extracts."""
        writer: Extracts = self.made.writer
        return writer

    def repeat(self) -> None:
        """Extract another date, on which every table has the rows that it showed last."""
        sent = self.writer.again()
        self.made.sent.append(sent)
        self.producer.deliver(sent.rows, last=True)

    def next_day(self, view: View) -> date | None:
        """Put the extracts of the next date that is not landed into the inbox by a view's names; return the date."""
        while (day := self._next()) is not None and not self._put(day, view):
            # Without extracts of watched tables there is nothing to compare.
            self.landed(day, view, None)
        return day

    def _next(self) -> date | None:
        days = sorted(date.fromisoformat(folder.name) for folder in self.extracts.iterdir())
        return next((day for day in days if day not in self._delivered), None)

    def _put(self, day: date, view: View) -> bool:
        """Copy the extracts of the watched tables into the inbox; return whether there are any."""
        target, is_some = self.inbox / day.isoformat(), False
        shutil.rmtree(target, ignore_errors=True)
        for name, seen in view.watched.items():
            if (source := self.extracts / day.isoformat() / name).is_dir():
                self._make_whole(day, name)
                shutil.copytree(source, target / seen.name)
                is_some = True
        return is_some

    def _make_whole(self, day: date, name: str) -> None:
        """Let the first partial extract that the lake takes of a table have all of its rows, as is the convention."""
        folder, is_known = f"{day}/{name}", any(kept.get(name) for kept in self.kept.values())
        if not (self.writer.is_full(day) or is_known) and folder in self.writer.whole:
            shutil.rmtree(self.extracts / folder)
            self.producer.deliver(self.writer.whole[folder])

    # What the lake kept.

    def landed(self, day: date, view: View, pipeline: Pipeline | None) -> None:
        """Note what the transaction of a date kept of its extracts.

        pipeline: the declaration with the columns that its tables took up; None: nothing was landed.
        """
        self._delivered.append(day)
        csn = int(day.strftime("%Y%m%d"))
        self.kept[csn] = {name: _kept(view.watched.get(name), pipeline) for name in self.made.made.tables}
        self.merging[csn] = set(self._merging(csn))
        if self.writer.is_full(day):
            self.merging[csn] -= view.watched.keys()
        else:
            # Rows of two dates may be the same row by a key of fewer columns, but different rows by the source's key.
            self.merging[csn] |= {name for name, seen in view.watched.items() if len(seen.key) < len(seen.source.key)}

    def loaded(self, name: str, csn: int) -> None:
        """Note that a table was loaded as of a csn, with all of its columns."""
        self._merging(csn).discard(name)
        for each in self.kept:
            if each <= csn:
                self.kept[each].pop(name, None)

    def may_lack(self, csn: int, seen: Watched) -> bool:
        """Return whether a date up to a csn did not keep all that a table shows, and no load has brought it since."""
        shown, name = {*seen.columns.values(), *seen.taken_up.values()}, seen.source.name
        return any(not shown <= kept[name] for each, kept in self.kept.items() if each <= csn and name in kept)

    def judged(self, csn: int, view: View) -> set[str]:
        """Return the current tables whose rows are certain: partial extracts need the whole key of the source."""
        certain = view.watched.keys() - self._merging(csn)
        mirrors = {seen.mirror[0] for name, seen in view.watched.items() if seen.mirror is not None and name in certain}
        return mirrors | {each.current for each in view.aggregates if each.members <= certain}

    def _merging(self, csn: int) -> set[str]:
        """Return `merging` as of a csn."""
        return self.merging.get(max((each for each in self.merging if each <= csn), default=0), set())


def _kept(seen: Watched | None, pipeline: Pipeline | None) -> set[str]:
    """Return the columns that a date keeps of a table; pipeline is None if nothing was landed."""
    if seen is None or pipeline is None:
        return set()
    return {column.source.casefold() for column in pipeline.table(seen.name).columns}
