"""validate: one Checkpoint of Great Expectations over all expectations, on what the newest cut shows; Data Docs."""

import json
import re
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from called import step_of
from steps.publish.checked_tables import TABLES, order
from txloom.config import load, names
from txloom.config.models.pipeline import Pipeline
from txloom.errors import ExpectationFailed, TxloomError
from txloom.quality import checkpoint
from txloom.quality.findings import UNKNOWN_ROW, Finding
from txloom.steps.publish.check_expectations import check_expectations
from txloom.steps.publish.judge import Results, judge_expectations
from txloom.steps.publish.validate import validate
from txloom.storage import system_tables
from txloom.storage.checks import data_checks, findings, results
from txloom.storage.checks.judged_state import Newest
from txloom.storage.delta import small_tables
from txloom.storage.delta.table_metadata import identity
from txloom.storage.health.facts import failing_expectations
from txloom.storage.maintenance import expiry
from txloom.storage.paths import TablePaths
from txloom.storage.publishing.watermark import Watermark

pytestmark = pytest.mark.filterwarnings("default")
"""Great Expectations imports modules that Python deprecates."""
DECLARED = """
name: shop
source: {{format: change_events, files: {{path: {folder}}}}}
completeness: {{rule: single}}
judge: {judge}
{tables}
expectations:
  - {{id: orphans, kind: orphans, child: lines, parent: orders, parent_key: [order_id], {end}}}
  - {{id: totals, kind: invariant, sql: "select id, '{{}}' as braces from orders where total < 0", {end}}}
  - {{id: stuck, kind: stuck_transactions, older_than: 10m, {end}}}
  - {{id: dead, kind: dead_letters, at_most: 1, {end}}}
  - {{id: ledger, kind: unbalanced_ledger, {end}}}
  - {{id: versions, kind: version_regressions, table: orders, {end}}}
  - {{id: age, kind: valid_through_age, older_than: 1h, {end}}}
  - {{id: drift, kind: drift, {end}}}
  - {{id: codes, kind: drift, codes: [row was never seen], {end}}}
  - {{id: mail, kind: great_expectation, table: orders, expectation: ExpectColumnValuesToMatchRegex,
      arguments: {{column: email, regex: '^[^@]+@[^@]+$'}}, {end}}}
  - {{id: tokens, kind: great_expectation, table: orders, expectation: ExpectColumnValuesToBeInSet,
      arguments: {{column: api_token, value_set: [t]}}, {end}}}
"""
END = "severity: {severity}, sentence: It <b>holds</b>., hint: Look."
NOW = datetime.now(UTC)
EVIL = "<script>alert(1)</script>"


class Shop:
    """A warehouse into which a test writes tables and cuts as the steps leave them."""

    def __init__(self, folder: Path, *, judge: str = "on_failure", severity: str = "warn") -> None:
        self.folder, self.paths = folder, TablePaths(str(folder), "shop")
        file = folder / "shop.yaml"
        end = END.format(severity=severity)
        file.write_text(DECLARED.format(folder=folder, judge=judge, tables=TABLES, end=end))
        self.pipeline: Pipeline = load(file)
        self.csn = 0

    def store(self, table: str, *rows: dict[str, Any]) -> None:
        """Replace a current table's rows as a merge does: the commit says how far it is."""
        full = [{"_txloom_csn": 7, "_txloom_pos": 1, "_txloom_xid": "x7", **row} for row in rows]
        said = json.loads(Watermark(self.csn, self.csn).to_json())
        small_tables.replace(self.paths.table(table), full, data_checks.schema_of(self.pipeline, table), said)

    def publish(self) -> None:
        """Enter a cut that shows the tables as they are."""
        at = Newest(self.pipeline, self.paths).versions(self.pipeline.current_tables)
        identities = {name: identity(self.paths.table(name), version) for name, version in at.items()}
        ids, marks = ({name: each[part] for name, each in identities.items()} for part in (0, 1))
        cut = {"cut_id": self.csn, "valid_through": self.csn, "release": self.csn, "published_at": NOW}
        cut |= {"versions": at, "table_ids": ids, "marks": marks, "gaps": [], "amends": []}
        small_tables.append(self.paths.table(names.CUTS), [cut], system_tables.CUTS)

    def cycle(self, orders: list[dict[str, Any]], lines: list[dict[str, Any]] = []) -> None:  # noqa: B006
        self.csn += 1
        self.store("orders", *orders)
        self.store("lines", *lines)
        done = {"xid": f"x{self.csn}", "csn": self.csn, "status": "released", "committed_at": NOW, "release": self.csn}
        small_tables.append(self.paths.table(names.TRANSACTIONS), [done], system_tables.TRANSACTIONS)

    def wait(self, *seconds: int | None) -> None:
        """Replace what waits by transactions that have waited for so long."""
        rows = [{"xid": f"x{number}", "age_seconds": age} for number, age in enumerate(seconds)]
        small_tables.replace(self.paths.table(names.PENDING_TRANSACTIONS), rows, system_tables.PENDING_TRANSACTIONS, {})

    def validate(self, run_id: str = "m1") -> dict[str, int]:
        return validate(step_of(self.pipeline, self.folder, run_id))

    def judged(self, *, always: bool) -> Results:
        state = Newest(self.pipeline, self.paths)
        return judge_expectations(self.pipeline, state, self.pipeline.expectations, "r", always=always)

    def page(self, name: str, run: str = "m1") -> str:
        html = results.data_docs_page(self.paths, run, name)
        assert html is not None
        return html


