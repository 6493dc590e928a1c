"""Find histories that have the rows which another history needs: no message is needed for these rows."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from txloom.config.contents import ALIASES, Content
from txloom.config.models.pipeline import Pipeline
from txloom.steps.declarations.declare import by_source
from txloom.steps.settling.need import Need, earlier, has_released
from txloom.storage.buffer.newest_batch import buffer_state
from txloom.storage.declarations import history_rewriting
from txloom.storage.declarations import records as r
from txloom.storage.declarations.lagging import is_whole
from txloom.storage.declarations.records import Pair, State
from txloom.storage.declarations.undeclared_columns import first_seen
from txloom.storage.delta import small_tables
from txloom.storage.paths import TablePaths
from txloom.storage.targets import history_reader


@dataclass(frozen=True)
class Copy:
    """The rows that one history gets from another one.

    Args:
        needs: what the members of the history need: of a mirror's history one, of an aggregate's one all of them.
        source: the history that has the rows.
        states: by member of `needs`, the state of the source's member with the same changes. Its settled record has the
            names that the rows have.
        cleaned: the csn up to which superseded rows were removed from the source; 0: it has every row.
    """

    needs: Sequence[Need]
    source: str
    states: Mapping[str, State]
    cleaned: int = 0

    @property
    def history(self) -> str:
        """Return the history that gets the rows."""
        return self.needs[0].pair[0]

    @property
    def fields(self) -> dict[str, str | None]:
        """Return, by member, the field of the source that holds its changes; None: the source is a mirror's."""
        return {name: _declaration(state).get("field") for name, state in self.states.items()}


def find_copies(
    pipeline: Pipeline,
    paths: TablePaths,
    states: Mapping[Pair, State],
    needs: Iterable[Need],
    *,
    are_cleaned: bool = False,
) -> list[Copy]:
    """Return the copies that bring histories the rows which they need; a history without a source has none.

    Args:
        pipeline: the declaration with columns that tables took up.
        paths: the tables of the pipeline.
        states: of each history's member.
        needs: what is needed, of each history's member.
        are_cleaned: whether the sources are histories that maintenance cleaned, instead of those with every row. Such
            a history has every state from the csn of the cleaning on, but messages may have the earlier states too.
    """
    by_history, declared = dict[str, list[Need]](), r.declared_pairs(pipeline)
    for need in needs:
        by_history.setdefault(need.pair[0], []).append(need)
    copies = list[Copy]()
    for history, of_history in by_history.items():
        if {need.pair for need in of_history} == {pair for pair in declared if pair[0] == history}:
            sources = (_sources_of(paths, states, need, are_cleaned=are_cleaned) for need in of_history)
            copies += [*_copies_of(pipeline, paths, states, of_history, [*sources])][:1]
    return copies


def _copies_of(
    pipeline: Pipeline,
    paths: TablePaths,
    states: Mapping[Pair, State],
    needs: Sequence[Need],
    sources: Sequence[Mapping[str, State]],
) -> Iterator[Copy]:
    """Yield the possible copies of a history; sources: of each need, by history the state of a member that has it."""
    of_documents = "field" in states[needs[0].pair].newest.declaration
    if of_documents and not _are_alike(states, needs):
        return
    for source in sorted(set[str].intersection(*({*each} for each in sources))):
        of_members = {need.pair[1]: each[source] for need, each in zip(needs, sources, strict=True)}
        if not of_documents or _has_documents(pipeline, states, needs, source, of_members):
            cleaned = small_tables.last_written(paths.table(source), history_reader.CLEANED)
            yield Copy(needs, source, of_members, max(cleaned, 0))


def _are_alike(states: Mapping[Pair, State], needs: Sequence[Need]) -> bool:
    """Return whether the members of an aggregate's history need the same rows, which the history does not have yet.

    A row has the changes of all members. If some transactions could not be made again earlier, the history may have
    changes below other parents than the source.
    """
    first = needs[0]
    is_partial = any(states[need.pair].settled is not None and need.everything for need in needs)
    are_lost = all(states[need.pair].newest.reason == r.LOST for need in needs)
    return (not is_partial or are_lost) and all(
        (need.until, need.everything, need.gap) == (first.until, first.everything, first.gap)
        and not (need.values or need.renamed or need.field)
        for need in needs
    )


