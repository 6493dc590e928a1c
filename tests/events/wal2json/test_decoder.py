"""wal2json messages: the traps of the format, one fact each."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from txloom.config import find
from txloom.config.models.column_types import parse
from txloom.config.models.pipeline import Column, Table
from txloom.events.envelope import ENVELOPE
from txloom.events.wal2json.decoder import Open, Wal2JsonDecoder, lsn_number

PIPELINE = find("orders")
TOPIC = "orders"
AT = "2026-11-21 03:03:20.87328+00"


def line(action: str, xid: int | None = 7, lsn: str | None = "0/10", **more: Any) -> bytes:
    """Write a message as wal2json does."""
    line_fields = {"action": action, "xid": xid, "timestamp": AT, "lsn": lsn, **more}
    return json.dumps(line_fields, separators=(",", ":"), ensure_ascii=False).encode()


def cells(values: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [{"name": name, "type": "text", "value": value} for name, value in values.items()]


def row(op: str, table: str, new: Any = None, old: Any = None, schema: str = "public", **more: Any) -> bytes:
    images = {"columns": new, "identity": old}
    source_fields = {name: cells(image) for name, image in images.items() if image is not None}
    return line(op, **{"schema": schema, "table": table, **source_fields, **more})


PROMO = row("I", "promo_codes", {"code": "P1", "discount": 1, "valid_to": None})
AUDIT = row("I", "audit_log", {"id": 1})
B, C = line("B"), line("C")


def decode(*values: bytes | None, decoder: Wal2JsonDecoder | None = None) -> list[dict[str, Any]]:
    events = (decoder or Wal2JsonDecoder(PIPELINE.tables)).decode(TOPIC, values)
    assert events.schema == ENVELOPE
    return [dict(each) for each in events.to_pylist(maps_as_pydicts="strict")]


def kinds(*values: bytes | None) -> str:
    """Name the kinds of some messages by their first letters, t for a tombstone."""
    return "".join({"row": "r", "marker": "b", "metadata": "c"}.get(e["kind"], e["kind"][0]) for e in decode(*values))


def inside(*values: bytes) -> list[dict[str, Any]]:
    """Decode messages between a BEGIN and its COMMIT."""
    return decode(B, *values, C)[1:-1]


def test_a_begin_is_a_marker_that_names_its_transaction() -> None:
    (event,) = decode(line("B", 771, "1/1DD9F38"))
    assert (event["kind"], event["transaction_id"], event["xid"]) == ("marker", "771:4326268728", "771")
    assert (event["csn"], event["committed_at"].isoformat()) == (4326268728, "2026-11-21T03:03:20.873280+00:00")
    assert event["value"] == line("B", 771, "1/1DD9F38").decode()


def test_a_row_is_known_by_its_ordinal_and_placed_by_its_begin() -> None:
    _, first, unwatched, second, _ = decode(B, PROMO, row("I", "audit_log", {"id": 1}), PROMO, C)
    assert [each["identity"] for each in (first, unwatched, second)] == ["1", "2", "3"]
    assert [each["pos"] for each in (first, unwatched, second)] == [1, 2, 3]
    assert [each["table"] for each in (first, unwatched, second)] == ["promo_codes", None, "promo_codes"]
    assert {each["transaction_id"] for each in (first, unwatched, second)} == {"7:16"}
    assert {each["csn"] for each in (first, unwatched, second)} == {16}
    assert unwatched["source_table"] == "public.audit_log"


def test_a_commit_counts_the_watched_rows_since_its_begin() -> None:
    *_, events = decode(B, PROMO, AUDIT, PROMO, row("T", "orders"), C)
    assert (events["kind"], events["transaction_id"], events["xid"], events["csn"]) == ("metadata", "7:16", "7", 16)
    assert (events["expected"], events["event_count"]) == ({"promo_codes": 2, "orders": 1}, 4)
    assert events["committed_at"].isoformat() == "2026-11-21T03:03:20.873280+00:00"


def test_a_transaction_without_rows_expects_nothing() -> None:
    assert [(each["expected"], each["event_count"]) for each in decode(B, C)[1:]] == [({}, 0)]


def test_a_truncate_is_a_row_event_without_images_for_each_table() -> None:
    result = inside(row("T", "promo_codes"), row("T", "promo_uses"))
    assert [(each["op"], each["table"], each["identity"]) for each in result] == [
        ("T", "promo_codes", "1"),
        ("T", "promo_uses", "2"),
    ]


def test_messages_of_applications_are_markers_inside_and_outside_and_take_no_ordinal() -> None:
    said = line("M", None, transactional=False, prefix="app", content="{")
    events = decode(said, B, said, PROMO, line("M", 7, transactional=True, prefix="app", content=""), C)
    assert [each["kind"] for each in events] == ["marker", "marker", "marker", "row", "marker", "metadata"]
    assert [events[n]["xid"] for n in (0, 2, 4)] == [None, None, None]
    assert events[3]["pos"] == events[5]["event_count"] == 1


def test_a_begin_that_comes_again_restarts_the_ordinals() -> None:
    events = decode(B, PROMO, AUDIT, B, PROMO, AUDIT, PROMO, C)
    rows = [each for each in events if each["kind"] == "row"]
    assert [each["identity"] for each in rows] == ["1", "2", "1", "2", "3"]
    assert rows[0]["payload"] == rows[2]["payload"]
    assert events[-1]["expected"] == {"promo_codes": 2}


def test_a_begin_of_another_transaction_leaves_the_open_one_unfinished() -> None:
    *_, begun, again, committed = decode(
        B, PROMO, line("B", 8, "0/20"), row("I", "audit_log", {"id": 1}, xid=8), line("C", 8)
    )
    assert (begun["transaction_id"], again["transaction_id"], again["pos"]) == ("8:32", "8:32", 1)
    assert (committed["expected"], committed["event_count"]) == ({}, 1)


def test_one_xid_after_a_wrap_around_is_another_transaction() -> None:
    first, _, second, _ = decode(B, C, line("B", 7, "0/20"), C)
    assert (first["transaction_id"], second["transaction_id"]) == ("7:16", "7:32")


HOSTILE = [
    ("public", 'promo"codes'),
    ("public", "../promo_codes"),
    ("public", "<b>promo_codes</b>"),
    ("x.public", "promo_codes"),
    ("public", "x.promo_codes"),
    ("x", "public.promo_codes"),
    ("public.promo_codes", "promo_codes"),
    ("publ\u0131c", "promo_codes"),
    ("public", "promo_code\u017f"),
    ("public ", "promo_codes"),
]


@pytest.mark.parametrize(("schema", "table"), HOSTILE)
def test_a_hostile_name_comes_verbatim_and_is_no_declared_table(schema: str, table: str) -> None:
    (event,) = inside(row("I", table, {"code": "P"}, schema=schema))
    assert (event["kind"], event["table"], event["source_table"]) == ("row", None, f"{schema}.{table}")


@pytest.mark.parametrize(("schema", "table"), [("PUBLIC", "PROMO_CODES"), ("Public", "Promo_Codes")])
def test_schema_and_table_are_declared_in_any_case(schema: str, table: str) -> None:
    (event,) = inside(row("I", table, {"CODE": "P"}, schema=schema))
    assert (event["table"], event["source_table"]) == ("promo_codes", f"{schema}.{table}")


def test_a_declared_database_is_not_what_rows_tell() -> None:
    table = PIPELINE.tables[0].model_copy(update={"source": "SHOP.PUBLIC.ORDERS"})
    (_, events) = decode(B, row("I", "orders", {"order_id": 1}), decoder=Wal2JsonDecoder([table]))
    assert events["table"] == "orders"


def test_a_table_without_a_key_takes_inserts_and_truncates_only() -> None:
    columns = (Column(name="n", type=parse("string"), source="n"),)
    keyless = Table(name="notes", source="PUBLIC.NOTES", columns=columns, key="none")
    messages = (row("I", "notes", {"n": None}, pk=[]), row("T", "notes"), row("D", "notes", None, {"n": "a"}))
    *events, _ = decode(B, *messages, C, decoder=Wal2JsonDecoder([keyless]))[1:]
    assert [each["kind"] for each in events] == ["row", "row", "poison"]
    assert events[2]["detail"] == "operation D on notes, whose key is declared none"


def test_two_topics_are_two_streams() -> None:
    decoder = Wal2JsonDecoder(PIPELINE.tables)
    decoder.decode("a", [B, PROMO])
    decoder.decode("b", [line("B", 8)])
    assert decoder.open("a") == Open("7", 16, decoder.open("b").committed_at, 1, {"promo_codes": 1}, lsn=16)
    assert decoder.open("c") is None


def test_a_transaction_that_was_left_open_goes_on_with_its_next_ordinal() -> None:
    decoder = Wal2JsonDecoder(PIPELINE.tables)
    decoder.resume(TOPIC, Open("7", 16, None, 4, {"orders": 2}))
    events, committed = decode(PROMO, C, decoder=decoder)
    assert (events["identity"], events["transaction_id"]) == ("5", "7:16")
    assert (committed["expected"], committed["event_count"]) == ({"orders": 2, "promo_codes": 1}, 5)
    assert events["committed_at"] == committed["committed_at"] == decode(B)[0]["committed_at"]
    assert decoder.open(TOPIC) is None


def test_payloads_tell_rows_apart_and_forget_the_stamps_of_the_delivery() -> None:
    images = {"new": {"code": "P", "discount": 1}, "old": {"code": "P"}}
    (first,) = inside(row("U", "promo_codes", **images))
    (again,) = inside(row("U", "promo_codes", **images, timestamp=None, lsn="0/99"))
    (other,) = inside(row("U", "promo_codes", images["new"], {"code": "Q"}))
    (removed,) = inside(row("D", "promo_codes", None, images["old"]))
    assert first["payload"] == again["payload"]
    assert len({each["payload"] for each in (first, other, removed)}) == 3


@pytest.mark.parametrize(
    ("lsn", "number"),
    [
        ("0/1DD9F38", 0x1DD9F38),
        ("16/B374D848", (0x16 << 32) | 0xB374D848),
        ("7FFFFFFF/FFFFFFFF", 2**63 - 1),
        ("80000000/0", None),
        ("0/1_0", None),
        ("0/ 1", None),
        ("0/123456789", None),
        ("1", None),
        (None, None),
    ],
)
def test_a_position_is_a_number_of_63_bits(lsn: str | None, number: int | None) -> None:
    assert lsn_number(lsn) == number