def failed(shop: Shop, run_id: str = "m1") -> set[str]:
    return {name for name, row in results.of_run(shop.paths, run_id).items() if not row["success"]}


def test_all_expectations_are_judged_by_great_expectations_in_one_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    suites = list[list[str]]()
    run = checkpoint.run

    def seen(cases: Any, **more: Any) -> Any:
        suites.append([case.expectation.id for case in cases])
        return run(cases, **more)

    monkeypatch.setattr(checkpoint, "run", seen)
    shop = Shop(tmp_path)
    shop.cycle([order(1)], [{"id": 1, "order_id": 1}])
    shop.publish()
    assert shop.validate() == {"validated": 11, "failed": 0, "rows": 0, "cut_id": 1, "judged": 5}
    assert suites == [["orphans", "totals", "age", "mail", "tokens"]], "of the others there is no table yet"
    findings.record(shop.paths, [Finding(UNKNOWN_ROW, "orders", None, 7, "x7", "id 9 was never seen")], "r")
    small_tables.append(
        shop.paths.table(names.PENDING_TRANSACTIONS),
        [{"xid": "x9", "age_seconds": 900}],
        system_tables.PENDING_TRANSACTIONS,
    )
    assert shop.validate("m2")["failed"] == 3
    assert failed(shop, "m2") == {"stuck", "drift", "codes"}


