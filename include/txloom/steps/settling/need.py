"""What a history's member needs, so that all its rows are as a changed declaration says."""

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace

import pyarrow as pa

from txloom.config import names
from txloom.config.contents import Content
from txloom.config.models.column_types import ColumnType, parse, reads_alike
from txloom.steps.declarations.declare import by_source
from txloom.storage.declarations import history_rewriting
from txloom.storage.declarations import records as r
from txloom.storage.declarations.history_rewriting import Renamed
from txloom.storage.declarations.records import INCOMPLETE, LOST, ROWS_OF_BEFORE, Pair, State, differs
from txloom.storage.declarations.source_samples import redriven_rows
from txloom.storage.declarations.undeclared_columns import Adopted, first_seen
from txloom.storage.delta import arrow_tables, small_tables
from txloom.storage.delta.sql import near
from txloom.storage.paths import TablePaths
from txloom.storage.targets import history_reader


@dataclass(frozen=True)
class Need:
    """What is to be made again of a history's member.

    Args:
        pair: the history and its member.
        until: the newest release that an earlier declaration may have written.
        border: the first landing that was decoded as its table is declared now; a later release may have transactions
            of earlier landings.
        everything: rows of all releases up to it.
        gap: rows of releases above this one, up to `until`; None: there is no gap.
        values: by column that earlier rows lack, the csn of the first event with a value.
        renamed: by column, its name in rows of earlier releases.
        field: of a document's member, the field that held its changes; None: it has the same name.
        replaces: whether rows of another source or key, or with values that were read otherwise, have to go.
        kept: with `replaces`, the newest release whose rows stay if their transactions cannot be made again, because
            these rows have the same source; None: no such row stays.
        recomputes: whether tables that are computed from the history have to be computed again in any case.
        taken_up: the undeclared columns that the table took up by itself and shows.
        redriven: with `everything`, the csns of transactions with redriven rows, whenever these were released.
    """

    pair: Pair
    until: int
    border: int = 0
    everything: bool = False
    gap: int | None = None
    values: Mapping[str, int] = field(default_factory=dict)
    renamed: Mapping[str, str] = field(default_factory=dict)
    field: str | None = None
    replaces: bool = False
    kept: int | None = None
    recomputes: bool = False
    taken_up: Sequence[str] = ()
    redriven: Set[int] = frozenset()

    @property
    def is_nothing(self) -> bool:
        """Return whether the history is as declared already."""
        return not (self.rereads or self.renamed or self.field or self.replaces)

    @property
    def rereads(self) -> bool:
        """Return whether rows of released transactions are to be made again."""
        return self.everything or self.gap is not None or bool(self.values)

    @property
    def transactions(self) -> str:
        """Return the SQL condition on `transactions` of those whose rows are to be made again."""
        if self.replaces:
            return "true"
        conditions = ["true"] if self.everything else []
        conditions += [f"release > {self.gap}"] if self.gap is not None else []
        conditions += [f"csn >= {min(self.values.values())}"] if self.values else []
        condition = f"({earlier(self.until, self.border)} and ({' or '.join(conditions or ['false'])}))"
        return f"({condition} or {near('csn', self.redriven)})" if self.redriven else condition

    def concerns(self, csn: int, release: int, landing: int | None) -> bool:
        """Return whether the rows of a transaction are to be made again; landing: the last that has its events."""
        if self.replaces or csn in self.redriven:
            return True
        if release > self.until and (landing or 0) >= self.border:
            return False
        in_gap = self.gap is not None and release > self.gap
        return self.everything or in_gap or any(csn >= first for first in self.values.values())


def earlier(until: int, border: int) -> str:
    """Return the SQL condition on transactions that were released by an earlier declaration."""
    return f"(release <= {until} or coalesce(landing, 0) < {border})"


def need_of(paths: TablePaths, state: State, adopted: Sequence[Adopted], border: int, shown: Sequence[Adopted]) -> Need:
    """Return what a history's member needs that an edit left open.

    Args:
        paths: the tables of the pipeline.
        state: the state of the member.
        adopted: the columns that its table took up by itself.
        border: the first landing that was decoded as its table is declared now.
        shown: the columns in `adopted` that the table shows.
    """
    need = _need_of_rows(paths, state, adopted, border, shown)
    return replace(need, taken_up=sorted({each.column for each in shown}))


def with_redriven(paths: TablePaths, needs: Mapping[Pair, Need]) -> dict[Pair, Need]:
    """Return needs with `redriven`: the csns of transactions with rows that first came before their table was declared.

    Args:
        paths: the tables of the pipeline.
        needs: by history and member.
    """
    rows = redriven_rows(paths, {member: need.border for (_, member), need in needs.items() if need.everything})
    if not rows:
        return {**needs}
    ids = pa.array(sorted({row["transaction_id"] for row in rows}), pa.string())
    sql = "select transaction_id, csn from t where status = 'released'"
    released = arrow_tables.matching(paths.table(names.TRANSACTIONS), sql, "transaction_id", ids).to_pylist()
    of_table: dict[str, set[str]] = {}
    for row in rows:
        of_table.setdefault(row["table"], set()).add(row["transaction_id"])
    csns = {
        table: frozenset(row["csn"] for row in released if row["transaction_id"] in chosen)
        for table, chosen in of_table.items()
    }
    nothing = frozenset[int]()
    return {
        pair: replace(need, redriven=csns.get(pair[1], nothing) if need.everything else nothing)
        for pair, need in needs.items()
    }


