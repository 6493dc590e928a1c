"""Change sets: rows with a flag and a timestamp, each of which stands alone."""

import gzip
import json
from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from events.test_change_events import declared, resolved
from txloom.config.models.pipeline import Table
from txloom.config.models.source import ChangeSets
from txloom.errors import ConfigurationError, SourceUnavailable
from txloom.events import rejections
from txloom.events.change_sets import ChangeSetDecoder, ChangeSetImages
from txloom.events.envelope import ENVELOPE
from txloom.events.images.reader import ImageReader
from txloom.storage.sources import row_files
from txloom.storage.sources.row_files import BATCH, rows_as_json

Row = dict[str, Any]
T = declared("public.t", ("id",), id="long", value="long")
LOG = declared("public.log", (), line="string")
AT = "2018-01-01 16:02:00"
COLUMNS = ("FLAG", "ID", "VALUE", "CDC_TIMESTAMP")


def change(flag: Any = "I", key: Any = 1, value: Any = 10, at: Any = AT, **more: Any) -> Row:
    row = {**dict(zip(COLUMNS, (flag, key, value, at), strict=True)), **more}
    return {name: value for name, value in row.items() if value != "gone"}


def decode(*rows: Row | bytes, topic: str = "T", tables: Sequence[Table] = (T, LOG), **more: Any) -> list[Row]:
    values = [row if isinstance(row, bytes) else json.dumps(row).encode() for row in rows]
    events = ChangeSetDecoder(tables, **more).decode(topic, values)
    assert events.schema == ENVELOPE
    return [dict(row) for row in events.to_pylist(maps_as_pydicts="strict")]


def left(rows: Iterable[Row], table: Table = T) -> list[tuple[Any, ...]]:
    values = [json.dumps(row).encode() for row in rows]
    left_rows = resolved(table, ChangeSetImages(table), ChangeSetDecoder([table]).decode("t", values))
    return [tuple(row.values()) for row in left_rows]


DELTA = [
    change("I", 1, 10, "2018-01-01 16:02:00"),
    change("U", 1, 11, "2018-01-01 16:02:01"),
    change("D", 1, 11, "2018-01-01 16:02:03"),
    change("U", 2, 20, "2018-01-01 16:02:00"),
    change("D", 3, 30, "2018-01-01 16:02:00"),
]


@pytest.mark.parametrize("order", [[0, 1, 2, 3, 4], [4, 3, 2, 1, 0], [2, 0, 4, 1, 3, 2, 0]])
def test_the_change_set_of_the_delta_seed(order: list[int]) -> None:
    """Seed "Simplifying Change Data Capture with Databricks Delta", table 1."""
    assert left(DELTA[i] for i in order) == [(2, 20)]


def test_a_change_set_over_rows_that_were_there() -> None:
    before = [change("I", key, 1, "2017-12-31 00:00:00") for key in (2, 3, 4)]
    assert left([*before, *DELTA]) == [(2, 20), (4, 1)]


def test_of_one_timestamp_the_place_in_the_file_decides() -> None:
    same = [change("I", 1, 10), change("U", 1, 11), change("D", 1, 11), change("I", 1, 12)]
    assert left(same) == [(1, 12)]
    assert left(same[:3]) == []


def test_rows_of_one_file_may_come_in_parts() -> None:
    """What stands in the file a second time is a change of its own, though its part came later; in another file not."""
    decoder, rows = ChangeSetDecoder([T]), [json.dumps(change(value=v)).encode() for v in (1, 2, 1)]
    parts = [decoder.decode("t", rows[:2]), decoder.decode("t", rows[2:], None, 3), decoder.decode("t", rows[:1])]
    first, _, again, elsewhere = (name for part in parts for name in part.column("transaction_id").to_pylist())
    assert first == elsewhere != again


def test_a_row_is_a_whole_transaction() -> None:
    (event,) = decode(change("u"))
    assert (event["kind"], event["op"], event["table"], event["source_table"]) == ("row", "U", "t", "T")
    assert (event["csn"], event["pos"], event["expected"]) == (1514822520000000, None, {"t": 1})
    assert event["committed_at"].isoformat() == "2018-01-01T16:02:00+00:00"
    assert event["transaction_id"].startswith("T:1514822520000000:")
    assert event["xid"] == event["transaction_id"]