def test_what_is_judged_is_the_newest_cut_and_not_what_a_merge_left_half_done(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    shop.cycle([order(1)], [{"id": 1, "order_id": 1}])
    assert shop.validate() == {"validated": 0}, "nothing is published yet"
    shop.publish()
    shop.csn += 1
    shop.store("lines", {"id": 1, "order_id": 1}, {"id": 2, "order_id": 2})
    assert shop.validate()["failed"] == 0, "the parent of line 2 is not merged yet"
    assert results.of_run(shop.paths, "m1") == {}, "the cycle has judged what is newer"
    shop.store("orders", order(1))
    shop.publish()
    assert shop.validate("m2")["failed"] == 1
    assert failed(shop, "m2") == {"orphans"}
    assert json.loads(results.of_run(shop.paths, "m2")["orphans"]["sample"])[0]["id"] == 2


def test_what_a_cycle_found_to_fail_is_one_failing_expectation_still(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    shop.cycle([order(1, total=Decimal(-1))])
    check_expectations(step_of(shop.pipeline, tmp_path, "r"), only=["totals"])
    (first,) = failing_expectations(shop.pipeline, shop.paths)
    shop.publish()
    shop.validate()
    (still,) = failing_expectations(shop.pipeline, shop.paths)
    assert (still["expectation"], still["since"]) == ("totals", first["since"])


def test_an_expectation_that_blocks_fails_the_task_after_all_is_written(tmp_path: Path) -> None:
    shop = Shop(tmp_path, severity="block")
    shop.cycle([order(1, total=Decimal(-1))])
    shop.publish()
    with pytest.raises(ExpectationFailed, match=re.escape("totals: 1 of 1 rows fail (id=1, braces={}) in orders")):
        shop.validate()
    assert failed(shop) == {"totals"}
    assert "Fails" in shop.page("index.html")


def test_data_docs_show_text_as_text_and_no_secret_and_load_nothing(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    shop.cycle([order(1, email=EVIL), order(2, email="\ue000b\ue001"), order(3, api_token="tok-quixotry")])
    shop.publish()
    assert shop.validate()["failed"] == 2
    pages = {name: shop.page(name) for name in ("index.html", "of_mail.html", "of_tokens.html", "of_totals.html")}
    for name, page in pages.items():
        assert "<script" not in page and "http:" not in page and "https:" not in page, name
        assert not re.search(r"<(img|link|base)\b|\son[a-z]+=", page), name
        assert "<b>holds" not in page and "default-src 'none'" in page, name
        assert "quixotry" not in page, name
    assert "&#60;script&#62;alert(1)&#60;/script&#62;" in pages["of_mail.html"]
    assert "?b?" in pages["of_mail.html"], "signs of ours that a source sends are not ours"
    assert 'href="of_mail.html"' in pages["index.html"] and "It &lt;b&gt;holds" in pages["index.html"]


def test_data_docs_are_found_by_the_names_that_are_there_and_by_no_others(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    shop.cycle([order(1)])
    shop.publish()
    shop.validate("../r<1>")
    ((run, _),) = results.data_docs(shop.paths)
    assert run.startswith("_.._r_1_-") and results.data_docs_page(shop.paths, run, "index.html")
    (tmp_path / "shop" / "_reports" / run / names.DATA_DOCS / ".hidden.html").write_text("")
    for name in ("../report.html", "..", ".hidden.html", "", "nope.html", "/etc/passwd", "../../../shop.yaml"):
        assert results.data_docs_page(shop.paths, run, name) is None
        assert results.data_docs_page(shop.paths, name, "index.html") is None


def test_data_docs_are_kept_as_long_as_reports(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    shop.cycle([order(1)])
    shop.publish()
    for run in ("m1", "m2"):
        shop.validate(run)
    assert [run for run, _ in results.data_docs(shop.paths)] == ["m2", "m1"]
    assert expiry.drop_run_folders(shop.paths, names.REPORTS, datetime.now(UTC)) == 2
    assert results.data_docs(shop.paths) == []


def test_a_cycle_that_judges_always_lets_great_expectations_judge_what_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    judged = list[str]()
    run = checkpoint.run

    def seen(cases: Any, **more: Any) -> Any:
        judged.extend(case.expectation.id for case in cases)
        return run(cases, **more)

    monkeypatch.setattr(checkpoint, "run", seen)
    for judge, expected in (("on_failure", []), ("always", ["totals"])):
        folder = tmp_path / judge
        folder.mkdir()
        shop = Shop(folder, judge=judge)
        shop.cycle([order(1)])
        check_expectations(step_of(shop.pipeline, folder, "r"), only=["totals"])
        assert judged == expected


def test_great_expectations_that_cannot_be_loaded_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "great_expectations", None)
    shop = Shop(tmp_path)
    shop.cycle([order(1)])
    shop.publish()
    with pytest.raises(TxloomError, match="Great Expectations cannot be loaded"):
        shop.validate()


def test_verdicts_that_differ_are_an_error_and_not_a_verdict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shop = Shop(tmp_path)
    small_tables.append(
        shop.paths.table(names.PENDING_TRANSACTIONS),
        [{"xid": "x9", "age_seconds": 900}],
        system_tables.PENDING_TRANSACTIONS,
    )
    monkeypatch.setattr("txloom.quality.conditions.AtMost.failing", lambda _, rows: f"select * from ({rows}) limit 0")
    errors = shop.judged(always=True).errors
    assert str(errors["stuck"]).startswith("expectation stuck: SQL finds 0 rows that fail and Great Expectations 1,")