def _need_of_rows(
    paths: TablePaths, state: State, adopted: Sequence[Adopted], border: int, shown: Sequence[Adopted]
) -> Need:
    pair, content, until = state.newest.pair, state.newest.declaration, state.newest.release
    if state.settled is None:
        return Need(pair, until, border, everything=True, recomputes=True)
    before = state.settled.declaration
    if state.newest.reason == LOST:
        return Need(pair, until, border, everything=True, recomputes=True)
    gap = state.follows if has_released(paths, f"release > {state.follows} and {earlier(until, border)}") else None
    named = history_rewriting.renamed_to(paths, state) or before
    values, renamed = _compare_columns(paths, state, named, {each.source: each.column for each in adopted})
    without = _release_without(paths, state)
    if without is not None and has_released(paths, f"release > {without} and {earlier(until, border)}"):
        gap = without if gap is None else min(gap, without)
    field_before = named.get("field") if named.get("field") != content.get("field") else None
    # True if a run replaced the rows but died before it settled the member, and the edit was then reverted.
    is_replaced = differs(replace(state.newest, declaration=named), state.newest)
    is_replaced |= _reads_texts_otherwise(content, before, adopted)
    if differs(state.settled, state.newest) or is_replaced or (state.differed and gap is not None):
        is_same = before["source"] == named["source"] == content["source"]
        need = Need(pair, until, border, everything=True, replaces=True, recomputes=True)
        return replace(need, renamed=renamed, field=field_before, kept=state.follows) if is_same else need
    values |= values_before(paths, state, shown)
    removed = {name for name in before["columns"] if name not in content["columns"]}
    need = Need(pair, until, border, False, gap, values, renamed, field_before)
    is_again = state.settled.status == INCOMPLETE or state.newest.reason == ROWS_OF_BEFORE
    is_back = any(source in state.sources for source in by_source(content).keys() - by_source(before).keys())
    is_other = bool(removed) or is_back or is_again or named != before or not need.is_nothing
    return replace(need, recomputes=is_other, everything=is_again)


def _reads_texts_otherwise(content: Content, before: Content, adopted: Sequence[Adopted]) -> bool:
    """Return whether a column is declared that the table took up as text, with a type that spells texts otherwise."""
    texts = {each.source.casefold() for each in adopted} - by_source(before).keys()
    declared = [kind for source, (_, kind) in by_source(content).items() if source in texts]
    return any(not reads_alike(ColumnType("string"), parse(kind)) for kind in declared)


def _release_without(paths: TablePaths, state: State) -> int | None:
    """Return the release after which rows lack a column that was left out and is now declared again.

    None if no column is declared again, or if the history has no such row. No finding names the first of these rows.
    If the source dropped the column in the meantime, their messages lack the column too. An insert without the column
    then nulls the column in every row.

    Args:
        paths: the tables of the pipeline.
        state: the state of the member.
    """
    history = state.newest.table
    again = [state.left_out[source] for source in by_source(state.newest.declaration) if source in state.left_out]
    if not again:
        return None
    release = min(again)
    # Maintenance may have removed such rows from a cleaned history.
    is_cleaned = small_tables.last_written(paths.table(history), history_reader.CLEANED) > 0
    where = f"_txloom_release > {release}"
    if is_cleaned or small_tables.query(paths.table(history), f"select 1 as n from t where {where} limit 1"):
        return release
    return None


def renaming_of(states: Mapping[Pair, State], needs: Iterable[Need]) -> Renamed:
    """Return the new names that the needs of one history give to existing rows.

    Args:
        states: the state of each history's member.
        needs: the needs of members of the history, all with the same newest release.
    """
    until, keys, fields, of_fields = 0, dict[str, str](), dict[str, str](), dict[str, Mapping[str, str]]()
    for need in needs:
        until, declared = need.until, states[need.pair].newest.declaration
        field = declared.get("field")
        if field is None:
            return Renamed(until, columns=need.renamed)
        if declared["root"] == need.pair[1]:
            keys = {new: old for new, old in need.renamed.items() if new in declared["key"]}
        fields |= {field: need.field} if need.field else {}
        of_fields |= {field: need.renamed} if need.renamed else {}
    return Renamed(until, keys=keys, fields=fields, of_fields=of_fields)


