"""Which declared table a name of the source means: the one that is spelled so, else the only one but for case.

Sources tell names as their catalogs have them, where `S` and `s` are two tables; people declare them as they like. So a
name that is spelled otherwise is taken where one table alone can be meant, and from then on that spelling is the
table's: rows of a second one are refused, whichever came first. What was seen is kept from landing to landing.
"""

from collections.abc import Mapping, Sequence

from txloom.config.models.pipeline import Table
from txloom.events import rejections
from txloom.events.malformed import Poison

OTHER_CASE = "table of another case"
HINTS = {
    OTHER_CASE: "Names of tables that differ in case alone are different tables, and rows of one of them were taken "
    "already: declare the source as it is spelled there, or list the other one among source.ignored_tables.",
}
"""What an operator can do about the cause of names alone."""


class SourceNames:
    """Finds declared tables by the names of their source; spellings: by table, how its source was spelled so far."""

    def __init__(
        self,
        tables: Sequence[Table],
        ignored: Sequence[str] | None = None,
        spellings: Mapping[str, str] | None = None,
        parts: int = 0,
    ) -> None:
        """Learn the declared names.

        ignored: those left alone; if given, any other that is not watched is poison. parts: how many of a name's last
        parts count, 0 for all.
        """
        self.spellings = dict(spellings or {})
        self._parts = parts
        self._exact = {self._cut(table.source): table for table in tables}
        self._alike: dict[tuple[str, str], list[Table]] = {}
        for table in tables:
            self._alike.setdefault(folded(self._cut(table.source)), []).append(table)
        self._ignored = None if ignored is None else {self._cut(name) for name in ignored}
        self._ignored_alike = {folded(name) for name in self._ignored or ()}

    def find(self, *names: str) -> Table | None:
        """Return the table that one of a table's names means, the most exact first; None: nobody watches it.

        Raises Poison for a name that must be declared first, and for a second spelling of one table.
        """
        for name in names:
            if (table := self._exact.get(name)) is not None:
                return spelled(self.spellings, table.name, table, name)
        if self._ignored and not self._ignored.isdisjoint(names):
            return None
        for name in names:
            if alike := self._alike.get(folded(name)):
                table = self._only(alike, name)
                return spelled(self.spellings, table.name, table, name)
        if self._ignored is not None and self._ignored_alike.isdisjoint(map(folded, names)):
            raise Poison(rejections.UNKNOWN_TABLE, f"{names[-1]} is neither watched nor ignored")
        return None

    def counted(self, *names: str) -> Table | None:
        """Return the table that metadata counts under one of its names, None where it counts another one."""
        try:
            return self.find(*names)
        except Poison:
            return None

    def _only(self, alike: Sequence[Table], name: str) -> Table:
        if len(alike) > 1:
            raise Poison(OTHER_CASE, f"{name} may be {' or '.join(sorted(table.source for table in alike))}")
        return alike[0]

    def _cut(self, name: str) -> str:
        return ".".join(name.split(".")[-self._parts :]) if self._parts else name


def spelled(spellings: dict[str, str], key: str, table: Table, name: str) -> Table:
    """Return the table that a name means; refuse a name that was spelled otherwise so far: the first one is learned."""
    known = spellings.setdefault(key, name)
    if known != name:
        raise Poison(OTHER_CASE, f"{name}: {table.name} has the rows of {known}")
    return table


def folded(name: str) -> tuple[str, str]:
    """Fold a name's case in both ways, which tells apart what only one of them makes equal, such as I and dotless i."""
    return name.upper(), name.lower()
