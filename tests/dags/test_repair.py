"""An audit and its repair in a real Airflow, beside a live PostgreSQL: what a person refuses, and what they approve."""

import json
import urllib.parse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from services.airflow.instance import ENDED, Airflow
from services.postgres import Postgres
from txloom.storage.checks.findings import open_findings
from txloom.storage.delta import small_tables
from txloom.storage.paths import TablePaths

pytestmark = [pytest.mark.random_order(disabled=True), pytest.mark.timeout(1800), pytest.mark.machines]
"""The tests are steps of one story: Airflow takes half a minute to start, and a run as many JVMs as it has steps."""
LONG = 900
AUDIT, REPAIR, CYCLE = "shop_audit", "shop_repair", "shop_cdc"
DECLARATION = """
name: shop
source: {{format: wal2json, files: {{path: {inbox}, settle: 0s}}}}
completeness: {{rule: markers, patience: 2h}}
tables:
  - {{name: rows, source: public.rows, key: [id], columns: {{id: long, amount: 'decimal(10,2)', api_token: string}}}}
targets: {{mirrors: [rows]}}
audit: {{connection: shop_db, wait: 10m}}
"""
SLOT = """
    SELECT data FROM pg_logical_slot_get_changes('repaired', NULL, NULL, 'format-version', '2', 'include-xids', '1',
        'include-lsn', '1', 'include-timestamp', '1')
"""


class Shop:
    """A pipeline that follows a database."""

    def __init__(self, airflow: Airflow, folder: Path, postgres: Postgres) -> None:
        self.airflow, self.folder, self.postgres = airflow, folder, postgres
        self.files = 0

    def cycle(self) -> None:
        """Deliver what the slot has, and run a cycle."""
        if lines := self.postgres.psql(SLOT, "repaired"):
            self.files += 1
            (self.folder / "inbox" / "shop" / f"{self.files}.jsonl").write_text(f"{lines}\n")
        assert self.airflow.wait(CYCLE, self.airflow.trigger(CYCLE), LONG) == "success"

    def to_its_end(self, dag: str, run_id: str) -> None:
        """Run cycles, as a schedule does, until a run ended well."""
        while (state := self.state(dag, run_id)) not in ENDED:
            self.cycle()
        assert state == "success", self.airflow.tasks(dag, run_id)

    def state(self, dag: str, run_id: str) -> str:
        return str({run["dag_run_id"]: run["state"] for run in self.airflow.runs(dag)}[run_id])

    def amounts(self) -> dict[int, float]:
        rows = small_tables.query(f"{self.folder}/lake/shop/rows", "select id, amount from t")
        return {row["id"]: float(row["amount"]) for row in rows}

    def findings(self) -> list[str]:
        return [row["code"] for row in open_findings(TablePaths(str(self.folder / "lake"), "shop"))]

    def note(self, dag: str, run_id: str) -> str:
        return str(self.airflow.ask("GET", f"/api/v2/dags/{dag}/dagRuns/{urllib.parse.quote(run_id)}")["note"])


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory, postgres: Postgres, wal2json: str) -> Iterator[Shop]:
    folder = tmp_path_factory.mktemp("repair")
    (folder / "pipelines").mkdir()
    (folder / "inbox" / "shop").mkdir(parents=True)
    postgres.fresh_database(
        "repaired",
        """
        CREATE TABLE rows (id bigint PRIMARY KEY, amount numeric(10,2), api_token text);
        SELECT pg_create_logical_replication_slot('repaired', 'wal2json');
        INSERT INTO rows SELECT n, n, 'T0KEN' || n FROM generate_series(1, 100) n;
        """,
    )
    (folder / "pipelines" / "shop.yaml").write_text(DECLARATION.format(inbox=folder / "inbox"))
    about: dict[str, Any] = {"conn_type": "postgres", "login": "postgres", "schema": "repaired"}
    about |= {"host": postgres.host, "port": postgres.port}
    connection = {"AIRFLOW_CONN_SHOP_DB": json.dumps(about)}
    airflow = Airflow(folder / "airflow", folder / "pipelines", folder / "lake", connection)
    with airflow:
        for dag in (AUDIT, REPAIR, CYCLE):
            airflow.unpause(dag)
        made = Shop(airflow, folder, postgres)
        made.cycle()
        yield made
    postgres.psql("SELECT pg_drop_replication_slot('repaired')")


def test_an_audit_of_rows_that_somebody_changed_in_the_lake_is_a_finding(shop: Shop) -> None:
    rows = DeltaTable(f"{shop.folder}/lake/shop/rows")
    rows.update(predicate="id = 5", updates={"amount": "7", "api_token": "'other'"})
    rows.delete("id = 6")
    shop.to_its_end(AUDIT, shop.airflow.trigger(AUDIT))
    assert shop.findings() == ["differs from the source"]


