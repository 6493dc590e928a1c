"""The spellings of source names that landings decoded so far, the table `source_names`.

Names differ by case at most; a decoder takes rows of one spelling only.
"""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime

from txloom.config import names
from txloom.storage.delta import small_tables
from txloom.storage.paths import TablePaths
from txloom.storage.system_tables import SOURCE_NAMES


def known(paths: TablePaths) -> dict[str, str]:
    """Return the recorded spelling of each name; {} before there was any."""
    rows = small_tables.query(paths.table(names.SOURCE_NAMES), "select name, spelling from t order by landing")
    return {row["name"]: row["spelling"] for row in rows}


def learn(paths: TablePaths, landing: int, spellings: Mapping[str, str]) -> None:
    """Record new spellings of names, before the rows of a landing are written; a repeated call writes nothing.

    Args:
        paths: where the tables are.
        landing: the number of the landing that decoded them.
        spellings: the spelling of each name.
    """
    old, at = known(paths), datetime.now(UTC)
    new = [{"name": name, "spelling": each} for name, each in sorted(spellings.items()) if old.get(name) != each]
    if new:
        path = paths.table(names.SOURCE_NAMES)
        small_tables.ensure(path, SOURCE_NAMES)
        small_tables.append(path, [{**row, "landing": landing, "at": at} for row in new], SOURCE_NAMES)


def agreed(reports: Iterable[Mapping[str, str]], declared: Iterable[str]) -> tuple[dict[str, str], bool]:
    """Return one spelling of each name that several tasks decoded, and whether each name had one spelling only.

    reports: the spellings that each task decoded. declared: preferred spellings; without one the first in order is it.

    >>> agreed([{"s": "public.S"}, {"s": "public.s"}], ["public.s"])
    ({'s': 'public.s'}, False)
    """
    preferred, seen = set(declared), dict[str, set[str]]()
    for each in reports:
        for name, spelling in each.items():
            seen.setdefault(name, set()).add(spelling)
    chosen = {name: min(spellings, key=lambda each: (each not in preferred, each)) for name, spellings in seen.items()}
    return chosen, all(len(spellings) == 1 for spellings in seen.values())