def test_the_very_same_row_of_another_file_is_the_same_transaction() -> None:
    columns = list(change().items())
    (first,), (again,), (turned,) = decode(change()), decode(change()), decode(dict(reversed(columns)))
    (other,) = decode(change(value=11))
    assert first["transaction_id"] == again["transaction_id"] == turned["transaction_id"] != other["transaction_id"]
    assert first["payload"] == turned["payload"] != other["payload"]


def test_a_row_that_comes_back_within_one_timestamp_is_a_change_of_its_own() -> None:
    rows = [change("U", 1, 10), change("U", 1, 11), change("U", 1, 10)]
    assert left(rows) == [(1, 10)]
    assert len({row["transaction_id"] for row in decode(*rows)}) == 3
    assert [row["transaction_id"] for row in decode(*rows)] == [row["transaction_id"] for row in decode(*rows)]


@pytest.mark.parametrize("topic", ["t", "T", "public.t", "PUBLIC.T", "Mine"])
def test_a_folder_is_named_like_its_table_in_any_case(topic: str) -> None:
    (event,) = decode(change(), topic=topic, tables=[T.model_copy(update={"name": "mine"})])
    assert (event["table"], event["source_table"]) == ("mine", topic)


def test_another_folder_is_unwatched_or_unknown() -> None:
    assert [row["table"] for row in decode(change(), {"FLAG": "d", "CDC_TIMESTAMP": 1}, topic="other")] == [None, None]
    (event,) = decode(change(), topic="other", ignored=["public.log2"])
    assert (event["cause"], event["detail"]) == (rejections.UNKNOWN_TABLE, "other is neither watched nor ignored")
    assert decode(change(), topic="other", ignored=["public.OTHER"])[0]["kind"] == "row"


@pytest.mark.parametrize(
    ("row", "cause", "detail"),
    [
        (change("X"), rejections.OPERATION, "FLAG is 'X'"),
        (change("T"), rejections.OPERATION, "FLAG is 'T'"),
        (change(None), rejections.OPERATION, "FLAG is None"),
        (change("gone"), rejections.OPERATION, "FLAG is missing"),
        (change(at="gone"), rejections.NO_CSN, "CDC_TIMESTAMP is missing"),
        (change(at=None), rejections.NO_CSN, "CDC_TIMESTAMP is null"),
        (change(at="noon"), rejections.NO_CSN, 'CDC_TIMESTAMP is "noon"'),
        (change(key=None), rejections.NO_KEY, "id is null"),
        (change("D", key="gone"), rejections.NO_KEY, "id is missing"),
        (change(id=2), rejections.BROKEN, "the row has id twice"),
        (change(flag="I", Flag="D"), rejections.BROKEN, "the row has Flag twice"),
    ],
)
def test_a_row_that_cannot_be_applied_is_poison_with_its_cause(row: Row, cause: str, detail: str) -> None:
    (event,) = decode(row)
    assert (event["kind"], event["cause"], event["detail"]) == ("poison", cause, detail)
    assert json.loads(event["value"]) == row


@pytest.mark.parametrize(("flag", "op"), [("i", "I"), (" U ", "U"), ("d", "D")])
def test_a_flag_comes_in_any_case_and_may_be_padded(flag: str, op: str) -> None:
    assert [events["op"] for events in decode(change(flag))] == [op]


@pytest.mark.parametrize("flag", ["U", "D"])
def test_a_table_without_a_key_takes_inserts_only(flag: str) -> None:
    row = {"FLAG": "I", "LINE": "x", "CDC_TIMESTAMP": 5}
    inserted, refused = decode(row, {**row, "FLAG": flag}, topic="log")
    assert (inserted["kind"], inserted["expected"]) == ("row", {"log": 1})
    assert (refused["cause"], refused["detail"]) == (
        rejections.INSERT_ONLY,
        f"operation {flag} on log, whose key is declared none",
    )
    (bare,) = decode({"FLAG": "I", "CDC_TIMESTAMP": 5}, topic="log")
    assert bare["cause"] == rejections.NO_IMAGE


@pytest.mark.parametrize(
    ("value", "cause"),
    [
        (b"", rejections.EMPTY),
        (b'{"FLAG": ', rejections.BROKEN),
        (b"[]", rejections.NOT_AN_OBJECT),
        (b"{}{}", rejections.SEVERAL),
    ],
)
def test_what_is_no_row_is_poison_and_keeps_what_came(value: bytes, cause: str) -> None:
    (event,) = decode(value)
    assert (event["kind"], event["cause"], event["value"]) == ("poison", cause, value.decode())


