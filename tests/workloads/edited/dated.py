"""Extracts of dates while the declaration is edited: their folders, and which parts of them the lake kept.

The transaction of a date has only the declared columns of watched tables. The lake did not keep anything else of an
extract, and cannot show it until a later date has it again.
"""

import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path

from oracle.capture import Key
from txloom.config.models.pipeline import Pipeline
from workloads.edited.views import View, Watched
from workloads.play import Play
from workloads.sources.database import Sent, State
from workloads.sources.extracts import Extractor, Extracts

Unknown = dict[str, dict[Key, frozenset[str]]]
ANY: Key = ("any row",)


@dataclass
class Dates:
    """The dates of a source's extracts, named by the source's tables, and the next date, named by a view's tables.

    Args:
        folder: the folder of the workload.
        inbox: the folder from which the lake reads.
        made: the workload.
        unknown: by csn of a date, table and key of a row, the columns whose values the lake did not keep.
        kept: by csn of a date and table, the columns that the lake kept.
    """

    folder: Path
    inbox: Path
    made: Play
    unknown: dict[int, Unknown] = field(default_factory=dict)
    kept: dict[int, dict[str, set[str]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.extracts = self.folder / "extracts"
        self.extracts.mkdir()
        self.producer = Extractor(self.extracts, self.made.made, self.made.chance)
        self._delivered: list[date] = []
        self._state: State = {name: {} for name in self.made.made.tables}

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
                shutil.copytree(source, target / seen.name)
                is_some = True
        return is_some

    # What the lake kept.

    def landed(self, day: date, view: View, pipeline: Pipeline | None) -> None:
        """Note what the transaction of a date kept of its extracts.

        pipeline: the declaration with the columns that its tables took up; None: nothing was landed.
        """
        self._delivered.append(day)
        csn = int(day.strftime("%Y%m%d"))
        sent = next(each for each in self.made.sent if each.csn == csn)
        before = self.unknown[max(self.unknown)] if self.unknown else {}
        self.kept[csn] = {name: _kept(view.watched.get(name), pipeline) for name in self.made.made.tables}
        self.unknown[csn] = {
            name: self._unknown(name, sent, before.get(name, {}), view.watched.get(name), self.kept[csn][name])
            for name in self.made.made.tables
        }
        self._state = sent.state

    def loaded(self, name: str, csn: int) -> None:
        """Note that a table was loaded as of a csn, with all of its columns."""
        self.unknown[max(each for each in self.unknown if each <= csn)][name] = {}
        for each in self.kept:
            if each <= csn:
                self.kept[each].pop(name, None)

    def may_lack(self, csn: int, seen: Watched) -> bool:
        """Return whether a date up to a csn did not keep all that a table shows, and no load has brought it since."""
        shown, name = {*seen.columns.values(), *seen.taken_up.values()}, seen.source.name
        return any(not shown <= kept[name] for each, kept in self.kept.items() if each <= csn and name in kept)

    def judged(self, csn: int, view: View) -> set[str]:
        """Return the current tables whose rows are certain: partial extracts need the whole key of the source."""
        unknown = self.unknown.get(max((each for each in self.unknown if each <= csn), default=0), {})
        certain = {name for name, seen in view.watched.items() if ANY not in unknown.get(seen.source.name, {})}
        mirrors = {seen.mirror[0] for name, seen in view.watched.items() if seen.mirror is not None and name in certain}
        return mirrors | {f"{each.name}_current" for each in view.aggregates if each.members <= certain}

    def _unknown(
        self,
        name: str,
        sent: Sent,
        before: Mapping[Key, frozenset[str]],
        seen: Watched | None,
        kept: set[str],
    ) -> dict[Key, frozenset[str]]:
        """Return by key the columns of a table that are unknown after a date."""
        table = self.made.made.tables[name]
        everything, was, now = frozenset(table.columns), self._state[name], sent.state[name]
        extracted = self.writer.extracted[sent.csn].get(name, frozenset())
        # Only a watched full extract shows which rows exist. Any other extract says nothing about rows that it lacks.
        unknown = {} if kept and self.writer.is_full else dict(before)
        for key in extracted:
            lost = {column for column in everything - kept if key not in was or was[key][column] != now[key][column]}
            unknown[key] = frozenset(lost | (before.get(key, frozenset()) - kept))
        if not kept and self.writer.is_full:
            unknown |= dict.fromkeys(was.keys() - now.keys() | now.keys() - was.keys(), everything)
        if seen is not None and not self.writer.is_full and len(seen.key) < len(table.key):
            # Rows of two dates may be the same row by this key, but different rows by the source's key.
            unknown[ANY] = everything
        return unknown


def _kept(seen: Watched | None, pipeline: Pipeline | None) -> set[str]:
    """Return the columns that a date keeps of a table; pipeline is None if nothing was landed."""
    if seen is None or pipeline is None:
        return set()
    return {column.source.casefold() for column in pipeline.table(seen.name).columns}