def _has_documents(
    pipeline: Pipeline,
    states: Mapping[Pair, State],
    needs: Sequence[Need],
    source: str,
    of_members: Mapping[str, State],
) -> bool:
    """Return whether a history has a row for each transaction and root that an aggregate's history needs.

    A source that is still declared has to have the same parent keys. The declaration of any other one says nothing of
    them: its changes stay below the parents that they had.

    Args:
        pipeline: the declaration.
        states: of each history's member.
        needs: what the members of the history need.
        source: the history.
        of_members: by member of the needs, the state of the source's member.
    """
    root = _declaration(of_members[states[needs[0].pair].newest.declaration["root"]])
    if root["field"] != root["root"]:
        return False
    parents = {
        aggregate.history: {child.table: [*child.parent_key] for child in aggregate.children}
        for aggregate in pipeline.targets.aggregates
    }
    needed = parents[needs[0].pair[0]]
    return source not in parents or needed.items() <= parents[source].items()


def _sources_of(paths: TablePaths, states: Mapping[Pair, State], need: Need, *, are_cleaned: bool) -> dict[str, State]:
    """Return, by other history, the state of a member with every row that a history's member needs.

    Rows that are made again for a column that their table took up, or because late rows came, are not copied. The other
    history may lack these values or rows too.
    """
    needing = states[need.pair]
    if any(each.reason == r.ROWS_OF_BEFORE for each in needing.since):
        return {}
    if need.replaces or need.values.keys() - needing.newest.declaration["columns"].keys():
        return {}
    of_documents = "field" in needing.newest.declaration
    sources = dict[str, State]()
    for pair, state in states.items():
        history, is_of_documents = pair[0], "field" in state.newest.declaration
        if pair == need.pair or (of_documents and (history == need.pair[0] or not is_of_documents)):
            continue
        is_newer = history not in sources or state.newest.number > sources[history].newest.number
        if is_newer and _has_rows(paths, state, need, are_cleaned=are_cleaned):
            named = _with_present_names(paths, state)
            sources |= {history: named} if _has_columns(paths, named, needing) else {}
    return sources


def _declaration(state: State) -> Content:
    """Return the settled declaration of a source's member."""
    return {} if state.settled is None else state.settled.declaration


def _with_present_names(paths: TablePaths, state: State) -> State:
    """Return a state whose settled record has the names that the rows have now.

    If a member is open, its rows may have got other names, as `renamed_to` says. They still have the values of the
    settled record alone: those of a further source of a column are not made yet.
    """
    named = history_rewriting.renamed_to(paths, state)
    if named is None or state.settled is None:
        return state
    before = state.settled.declaration
    now = {source: name for name in named["columns"] for source in r.sources_of(named, name)}
    called = {name: now.get(source.casefold(), name) for name, (_, source) in before["columns"].items()}
    # A column that is not declared any more may have had a name that another one has now.
    by_name = sorted(before["columns"].items(), key=lambda item: item[1][1].casefold() in now)
    present = {
        **before,
        "columns": {called[name]: about for name, about in by_name},
        "key": [called.get(name, name) for name in before["key"]],
    }
    if ALIASES in before:
        present[ALIASES] = {called[name]: former for name, former in before[ALIASES].items()}
    if "field" in named:
        present["field"] = named["field"]
    return replace(state, settled=replace(state.settled, declaration=present))


def _has_rows(paths: TablePaths, state: State, need: Need, *, are_cleaned: bool) -> bool:
    """Return whether a history has the rows of all transactions that a member of another history needs."""
    settled, history = state.settled, state.newest.table
    is_complete = settled is not None and settled.status == r.COMPLETE and not settled.since_csn
    if not is_complete or state.follows < need.until or not is_whole(paths, history, buffer_state(paths)):
        return False
    is_cleaned = small_tables.last_written(paths.table(history), history_reader.CLEANED) > 0
    return is_cleaned == are_cleaned and not _lacks(paths, state, need)


def _lacks(paths: TablePaths, state: State, need: Need) -> bool:
    """Return whether a history was not written by its record when transactions of earlier landings were released.

    Their events were decoded by an earlier declaration, so that this history may lack their rows too.
    """
    return has_released(paths, f"release > {state.follows} and {earlier(need.until, need.border)}")


def _has_columns(paths: TablePaths, state: State, needing: State) -> bool:
    """Return whether the rows of a history have every value that a member's declaration needs.

    Args:
        paths: the tables of the pipeline.
        state: the state of the history, with a settled record that has the names of the rows.
        needing: the state of the member.
    """
    has, content = state.settled, needing.newest.declaration
    if has is None or r.differs(has, needing.newest):
        return False
    known = by_source(has.declaration)
    # `first_seen` reads findings, and a column that was declared has none.
    declared = state.sources | needing.sources

    def has_column(source: str, name: str, kind: str) -> bool:
        sources = r.sources_of(content, name)
        if source in known:
            return known[source] == (name, kind) and r.sources_of(has.declaration, name) == sources
        return not declared & {*sources} and all(first_seen(paths, needing.names, each) is None for each in sources)

    return all(has_column(source, *about) for source, about in by_source(content).items())
