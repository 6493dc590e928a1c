"""Change events: each a transaction of its own, ordered by its timestamp alone."""

import json
from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from txloom.config.models.column_types import parse
from txloom.config.models.pipeline import Column, Table
from txloom.current.folding.fold import fold
from txloom.events import rejections
from txloom.events.change_events import OTHER_KEY, ChangeEventDecoder, ChangeEventImages
from txloom.events.envelope import ENVELOPE
from txloom.events.images.reader import ImageReader
from txloom.history.changes import changes
from txloom.storage.targets.schemas import current_schema

Row = dict[str, Any]


def declared(source: str = "public.people", key: Sequence[str] = ("id",), **columns: str) -> Table:
    columns = columns or {"id": "string", "name": "string"}
    made = tuple(Column(name=name, type=parse(kind)) for name, kind in columns.items())
    return Table(name=source.rsplit(".", 1)[-1], source=source, columns=made, key=tuple(key) or "none")


PEOPLE = declared()
VISITS = declared("public.visits", (), at="string")


def event(kind: str, timestamp: Any, columns: Row | None = None, old: Row | None = None, **more: Any) -> Row:
    """Write a change event as the resolver's ChangeEvent does: what does not apply is null."""
    names = {"columnNames": columns, "oldKeyNames": old}
    values = {"columnValues": columns, "oldKeyValues": old}
    lists: Row = {name: event_fields and list(event_fields) for name, event_fields in names.items()}
    lists |= {name: event_fields and list(event_fields.values()) for name, event_fields in values.items()}
    return {"changeType": kind, "timestamp": timestamp, "table": "public.people", **lists, **more}


def decode(*messages: Row | bytes, tables: Sequence[Table] = (PEOPLE, VISITS), **more: Any) -> list[Row]:
    values = [message if isinstance(message, bytes) else json.dumps(message).encode() for message in messages]
    events = ChangeEventDecoder(tables, **more).decode("people", values)
    assert events.schema == ENVELOPE
    return [dict(row) for row in events.to_pylist(maps_as_pydicts="strict")]


def canonical(op: str, message: Row | str, table: Table = PEOPLE) -> Row:
    value = message if isinstance(message, str) else json.dumps(message)
    (image,) = ChangeEventImages(table).canonical([value], [op], [None])
    return dict(json.loads(image))


def resolved(table: Table, images: Any, events: pa.Table) -> list[Row]:
    """Return the rows that decoded events leave: each transaction once, as it first came, folded in commit order."""
    first: dict[str, Row] = {}
    for position, row in enumerate(events.to_pylist()):
        assert (row["kind"], row["pos"]) == ("row", None), row
        first.setdefault(row["transaction_id"], {**row, "landing": 1, "row": position, "pos": position})
    rows = list(first.values())
    typed = ImageReader(table).read(images.canonical([r["value"] for r in rows], [r["op"] for r in rows], []))
    assert typed.column("problem").null_count == len(rows)
    schema = pa.schema([*ENVELOPE, ("landing", pa.int64()), ("row", pa.int64())])
    whole = pa.Table.from_pylist(rows, schema)
    for name in typed.column_names:
        whole = whole.append_column(name, typed.column(name))
    empty = current_schema(table).empty_table()
    left = fold(empty, changes(whole, table, 1), key=table.key, columns=table.column_names).to_pylist()
    assert {row["_txloom_missing"] for row in left} <= {None}
    shown = [{name: row[name] for name in table.column_names} for row in left if not row["_txloom_deleted"]]
    return sorted(shown, key=lambda row: [row[name] for name in table.key])


def people(messages: Iterable[Row], table: Table = PEOPLE) -> list[Row]:
    values = [json.dumps(message).encode() for message in messages]
    return resolved(table, ChangeEventImages(table), ChangeEventDecoder([table]).decode("people", values))


ALICE, BOB = event("INSERT", "0", {"id": "id1", "name": "Alice"}), event("INSERT", "0", {"id": "id2", "name": "Bob"})
RESOLVER = [
    event("update", "1", {"id": "id1", "name": "Angela"}, {"id": "id1"}),
    event("delete", "2", None, {"id": "id2"}),
    event("insert", "3", {"id": "id2", "name": "Carol"}),
]


