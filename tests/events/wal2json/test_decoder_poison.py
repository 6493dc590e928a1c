"""wal2json messages that cannot be taken as events, and what becomes of the transactions that they stood in."""

import pytest

from events.wal2json.test_decoder import AUDIT, PIPELINE, PROMO, TOPIC, B, C, decode, inside, kinds, line, row
from txloom.events import rejections
from txloom.events.wal2json import decoder as wal2json_decoder
from txloom.events.wal2json import version_1
from txloom.events.wal2json.decoder import Wal2JsonDecoder


@pytest.mark.parametrize("message", [PROMO, AUDIT, C], ids=["row", "unwatched", "commit"])
def test_a_stream_that_begins_in_mid_transaction_has_poison_first(message: bytes) -> None:
    decoder = Wal2JsonDecoder(PIPELINE.tables)
    decoder.resume(TOPIC, None)
    (event,) = decode(message, decoder=decoder)
    assert (event["kind"], event["cause"]) == ("poison", wal2json_decoder.OUTSIDE)
    assert (event["detail"], event["csn"]) == ("no BEGIN of xid 7 before it", None)


def test_what_follows_a_commit_is_outside() -> None:
    assert kinds(B, PROMO, C, PROMO, C, B, C) == "brcppbc"


@pytest.mark.parametrize("message", [row("I", "orders", {"order_id": 1}, xid=8), line("C", 8)], ids=["row", "commit"])
def test_a_message_of_another_transaction_than_the_open_one_is_poison(message: bytes) -> None:
    _, first, stray, second, committed = decode(B, PROMO, message, PROMO, C)
    assert (stray["kind"], stray["cause"]) == ("poison", wal2json_decoder.ANOTHER)
    assert stray["detail"] == "xid 8, while xid 7 has no COMMIT yet"
    assert (first["pos"], second["pos"], committed["expected"]) == (1, 2, {"promo_codes": 2})


@pytest.mark.parametrize(
    ("message", "cause", "detail"),
    [
        (line("B", None), rejections.NO_TRANSACTION, "the message has no `xid`; the slot needs include-xids"),
        (line("B", lsn=None), rejections.NO_CSN, "lsn is None; the slot needs include-lsn"),
        (line("B", lsn="0x10"), rejections.NO_CSN, "lsn is '0x10'; the slot needs include-lsn"),
        (line("B", lsn="80000000/0"), rejections.NO_CSN, "lsn is '80000000/0'; the slot needs include-lsn"),
        (line("X", 3), rejections.OPERATION, "action is 'X'"),
        (b"{}", rejections.OPERATION, "action is None"),
        (b'{"xid":1,"change":[]}', wal2json_decoder.VERSION_1, "the message has `change`, not `action`"),
        (b"", rejections.EMPTY, "the message has no content"),
        (b'{"action":"B","xid":', rejections.BROKEN, "Input data was truncated"),
        (b'{"action":"M","content":"\xff"}', rejections.ENCODING, None),
        (b'{"action":"M"}\x00', rejections.NUL, "a NUL byte stands at offset 14"),
        (b"[]", rejections.NOT_AN_OBJECT, "the message is a JSON list"),
        (C + B, rejections.SEVERAL, None),
        (line("B", lsn=5), rejections.BROKEN, "Expected `str | null`, got `int` - at `$.lsn`"),
    ],
)
def test_what_cannot_be_taken_is_poison_with_its_cause_and_keeps_what_came(
    message: bytes, cause: str, detail: str | None
) -> None:
    (event,) = decode(message)
    assert (event["kind"], event["cause"]) == ("poison", cause)
    assert event["detail"] == detail or (detail is None and event["detail"])
    assert event["value"] == message.decode("utf-8", "backslashreplace")


@pytest.mark.parametrize(
    ("message", "cause", "detail"),
    [
        (row("I", "promo_codes"), rejections.NO_IMAGE, "operation I without `columns`"),
        (row("D", "promo_codes"), rejections.NO_IMAGE, "operation D without `identity`"),
        (row("U", "promo_codes", {"code": "P"}), rejections.NO_IMAGE, "operation U without `identity`"),
        (row("U", "promo_codes", None, {"code": "P"}), rejections.NO_IMAGE, "operation U without `columns`"),
        (row("I", "promo_codes", {"discount": 1}), rejections.NO_KEY, "code is missing in `columns`"),
        (row("I", "promo_codes", {"code": None}), rejections.NO_KEY, "code is null in `columns`"),
        (
            row("I", "promo_codes", columns=[{"name": "code", "type": "text"}, {"name": "discount", "value": 1}]),
            rejections.NO_KEY,
            "code is null in `columns`",
        ),
        (row("D", "promo_uses", None, {"code": "P"}), rejections.NO_KEY, "order_id is missing in `identity`"),
        (row("U", "promo_codes", {"code": "P"}, {"discount": 1}), rejections.NO_KEY, "code is missing in `identity`"),
        (row("U", "promo_codes", {"code": None}, {"code": "P"}), rejections.NO_KEY, "code is null in `columns`"),
        (
            row("I", "promo_codes", columns={"code": "P"}),
            rejections.BROKEN,
            "`columns`: Expected `array`, got `object`",
        ),
    ],
)
def test_a_row_that_its_table_cannot_take_is_poison_that_its_transaction_lacks(
    message: bytes, cause: str, detail: str
) -> None:
    _, events, after, committed = decode(B, message, PROMO, C)
    assert (events["kind"], events["cause"], events["detail"]) == ("poison", cause, detail)
    assert (events["xid"], events["csn"], events["pos"], events["transaction_id"]) == ("7", 16, 1, None)
    assert after["identity"] == "2"
    assert committed["kind"] == "metadata"
    assert committed["expected"] == {"promo_codes": 1} | {events["table"]: 2 if events["table"] == "promo_codes" else 1}


