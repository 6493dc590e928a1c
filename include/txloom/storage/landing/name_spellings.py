"""How names of a source were spelled so far, from landing to landing: rows of one spelling alone are taken."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime

from txloom.config import names
from txloom.storage.delta import small_tables
from txloom.storage.paths import TablePaths
from txloom.storage.system_tables import SOURCE_NAMES


def known(paths: TablePaths) -> dict[str, str]:
    """Return the spelling of each name."""
    rows = small_tables.query(paths.table(names.SOURCE_NAMES), "select name, spelling from t order by landing desc")
    return {row["name"]: row["spelling"] for row in rows}


def learn(paths: TablePaths, landing: int, spellings: Mapping[str, str]) -> None:
    """Write down what is new, before the rows that are spelled so; done twice it writes nothing more."""
    old, at = known(paths), datetime.now(UTC)
    new = [{"name": name, "spelling": spelling} for name, spelling in sorted(spellings.items()) if name not in old]
    if new:
        path = paths.table(names.SOURCE_NAMES)
        small_tables.ensure(path, SOURCE_NAMES)
        small_tables.append(path, [{**row, "landing": landing, "at": at} for row in new], SOURCE_NAMES)


def agreed(reports: Iterable[Mapping[str, str]], declared: Iterable[str]) -> tuple[dict[str, str], bool]:
    """Return one spelling of each name out of what several readers saw, and whether all saw that one.

    declared: spellings that are preferred.

    >>> agreed([{"s": "public.S"}, {"s": "public.s"}], ["public.s"])
    ({'s': 'public.s'}, False)
    """
    preferred, seen = set(declared), dict[str, set[str]]()
    for each in reports:
        for name, spelling in each.items():
            seen.setdefault(name, set()).add(spelling)
    chosen = {name: min(spellings, key=lambda each: (each not in preferred, each)) for name, spellings in seen.items()}
    return chosen, all(len(spellings) == 1 for spellings in seen.values())