@pytest.mark.parametrize("arrival", [[0, 1, 2], [2, 1, 0], [1, 2, 0], [0, 0, 2, 1, 2]])
def test_the_resolvers_example(arrival: list[int]) -> None:
    """Seed "Handling upstream data changes via Change Data Capture" (Change Event Resolver)."""
    events = people([ALICE, BOB, *(RESOLVER[i] for i in arrival)])
    assert events == [{"id": "id1", "name": "Angela"}, {"id": "id2", "name": "Carol"}]


def test_a_key_that_changes_twice_takes_its_row_along() -> None:
    chain = [event("update", t, {"id": new}, {"id": old}) for t, old, new in (("5", "b", "c"), ("4", "id1", "b"))]
    assert people([ALICE, *chain]) == [{"id": "c", "name": "Alice"}]


def test_timestamps_order_as_numbers_never_as_text() -> None:
    late, early = (event("update", t, {"id": "id1", "name": t}, {"id": "id1"}) for t in ("10", "9"))
    assert people([ALICE, late, early]) == [{"id": "id1", "name": "10"}]


def test_of_one_timestamp_the_place_decides() -> None:
    one, other = (event("update", "7", {"id": "id1", "name": name}, {"id": "id1"}) for name in ("one", "other"))
    assert people([ALICE, one, other]) == [{"id": "id1", "name": "other"}]
    assert people([ALICE, other, one]) == [{"id": "id1", "name": "one"}]


def test_one_row_comes_out_for_each_message() -> None:
    events = ChangeEventDecoder([PEOPLE]).decode("people", [json.dumps(ALICE).encode(), None, b"{}"])
    assert events.column("kind").to_pylist() == ["row", "tombstone", "poison"]


def test_an_event_is_a_whole_transaction() -> None:
    (decoded_event,) = decode(event("Update", "2018-03-27 11:58:28.988414+02", {"name": "A"}, {"id": "id1"}))
    assert (decoded_event["kind"], decoded_event["op"], decoded_event["table"], decoded_event["source_table"]) == (
        "row",
        "U",
        "people",
        "public.people",
    )
    assert (decoded_event["csn"], decoded_event["expected"]) == (1522144708988414, {"people": 1})
    assert decoded_event["committed_at"].isoformat() == "2018-03-27T09:58:28.988414+00:00"
    assert decoded_event["transaction_id"].startswith("public.people:1522144708988414:")
    assert decoded_event["xid"] == decoded_event["transaction_id"]


def test_a_redelivery_is_the_same_transaction_and_another_event_of_its_time_is_not() -> None:
    first, again, other = decode(RESOLVER[2], RESOLVER[2], event("insert", "3", {"id": "id2", "name": "Dora"}))
    assert (first["transaction_id"], first["payload"]) == (again["transaction_id"], again["payload"])
    assert first["transaction_id"] != other["transaction_id"] and first["payload"] != other["payload"]


def test_operations_of_one_timestamp_that_tell_the_same_row_are_two_events() -> None:
    one, other = decode(event("insert", "3", ID), event("update", "3", ID))
    assert one["transaction_id"] != other["transaction_id"]


def test_what_is_finer_than_a_microsecond_still_tells_events_apart() -> None:
    stamps = ("2018-01-01T00:00:00.000001001", "2018-01-01T00:00:00.000001002")
    one, other = decode(*(event("delete", stamp, None, {"id": "1"}) for stamp in stamps))
    assert one["csn"] == other["csn"] and one["transaction_id"] != other["transaction_id"]


@pytest.mark.parametrize(
    ("given", "csn"),
    [
        ("0", 0),
        (12, 12),
        (" 007 ", 7),
        ("9223372036854775807", 2**63 - 1),
        ("1970-01-01", 0),
        ("1970-01-01 00:00:01", 1_000_000),
        ("1970-01-01T00:00:01.5Z", 1_500_000),
        ("1970-01-01:00:00:01", 1_000_000),
        ("9999-12-31 23:59:59.999999", 253402300799999999),
    ],
)
def test_a_timestamp_is_a_number_or_an_instant(given: Any, csn: int) -> None:
    (decoded_event,) = decode(event("insert", given, {"id": "1"}))
    assert (decoded_event["kind"], decoded_event["csn"], decoded_event["committed_at"] is None) == (
        "row",
        csn,
        "-" not in str(given),
    )


