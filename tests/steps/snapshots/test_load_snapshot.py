"""Initial loads and repairs: rows as of a csn, files of every kind, a border that overlaps."""

import gzip
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from called import step_of
from cycles.test_killed import killed_again_and_again
from lake import Lake, arrivals, assert_every_cut_is_exact, expected_state, new_lake, shown
from oracle import capture, comparison, declarations
from oracle.state import Source
from shop import delete, insert, update
from steps.test_schema_drift import ORDERS, shop
from txloom import read
from txloom.config.models.expectations import DriftExpectation
from txloom.errors import ConfigurationError
from txloom.quality import findings as f
from txloom.steps.publish.check_expectations import check_expectations
from txloom.steps.snapshots.load_snapshot import Snapshot, load_snapshot
from txloom.storage.landing import decoding
from txloom.storage.spark import tasks


def load(lake: Lake, folder: Path, csn: int, **more: Any) -> dict[str, int]:
    step = step_of(lake.pipeline, lake.warehouse, "load", lambda: lake.spark)
    return load_snapshot(step, Snapshot(str(folder), csn, **more))


def write(folder: Path, table: str, rows: list[dict[str, Any]], kind: str = "jsonl") -> None:
    """Write rows as an export does; in CSV a null is nothing, and every text stands in quotes."""
    (folder / table).mkdir(parents=True, exist_ok=True)
    file = folder / table / f"rows.{kind}"
    if kind == "parquet":
        names = list(rows[0]) if rows else []
        pq.write_table(pa.table({name: pa.array([row[name] for row in rows], pa.string()) for name in names}), file)
    elif kind == "csv.gz":
        with gzip.open(file, "wt", newline="") as stream:
            for texts in [list(rows[0]), *(row.values() for row in rows)] if rows else []:
                quoted = ("" if text is None else '"' + str(text).replace('"', '""') + '"' for text in texts)
                stream.write(",".join(quoted) + "\n")
    else:
        file.write_text("".join(f"{json.dumps(row)}\n" for row in rows))


def source_of_sample() -> Source:
    return Source(capture.read(arrivals()))


def drift(made: Lake, run_id: str) -> list[tuple[Any, ...]]:
    """Check that nothing drifts, and return the findings that the expectation names."""
    texts = {"severity": "warn", "sentence": "Tables are the source's.", "hint": "Load a snapshot."}
    expectation = DriftExpectation(kind="drift", id="drift", **texts)
    pipeline = made.pipeline.model_copy(update={"expectations": (expectation,)})
    done = check_expectations(step_of(pipeline, made.warehouse, run_id))
    (result,) = made.query("expectation_results", f"select success, failed, sample from t where run_id = '{run_id}'")
    rows = json.loads(result["sample"])
    assert (result["success"], result["failed"], done["failed"]) == (not rows, len(rows), len(rows) > 0)
    return [(row["code"], row["table"], row["column"]) for row in rows]