def test_flag_and_timestamp_may_have_other_names() -> None:
    row = {"op$": "D", "Seq": "7", "id": 1, "FLAG": "nothing to us"}
    (event,) = decode(row, fields=ChangeSets(flag="OP$", timestamp="seq"))
    assert (event["op"], event["csn"], event["committed_at"]) == ("D", 7, None)
    (shown,) = ChangeSetImages(T, ChangeSets(flag="OP$", timestamp="seq")).canonical(
        [json.dumps({**row, "op$": "U"})], ["U"], [None]
    )
    assert json.loads(shown)["after"] == {"id": 1, "FLAG": "nothing to us"}


@pytest.mark.parametrize(
    ("op", "before", "after"),
    [("I", None, {"ID": 1, "VALUE": 10}), ("U", None, {"ID": 1, "VALUE": 10}), ("D", {"ID": 1}, None)],
)
def test_inserts_and_updates_tell_the_row_and_deletes_the_key(op: str, before: Row | None, after: Row | None) -> None:
    (image,) = ChangeSetImages(T).canonical([json.dumps(change(op))], [op], [None])
    assert json.loads(image) == {"op_type": op, "before": before, "after": after}


def test_a_declared_timestamp_stays_a_column() -> None:
    """Seed "Simplifying Change Data Capture with Databricks Delta": the target has the set's columns but FLAG."""
    table = declared("public.t", ("id",), id="long", cdc_timestamp="timestamp")
    (image,) = ChangeSetImages(table).canonical([json.dumps(change())], ["I"], [None])
    assert json.loads(image)["after"] == {"ID": 1, "VALUE": 10, "CDC_TIMESTAMP": AT}


def test_values_keep_their_digits() -> None:
    digits = "1234567890123456789012345678.0123456789"
    value = f'{{"FLAG":"I","ID":9007199254740993,"VALUE":{digits},"CDC_TIMESTAMP":1}}'
    (image,) = ChangeSetImages(T).canonical([value], ["I"], [None])
    assert image == f'{{"op_type":"I","before":null,"after":{{"ID":9007199254740993,"VALUE":{digits}}}}}'.encode()


STEPS = st.lists(st.tuples(st.integers(0, 1), st.sampled_from("IUD"), st.integers(1, 3)), max_size=25)


@given(STEPS, st.randoms(use_true_random=False), st.booleans())
def test_any_set_leaves_the_last_row_of_each_key(steps: list[tuple[int, str, int]], random: Any, turned: bool) -> None:
    now, rows = 0, list[Row]()
    for number, (tick, flag, key) in enumerate(steps):
        now += tick
        rows.append(change(flag, key, number, now))
    if turned:
        random.shuffle(rows)
    last: dict[int, Row] = {}
    for row in sorted(rows, key=lambda row: row["CDC_TIMESTAMP"]):
        last[row["ID"]] = row
    assert left(rows) == [(key, last[key]["VALUE"]) for key in sorted(last) if last[key]["FLAG"] != "D"]


def read(path: Path) -> list[Row]:
    return [json.loads(row) for _, rows in rows_as_json(path) for row in rows]


def write(path: Path, content: bytes) -> Path:
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


CSV = b'\xef\xbb\xbfFLAG,ID,"VALUE",CDC_TIMESTAMP\r\nI,007,1.50,2018-01-01 16:02:00\r\nU,,"",1\r\n'
CSV += b'D,"a,""b""\nc",null,NaN\r\n'


@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz"])
def test_csv_is_text_and_an_empty_field_null_unless_it_is_quoted(tmp_path: Path, name: str) -> None:
    assert read(write(tmp_path / name, CSV)) == [
        change("I", "007", "1.50", AT),
        change("U", None, "", "1"),
        change("D", 'a,"b"\nc', "null", "NaN"),
    ]


def test_a_new_line_inside_quotes_never_ends_a_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_files, "BLOCK", 64)
    path = write(tmp_path / "a.csv", b"A,B\n" + b'1,"x\n2,y"\n' * 100)
    assert read(path) == [{"A": "1", "B": "x\n2,y"}] * 100


def test_a_csv_file_of_a_header_alone_has_no_rows(tmp_path: Path) -> None:
    assert read(write(tmp_path / "a.csv", b"FLAG,ID\n")) == []


