"""Transactions that are rebuilt in parts: they become the same history rows and outcomes as at once."""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drawn import examples
from txloom.config import load, names
from txloom.events.formats import SourceDecoder
from txloom.steps.backfill import rebuild, transaction_rows
from txloom.steps.backfill.rebuild import count_rebuilt, rebuild_histories
from txloom.steps.backfill.scope import HIGHEST, Scope
from txloom.storage.declarations.redeclared import Redeclared
from txloom.storage.delta import arrow_tables, data_files, small_tables
from txloom.storage.landing import landing_tables
from txloom.storage.paths import TablePaths
from txloom.storage.spark import tasks
from txloom.storage.system_tables import CHANGE_EVENTS, TRANSACTIONS
from txloom.transactions import redelivered
from txloom.transactions.events import NOWHERE
from txloom.transactions.hashes import hashed
from txloom.transactions.redelivered import KEYS, first_of_each, number_deliveries

DECLARED = """
name: shop
source: {{format: goldengate, files: {{path: {folder}}}, transaction_topic: meta}}
completeness: {{rule: counts, patience: 1h}}
tables:
  - {{name: orders, source: APP.ORDERS, key: [id], columns: {{id: long, n: long}}}}
  - {{name: lines, source: APP.LINES, key: [id], columns: {{id: long, n: long}}}}
targets:
  mirrors: ["*"]
  aggregates: [{{name: doc, root: orders, children: [{{table: lines, as: items, relation: many, parent_key: [n]}}]}}]
"""
TABLES = ("orders", "lines")
BEGUN = datetime(2026, 1, 1, tzinfo=UTC)
CSN = 12
Row = dict[str, Any]


def message(tx: str, table: str, pos: int, value: object) -> tuple[str, str]:
    """Return topic and message of an insert."""
    place = {"table": f"APP.{table.upper()}", "op_type": "I", "pos": str(pos), "xid": tx, "csn": str(CSN)}
    return "rows", json.dumps({**place, "after": {"id": pos, "n": value}})


def metadata(tx: str, counts: dict[str, int]) -> tuple[str, str]:
    parts = [{"data_collection": name.upper(), "event_count": count} for name, count in counts.items()]
    about = {"xid": tx, "csn": str(CSN), "event_count": sum(counts.values()), "data_collections": parts}
    return "meta", json.dumps(about)


@dataclass
class Landed:
    """Landed messages of a pipeline, as a chance draws them, and transactions that were released out of them."""

    chance: Random
    scope: Scope

    def often(self, share: float) -> bool:
        return self.chance.random() < share

    def of_transaction(self, tx: str, size: int) -> tuple[list[tuple[str, str]], Row]:
        """Return messages of a transaction, some of them several times, and its row of `transactions`."""
        unreadable, lost = self.often(0.2), self.chance.choice((0, 0, 0, 0.1))
        rows = [
            message(tx, self.chance.choice(TABLES), pos, "x" if unreadable and self.often(0.1) else pos % 3)
            for pos in range(size)
        ]
        counts = {name: sum(f"APP.{name.upper()}" in text for _, text in rows) for name in TABLES}
        sent = [each for each in rows if not self.often(lost)]
        sent += self.chance.choices(rows, k=self.chance.choice((0, 0, 1, size)))
        sent += [message(tx, TABLES[0], self.chance.randrange(size), 7)] if self.often(0.2) else []
        sent += [metadata(tx, counts)] if self.often(0.7) else []
        self.chance.shuffle(sent)
        released = size + self.chance.choice((0, 0, 0, 0, 0, 0, 0, 1, -1))
        csn = NOWHERE if self.often(0.2) else CSN
        finished = BEGUN + timedelta(seconds=self.chance.choice((2, 3, 3, 3, 3, 3)))
        about = {
            "transaction_id": f"{tx}:{CSN}",
            "xid": tx,
            "csn": csn,
            "status": "released",
            "rows": released,
            "release": 1,
        }
        return sent, {**about, "first_landed_at": BEGUN, "finished_at": finished, "landing": self.chance.randrange(4)}

    def write(self, sizes: Sequence[int]) -> None:
        """Land transactions of some sizes in three landings."""
        paths, sent, released = self.scope.paths, list[tuple[str, str]](), list[Row]()
        for number, size in enumerate(sizes):
            messages, row = self.of_transaction(f"t{number}", size)
            sent, released = sent + messages, [*released, row]
        released += released[:1] if self.often(0.1) else []
        small_tables.append(paths.table(names.TRANSACTIONS), released, TRANSACTIONS)
        landing_of = [self.chance.randint(1, 3) for _ in sent]
        for number in (1, 2, 3):
            self._land(number, [each for each, landing in zip(sent, landing_of, strict=True) if landing == number])

    def _land(self, number: int, sent: Sequence[tuple[str, str]]) -> None:
        at = BEGUN + timedelta(seconds=self.chance.choice((number, number, 4)) - 1)
        events = [{"kind": "clock", "landed_at": at, "row": -1}]
        for place, row in enumerate(self._decoded(sent)):
            events.append({**row, "topic": sent[place][0], "landed_at": at, "row": place})
        made = pa.Table.from_pylist([{**each, "landing": number} for each in events], CHANGE_EVENTS).sort_by("tx")
        path = self.scope.paths.change_events
        file = data_files.write_file(made, names.CHANGE_EVENTS, path)
        data_files.append_files([file], path, "land", number)

    def _decoded(self, sent: Sequence[tuple[str, str]]) -> Iterator[Row]:
        """Decode messages; some are unwatched, older than digests, have no csn, or were removed."""
        decoder, removed = SourceDecoder(self.scope.pipeline), self.chance.choice((0, 0, 0, 0.1))
        for topic, text in sent:
            (row,) = decoder.decode(topic, [text.encode()]).to_pylist()
            row["tx"] = hashed(pa.array([row["transaction_id"]]))[0].as_py()
            if row["kind"] == "row":
                row["csn"] = self.chance.choice((CSN, CSN, CSN - 1, None))
                row |= {"digest": None} if self.often(0.1) else {}
                row |= {"value": None} if self.often(removed) else {}
                row |= {"table": None} if self.scope.redeclared is not None and self.often(0.1) else {}
            yield row


