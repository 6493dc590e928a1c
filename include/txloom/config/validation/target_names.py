"""The names of the tables that a pipeline writes, which must differ from each other and from system tables."""

from collections.abc import Iterator
from dataclasses import dataclass

from txloom.config import names
from txloom.config.problems import Problem
from txloom.config.validation.draft import Draft, written
from txloom.config.yaml.document import Item


@dataclass(frozen=True)
class Target:
    """A table that is written: its name, the name as messages show it, the item that names it, and the key for it."""

    name: str
    label: str
    item: Item
    key: str


def target_names(draft: Draft) -> Iterator[Problem]:
    """Yield a problem for each table whose name another target or a system table has."""
    owners: dict[str, Target] = {}
    for target in [*_of_aggregates(draft), *_of_mirrors(draft)]:
        name = target.name.casefold()
        shown = f"the table {target.label!r}"
        hint = f"Give it another name with `{target.key}`."
        if name in names.PIPELINE_TABLES:
            yield draft.problem(target.item, "a name that is not one of txloom's own tables", hint, shown)
        elif (other := owners.setdefault(name, target)) is not target:
            hint = f"{other.item.path} in line {other.item.line} has it. {hint}"
            yield draft.problem(target.item, "a table that nothing else writes", hint, shown)


def _of_aggregates(draft: Draft) -> Iterator[Target]:
    seen: set[str] = set()
    for aggregate in draft.within("targets", "aggregates"):
        name = draft.word(aggregate, "name")
        if name is not None and name.value in seen:
            continue
        seen |= {name.value} if name is not None else set()
        for key, default in (("history", names.stream_table), ("current", names.document_table)):
            if item := draft.word(aggregate, key):
                yield Target(item.value, written(item), item, key)
            elif name is not None and aggregate.get(key) is None:
                yield Target(default(name.value), default(written(name)), name, key)


def _of_mirrors(draft: Draft) -> Iterator[Target]:
    seen: set[str] = set()
    for mirror in draft.mirrors:
        for table in mirror.tables:
            name = str(table.item.text("name"))
            if name.casefold() in seen:
                continue
            seen.add(name.casefold())
            for key, default in (("current", str), ("history", names.changes_table)):
                given = None if mirror.is_pattern else draft.word(mirror.item, key)
                if given is not None:
                    yield Target(given.value, written(given), given, key)
                elif mirror.item.get(key) is None:
                    yield Target(default(name), default(table.label), mirror.name, key)
