"""The messages of transactions that no buffer decided yet, read from change_events."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from txloom.arrow_types import AnyArray
from txloom.config import names
from txloom.config.identity import AT_POSITION
from txloom.events.envelope import OF_AHEAD
from txloom.storage.buffer.newest_batch import BufferState
from txloom.storage.dead_letters import deliveries
from txloom.storage.dead_letters.open_letters import MESSAGE
from txloom.storage.delta import arrow_tables, small_tables
from txloom.storage.delta.read_session import exists, opened
from txloom.storage.delta.sql import text_list, text_literal
from txloom.storage.landing.loaded_snapshots import ANY
from txloom.storage.paths import TablePaths
from txloom.transactions import reused_ids
from txloom.transactions.events import NOWHERE

ROWS_AT_ONCE = 50_000
"""About how many messages are decoded at once."""
IN_ORDER = 'order by landing, "row"'
MESSAGE_COLUMNS = [*(name.strip('" ') for name in MESSAGE.split(",")), "landing"]
NOT_AHEAD = f"(detail is distinct from {text_literal(OF_AHEAD)})"
"""Events except rows of an incremental snapshot that wait, or waited, for the stream (`snapshots.rows_ahead`)."""
UNWATCHED = f"kind = 'row' and \"table\" is null and value is not null and {NOT_AHEAD}"
"""Rows of tables that were not watched when they were landed, and whose messages are kept."""
FINISHED = f"""
    select transaction_id as id, max(case when csn is null or csn = {NOWHERE} then {ANY} else csn end) as last
    from d where transaction_id is not null group by transaction_id
