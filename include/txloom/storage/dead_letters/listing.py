"""Open dead letters by cause, and the outcome of a redrive; read without Spark, bounded, with exact totals."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from txloom.config import names
from txloom.errors import ConfigurationError
from txloom.quality.dead_letters import (
    ALL,
    EXAMPLES,
    DeadLetterOutcome,
    Listing,
    Selection,
    coordinates,
    grouped,
    plain,
)
from txloom.storage.dead_letters import open_letters
from txloom.storage.dead_letters.hints import hints_for
from txloom.storage.delta import arrow_tables, small_tables
from txloom.storage.delta.read_session import exists, opened
from txloom.storage.delta.sql import int_list, literal, sql_name, text_list
from txloom.storage.paths import TablePaths
from txloom.storage.stores.delta_tables import table_at

COLUMNS = 50
"""Redriven transactions whose outcome is listed one by one."""
_IN = "kind in ('row', 'metadata', 'marker')"


def listing(paths: TablePaths, selection: Selection = ALL, *, source_format: str | None = None) -> Listing:
    """Return the open dead letters: all, or those of some transactions and causes, and at some positions.

    source_format: the format of the source, so that the hints fit its producer. Raises ConfigurationError for a message
    whose position cannot be parsed.
    """
    if not exists(paths.dead_letters):
        return Listing((), 0, 0, None)
    version = int(opened(paths.dead_letters).version())
    chosen = among(selection)
    transaction = "case when kind <> 'poison' then transaction_id end"
    counted = f"cause, count(*) as events, count(distinct {transaction}) as transactions"
    counted += ", min(coalesce(dead_at, landed_at)) as since, grouping(cause) as is_total"
    all_sums = open_letters.open_dead_letters(
        paths, counted, f"where {chosen} group by grouping sets ((cause), ()) having count(*) > 0", version
    ).to_pylist()
    sums, totals = ([row for row in all_sums if row["is_total"] == is_total] for is_total in (0, 1))
    if not sums:
        return Listing((), 0, 0, version)
    ranked = 'row_number() over (partition by cause order by csn, pos, landing, "row") as n'
    columns = f'cause, transaction_id, kind, "table", topic, partition, "offset", file, line, {ranked}'
    more = f"where {chosen} qualify n <= {EXAMPLES} order by cause, n"
    examples = open_letters.open_dead_letters(paths, columns, more, version).to_pylist()
    rows = [{**row, "examples": [each for each in examples if each["cause"] == row["cause"]]} for row in sums]
    (total,) = totals
    return Listing(grouped(rows, hints_for(source_format)), total["events"], total["transactions"], version)


def among(selection: Selection) -> str:
    """Return the SQL condition for a choice of dead letters.

    Raises ConfigurationError for a message whose position cannot be parsed.
    """
    if selection.everything:
        return "true"
    conditions = [_among("transaction_id", selection.transactions), _among("cause", selection.causes)]
    return f"({' or '.join([*conditions, *_at(selection.messages)])})"


def _at(messages: Iterable[str]) -> Iterator[str]:
    """Yield a condition for the messages of each file or partition; one for each message may overflow delta-rs' stack.

    Raises ConfigurationError for a position that cannot be parsed.
    """
    numbers: dict[tuple[tuple[tuple[str, Any], ...], str], list[int]] = {}
    for message in messages:
        try:
            *where, (last, number) = coordinates(message).items()
        except ValueError as error:
            raise ConfigurationError(str(error)) from error
        numbers.setdefault((tuple(where), last), []).append(number)
    for (place, last), chosen in numbers.items():
        same = "".join(f"{sql_name(name)} = {literal(value)} and " for name, value in place)
        yield f"({same}{sql_name(last)} in ({int_list(chosen)}))"


def outcome(paths: TablePaths, first: int, last: int) -> DeadLetterOutcome:
    """Return the outcome of the transactions and the poison that a redrive landed again; first, last: its landings."""
    among = f"landing between {int(first)} and {int(last)}"
    events = f"{among} and {_IN} and transaction_id is not null"
    tables = {"e": table_at(paths.change_events), "t": table_at(paths.table(names.TRANSACTIONS))}
    csn = "max(case when kind = 'metadata' then csn end) as csn"
    redriven = f"select landing, transaction_id, {csn} from e where {events} group by landing, transaction_id"
    newest = f"order by t.release desc, {open_letters.LAST}"
    became = (
        f"select a.transaction_id, first_value(t.status {newest}) as status, first_value(t.cause {newest}) as cause"
        f" from ({redriven}) a left join t on a.transaction_id = t.transaction_id"
        " and (a.csn is null or t.csn is null or a.csn = t.csn) group by a.landing, a.transaction_id"
    )
    sql = (
        "select case when status is null then 'waits' when status = 'released' then 'released'"
        f" else coalesce(cause, 'dead') end as fate, transaction_id from ({became})"
    )
    sums = arrow_tables.ask(
        tables, f"select fate, count(*) as n from ({sql}) group by fate order by n desc, fate"
    ).to_pylist()
    some = arrow_tables.ask(tables, f"{sql} order by transaction_id limit {COLUMNS}").to_pylist()
    counts = {row["fate"]: row["n"] for row in sums}
    poison = small_tables.query(paths.change_events, f"select count(*) as n from t where {among} and kind = 'poison'")
    return DeadLetterOutcome(
        released=counts.pop("released", 0),
        waiting=counts.pop("waits", 0),
        dead=tuple(counts.items()),
        still_poison=poison[0]["n"],
        each=tuple(_described(row["transaction_id"], row["fate"]) for row in some),
        total=sum(row["n"] for row in sums),
    )


def _described(transaction: str, outcome: str) -> str:
    description = {"waits": "waits for its missing parts", "released": "released"}.get(
        outcome, f"dead again: {outcome}"
    )
    return f"{plain(transaction)}: {description}"


def _among(column: str, values: Sequence[str]) -> str:
    return f"{column} in ({text_list(values)})" if values else "false"