@contextmanager
def cut(rows: int, lot: int) -> Iterator[None]:
    """Cut transactions of more than so many rows, and look for duplicates among so many at once, in this process."""

    def in_turn(_: object, items: Sequence[Any], work: Callable[[Any], Any]) -> list[Any]:
        return [made for item in items for made in work([item])]

    with pytest.MonkeyPatch.context() as limits:
        limits.setattr(arrow_tables, "LOCAL_ROWS", -1)
        limits.setattr(rebuild, "SHARE", rows)
        limits.setattr(redelivered, "LOT", lot)
        limits.setattr(transaction_rows, "AT_ONCE_ROWS", 2 * rows)
        limits.setattr(tasks, "in_tasks", in_turn)
        yield


def shadows(scope: Scope) -> dict[str, list[str]]:
    """Rebuild histories, and return the rows of their shadows and the outcomes."""
    rebuild_histories(lambda: None, scope)  # type: ignore[arg-type, return-value]
    tables = [names.TRANSACTIONS, *(target.name for target in scope.histories)]
    path_of = {name: scope.paths.table(names.shadow_table(name)) for name in tables}
    return {name: sorted(map(repr, small_tables.query(path, "select * from t"))) for name, path in path_of.items()}


def counted(scope: Scope) -> dict[str, Any]:
    """Return how many rows would be made by history, and the outcomes."""
    made = list(count_rebuilt(scope))
    outcomes = sorted(repr(row) for each in made for row in each.outcomes.to_pylist())
    rows = {target.name: sum(each.rows[target.name] for each in made) for target in scope.histories}
    return {names.TRANSACTIONS: outcomes, **rows}


@settings(deadline=None, max_examples=examples(40))
@given(
    st.integers(0, 2**32),
    st.lists(st.integers(1, 25), min_size=1, max_size=3),
    st.booleans(),
    st.integers(2, 9),
)
def test_a_transaction_in_parts_becomes_the_same_rows_and_outcome_as_at_once(
    tmp_path_factory: pytest.TempPathFactory, seed: int, sizes: list[int], is_redeclared: bool, rows: int
) -> None:
    folder, chance = tmp_path_factory.mktemp("parts"), Random(seed)
    (folder / "shop.yaml").write_text(DECLARED.format(folder=folder))
    pipeline = load(folder / "shop.yaml")
    paths = TablePaths(str(folder), pipeline.name)
    sources = {f"APP.{name.upper()}": name for name in TABLES}
    since = {name: chance.randrange(4) for name in TABLES}
    redriven = frozenset((chance.randint(1, 4), chance.randint(0, 30)) for _ in range(chance.choice((0, 3, 30))))
    border, source = chance.randint(1, 4), pipeline.source
    redeclared = Redeclared(border, sources, since, {}, source, redriven) if is_redeclared else None
    scope = Scope(pipeline, paths, "b1", 0, HIGHEST, 1, redeclared)
    landing_tables.create_tables(paths)
    with pytest.MonkeyPatch.context() as small:
        small.setattr(data_files, "ROW_GROUP", 3)
        Landed(chance, scope).write(sizes)
    at_once = shadows(scope)
    expected = counted(scope)
    assert {name: len(at_once[name]) for name in at_once} == {
        name: made if isinstance(made, int) else len(made) for name, made in expected.items()
    }
    with cut(rows, chance.choice((1, 5, 100))):
        assert shadows(scope) == at_once
        assert counted(scope) == expected