@pytest.mark.parametrize(
    ("given", "detail"),
    [
        (None, "timestamp is null"),
        ("", 'timestamp is ""'),
        ("soon", 'timestamp is "soon"'),
        (1.5, "timestamp is 1.5"),
        (-1, "timestamp is -1"),
        (True, "timestamp is true"),
        (2**63, "timestamp is 9223372036854775808"),
        ("9" * 5000, 'timestamp is "' + "9" * 79),
        ("1969-12-31 23:59:59", 'timestamp is "1969-12-31 23:59:59"'),
        ("0001-01-01T00:00:00+05:00", 'timestamp is "0001-01-01T00:00:00+05:00"'),
        ([1], "timestamp is [1]"),
    ],
)
def test_a_timestamp_that_orders_nothing_is_poison(given: Any, detail: str) -> None:
    (decoded_event,) = decode(event("insert", given, {"id": "1"}))
    assert (decoded_event["kind"], decoded_event["cause"], decoded_event["detail"]) == (
        "poison",
        rejections.NO_CSN,
        detail,
    )


ID = {"id": "1"}
KEYLESS = "operation {} on visits, whose key is declared none"


@pytest.mark.parametrize(
    ("message", "cause", "detail"),
    [
        (event("upsert", "1", ID), rejections.OPERATION, "changeType is 'upsert'"),
        (event("insert", "1", ID, changeType=None), rejections.OPERATION, "changeType is None"),
        (event("insert", "1"), rejections.NO_IMAGE, "operation I without columns"),
        (event("update", "1", None, ID), rejections.NO_IMAGE, "operation U without columns"),
        (event("update", "1"), rejections.NO_KEY, "id is missing"),
        (event("delete", "1"), rejections.NO_KEY, "id is missing"),
        (event("delete", "1", {"name": "A"}), rejections.NO_KEY, "id is missing"),
        (event("delete", "1", None, {"name": "A"}), rejections.NO_KEY, "id is missing"),
        (event("delete", "1", None, {"id": None}), rejections.NO_KEY, "id is null"),
        (event("update", "1", {"id": None}, ID), rejections.NO_KEY, "id is null"),
        (event("update", "1", ID, {"id": None}), rejections.NO_KEY, "id is null"),
        (event("insert", "1", {"name": "A"}), rejections.NO_KEY, "id is missing"),
        (
            event("update", "1", {"id": "7", "name": "B"}, {"name": "A"}),
            OTHER_KEY,
            "oldKeyNames is name, without id of people's key",
        ),
        (
            event("insert", "1", ID, columnValues=[1, 2]),
            rejections.BROKEN,
            "columnNames has 1 elements, columnValues 2",
        ),
        (
            event("delete", "1", None, ID, oldKeyValues=[]),
            rejections.BROKEN,
            "oldKeyNames has 1 elements, oldKeyValues 0",
        ),
        (event("insert", "1", {"id": "1", "ID": "2"}), rejections.BROKEN, "columnNames has ID twice"),
        (event("delete", "1", None, ID | {"Id": 1}), rejections.BROKEN, "oldKeyNames has Id twice"),
        (event("update", "1", ID, table="visits"), rejections.INSERT_ONLY, KEYLESS.format("U")),
        (event("delete", "1", None, ID, table="visits"), rejections.INSERT_ONLY, KEYLESS.format("D")),
    ],
)
def test_an_event_that_cannot_be_applied_is_poison_with_its_cause(message: Row, cause: str, detail: str) -> None:
    (event,) = decode(message)
    assert (event["kind"], event["cause"], event["detail"]) == ("poison", cause, detail)
    assert json.loads(event["value"]) == message and event["transaction_id"] is None


@pytest.mark.parametrize(
    ("value", "cause"),
    [
        (b"", rejections.EMPTY),
        (b'{"changeType": "ins', rejections.BROKEN),
        (b'{"changeType": "insert", "columnNames": 5}', rejections.BROKEN),
        (b'{"changeType": "insert", "columnNames": [null]}', rejections.BROKEN),
        (b'{"a": "\xff"}', rejections.ENCODING),
        (b"{}\x00", rejections.NUL),
        (b"[{}]", rejections.NOT_AN_OBJECT),
        (b'{"changeType": "insert"}{"changeType": "insert"}', rejections.SEVERAL),
    ],
)
def test_what_is_no_event_is_poison_and_keeps_what_came(value: bytes, cause: str) -> None:
    (event,) = decode(value)
    assert (event["kind"], event["cause"], event["value"]) == (
        "poison",
        cause,
        value.decode("utf-8", "backslashreplace"),
    )