def test_what_a_person_refuses_is_not_loaded(shop: Shop) -> None:
    run_id = shop.airflow.trigger(REPAIR, {})
    page = shop.airflow.question_of(REPAIR, run_id, "approve", within=LONG)
    assert page.startswith("**2 rows are loaded as the source had them.**"), page
    assert "| id\\=5 | amount | 7\\.00 | 5\\.00 |" in page or "| id=5 | amount | 7.00 | 5.00 |" in page, page
    assert "T0KEN" not in page and "no row | a row" in page
    shop.airflow.answer(REPAIR, run_id, "approve", "Reject")
    assert shop.airflow.wait(REPAIR, run_id, LONG) == "success"
    states = {task: each["state"] for task, each in shop.airflow.tasks(REPAIR, run_id).items()}
    assert (states["repair"], states["audit"], states["outcome"]) == ("skipped", "skipped", "success")
    assert shop.note(REPAIR, run_id) == "Nothing was loaded: admin refused."
    assert shop.amounts()[5] == 7 and 6 not in shop.amounts()


def test_what_a_person_approves_is_loaded_and_an_audit_closes_the_finding(shop: Shop) -> None:
    run_id = shop.airflow.trigger(REPAIR, {})
    shop.airflow.question_of(REPAIR, run_id, "approve", within=LONG)
    shop.airflow.answer(REPAIR, run_id, "approve", "Approve")
    shop.to_its_end(REPAIR, run_id)
    assert shop.amounts() == {n: n for n in range(1, 101)}
    assert shop.findings() == []
    outcome = shop.airflow.xcom(REPAIR, run_id, "outcome")
    counted = {"rows": 2, "changed_since": 0, "left_out": 0, "more": 0, "differing": 0, "unsettled": 0, "behind": 0}
    assert outcome == counted
    expected = "**2 rows were loaded**.\n\nThe audit after it: 0 rows differ.\n\nApproved by admin."
    assert shop.note(REPAIR, run_id) == expected


def test_a_large_share_of_a_table_is_loaded_only_with_the_number_that_a_person_enters(shop: Shop) -> None:
    DeltaTable(f"{shop.folder}/lake/shop/rows").update(predicate="id > 70", updates={"amount": "7"})
    shop.to_its_end(AUDIT, shop.airflow.trigger(AUDIT))
    for number in (None, 30):
        run_id = shop.airflow.trigger(REPAIR, {})
        page = shop.airflow.question_of(REPAIR, run_id, "approve", within=LONG)
        assert "enter 30 as allow_rows" in page and "rows: 30 of 100 rows (30.0%) would be deleted or changed" in page
        shop.airflow.answer(REPAIR, run_id, "approve", "Approve", **({"allow_rows": number} if number else {}))
        if number is None:
            assert shop.airflow.wait(REPAIR, run_id, LONG) == "failed"
            assert "the repair is refused: nothing was landed" in shop.airflow.log(REPAIR, run_id, "repair")
    shop.to_its_end(REPAIR, run_id)
    assert shop.amounts() == {n: n for n in range(1, 101)} and shop.findings() == []


def test_rows_that_differ_from_the_files_of_a_folder_are_loaded_and_compared_with_them_again(shop: Shop) -> None:
    exported = shop.folder / "export" / "rows"
    exported.mkdir(parents=True)
    rows = [{"id": n, "amount": "9.00" if n == 7 else f"{n}.00", "api_token": f"T0KEN{n}"} for n in range(1, 101)]
    (exported / "rows.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    cuts = small_tables.query(f"{shop.folder}/lake/shop/cuts", "select max(valid_through) as csn from t")
    form = {"folder": str(exported.parent), "csn": cuts[0]["csn"]}
    assert shop.airflow.wait(AUDIT, shop.airflow.trigger(AUDIT, form), LONG) == "success"
    assert shop.findings() == ["differs from the source"]
    run_id = shop.airflow.trigger(REPAIR, {"approval": "never"})
    assert shop.airflow.wait(REPAIR, run_id, LONG) == "success"
    assert shop.amounts() == {n: 9 if n == 7 else n for n in range(1, 101)}
    assert shop.findings() == []
    assert shop.note(REPAIR, run_id) == "**1 rows were loaded**.\n\nThe audit after it: 0 rows differ."


def test_where_nothing_differs_a_repair_says_so(shop: Shop) -> None:
    run_id = shop.airflow.trigger(REPAIR, {})
    assert shop.airflow.wait(REPAIR, run_id, LONG) == "failed"
    assert "the newest audit lists no rows that differ and can be repaired" in shop.airflow.log(
        REPAIR, run_id, "list_rows"
    )