EVENTS = st.lists(
    st.tuples(
        st.integers(0, 1),
        st.sampled_from(["1", "2", "x"]),
        st.integers(0, 1),
        st.sampled_from([b"a", b"b", None]),
    ),
    max_size=14,
)


@settings(deadline=None, max_examples=examples(300))
@given(EVENTS, st.integers(1, 20), st.randoms(use_true_random=False))
def test_of_equal_events_the_first_one_counts_and_one_without_a_digest_equals_any(
    events: list[tuple[int, str, int, bytes | None]], lot: int, chance: Random
) -> None:
    among = np.array([chance.random() < 0.8 for _ in events], np.bool_)
    places = chance.sample(range(len(events)), len(events))
    rows = [
        {"tx": tx, "table": "t", "identity": identity, "payload": payload, "digest": digest, "landing": 1, "row": place}
        for (tx, identity, payload, digest), place in zip(events, places, strict=True)
    ]
    kinds = {name: CHANGE_EVENTS.field(name).type for name in (*KEYS, "landing", "row")}
    with pytest.MonkeyPatch.context() as limits:
        limits.setattr(redelivered, "LOT", lot)
        flags = first_of_each(pa.Table.from_pylist(rows, pa.schema(kinds)), among)
    chosen = [row for row, is_among in zip(rows, among, strict=True) if is_among]
    first = [row for row, flag in zip(rows, flags, strict=True) if flag]
    expected = []
    for alike in {tuple(row[name] for name in KEYS[:-1]): None for row in chosen}:
        same = sorted(
            (row for row in chosen if tuple(row[name] for name in KEYS[:-1]) == alike), key=lambda row: row["row"]
        )
        undigested = [row for row in same if row["digest"] is None]
        digests = {row["digest"]: None for row in same}
        expected += undigested[:1] or [next(row for row in same if row["digest"] == digest) for digest in digests]
    assert sorted(map(repr, first)) == sorted(map(repr, expected))


@settings(deadline=None, max_examples=examples(300))
@given(EVENTS, st.integers(1, 20), st.randoms(use_true_random=False))
def test_deliveries_are_numbered_where_one_lost_its_message_and_an_equal_one_still_has_it(
    events: list[tuple[int, str, int, bytes | None]], lot: int, chance: Random
) -> None:
    kept = np.array([chance.random() < 0.5 for _ in events], np.bool_)
    removed = np.array([not is_kept and chance.random() < 0.9 for is_kept in kept], np.bool_)
    rows = [dict(zip(KEYS, (tx, "t", *rest), strict=True)) for tx, *rest in events]
    with pytest.MonkeyPatch.context() as limits:
        limits.setattr(redelivered, "LOT", lot)
        schema = pa.schema({name: CHANGE_EVENTS.field(name).type for name in KEYS})
        numbers = number_deliveries(pa.Table.from_pylist(rows, schema), kept, removed).tolist()
    # Rows from before digests tell contents apart by their hash alone.
    is_digested = all(digest is not None for *_, digest in events)
    contents = [event if is_digested else event[:-1] for event in events]
    is_numbered = [
        (is_kept or is_removed)
        and any(kept[i] for i, each in enumerate(contents) if each == content)
        and any(removed[i] for i, each in enumerate(contents) if each == content)
        for content, is_kept, is_removed in zip(contents, kept, removed, strict=True)
    ]
    if is_digested:
        assert [number >= 0 for number in numbers] == is_numbered
    pairs = [(number, content) for number, content in zip(numbers, contents, strict=True) if number >= 0]
    assert len({*pairs}) == len({number for number, _ in pairs}), "one number, one content"