def test_a_large_key_that_did_not_change_may_be_left_to_the_old_image() -> None:
    (event,) = inside(row("U", "promo_codes", {"discount": 2}, {"code": "P" * 9000}))
    assert (event["kind"], event["op"]) == ("row", "U")


@pytest.mark.parametrize(
    "message",
    [
        b'{"action":"I","xid":7,"schema":"public","table":"orders","colu',
        b'{"action":"I","xid":7,"schema":"public","table":"t","columns":[{"name":"a","type":"s""t","value":1}]}',
        b'{"action":"I","xid":7,"schema":"public","table":"t","columns":[{"name":"a","value":"\xff"}]}',
        PROMO + PROMO,
        b"\x00" * 9,
        row("I", "promo_codes", {"code": "P"}, xid=None),
        line("I", table="orders"),
        line("I", schema="public"),
        line("Z"),
    ],
    ids=["cut", "type", "bytes", "two", "hole", "no_xid", "no_schema", "no_table", "unknown"],
)
def test_a_transaction_with_a_message_that_may_have_been_a_row_is_not_whole(message: bytes) -> None:
    begun, first, lost, second, committed, after = decode(B, PROMO, message, PROMO, C, line("B", 8))
    assert [each["kind"] for each in (begun, first, lost, second, after)] == [
        "marker",
        "row",
        "poison",
        "row",
        "marker",
    ]
    assert (lost["pos"], lost["csn"], lost["transaction_id"], second["identity"]) == (2, 16, None, "3")
    assert (committed["kind"], committed["cause"]) == ("poison", wal2json_decoder.DAMAGED)
    assert (committed["detail"], committed["csn"]) == ("1 of its messages cannot be read", 16)


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b'WARNING:  table "t" without primary key or replica identity is nothing',
        b"[1]",
        b'{"id":2}',
        b'{"action":"M","content":"\xff"}',
        None,
    ],
    ids=["blank", "warning", "array", "foreign", "message", "tombstone"],
)
def test_what_surely_was_no_row_does_not_hurt_its_transaction(message: bytes | None) -> None:
    _, _, noise, second, committed = decode(B, PROMO, message, PROMO, C)
    assert noise["kind"] == ("tombstone" if message is None else "poison")
    assert (noise["pos"], second["pos"]) == (None, 2)
    assert (committed["kind"], committed["expected"]) == ("metadata", {"promo_codes": 2})


def test_a_damaged_transaction_that_comes_again_whole_is_whole() -> None:
    events = decode(B, PROMO, AUDIT[:40], PROMO, C, B, PROMO, AUDIT, PROMO, C)
    first, again = ([each for each in part if each["kind"] == "row"] for part in (events[:5], events[5:]))
    assert [each["identity"] for each in first] == ["1", "3"]
    assert [each["identity"] for each in again] == ["1", "2", "3"]
    assert (events[-1]["kind"], events[-1]["expected"]) == ("metadata", {"promo_codes": 2})


@pytest.mark.parametrize("cut", [1, 12, 40, len(PROMO) - 1])
def test_a_begin_behind_a_message_that_a_crash_cut_off_begins_its_transaction(cut: int) -> None:
    events = decode(B, PROMO, PROMO[:cut] + B, PROMO, PROMO, C)
    assert [each["kind"] for each in events] == ["marker", "row", "marker", "row", "row", "metadata"]
    assert events[2]["value"] == (PROMO[:cut] + B).decode()
    assert (events[2]["transaction_id"], events[2]["detail"]) == ("7:16", "behind a message that was cut off")
    assert (events[4]["identity"], events[5]["expected"]) == ("2", {"promo_codes": 2})


@pytest.mark.parametrize("message", [C + B, b"x" + B, PROMO[:40] + line("B", lsn=None), PROMO[:40] + B + b"}"])
def test_a_begin_behind_anything_else_is_poison(message: bytes) -> None:
    assert decode(message)[0]["kind"] == "poison"


def test_rows_of_unknown_tables_are_poison_where_asked_for_and_keep_their_ordinal() -> None:
    decoder = Wal2JsonDecoder(PIPELINE.tables, ignored=["PUBLIC.AUDIT_LOG"])
    other = row("I", "new.table", {"id": 1})
    _, ignored, unknown, watched, committed = decode(B, AUDIT, other, PROMO, C, decoder=decoder)
    assert (ignored["kind"], ignored["table"]) == ("row", None)
    assert (unknown["kind"], unknown["cause"]) == ("poison", rejections.UNKNOWN_TABLE)
    assert unknown["detail"] == "public.new.table is neither watched nor ignored"
    assert (watched["pos"], committed["expected"], committed["event_count"]) == (3, {"promo_codes": 1}, 3)


def test_every_own_cause_has_a_hint() -> None:
    system_columns = {
        wal2json_decoder.OUTSIDE,
        wal2json_decoder.ANOTHER,
        wal2json_decoder.DAMAGED,
        wal2json_decoder.BACKWARDS,
        version_1.VERSION_1,
    }
    assert set(wal2json_decoder.HINTS) == system_columns
    assert not set(wal2json_decoder.HINTS) & set(rejections.HINTS)
