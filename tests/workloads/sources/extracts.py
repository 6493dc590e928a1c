"""Extracts of dates: all rows of a table, or some of them, in files of any form; what differs is one transaction."""

import gzip
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, timedelta
from pathlib import Path
from random import Random

from oracle import values
from oracle.capture import Image, Key, Message
from oracle.declarations import Table
from workloads.dimensions import FORMS
from workloads.sources.alone import json_value, packed
from workloads.sources.database import Change, Database, Sent, State
from workloads.sources.json_text import written
from workloads.sources.shapes import Shape

FIRST = date(2026, 10, 30)
MARKER = "_SUCCESS"


class Extracts:
    """Writes extracts; transactions themselves send nothing.

    A full date has an extract of every table. A table without a partial extract of a date, and a row that it leaves
    out, is shown as it was before. `whole` has by folder what a first partial extract has: all rows and columns.
    `switches` says whether dates may change from full to partial and back.
    """

    rule, layout = "single", ", settle: 0s"
    truncates, alters, rotates, special = "any", True, True, False

    def __init__(self, shape: Shape, chance: Random) -> None:
        self._tables, self._chance = shape.tables, chance
        self._full, self._day = chance.random() < 0.7, FIRST
        self.switches = False
        self._full_on: dict[int, bool] = {}
        self._shown: State = {name: {} for name in shape.tables}
        self._columns = {name: tuple(table.columns) for name, table in shape.tables.items()}
        self.lacked: set[tuple[str, str]] = set()
        self.whole: dict[str, list[Message]] = {}

    @property
    def moves_serials(self) -> bool:
        """Return whether a row may get another row's serial."""
        return self._full and not self.switches

    def is_full(self, day: date) -> bool:
        """Return whether the extracts of a date have all rows of their tables."""
        return self._full_on[_csn(day)]

    @property
    def source(self) -> str:
        """Return what a declaration says of the source."""
        return _declared(is_full=self._full)

    def source_of(self, day: date) -> str:
        """Return what a declaration says of the source when a date is compared."""
        return _declared(is_full=self.is_full(day))

    def write(self, sent: Sent) -> None:
        """Learn which columns tables have."""
        self._columns |= {change.table.name: change.columns for change in sent.changes}

    def history(self, changes: Sequence[Change]) -> int:
        """Return how many rows of history changes are."""
        return len(changes)

    def days(self, database: Database, most: int) -> list[Sent]:
        """Let the source work, and extract some dates: their messages are rows, by folder."""
        days = []
        for _ in range(self._chance.randint(1, 7)):
            self._day += timedelta(days=self._chance.choice((1, 1, 1, 3, 40)))
            if self.switches and self._chance.random() < 0.3:
                self._full = not self._full
            database.play(self._chance.randint(0, most // 3 + 1))
            days.append(self._extracted(database.state))
        return days

    def again(self) -> Sent:
        """Extract another date, on which every table has all rows that it showed last, with all columns."""
        self._columns = {name: tuple(table.columns) for name, table in self._tables.items()}
        self._day += timedelta(days=1)
        sent = self._sent()
        for name, rows in self._shown.items():
            self._write(sent, name, rows)
        sent.state = {name: dict(rows) for name, rows in self._shown.items()}
        return sent

    def _extracted(self, state: State) -> Sent:
        names = sorted(self._tables)
        chosen = [name for name in names if self._full or self._chance.random() < 0.8] or names
        sent = self._sent()
        changes = list[Change]()
        for name in chosen:
            rows = dict(state[name])
            if not self._full:
                rows = {key: row for key, row in rows.items() if self._chance.random() < 0.7}
            after = rows if self._full else self._shown[name] | rows
            changes += self._differences(self._tables[name], self._shown[name], after)
            self._shown[name] = after
            self.lacked |= {
                (name, column) for column in self._tables[name].columns if column not in self._columns[name]
            }
            self._write(sent, name, rows)
            self.whole[f"{self._day}/{name}"] = self._written(name, after, self._tables[name].columns)
        sent.changes, sent.state = changes, {name: dict(rows) for name, rows in self._shown.items()}
        return sent

    def _sent(self) -> Sent:
        """Return a date without extracts."""
        self._full_on[_csn(self._day)] = self._full
        return Sent("", _csn(self._day), [], None, {}, [])

    def _write(self, sent: Sent, name: str, rows: Mapping[Key, Image]) -> None:
        """Write the extract of a table."""
        sent.rows += self._written(name, rows, self._columns[name])

    def _written(self, name: str, rows: Mapping[Key, Image], columns: Iterable[str]) -> list[Message]:
        folder, kinds = f"{self._day}/{name}", self._tables[name].columns
        lines = [
            written({column: json_value(kinds[column], row[column]) for column in columns}) for row in rows.values()
        ]
        return [(folder, line) for line in lines] or [(folder, "")]

    def _differences(self, table: Table, before: dict[Key, Image], after: dict[Key, Image]) -> list[Change]:
        was, now = ({key: values.typed_row(row, table) for key, row in rows.items()} for rows in (before, after))
        columns = self._columns[table.name]
        gone = [Change(table, "D", before[key], None, columns) for key in before if key not in after]
        new = [Change(table, "I", None, after[key], columns) for key in after if key not in before]
        other = [key for key in after if key in before and now[key] != was[key]]
        return gone + new + [Change(table, "U", before[key], after[key], columns) for key in other]


def _csn(day: date) -> int:
    return int(day.strftime("%Y%m%d"))


def _declared(*, is_full: bool) -> str:
    return f"format: snapshots, snapshots: {{extracts: {'full' if is_full else 'partial'}}}"


class Extractor:
    """Writes the extracts of dates below a folder, each table in files of any form."""

    def __init__(self, root: Path, shape: Shape, chance: Random) -> None:
        self._root, self._tables, self._chance = root, shape.tables, chance
        self.junk: set[str] = set()

    def deliver(self, messages: Sequence[Message], *, last: bool = False) -> None:
        """Write the extracts of a date; an empty message says that a table has no rows."""
        folders: dict[str, list[str]] = {}
        for folder, line in messages:
            folders.setdefault(folder, []).append(line)
        for folder, lines in folders.items():
            (self._root / folder).mkdir(parents=True)
            if lines == [""]:
                (self._root / folder / MARKER).touch()
            else:
                self._write(self._root / folder, lines)

    def _write(self, folder: Path, lines: Sequence[str]) -> None:
        cuts = sorted(self._chance.randint(0, len(lines)) for _ in range(self._chance.choice((0, 0, 1, 2))))
        parts = [lines[a:b] for a, b in zip([0, *cuts], [*cuts, len(lines)], strict=True)]
        for number, part in enumerate(filter(None, parts)):
            form = self._chance.choice(FORMS)
            content = "".join(f"{line}\n" for line in part).encode()
            if form != "jsonl":
                content = packed(self._tables[folder.name].columns, part, form, self._chance)
            is_zipped = form != "parquet" and self._chance.random() < 0.3
            name = folder / f"part-{number}.{form}{'.gz' if is_zipped else ''}"
            name.write_bytes(gzip.compress(content) if is_zipped else content)
