"""The sample through real Spark and Delta: every version of every table is a state that the source had.

The source's states come from tests/oracle, which shares no code with the pipeline.
"""

from typing import Any

import pytest

from lake import Lake, arrivals, new_lake
from oracle import capture, comparison, declarations, values
from oracle.completeness import progress
from oracle.state import Source
from txloom import read
from txloom.errors import BeyondValidThrough, ConfigurationError
from txloom.storage.checks.findings import open_findings
from txloom.storage.paths import TablePaths

pytestmark = [pytest.mark.random_order(disabled=True), pytest.mark.stream]
"""The tests are steps of one story."""
MIRRORS = tuple(declarations.TABLES)


@pytest.fixture(scope="module")
def lake(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Run the whole sample, one cycle per arrival."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        made = new_lake(spark, tmp_path_factory.mktemp("sample"), monkeypatch)
        made.history = []  # type: ignore[attr-defined]
        for arrival in arrivals():
            made.deliver(arrival)
            made.history.append(made.run())  # type: ignore[attr-defined]
        yield made


@pytest.fixture(scope="module")
def source() -> Source:
    return Source(capture.read(capture.arrivals()))


def flat(lake: Lake, table: str, version: int | None = None) -> dict[Any, Any]:
    rows = lake.rows(table, version)
    return comparison.keyed(rows, declarations.TABLES[table].key)


def expected(source: Source, csn: int) -> dict[str, Any]:
    return values.typed_state(source.state_as_of(csn))


def expected_documents(source: Source, csn: int) -> dict[Any, Any]:
    return values.typed_documents(source.documents_as_of(csn))


@pytest.mark.session
def test_the_mirrors_equal_the_true_final_state(lake: Lake) -> None:
    truth = values.typed_state(capture.truth())
    differences = comparison.differences(truth, {table: flat(lake, table) for table in MIRRORS})
    assert not differences, comparison.report(differences)


def test_the_documents_equal_the_true_final_state(lake: Lake, source: Source) -> None:
    truth = expected_documents(source, source.csns[-1])
    actual = comparison.keyed(lake.rows("orders_current"), ("order_id",))
    differences = comparison.differences({"orders_current": truth}, {"orders_current": actual})
    assert not differences, comparison.report(differences)


def test_one_changed_value_of_one_row_is_a_difference(lake: Lake) -> None:
    truth = values.typed_state(capture.truth())
    actual = {table: flat(lake, table) for table in MIRRORS}
    key = next(iter(actual["order_line_items"]))
    actual["order_line_items"][key]["remark"] = "changed"
    assert len(comparison.differences(truth, actual)) == 1


@pytest.mark.parametrize("table", MIRRORS)
def test_every_version_of_a_mirror_is_the_source_as_of_its_valid_through(
    lake: Lake, source: Source, table: str
) -> None:
    for version, csn in lake.marks(table):
        differences = comparison.differences(
            {table: expected(source, csn).get(table, {})}, {table: flat(lake, table, version)}
        )
        assert not differences, f"version {version} as of {csn}: {comparison.report(differences)}"


@pytest.mark.session
def test_every_version_of_the_documents_is_the_source_as_of_its_valid_through(lake: Lake, source: Source) -> None:
    for version, csn in lake.marks("orders_current"):
        actual = comparison.keyed(lake.rows("orders_current", version), ("order_id",))
        differences = comparison.differences({"documents": expected_documents(source, csn)}, {"documents": actual})
        assert not differences, f"version {version} as of {csn}: {comparison.report(differences)}"


def test_every_cut_names_versions_that_show_one_state(lake: Lake, source: Source) -> None:
    cuts = lake.query("cuts", "select * from t order by cut_id")
    assert len(cuts) >= 5
    for cut in cuts:
        state = expected(source, cut["valid_through"])
        actual = {table: flat(lake, table, cut["versions"][table]) for table in MIRRORS}
        differences = comparison.differences({table: state.get(table, {}) for table in MIRRORS}, actual)
        documents = comparison.keyed(lake.rows("orders_current", cut["versions"]["orders_current"]), ("order_id",))
        differences += comparison.differences(
            {"documents": expected_documents(source, cut["valid_through"])}, {"documents": documents}
        )
        assert not differences, f"cut {cut['cut_id']}: {comparison.report(differences)}"


def test_valid_through_after_each_arrival_is_the_oracles(lake: Lake) -> None:
    expected_csns = [step.valid_through for step in progress(arrivals())]
    assert [run["merge_current"]["valid_through"] for run in lake.history] == expected_csns  # type: ignore[attr-defined]


def test_the_ledger_balances_after_every_run(lake: Lake) -> None:
    lines = lake.query("ledger", "select balanced, counts from t where step = 'balance' order by at")
    assert len(lines) >= len(arrivals()) and all(line["balanced"] for line in lines)
    whole = capture.read(capture.arrivals())
    counts = lines[-1]["counts"]
    assert counts["landed"] == whole.rows + whole.metadata
    assert (counts["dead"], counts["buffered"]) == (0, 0)
    assert counts["duplicates"] == whole.duplicate_rows


def test_history_holds_every_change_of_every_transaction(lake: Lake, source: Source) -> None:
    whole = capture.read(capture.arrivals())
    for table in MIRRORS:
        expected = sorted((t.csn, e.pos) for t in whole.transactions for e in t.events if e.table == table)
        actual = sorted((r["_txloom_csn"], r["_txloom_pos"]) for r in lake.rows(f"{table}_changes"))
        assert actual == expected, table


def test_every_table_reads_as_of_any_csn(lake: Lake, source: Source) -> None:
    for csn in source.csns[::60] + source.csns[-1:]:
        actual = {table: as_rows(read_as_of(lake, table, csn=csn), table) for table in MIRRORS}
        differences = comparison.differences(expected(source, csn), actual)
        documents = comparison.keyed(read_as_of(lake, "orders_current", csn=csn), ("order_id",))
        differences += comparison.differences({"documents": expected_documents(source, csn)}, {"documents": documents})
        assert not differences, f"as of {csn}: {comparison.report(differences)}"


def test_a_moment_is_the_last_transaction_committed_by_then(lake: Lake) -> None:
    (row,) = lake.query("transactions", "select csn, committed_at from t order by csn offset 300 limit 1")
    last = max(
        each["csn"]
        for each in lake.query("transactions", "select csn, committed_at from t")
        if each["committed_at"] <= row["committed_at"]
    )
    assert read_as_of(lake, "orders", time=row["committed_at"]) == read_as_of(lake, "orders", csn=last)


def test_what_is_not_complete_yet_or_not_there_is_refused(lake: Lake, source: Source) -> None:
    with pytest.raises(BeyondValidThrough, match=f"history is complete up to {source.csns[-1]} only"):
        read_as_of(lake, "orders", csn=source.csns[-1] + 1)
    with pytest.raises(ConfigurationError, match="has no current table 'order'; it has order_attachments, "):
        read_as_of(lake, "order", csn=1)


def test_intervals_tell_every_state(lake: Lake, source: Source) -> None:
    def intervals(table: str) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = read.intervals(lake.pipeline, table, warehouse=lake.warehouse).to_pylist()
        return rows

    def held(rows: list[dict[str, Any]], csn: int) -> list[dict[str, Any]]:
        return [row for row in rows if row["_txloom_valid_from"] <= csn < (row["_txloom_valid_to"] or 2**63)]

    mirrors, orders = {table: intervals(table) for table in MIRRORS}, intervals("orders_current")
    for csn in source.csns[::40] + source.csns[-1:]:
        actual = {table: as_rows(held(rows, csn), table) for table, rows in mirrors.items()}
        differences = comparison.differences(expected(source, csn), actual)
        documents = comparison.keyed(held(orders, csn), ("order_id",))
        differences += comparison.differences({"documents": expected_documents(source, csn)}, {"documents": documents})
        assert not differences, f"as of {csn}: {comparison.report(differences)}"


def test_the_newest_cut_is_what_a_reader_reads(lake: Lake) -> None:
    (cut,) = lake.query("cuts", "select cut_id, versions from t order by cut_id desc limit 1")
    assert read.versions(lake.pipeline, warehouse=lake.warehouse) == cut["versions"]
    assert read.versions(lake.pipeline, cut_id=cut["cut_id"], warehouse=lake.warehouse) == cut["versions"]
    assert read.versions(lake.pipeline, cut_id=10**6, warehouse=lake.warehouse) == {}


def read_as_of(lake: Lake, table: str, **at: Any) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = read.as_of(lake.pipeline, table, warehouse=lake.warehouse, **at).to_pylist()
    return rows


def as_rows(rows: list[dict[str, Any]], table: str) -> dict[Any, Any]:
    return comparison.keyed(rows, declarations.TABLES[table].key)


def test_a_sound_source_has_no_findings(lake: Lake) -> None:
    """Rows and metadata that come runs apart, sparse images, swaps: nothing of it is the producer's fault."""
    assert open_findings(TablePaths(lake.warehouse, lake.pipeline.name)) == []


def test_running_every_job_again_changes_nothing(lake: Lake) -> None:
    watched = [*MIRRORS, "orders_current", "order_stream", "transactions", "dead_letters", "cuts"]
    before = {table: lake.version(table) for table in watched}
    lake.run()
    lake.run()
    assert {table: lake.version(table) for table in watched} == before