@given(st.lists(st.one_of(st.none(), st.binary(max_size=60), st.text(max_size=40).map(str.encode)), max_size=20))
def test_any_bytes_come_out_as_one_row_each(values: list[bytes | None]) -> None:
    events = ChangeEventDecoder([PEOPLE]).decode("people", values)
    assert events.column("ordinal").to_pylist() == list(range(len(values)))
    assert [kind == "tombstone" for kind in events.column("kind").to_pylist()] == [value is None for value in values]


def test_a_table_without_a_key_takes_inserts_and_truncates() -> None:
    inserted, truncated = decode(
        *(event(kind, "1", {"at": "1"}, table="public.visits") for kind in ("insert", "truncate"))
    )
    assert (inserted["op"], inserted["expected"]) == ("I", {"visits": 1})
    assert (truncated["op"], truncated["kind"]) == ("T", "row")


@pytest.mark.parametrize("name", ["public.people", "PUBLIC.PEOPLE", "People", None, ""])
def test_a_table_is_known_by_its_source_in_full_or_short_or_by_its_topic(name: str | None) -> None:
    (decoded_event,) = decode(event("insert", "1", ID, table=name))
    assert (decoded_event["table"], decoded_event["source_table"]) == ("people", name or "people")


def test_a_short_name_of_two_tables_is_refused_and_a_full_one_is_not() -> None:
    tables = [declared("a.people"), declared("b.people").model_copy(update={"name": "others"})]
    short, whole, full = decode(
        *(event("insert", "1", ID, table=n) for n in ("people", "B.people", "others")), tables=tables
    )
    assert (short["cause"], short["detail"]) == (
        rejections.UNKNOWN_TABLE,
        "people may be a.people or b.people: name it in full",
    )
    assert (whole["table"], full["table"]) == ("others", "others")


def test_an_unwatched_table_is_counted_or_poison_as_declared() -> None:
    log = event("update", "1", {"a": 1}, table="audit_log", columnValues=[])
    (counted,) = decode(log)
    assert (counted["kind"], counted["table"], counted["expected"]) == ("row", None, None)
    assert decode(log, ignored=["public.AUDIT_LOG"])[0]["kind"] == "row"
    (refused,) = decode(log, ignored=[])
    assert (refused["cause"], refused["detail"]) == (
        rejections.UNKNOWN_TABLE,
        "audit_log is neither watched nor ignored",
    )


WIDE = declared("public.wide", ("id", "line"), id="long", line="long", price="decimal(38,10)", note="string")
PRICE = "1234567890123456789012345678.0123456789"


def test_values_keep_their_digits() -> None:
    message = (
        '{"changeType":"insert","timestamp":"1","columnNames":["ID","LINE","PRICE","NOTE"],"columnTypes":["int8"],'
        f'"columnValues":[9007199254740993, "2", {PRICE}, "é\\u0000\\"x"]}}'
    )
    (image,) = ChangeEventImages(WIDE).canonical([message], ["I"], [None])
    assert f'"PRICE":{PRICE},'.encode() in image
    (row,) = ImageReader(WIDE).read([image]).to_pylist()
    assert {**row["after"], "price": str(row["after"]["price"])} == {
        "id": 9007199254740993,
        "line": 2,
        "price": PRICE,
        "note": 'é\x00"x',
    }


BOTH = {"ID": 1, "line": 2}


@pytest.mark.parametrize(
    ("op", "message", "before", "after"),
    [
        ("I", event("insert", "1", {**BOTH, "note": "n"}), None, {**BOTH, "note": "n", "price": None}),
        ("U", event("update", "1", {"note": None}, BOTH), BOTH, {"note": None}),
        ("U", event("update", "1", {**BOTH, "note": "n"}), None, {**BOTH, "note": "n"}),
        ("D", event("delete", "1", None, {**BOTH, "note": "n"}), {**BOTH, "note": "n"}, None),
        ("D", event("delete", "1", {**BOTH, "note": "n"}), BOTH, None),
        ("D", event("delete", "1", {"id": 9, "line": 2}, {"ID": 1}), BOTH, None),
        ("T", event("truncate", "1", BOTH), None, None),
    ],
)
def test_images_say_what_the_event_says(op: str, message: Row, before: Row | None, after: Row | None) -> None:
    assert canonical(op, message, WIDE) == {"op_type": op, "before": before, "after": after}
    (event,) = decode({**message, "table": "wide"}, tables=[WIDE])
    assert (event["kind"], event["op"]) == ("row", op)


