"""Names of a source that differ in case alone: the exact one is meant, else the only one, never two for one table."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from txloom.config.models.column_types import parse
from txloom.config.models.pipeline import Column, Table
from txloom.events import rejections
from txloom.events.change_events import ChangeEventDecoder
from txloom.events.debezium.decoder import DebeziumDecoder
from txloom.events.goldengate.decoder import GoldenGateDecoder
from txloom.events.malformed import Poison
from txloom.events.source_names import OTHER_CASE, SourceNames
from txloom.events.wal2json.decoder import Wal2JsonDecoder

COLUMNS = (Column(name="id", type=parse("long")),)


def table(source: str, name: str = "s") -> Table:
    return Table(name=name, source=source, columns=COLUMNS, key=("id",))


def goldengate(name: str) -> bytes:
    row = {"table": f"public.{name}", "op_type": "I", "pos": "1", "xid": "1.2.3", "csn": "7", "after": {"id": 1}}
    return json.dumps(row).encode()


def debezium(name: str) -> bytes:
    source = {"connector": "postgresql", "db": "shop", "schema": "public", "table": name, "lsn": 7}
    versions = {"id": "7:7", "total_order": 1}
    return json.dumps(
        {"before": None, "after": {"id": 1}, "source": source, "transaction": versions, "op": "c"}
    ).encode()


def wal2json(name: str) -> bytes:
    cells = [{"name": "id", "type": "bigint", "value": 1}]
    return json.dumps({"action": "I", "xid": 7, "schema": "public", "table": name, "columns": cells}).encode()


def change_event(name: str) -> bytes:
    fields = {"changeType": "insert", "timestamp": 7, "table": f"public.{name}"}
    return json.dumps({**fields, "columnNames": ["id"], "columnValues": [1]}).encode()


BEGIN = b'{"action":"B","xid":7,"lsn":"0/7"}'
FORMATS: dict[str, Any] = {
    "goldengate": (lambda *args: GoldenGateDecoder(*args[:1], "tx", None, *args[1:]), goldengate),
    "debezium": (lambda *args: DebeziumDecoder(args[0], "tx", *args[1:]), debezium),
    "wal2json": (Wal2JsonDecoder, wal2json),
    "change_events": (ChangeEventDecoder, change_event),
}


def decoded(form: str, declared: list[str], names: str, *more: Any) -> list[tuple[Any, ...]]:
    """Return what becomes of a row of each table name: its declared table, or cause and detail."""
    made, message = FORMATS[form]
    decoder = made([table(source, f"t{n}") for n, source in enumerate(declared)], *more)
    if form == "wal2json":
        decoder.decode("rows", [BEGIN])
    rows = decoder.decode("rows", [message(name) for name in names]).to_pylist()
    return [(row["table"],) if row["kind"] == "row" else (row["cause"], row["detail"]) for row in rows]


EVERY = pytest.mark.parametrize("form", FORMATS)
TAKEN = (OTHER_CASE, "public.S: t0 has the rows of public.s")


@EVERY
@pytest.mark.parametrize("declared", ["public.s", "PUBLIC.S", "Public.s"])
def test_a_source_may_be_declared_in_any_case(form: str, declared: str) -> None:
    assert decoded(form, [declared], "ss") == [("t0",)] * 2
    assert decoded(form, [declared], "SS") == [("t0",)] * 2


@EVERY
def test_rows_of_a_second_spelling_never_come_into_a_table(form: str) -> None:
    assert decoded(form, ["public.s"], "sSs") == [("t0",), TAKEN, ("t0",)]
    assert decoded(form, ["PUBLIC.S"], "sS") == [("t0",), TAKEN]


@EVERY
def test_what_was_seen_before_counts(form: str) -> None:
    spellings = {"t0": "public.s", "t0 PUBLIC.S": "public.s"}
    assert decoded(form, ["PUBLIC.S"], "Ss", None, spellings) == [TAKEN, ("t0",)]


@pytest.mark.parametrize("form", ["goldengate", "debezium", "wal2json"])
def test_a_table_of_another_case_may_be_ignored_by_its_own_spelling(form: str) -> None:
    assert decoded(form, ["public.s"], "Ss", ["public.S"]) == [(None,), ("t0",)]
    assert decoded(form, ["public.s"], "x", ["public.S"])[0][0] == rejections.UNKNOWN_TABLE


@pytest.mark.parametrize("form", ["debezium", "wal2json"])
def test_tables_that_differ_in_case_alone_are_two(form: str) -> None:
    assert decoded(form, ["public.s", "public.S"], "sSs") == [("t0",), ("t1",), ("t0",)]


def test_a_name_that_may_mean_two_tables_means_none() -> None:
    with pytest.raises(Poison, match="table of another case"):
        SourceNames([table("public.s"), table("public.S", "t")]).find("PUBLIC.s")


def test_what_txloom_counts_itself_counts_for_the_table_of_exactly_that_name() -> None:
    sources = ["public.s", "public.S"]
    decoder = GoldenGateDecoder([table(source, f"t{n}") for n, source in enumerate(sources)], "tx")
    parts = [{"data_collection": source, "event_count": n + 1} for n, source in enumerate(sources)]
    fields = {"xid": "7", "csn": "7", "event_count": 3, "data_collections": parts}
    (row,) = decoder.decode("tx", [json.dumps(fields).encode()]).to_pylist()
    assert row["expected"] == [("t0", 1), ("t1", 2)]


SPELLINGS = st.sampled_from(["public.s", "public.S", "PUBLIC.s", "PUBLIC.S"])


@given(st.lists(SPELLINGS, min_size=1, max_size=2, unique=True), st.lists(SPELLINGS, max_size=12))
def test_no_table_ever_gets_rows_of_two_spellings(declared: list[str], names: list[str]) -> None:
    known = SourceNames([table(source, f"t{n}") for n, source in enumerate(declared)])
    seen: dict[str, set[str]] = {}
    for name in names:
        result = known.counted(name)
        if result is not None:
            seen.setdefault(result.name, set()).add(name)
            assert result.source == name or name not in declared
    assert all(len(spellings) == 1 for spellings in seen.values())
