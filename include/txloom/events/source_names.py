"""Map a name of the source to a declared table: one that is spelled the same, else the only one that differs in case.

Sources send names as their catalogs have them, where `S` and `s` are two tables; declarations may spell them in another
case. So a name in another case is taken where only one table can be meant, and from then on that spelling belongs to
the table: rows under a second spelling are refused, whichever came first. Spellings are kept from landing to landing.
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
"""The hint for the cause that concerns names."""


class SourceNames:
    """Maps names of a source to declared tables; spellings: by table, how its source was spelled so far."""

    def __init__(
        self,
        tables: Sequence[Table],
        ignored: Sequence[str] | None = None,
        spellings: Mapping[str, str] | None = None,
        parts: int = 0,
    ) -> None:
        """Index the declared names.

        ignored: source tables that are not watched; if given, a name that is neither watched nor ignored is poison.
        parts: how many of a name's last parts count, 0 for all.
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
        """Return the declared table that a table's names, the most exact first, mean; None: unwatched.

        Raises Poison for a name that is neither watched nor ignored, and for a second spelling of one table.
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
            raise Poison(rejections.UNKNOWN_TABLE, rejections.describe_unknown(names[-1]))
        return None

    def counted(self, *names: str) -> Table | None:
        """Return the declared table that metadata counts under one of these names; None for any other table."""
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
    """Return the table; raises Poison if its name was spelled in another case so far.

    The first spelling under a key is added to `spellings`. A name that differs by more than its case replaces it: the
    declaration gave the table another source.
    """
    known = spellings.get(key, name)
    if folded(known) != folded(name):
        known = name
    spellings[key] = known
    if known != name:
        raise Poison(OTHER_CASE, f"{name}: {table.name} has the rows of {known}")
    return table


def folded(name: str) -> tuple[str, str]:
    """Return a name in upper and in lower case: names are equal only if both are, unlike I and dotless i."""
    return name.upper(), name.lower()