@pytest.mark.parametrize("name", ["a.json", "a.jsonl", "a.json.gz", "a.jsonl.gz"])
def test_json_lines_are_handed_on_as_they_are(tmp_path: Path, name: str) -> None:
    lines = b'{"ID": 1.50}\r\n\nnot JSON\n{"ID": 2}'
    assert list(rows_as_json(write(tmp_path / name, lines))) == [(1, [b'{"ID": 1.50}', b"", b"not JSON", b'{"ID": 2}'])]


PARQUET = {
    "id": ("long", pa.array([2**63 - 1, None]), 2**63 - 1),
    "price": ("decimal(20,8)", pa.array([Decimal("0.00000001"), None], pa.decimal128(20, 8)), Decimal("0.00000001")),
    "zero": ("string", pa.array([Decimal("0.00000000"), None], pa.decimal128(20, 8)), "0.00000000"),
    "ratio": ("double", pa.array([0.1, None]), 0.1),
    "single": ("float", pa.array([0.1, None], pa.float32()), 0.10000000149011612),
    "yes": ("boolean", pa.array([True, None]), True),
    "day": ("date", pa.array([date(1969, 12, 31), None]), date(1969, 12, 31)),
    "far": ("string", pa.array([2_932_897, None], pa.date32()), "10000-01-01"),
    "local": ("timestamp", pa.array([datetime(2018, 1, 1, 0, 0, 0, 1), None]), datetime(2018, 1, 1, 0, 0, 0, 1)),
    "seconds": ("timestamp", pa.array([1, None], pa.timestamp("s")), datetime(1970, 1, 1, 0, 0, 1)),
    "nanos": ("string", pa.array([1, None], pa.timestamp("ns")), "1970-01-01 00:00:00.000000001"),
    "zoned": (
        "timestamptz",
        pa.array([0, None], pa.timestamp("us", "Europe/Berlin")),
        datetime(1970, 1, 1, tzinfo=UTC),
    ),
    "zone": ("string", pa.array([0, None], pa.timestamp("ms", "Europe/Berlin")), "1970-01-01 00:00:00.000Z"),
    "clock": ("time", pa.array([time(16, 2, 0, 5), None]), "16:02:00.000005"),
    "raw": ("binary", pa.array([b"\x00\xff", None]), b"\x00\xff"),
    "tags": ("array<string>", pa.array([["a", None, 'b"'], None]), ["a", None, 'b"']),
    "days": ("array<date>", pa.array([[date(2018, 1, 1)], None]), [date(2018, 1, 1)]),
    "nested": ("json", pa.array([{"a": 1, "b": [b"\xff"]}, None]), '{"a":"1","b":["ff"]}'),
    "text": ("string", pa.array(["é\x00", None]), "é\x00"),
}