def test_a_column_that_an_insert_lacks_is_null_and_no_drop() -> None:
    (image,) = ChangeEventImages(PEOPLE).canonical([json.dumps(event("insert", "1", ID))], ["I"], [None])
    (row,) = ImageReader(PEOPLE).read([image]).to_pylist()
    assert (row["after"], row["absent"]) == ({"id": "1", "name": None}, None)


def test_column_sets_may_differ_between_events() -> None:
    """Seed "Handling upstream data changes via Change Data Capture", its questions 3 and 4."""
    table = declared("public.people", ("id",), id="string", name="string", city="string")
    events = people(
        [
            event("insert", "1", {"id": "a", "name": "Ann"}),
            event("insert", "2", {"id": "b", "name": "Ben", "city": "Bonn"}),
            event("insert", "3", {"id": "c", "city": "Cork"}),
            event("update", "4", {"id": "b", "name": "Bea"}, {"id": "b"}),
            event("update", "5", {"city": "Aix"}, {"id": "a"}),
        ],
        table,
    )
    assert events == [
        {"id": "a", "name": "Ann", "city": "Aix"},
        {"id": "b", "name": "Bea", "city": "Bonn"},
        {"id": "c", "name": None, "city": "Cork"},
    ]


KEYS = st.sampled_from("abc")
COLUMNS = ("name", "city")
STEP = st.tuples(st.integers(0, 1), KEYS, KEYS, st.sets(st.sampled_from(COLUMNS)), st.booleans())
CITIES = declared("public.people", ("id",), id="string", name="string", city="string")


@st.composite
def histories(draw: st.DrawFn) -> list[Row]:
    """Draw what happened at a source, in order; several events may share a timestamp, but no two that say the same."""
    there, now, columns_given, events = set[str](), 0, set[str](), list[Row]()
    for number, (tick, key, new, names, drop) in enumerate(draw(st.lists(STEP, max_size=25))):
        values = {name: f"{name}{number}" for name in sorted(names)}
        now += tick
        if key not in there:
            kind, columns, old = "insert", {"id": key, **values}, None
        elif drop:
            kind, columns, old = "delete", None, {"id": key}
        else:
            moved = new if new not in there else key
            kind, columns, old = "update", {"id": moved, **values}, {"id": key}
        content = f"{kind} {columns} {old}"
        if (now, content) in columns_given:
            now += 1
        columns_given.add((now, content))
        there = (there - {key}) | ({columns["id"]} if columns else set())
        events.append(event(kind, str(now), columns, old))
    return events


@st.composite
def arrivals(draw: st.DrawFn, happened: list[Row]) -> list[Row]:
    """Draw an order of arrival that keeps events of one timestamp in theirs, with some delivered again at the end."""
    waiting: dict[str, list[Row]] = {}
    for message in happened:
        waiting.setdefault(message["timestamp"], []).append(message)
    turns = draw(st.permutations([message["timestamp"] for message in happened]))
    again = draw(st.lists(st.sampled_from(happened), max_size=5)) if happened else []
    return [waiting[turn].pop(0) for turn in turns] + again


def replayed(happened: Iterable[Row]) -> list[Row]:
    """Let changes act on a dictionary, one after the other."""
    world: dict[str, Row] = {}
    for change in happened:
        columns = dict(zip(change["columnNames"] or (), change["columnValues"] or (), strict=True))
        old = (change["oldKeyValues"] or [None])[0]
        row = world.pop(old, {"name": None, "city": None})
        if change["changeType"] != "delete":
            world[columns["id"]] = {**row, **columns}
    return [world[key] for key in sorted(world)]


@given(st.data())
def test_any_history_in_any_order_of_arrival_leaves_what_the_source_holds(data: st.DataObject) -> None:
    happened = data.draw(histories())
    arrived = data.draw(arrivals(happened))
    assert people(arrived, CITIES) == replayed(happened)
