"""Order entry that goes on in real time, and delivers what was committed into an inbox, slice by slice.

What it has lies in one folder: the generator's state and truth (`_source`), slices that were not delivered yet, and the
faults that are open (`_faults`). One process at a time advances it; a slice that a killed one left is delivered by the
next, and comes twice at worst, as it does from real producers.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path

from txloom.errors import ConfigurationError
from txloom.generate import resume_point, truth
from txloom.generate.faults import Faults
from txloom.generate.run import Request, generate
from txloom.generate.trial import damage
from txloom.generate.trial.catalogue import KINDS, Kind
from txloom.generate.trial.damage import Fault
from txloom.generate.trial.slices import Slice, deliver, delivered, forget, staged
from txloom.generate.trial.source_folder import FIRST, ROWS, SourceFolder
from txloom.generate.workload.changes import micros_of
from txloom.generate.workload.settings import shares_of, sizes_of

GAP = 1_000_000
"""Microseconds between two commits, on average."""
MOST = 120
"""The most transactions of a slice: a source that slept does not make up for it."""
FEWEST = 20
"""Transactions of a slice that is damaged: one of them is such that it can be."""
KEPT = 6_000
"""Slices that stay in the inbox: a day's."""
SHARED = ("layout", "schema", "topic", "transaction_topic", "partitions", "seed", "tables", "start_csn")
Change = Callable[[Slice], None]


@dataclass(frozen=True)
class LivingSource(SourceFolder):
    """A source in a folder that delivers into an inbox."""

    folder: Path
    inbox: Path
    starts_by = "make up"

    @property
    def kinds(self) -> Mapping[str, Kind]:
        """The faults that can be made."""
        return KINDS

    def advance(self, now: datetime) -> int:
        """Let the source work until now, and deliver it; return how many transactions it committed."""
        with self._alone():
            return 0 if self.is_open("quiet-source") else self._advance(now)

    def damage(self, name: str, now: datetime) -> Fault:
        """Make a fault and return it; one that is in the stream is delivered at once.

        Raises:
            ConfigurationError: It is open already, or the source is quiet.
        """
        kind, fault = KINDS[name], Fault(name, now)
        with self._alone():
            self._refuse_open(name)
            if kind.change is not None and self.is_open("quiet-source"):
                raise ConfigurationError(f"{name}: the source is quiet; repair quiet-source first.")

            def change(made: Slice) -> None:
                """Damage a slice, and note it before it is delivered: what is held back must not be lost."""
                assert kind.change is not None
                kind.change(made, fault)
                if kind.repair or kind.lasts:
                    self._save(fault)

            if kind.change is None:
                self._save(fault)
            else:
                self._advance(now, FEWEST, change)
        return fault

    def repair(self, name: str, now: datetime) -> str:
        """Make an open fault good and return what was done; nothing for one that only a person can repair."""
        with self._alone():
            fault, said = self._load(name), list[str]()
            if not KINDS[name].repair:
                return ""
            if fault.held:
                deliver(self.inbox, f"late-{now:%Y%m%dT%H%M%S%f}", fault.lines())
                said.append(f"what was missing of transaction {fault.xid} was sent")
            if fault.planted is not None:
                self._advance(now, FEWEST, lambda made: said.append(damage.remove_orphan(made, fault)))
            elif not fault.held:
                self._advance(now, FEWEST)
            self._file(name).unlink()
            return said[0] if said else KINDS[name].repair

    def _advance(self, now: datetime, fewest: int = 0, change: Change | None = None) -> int:
        """Commit transactions until now, at least so many, and deliver them with a change and all faults that last."""
        self._deliver()
        count = self._generate(micros_of(now), fewest)
        self._deliver(change)
        return count

    def _generate(self, now: int, fewest: int) -> int:
        """Commit transactions into the source's folder, beginning where its clock stood, or shortly before now."""
        last = resume_point.clock(self.folder / truth.FOLDER)
        count = FIRST if last is None else max(fewest, min((now - last) // GAP, MOST))
        if count <= 0:
            return 0
        # The clock of a source that commits more than time has passed must not run ahead: it would be quiet afterwards.
        gap = GAP if last is None else min(GAP, max((now - last) // count, 1_000))
        shape = {**dict.fromkeys(SHARED), "format": "goldengate", "start_time": now - count * gap}
        generate(
            Request(
                folder=self.folder,
                shape=shape,
                transactions=count,
                files=1,
                sizes=sizes_of(ROWS),
                shares=shares_of([]),
                faults=Faults(),
                gap=gap,
                append=last is not None,
            )
        )
        return count

    def _deliver(self, change: Change | None = None) -> None:
        """Deliver what was generated and is not in the inbox."""
        for made in staged(self.folder):
            for fault in self.open_faults():
                if KINDS[fault.name].lasts and (lasting := KINDS[fault.name].change) is not None:
                    lasting(made, fault)
            made.before = partial(delivered, self.inbox, made.number - 1)
            if change is not None:
                change(made)
            deliver(self.inbox, f"{made.number:08}", made.topics)
            forget(self.folder, made.number)
            forget(self.inbox, made.number - KEPT)