def values_before(paths: TablePaths, state: State, shown: Iterable[Adopted]) -> dict[str, int]:
    """Return, by column that a table shows only since its history was settled, the csn of the first event that had it.

    The csn is 0 where it is not known. That is so for a column that was declared before. It is also so for a column
    that was taken up earlier, but could not be shown because the lake had another column of the same name. Columns that
    no event had before they were taken up are left out, because no row lacks a value of them.

    Args:
        paths: the tables of the pipeline.
        state: the state of the member, with a settled record.
        shown: the columns that its table took up by itself and shows.
    """
    values, settled = dict[str, int](), state.settled
    for each in shown:
        is_later = settled is None or settled.at is None or each.added_at > settled.at
        if not is_later and (settled is None or settled.taken_up is None or each.column in settled.taken_up):
            continue
        if not is_later or each.source.casefold() in state.ever_declared:
            values[each.column] = 0
            continue
        # A transaction that waited may take a column up below the csn of rows that left it out.
        first = first_seen(paths, state.names, each.source.casefold(), but=each.since_csn)
        values |= {} if first is None else {each.column: first}
    return values


def _compare_columns(
    paths: TablePaths, state: State, named: Content, adopted: Mapping[str, str]
) -> tuple[dict[str, int], dict[str, str]]:
    """Return `values` and `renamed` of a need.

    Args:
        paths: the tables of the pipeline.
        state: the state of the member, with a settled record.
        named: the declaration whose names the columns of earlier rows have.
        adopted: by source of a column that the table took up, its name.
    """
    assert state.settled is not None
    declared = {source: name for source, (name, _) in by_source(state.settled.declaration).items()}
    now = {source: name for source, (name, _) in by_source(named).items()}
    held = {source: name for name, source in state.held.items()}
    taken_up = {source.casefold(): name for source, name in adopted.items()}
    values, renamed = dict[str, int](), dict[str, str]()
    for source, (name, _) in by_source(state.newest.declaration).items():
        sources = r.sources_of(state.newest.declaration, name)
        if len(sources) > 1 and source not in declared:
            first, earlier = _follow_renaming(paths, state, name, now, taken_up)
            values |= {name: first} if first is not None else {}
            renamed |= {} if earlier in (None, name) else {name: earlier}
            continue
        was_left_out = source in state.sources and source not in declared
        earlier = declared.get(source, held.get(source, taken_up.get(source)))
        if earlier is None:
            # The table took up a different column under this name, and rows must not keep that column's values.
            is_lost = was_left_out or name in state.held or name in taken_up.values()
        else:
            # While a column was left out, its values may have been taken up under another name, and another column may
            # have got its name.
            is_lost = (was_left_out and source in taken_up) or (source not in now and earlier in now.values())
            earlier = now.get(source, earlier)
            # The column is read under other former names than before.
            is_lost |= source in declared and sources != r.sources_of(state.settled.declaration, declared[source])
            renamed |= {name: earlier} if earlier != name and not is_lost else {}
        if is_lost:
            values[name] = 0
        elif earlier is None:
            first = first_seen(paths, state.names, source)
            values |= {} if first is None else {name: first}
    return values, renamed


def _follow_renaming(
    paths: TablePaths, state: State, name: str, now: Mapping[str, str], taken_up: Mapping[str, str]
) -> tuple[int | None, str | None]:
    """Return the csn from which on a column with former names has to be read again, and its name in earlier rows.

    Rows that were read under the former names stay as they are. The csn is None if no row has to be read again, and 0
    if all rows have to be. The name is None if earlier rows have no values of the column that stay.

    Args:
        paths: the tables of the pipeline.
        state: the state of the member, with a settled record.
        name: the column, which was not declared with its present `source`.
        now: by source of a column, its name in earlier rows.
        taken_up: by source of a column that the table took up, its name.
    """
    assert state.settled is not None
    before, sources = state.settled.declaration, r.sources_of(state.newest.declaration, name)
    read_before = {tuple(r.sources_of(before, each)): each for each in before["columns"]}
    for number in range(1, len(sources)):
        earlier = read_before.get(tuple(sources[number:]))
        if earlier is not None:
            new, earlier = sources[:number], now.get(sources[number], now.get(sources[0], earlier))
            is_hidden = not {sources[number], sources[0]} & now.keys() and earlier in now.values()
            if is_hidden or state.sources & {*new}:
                return 0, None
            return _first_of(paths, state, new), earlier
    is_known = bool((state.sources | taken_up.keys()) & {*sources})
    return (0 if is_known or name in state.held else _first_of(paths, state, sources)), None


def _first_of(paths: TablePaths, state: State, sources: Sequence[str]) -> int | None:
    """Return the csn of the first event that had any of the undeclared columns; None if no such event is known."""
    firsts = [first_seen(paths, state.names, each) for each in sources]
    return min((first for first in firsts if first is not None), default=None)


def has_released(paths: TablePaths, where: str) -> bool:
    """Return whether a transaction for which a SQL condition holds was released."""
    sql = f"select 1 as n from t where status = 'released' and {where} limit 1"
    return bool(small_tables.query(paths.table(names.TRANSACTIONS), sql))