def test_typed_values_of_parquet_are_exact(tmp_path: Path) -> None:
    path, table = (
        tmp_path / "a.parquet",
        declared("s.t", ("id",), **{name: group[0] for name, group in PARQUET.items()}),
    )
    pq.write_table(pa.table({name: group[1] for name, group in PARQUET.items()}), path)
    rows = [row.decode() for _, rows in rows_as_json(path) for row in rows]
    assert set(json.loads(rows[1]).values()) == {None}
    (image,) = ImageReader(table).read(ChangeSetImages(table).canonical(rows[:1], ["I"], [None])).to_pylist()
    assert image["problem"] is None
    assert image["after"] == {name: group[2] for name, group in PARQUET.items()}


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
def test_rows_of_large_files_keep_their_number(tmp_path: Path, ending: str) -> None:
    path, size = tmp_path / f"a.{ending}", 2 * BATCH + 1
    if ending == "parquet":
        pq.write_table(pa.table({"ID": range(size)}), path)
    else:
        form = "{}\n" if ending == "csv" else '{{"ID":"{}"}}\n'
        head = "ID\n" if ending == "csv" else ""
        write(path, (head + "".join(form.format(i) for i in range(size))).encode())
    batches = list(rows_as_json(path))
    assert {first: len(rows) for first, rows in batches} == {1: BATCH, BATCH + 1: BATCH, 2 * BATCH + 1: 1}
    assert [json.loads(rows[0]) for _, rows in batches] == [{"ID": str(first - 1)} for first, _ in batches]


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
def test_the_delta_seed_as_a_file_of_each_kind(tmp_path: Path, ending: str) -> None:
    """Seed "Simplifying Change Data Capture with Databricks Delta", table 1, as an ETL tool writes it."""
    path = tmp_path / f"a.{ending}"
    if ending == "parquet":
        typed = [{**row, "CDC_TIMESTAMP": datetime.fromisoformat(row["CDC_TIMESTAMP"])} for row in DELTA]
        pq.write_table(pa.Table.from_pylist(typed), path)
    elif ending == "jsonl":
        write(path, "\n".join(map(json.dumps, DELTA)).encode())
    else:
        lines = [",".join(map(str, row.values())) for row in DELTA]
        write(path, "\n".join([",".join(COLUMNS), *lines]).encode())
    decoder = ChangeSetDecoder([T])
    events = pa.concat_tables([decoder.decode("T", rows, None, first) for first, rows in rows_as_json(path)])
    assert resolved(T, ChangeSetImages(T), events) == [{"id": 2, "value": 20}]


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("a.txt", b"", "expected a change set that ends in .csv, .jsonl, .json, .parquet"),
        ("a.csv", b"", "no .csv behind row 0: Empty CSV file"),
        ("a.csv", b"A,B\n1\n", "no .csv behind row 0: CSV parse error: Expected 2 columns, got 1: 1"),
        ("a.csv", b"A,A\n1,2\n", "column A stands in it 2 times"),
        ("a.csv", b"A\n\xff\n", "no .csv behind row 0: In CSV column #0: CSV conversion error"),
        ("a.parquet", b"PAR1", "no .parquet behind row 0: "),
    ],
)
def test_a_file_that_is_no_change_set_is_refused(tmp_path: Path, name: str, content: bytes, problem: str) -> None:
    path = write(tmp_path / name, content)
    with pytest.raises(ConfigurationError) as refused:
        list(rows_as_json(path))
    assert str(refused.value).startswith(f"{path}: {problem}")


def test_a_file_that_is_cut_off_can_be_tried_again(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(b'{"ID": 1}\n' * 1000)[:-9])
    for name in ("a.jsonl.gz", "missing.csv"):
        with pytest.raises(SourceUnavailable, match="cannot be read behind row 0"):
            list(rows_as_json(tmp_path / name))


def test_a_declared_sequence_numbers_the_changes_of_a_declared_transaction() -> None:
    fields = ChangeSets(transaction="tx", sequence="seq")
    rows = [change(key=key, TX=7, SEQ=number) for key, number in ((1, 2), (2, 1))]
    events = decode(*rows, fields=fields)
    assert [(event["identity"], event["pos"], event["xid"]) for event in events] == [("2", 2, "7"), ("1", 1, "7")]


@pytest.mark.parametrize(
    ("number", "shown"),
    [
        ("gone", "missing"),
        (None, "null"),
        ("", '""'),
        ("7a", '"7a"'),
        (1.5, "1.5"),
        (-1, "-1"),
        (True, "true"),
        ([7], "[7]"),
        (2**63, "9223372036854775808"),
        ("9" * 100, '"' + "9" * 79),
    ],
)
def test_what_is_no_number_of_63_bits_names_no_transaction_and_no_change(number: Any, shown: str) -> None:
    fields = ChangeSets(transaction="tx", sequence="seq")
    rows = change(TX=number, SEQ=1), change(TX=7, SEQ=number)
    of_none, of_seven = decode(*rows, fields=fields)
    assert (of_none["cause"], of_none["detail"], of_none["xid"]) == (rejections.NO_CSN, f"tx is {shown}", None)
    assert (of_seven["cause"], of_seven["detail"], of_seven["xid"]) == (rejections.NO_CSN, f"seq is {shown}", "7")


@pytest.mark.parametrize(
    ("number", "csn"),
    [(0, 0), (2**63 - 1, 2**63 - 1), (" 7 ", 7), ("9223372036854775807", 2**63 - 1), ("0" * 20 + "7", 7)],
)
def test_a_number_may_be_written_as_text_with_blanks_and_zeros_before_it(number: int | str, csn: int) -> None:
    (event,) = decode(change(TX=number, SEQ=number), fields=ChangeSets(transaction="tx", sequence="seq"))
    assert (event["csn"], event["xid"], event["pos"], event["identity"]) == (csn, str(csn), csn, str(csn))