def test_a_load_in_the_middle_of_the_stream_ends_exact_whatever_overlaps(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files of three kinds hold the source as of a csn; half of the stream before it comes after the load."""
    lake = new_lake(spark, tmp_path, monkeypatch)
    source = source_of_sample()
    csn = source.csns[len(source.csns) // 2]
    kinds = dict(zip(declarations.TABLES, ("jsonl", "csv.gz", "parquet") * 2, strict=True))
    for table, rows in source.state_as_of(csn).items():
        images = [{name.upper(): value for name, value in row.items()} for row in rows.values()]
        write(tmp_path / "export", table, images, kinds[table])
    assert load(lake, tmp_path / "export", csn)["tables"] == 6
    lake.run()
    assert lake.query("cuts", "select valid_through from t")[0]["valid_through"] == csn
    differences = comparison.differences(expected_state(source, csn), shown(lake))
    assert not differences, comparison.report(differences)
    lake.deliver(*arrivals())
    lake.run()
    cuts = assert_every_cut_is_exact(lake, source)
    assert cuts[-1]["valid_through"] == source.csns[-1]
    assert not [cut for cut in cuts if cut["gaps"] or cut["amends"]]


@pytest.mark.usefixtures("spread")
def test_history_holds_the_rows_with_their_own_operation(spark: Any, tmp_path: Path) -> None:
    made = shop(spark, tmp_path)
    write(tmp_path / "export", "orders", [{"ID": 1, "NOTE": "loaded"}, {"ID": 2, "NOTE": None}])
    write(tmp_path / "export", "lines", [])
    load(made, tmp_path / "export", 50)
    assert load(made, tmp_path / "export", 50) == {"skipped": 1, "csn": 50}, "it waits for the buffer"
    made.commit(60, update("orders", {"id": 2, "note": None}, id=2, note="changed"))
    made.commit(40, insert("orders", id=3, note="before the load, and deleted before it"))
    made.run()
    assert made.shown("orders", "id", "note") == [(1, "loaded"), (2, "changed")]
    assert load(made, tmp_path / "export", 49) == {"skipped": 1, "csn": 49}
    operations = [(row["_txloom_op"], row["id"]) for row in made.rows("orders_changes")]
    assert sorted(operations, key=repr) == [("I", 3), ("T", None), ("U", 2), ("r", 1), ("r", 2)]
    held = read.intervals(made.pipeline, "orders", warehouse=made.warehouse).to_pylist()
    ordered = sorted(held, key=lambda row: (row["id"], row["_txloom_valid_from"]))
    assert [(row["id"], row["_txloom_valid_from"], row["_txloom_valid_to"]) for row in ordered] == [
        (1, 50, None), (2, 50, 60), (2, 60, None), (3, 40, 50)
    ]  # fmt: skip
    assert made.findings() == []


def test_a_load_of_one_table_repairs_it_and_waits_for_the_stream(spark: Any, tmp_path: Path) -> None:
    made = shop(spark, tmp_path)
    made.commit(10, insert("orders", id=1, note="a"), insert("lines", id=7, order_id=1, item="x"))
    made.commit(20, update("orders", {"id": 1, "note": "default"}, id=1, note="b"))
    made.run()
    assert made.findings() == [(f.CHANGED, "orders", "note", 20, True)]
    assert drift(made, "before") == [(f.CHANGED, "orders", "note")]
    write(tmp_path / "export", "orders", [{"id": 1, "note": "b"}, {"id": 2, "note": "default"}])
    load(made, tmp_path / "export", 30)
    made.run()
    assert made.shown("orders", "id", "note") == [(1, "b")], "the stream has not shown what lies below csn 30 yet"
    made.commit(25, insert("lines", id=8, order_id=2, item="y"))
    made.commit(40, delete("lines", id=7))
    made.run()
    assert made.shown("orders", "id", "note") == [(1, "b"), (2, "default")]
    documents = {row["id"]: [line["item"] for line in row["lines"]] for row in made.rows("doc_current")}
    assert documents == {1: [], 2: ["y"]}
    assert made.findings() == []
    assert drift(made, "after") == []


def test_what_was_never_whole_below_a_load_of_everything_holds_nothing_up(spark: Any, tmp_path: Path) -> None:
    """Capture began in the middle of a transaction, whose first rows are in the load alone."""
    made = shop(spark, tmp_path)
    made.send(*made.rows_of(45, insert("orders", id=9, note="its other row was sent too early")))
    made.send(made.metadata_of(45, orders=2))
    for table, rows in (("orders", [{"id": 9, "note": "n"}, {"id": 8, "note": "m"}]), ("lines", [])):
        write(tmp_path / "export", table, rows)
    load(made, tmp_path / "export", 50)
    made.run()
    assert made.shown("orders", "id") == [(8,), (9,)]
    (cut,) = made.query("cuts", "select valid_through, gaps from t order by cut_id desc limit 1")
    assert (cut["valid_through"], cut["gaps"]) == (50, [])


@pytest.fixture(params=["in this process", "in others"])
def decoding_process(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let rows be decoded here, and in tasks that are processes of this machine."""
    if request.param == "in others":
        monkeypatch.setattr(decoding, "LOCAL_BYTES", -1)
        monkeypatch.setattr(tasks, "_is_session_open", lambda: False)


@pytest.mark.parametrize(
    ("table", "lines", "message"),
    [
        ("orders", '{"id": 1}\n{"id": "x"}\n', "export/orders/rows.jsonl: row 2: id: 'x' is not a long; nothing was"),
        ("orders", '{"id": 1}\n{"id"\n', "export/orders/rows.jsonl:2: not a row of orders: "),
        (
            "orders",
            '{"note": "no key"}\n',
            "export/orders/rows.jsonl: row 1: no key: id is missing; nothing was loaded",
        ),
        ("order", "", "export/order: expected folders named like watched tables: lines, orders"),
    ],
)
def test_what_cannot_be_read_is_named_and_nothing_is_loaded(
    spark: Any, tmp_path: Path, decoding_process: None, table: str, lines: str, message: str
) -> None:
    made = shop(spark, tmp_path)
    (tmp_path / "export" / table).mkdir(parents=True)
    (tmp_path / "export" / table / "rows.jsonl").write_text(lines)
    with pytest.raises(ConfigurationError) as refused:
        load(made, tmp_path / "export", 50)
    assert message in str(refused.value)
    assert made.query("landed_files", "select * from t") == []


def test_a_csn_with_a_digit_too_many_is_refused_unless_it_is_meant(spark: Any, tmp_path: Path) -> None:
    made = shop(spark, tmp_path)
    made.commit(33, insert("orders", id=1, note="a"))
    made.run()
    write(tmp_path / "export", "orders", [{"id": 1, "note": "b"}])
    with pytest.raises(ConfigurationError, match=r"csn 330: the newest that the source sent is 33; .* say --ahead"):
        load(made, tmp_path / "export", 330)
    assert load(made, tmp_path / "export", 330, ahead=True)["tables"] == 1


def test_a_load_killed_after_its_writes_is_applied_once(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = new_lake(spark, tmp_path, monkeypatch)
    for table in declarations.TABLES:
        rows = [{"CODE": "P", "DISCOUNT": "1.5", "VALID_TO": None}] if table == "promo_codes" else []
        write(tmp_path / "export", table, rows)
    arguments = ("--path", str(tmp_path / "export"), "--csn", "50")
    killed_again_and_again(lake, "load_snapshot", (1, 4), *arguments)
    lake.run()
    assert [(row["code"], str(row["discount"])) for row in lake.rows("promo_codes")] == [("P", "1.5000")]
    assert [cut["valid_through"] for cut in lake.query("cuts", "select valid_through from t")] == [50]
    assert all(line["balanced"] for line in lake.query("ledger", "select balanced from t where step = 'balance'"))


def test_a_renamed_column_is_right_after_its_source_and_a_load(spark: Any, tmp_path: Path) -> None:
    made = shop(spark, tmp_path)
    made.commit(10, insert("orders", id=1, note="a"))
    made.commit(20, insert("orders", id=2, remark="b"))
    made.run()
    assert (f.RENAMED, "orders", "note", 20, True) in made.findings()
    made.declare(ORDERS.format(columns="id: long, note: {type: string, source: REMARK}", policy="ignore"))
    write(tmp_path / "export", "orders", [{"id": 1, "remark": "a"}, {"id": 2, "remark": "b"}])
    load(made, tmp_path / "export", 20)
    made.run()
    assert made.shown("orders", "id", "note") == [(1, "a"), (2, "b")]
    assert made.findings() == []