"""
"""The finished transactions by id, each with the highest csn; d: the rows of `transactions`."""
UNDECIDED = f"(f.id is null or (csn is null and cast(regexp_match(identity, '{AT_POSITION}')[1] as bigint) > f.last))"
"""Rows of no finished transaction; f: FINISHED. A finished one may have the same id (`transactions.reused_ids`)."""
JOINED = f"t left join ({FINISHED}) f on f.id = t.transaction_id"
"""Rows with the finished transactions of their ids."""


@dataclass(frozen=True)
class Undecided:
    """The undecided transactions of a pipeline."""

    paths: TablePaths

    def transactions(self, seen: BufferState | None) -> list[str]:
        """Return the ids of the transactions that wait, and of those with events in landings that no batch took."""
        after = 0 if seen is None else seen.landing
        pending = small_tables.query(self.paths.table(names.PENDING_TRANSACTIONS), "select transaction_id from t")
        landed = f"landing > {after} and kind in ('row', 'metadata', 'marker') and transaction_id is not null"
        new = small_tables.query(self.paths.change_events, f"select distinct transaction_id from t where {landed}")
        return sorted({row["transaction_id"] for row in (*pending, *new)})

    def messages(self, transactions: Sequence[str]) -> pa.Table:
        """Return every landed message of some transactions, without those of finished ones that had the same ids."""
        if not transactions:
            return pa.table({})
        columns = f'{MESSAGE}, landing, "row", {", ".join(reused_ids.COLUMNS)}'
        chosen = f"kind in ('row', 'metadata', 'marker') and value is not null and {NOT_AHEAD}"
        ids = pa.array(transactions, pa.string())
        sql = f"select {columns} from t where {chosen}"
        events = arrow_tables.matching(self.paths.change_events, sql, "transaction_id", ids)
        if not events.num_rows:
            return pa.table({})
        events = events.sort_by([("landing", "ascending"), ("row", "ascending")])
        events = events.filter(pa.array(self._are_undecided(events)))
        return events.select(MESSAGE_COLUMNS)

    def _are_undecided(self, events: pa.Table) -> list[bool]:
        """Return which events are not of a transaction that was finished before."""
        ids = text_list(sorted(cast("list[str]", events.column("transaction_id").unique().to_pylist())))
        finished = small_tables.query(
            self.paths.table(names.TRANSACTIONS), f"select transaction_id, csn from t where transaction_id in ({ids})"
        )
        done = {(row["transaction_id"], row["csn"]) for row in finished}
        if not done:
            return [True] * events.num_rows
        rows = events.select(reused_ids.COLUMNS).to_pylist()
        ends = reused_ids.ends(rows)
        return [reused_ids.named(row, ends) not in done for row in rows]

    def deliveries(self, transactions: Sequence[str]) -> pa.Table:
        """Return the messages of one delivery of each transaction, of a source whose messages depend on their order."""
        return deliveries.of_transactions(self.paths, transactions)

    def refused(self, topics: Collection[str]) -> pa.Table:
        """Return the messages of some topics that landings refused, in the order in which they were landed."""
        chosen = f"kind = 'poison' and value is not null and topic in ({text_list(sorted(topics))})"
        sql = f"select {MESSAGE}, landing from t where {chosen} {IN_ORDER}"
        return arrow_tables.select(self.paths.change_events, sql)

    def without_metadata(self, events: pa.Table) -> pa.Table:
        """Return those of some events whose transactions are neither finished nor have metadata yet."""
        ids = events.column("transaction_id").combine_chunks()
        known = list[AnyArray]()
        for path, where in (
            (self.paths.table(names.TRANSACTIONS), "transaction_id is not null"),
            (self.paths.change_events, "kind = 'metadata'"),
        ):
            rows = arrow_tables.matching(path, f"select transaction_id from t where {where}", "transaction_id", ids)
            known += rows.column("transaction_id").chunks if rows.num_rows else []
        value_set = pa.concat_arrays([pa.array([], pa.string()), *known])
        return events.filter(pc.invert(pc.is_in(events.column("transaction_id"), value_set)))

    def removed(self, sources: Sequence[str]) -> list[dict[str, Any]]:
        """Return the unwatched rows of some source tables whose messages were removed before they were decided.

        A row that was delivered again, and has its message there, is left out.

        Args:
            sources: names of source tables.

        Returns:
            transaction_id and csn of each; csn: 0 where the row has none.
        """
        if not sources:
            return []
        gone = f"kind = 'row' and \"table\" is null and value is null and source_table in ({text_list(sources)})"
        again = "k.kind = 'row' and k.value is not null and k.tx = t.tx and k.source_table = t.source_table"
        gone += f" and not exists (select 1 from k where {again} and k.payload = t.payload)"
        tables, sql = self._select("transaction_id, coalesce(csn, 0) as csn", gone)
        return arrow_tables.ask({**tables, "k": opened(self.paths.change_events)}, sql).to_pylist()

    def unwatched(self, sources: Sequence[str], but: Sequence[str]) -> Iterator[pa.Table]:
        """Yield, in parts, the unwatched messages of some source tables whose transactions were never decided.

        Such a transaction has no other event that counts: rows of no watched table, and no metadata.

        Args:
            sources: names of source tables.
            but: ids of transactions that are left out.
        """
        if not sources:
            return
        of_sources = f"{UNWATCHED} and source_table in ({text_list(sources)})"
        left_out = pa.array(but, pa.string())
        tables, sql = self._select(f'{MESSAGE}, transaction_id, landing, "row"', of_sources)
        for rows in arrow_tables.gathered(arrow_tables.batches(tables, f"{sql} {IN_ORDER}"), ROWS_AT_ONCE):
            new = rows.filter(pc.invert(pc.is_in(rows.column("transaction_id"), left_out)))
            if new.num_rows:
                yield new.select(MESSAGE_COLUMNS)

    def _select(self, columns: str, where: str) -> tuple[dict[str, DeltaTable], str]:
        """Return a query of rows of no finished transaction, and the tables that it reads; t: `change_events`."""
        tables, finished = {"t": opened(self.paths.change_events)}, self.paths.table(names.TRANSACTIONS)
        if not exists(finished):
            return tables, f"select {columns} from t where {where}"
        tables["d"] = opened(finished)
        return tables, f"select {columns} from {JOINED} where {where} and {UNDECIDED}"
