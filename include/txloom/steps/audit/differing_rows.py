"""Choose, of the rows that audits found to differ, those to load, and say to a person what that does."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from txloom.config.contents import table_digests
from txloom.config.models.pipeline import Pipeline
from txloom.config.secret_names import MASK
from txloom.errors import ConfigurationError
from txloom.quality import masking
from txloom.quality.dead_letters import escaped, plain
from txloom.quality.incidents import moment
from txloom.steps.audit.repair_limit import Share, exceeding
from txloom.storage.checks.audited_rows import NULL_KEY, REPEATED, AuditedTable, audited_tables, masked
from txloom.storage.paths import TablePaths

SHOWN = 20
"""Differences of a table that a person reads before they approve; the page lists more."""
WHAT = {"r": "added", "U": "changed", "D": "removed"}
AFTER = """\
The next cut shows it, and says which cuts it amends. What the stream says of these rows after that csn stands, \
whenever it comes; what it says of before changes nothing any more. No other row changes. In rows that are added, \
columns that are not declared are null. The values before stay in the history tables: `jobs/repair.py --undo` with the \
id of this run brings them back.
"""
FROM_DATABASE = """\
Each row is read once more at the source before it is loaded. A row that the source has is not deleted; one of which \
it says something else by now is left out, and named in the log of `repair`.
"""
FROM_FILES = """\
**There is no second look**: these rows were compared with files, and nothing asks the source whether it still has \
them, or has them again. Approve only what you know to be wrong in the lake.
"""


@dataclass(frozen=True)
class Chosen:
    """Which rows are loaded.

    Args:
        audit: the run id of an audit; None: of each table the newest that decided.
        tables: names of declared tables; empty: all that differ.
        audits: by table the run id of its audit, where that is another one.
    """

    audit: str | None = None
    tables: Sequence[str] = ()
    audits: Mapping[str, str] = field(default_factory=dict)


def chosen_tables(pipeline: Pipeline, paths: TablePaths, chosen: Chosen) -> list[AuditedTable]:
    """Return the chosen tables; if `chosen` names none, leave out tables that were edited since their audit.

    An audit lists rows according to the declaration at that time. Under another declaration, these may be rows of
    another source, or lack a column.

    Args:
        pipeline: the declaration.
        paths: the tables of the pipeline.
        chosen: which audits and tables.

    Raises:
        ConfigurationError: a chosen table has no rows that differ, or only rows that a repair cannot correct, because
            their key is null or several rows have the same key; or its declaration was edited since the audit.
    """
    by_table = {each.table: each for each in audited_tables(paths, chosen.audit)}
    for name, run_id in chosen.audits.items():
        by_table |= {each.table: each for each in audited_tables(paths, run_id) if each.table == name}
    listed = [by_table[name] for name in sorted(by_table) if by_table[name].repairs]
    declared = table_digests(pipeline)
    edited = [each for each in listed if _is_edited(each, declared)]
    _refuse_edited([each for each in edited if each.table in chosen.tables or len(edited) == len(listed)])
    differing = [each for each in listed if each not in edited]
    audits = [each for each in differing if not chosen.tables or each.table in chosen.tables]
    missing = sorted(set(chosen.tables) - {each.table for each in audits})
    if missing or not audits:
        which = f"audit {chosen.audit}" if chosen.audit else "the newest audit"
        of = f" of {', '.join(missing)}" if missing else ""
        there = f"; it lists rows of {', '.join(each.table for each in differing)}" if differing else ""
        raise ConfigurationError(f"{which} lists no rows{of} that differ and can be repaired{there}")
    return audits


def _is_edited(audited: AuditedTable, declared: Mapping[str, str]) -> bool:
    """Return whether a table is not declared as at its audit; declared: the present digests (`table_digests`)."""
    if audited.table not in declared:
        return True
    return audited.declared is not None and audited.declared != declared[audited.table]


def _refuse_edited(edited: Sequence[AuditedTable]) -> None:
    if edited:
        named = ", ".join(f"{each.table} (audit {each.run_id})" for each in edited)
        raise ConfigurationError(f"the declaration was edited since the audit of {named}: audit again, then repair")


def snapshot_of(audits: Sequence[AuditedTable]) -> tuple[str, int] | None:
    """Return the snapshot folder that audits compared tables with, and its csn; None: the declared database.

    Raises ConfigurationError where they compared them with several: one audit after the repair could not show all.
    """
    of = {each.table: each.snapshot for each in audits}
    if len(set(of.values())) > 1:
        each = "; ".join(f"{table} with {at[0] if at else 'the database'}" for table, at in sorted(of.items()))
        raise ConfigurationError(f"these tables were compared with several sources, repair one by one: {each}")
    return next(iter(of.values()), None)


def large_shares(pipeline: Pipeline, paths: TablePaths, audits: Sequence[AuditedTable]) -> list[Share]:
    """Return the tables of which a repair would delete or change more than is declared."""
    return exceeding([Share.of(pipeline, paths, each) for each in audits])


def markdown(audits: Sequence[AuditedTable], secret: Collection[str] = (), large: Sequence[Share] = ()) -> str:
    """Return in Markdown what a repair does, for the person who approves it.

    Args:
        audits: the tables.
        secret: columns whose values are masked.
        large: tables of which more would be deleted or changed than is declared.
    """
    total = sum(len(each.repairs) for each in audits)
    has_files = any(each.snapshot is not None for each in audits)
    lines = [f"**{total} rows are loaded as the source had them.**", "", AFTER.strip(), ""]
    lines += [(FROM_FILES if has_files else FROM_DATABASE).strip()]
    if large:
        number = sum(each.number for each in large)
        lines += [
            "",
            f"**A large share of a table goes. To approve it, enter {number} as allow_rows**; else it is refused.",
        ]
        lines += ["", *(f"- {escaped(each.text)}" for each in large)]
    for each in audits:
        counted = Counter(WHAT[row.op] for row in each.repairs)
        csns = sorted({row.csn for row in each.repairs})
        when = f"as of csn {' and '.join(map(str, csns))}" + (
            f", {moment(at)}" if csns and (at := each.repairs[0].at) else ""
        )
        kinds = ", ".join(f"{count} {what}" for what, count in sorted(counted.items()))
        lines += ["", f"**{escaped(each.table)}** {kinds}, {when}", ""]
        lines += ["| row | what | in the lake | in the source |", "|---|---|---|---|"]
        lines += [_line(masked(row, secret)) for row in each.differences[:SHOWN]]
        more = len(each.differences) - SHOWN
        lines += [f"| and {more} more, which the page lists | | | |"] if more > 0 else []
        unlisted = each.unlisted
        lines += ["", f"{unlisted} more rows differ that are not listed: audit again after this."] if unlisted else []
    return "\n".join(lines)


def _line(row: Mapping[str, Any]) -> str:
    key = escaped(plain(masking.key_text(row["key"])))
    if row["kind"] in (NULL_KEY, REPEATED):
        why = "its key is null" if row["kind"] == NULL_KEY else "several rows have this key"
        return f"| {key} | nothing: {why}, which no repair mends | {row['lake'] or ''} | {row['source'] or ''} |"
    if row["kind"] != "changed":
        sides = ("no row", "a row") if row["kind"] == "missing" else ("a row", "no row")
        return f"| {key} | {WHAT['r' if row['kind'] == 'missing' else 'D']} | {sides[0]} | {sides[1]} |"
    lake, source = ("null" if row[side] is None else _shown(row[side]) for side in ("lake", "source"))
    return f"| {key} | {escaped(row['column'])} | {lake} | {source} |"


def _shown(text: str) -> str:
    return text if text == MASK else escaped(plain(text))
