"""What a history's member needs, so that all its rows are as a changed declaration says."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from txloom.config import names
from txloom.config.contents import Content
from txloom.quality import findings as f
from txloom.steps.declarations.declare import by_source
from txloom.storage.declarations import history_rewriting
from txloom.storage.declarations.history_rewriting import Renamed
from txloom.storage.declarations.records import INCOMPLETE, LOST, ROWS_OF_BEFORE, Pair, State, differs
from txloom.storage.declarations.undeclared_columns import Adopted
from txloom.storage.delta import small_tables
from txloom.storage.delta.sql import text_literal
from txloom.storage.paths import TablePaths


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
        replaces: whether rows of another source or key lie there, which have to go.
        kept: with `replaces`, the newest release whose rows stay if their transactions cannot be made again, because
            these rows have the same source; None: no such row stays.
        recomputes: whether tables that are computed from the history have to be computed again in any case.
        taken_up: the undeclared columns that the table took up by itself and shows.
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
        return f"({earlier(self.until, self.border)} and ({' or '.join(conditions or ['false'])}))"

    def concerns(self, csn: int, release: int, landing: int | None) -> bool:
        """Return whether the rows of a transaction are to be made again; landing: the last that has its events."""
        if self.replaces:
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
    field_before = named.get("field") if named.get("field") != content.get("field") else None
    # True if a run replaced the rows but died before it settled the member, and the edit was then reverted.
    is_replaced = differs(replace(state.newest, declaration=named), state.newest)
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
        was_left_out = source in state.sources and source not in declared
        earlier = declared.get(source, held.get(source, taken_up.get(source)))
        if earlier is None:
            is_lost = was_left_out or name in state.held
        else:
            # While a column was left out, its values may have been taken up under another name, and another column may
            # have got its name.
            is_lost = (was_left_out and source in taken_up) or (source not in now and earlier in now.values())
            earlier = now.get(source, earlier)
            renamed |= {name: earlier} if earlier != name and not is_lost else {}
        if is_lost:
            values[name] = 0
        elif earlier is None or was_left_out:
            first = first_seen(paths, state.names, source)
            values |= {} if first is None else {name: first}
    return values, renamed


def first_seen(paths: TablePaths, tables: Iterable[str], source: str, *, but: int | None = None) -> int | None:
    """Return the csn of the first event that had an undeclared column; None where none was seen.

    Args:
        paths: the tables of the pipeline.
        tables: every name of the column's table.
        source: the column's name in the source, in lower case.
        but: the csn of the event by which the table took the column up, which does not count.
    """
    named = f'lower("column") = {text_literal(source)} and "table" in ({", ".join(map(text_literal, sorted(tables)))})'
    named += "" if but is None else f" and since_csn <> {but}"
    sql = f"select min(since_csn) as first from t where code = {text_literal(f.ADDED)} and {named}"
    rows = small_tables.query(paths.table(names.FINDINGS), sql)
    first: int | None = rows[0]["first"] if rows else None
    return first


def has_released(paths: TablePaths, where: str) -> bool:
    """Return whether a transaction for which a SQL condition holds was released."""
    sql = f"select 1 as n from t where status = 'released' and {where} limit 1"
    return bool(small_tables.query(paths.table(names.TRANSACTIONS), sql))
