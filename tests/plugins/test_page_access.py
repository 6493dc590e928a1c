"""Who may see what of the page, and which addresses it refuses: nobody 401, others 403, nonsense 404 or 422."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from services.airflow.api_server import ApiServer
from services.airflow.browsing import Answer, ask

PROJECT = Path(__file__).resolve().parents[2]
NAMES = ("expectations", "waiting", "letters", "findings", "incidents", "runs", "cuts", "transaction", "key")
PARTS = ("", *(f"/{name}" for name in NAMES))


@pytest.fixture(scope="module")
def tokens(site: ApiServer) -> dict[str, str]:
    return {person: site.token(person) for person in ("admin", "ann", "guest", "nobody")}


def get(site: ApiServer, path: str, token: str | None = None, accept: str = "text/html") -> Answer:
    return ask(site, f"/txloom/{path}", token, accept)


def test_nobody_sees_anything_without_logging_in(site: ApiServer) -> None:
    for path in ("", "dags/orders_cdc/tab", *(f"dags/orders_cdc{part}" for part in PARTS)):
        answer = get(site, path)
        assert answer.code == 401, path
        assert "Log in first" in answer.text and "/api/v2/auth/login?next=" in answer.text
        assert "orders" not in answer.text.replace(f"dags%2Forders_cdc{path}", "").split("<main")[1].split("next=")[0]
        assert get(site, path, accept="application/json").content == {"detail": "Not authenticated"}
    assert get(site, "", "no.such.token").code == 403


def test_who_may_not_read_a_dag_sees_nothing_of_its_pipeline(site: ApiServer, tokens: dict[str, str]) -> None:
    for part in (*PARTS, "/tab"):
        answer = get(site, f"dags/private_cdc{part}", tokens["guest"])
        assert answer.code == 403, part
        assert "Your role may not read the DAG of this pipeline." in answer.text
    assert get(site, "dags/orders_cdc", tokens["guest"]).code == 200
    assert get(site, "dags/private_cdc", tokens["ann"]).code == 200


def test_the_overview_lists_what_one_may_read(site: ApiServer, tokens: dict[str, str]) -> None:
    def listed(person: str) -> list[str]:
        text = get(site, "", tokens[person]).text
        return [n for n in ("orders", "private", "failing", "huge") if f"/txloom/dags/{n}_cdc" in text]

    assert listed("ann") == ["orders", "private", "failing", "huge"]
    assert listed("guest") == ["orders"]
    assert listed("nobody") == []
    assert ["broken.yaml" in get(site, "", tokens[each]).text for each in ("ann", "guest", "nobody")] == [
        True,
        False,
        False,
    ]
    assert "There is no pipeline whose DAG you may read." in get(site, "", tokens["nobody"]).text


def test_another_dag_of_a_pipeline_leads_to_its_page_and_no_further(site: ApiServer, tokens: dict[str, str]) -> None:
    answer = get(site, "dags/orders_maintenance/tab", tokens["guest"])
    assert (answer.code, answer.headers["location"]) == (303, "/txloom/dags/orders_cdc")
    assert get(site, "dags/private_maintenance/tab", tokens["guest"]).headers["location"] == "/txloom/dags/private_cdc"
    assert get(site, "dags/private_cdc", tokens["guest"]).code == 403
    other = get(site, "dags/somebody_elses/tab", tokens["admin"])
    assert other.code == 404 and "somebody_elses belongs to no txloom pipeline." in other.text


HOSTILE = (
    ("dags/..%2F..%2Fetc%2Fpasswd", 404),
    ("dags/..", 404),
    ("dags/orders_cdc%00", 422),
    ("dags/orders'cdc", 422),
    ("dags/%E2%80%AEorders_cdc", 422),
    ("dags/%3Cscript%3Ealert(1)%3C%2Fscript%3E", 404),
    ("dags/%3Cscript%3E", 422),
    ("dags/nothing_cdc", 404),
    ("dags/orders_cdc/waiting?page=0", 422),
    ("dags/orders_cdc/waiting?page=1e9", 422),
    ("dags/orders_cdc/waiting?page=99999999999999999999", 422),
    ("dags/orders_cdc/waiting?longer=never", 422),
    ("dags/orders_cdc/waiting?cause=a%E2%80%AEb", 422),
    ("dags/orders_cdc?span=1y", 422),
    ("dags/orders_cdc/transaction?csn=1%20or%201=1", 422),
    ("dags/orders_cdc/transaction?csn=99999999999999999999", 422),
    ("dags/orders_cdc/transaction?id=%00", 422),
    ("dags/orders_cdc/transaction?id=" + "9" * 400, 422),
    ("dags/orders_cdc/key?table=..%2F..%2Fetc&value=1", 422),
    ("dags/orders_cdc/key?table=orders&value=1%20or%201=1", 422),
    ("dags/orders_cdc/key?table=orders&key.order_id=1&key.x=2", 200),
    ("dags/shop_cdc/data_docs/..%2F..%2Fcuts/index.html", 404),
    ("dags/shop_cdc/data_docs/../../cuts", 404),
    ("dags/shop_cdc/data_docs/nope/..%2Freport.html", 404),
    ("dags/shop_cdc/data_docs/nope/index.html", 404),
    ("dags/shop_cdc/data_docs/.hidden/index.html", 422),
    ("dags/shop_cdc/data_docs/%00/index.html", 422),
    ("?since=tomorrow", 422),
    ("dags/orders_cdc?since=%E2%80%AE2h", 422),
    ("static/..%2F..%2Fplugins%2Ftxloom_plugin.py", 404),
    ("static/page.py", 404),
    ("docs", 404),
    ("openapi.json", 404),
)


@pytest.mark.parametrize(("path", "code"), HOSTILE)
def test_hostile_addresses_are_refused(site: ApiServer, tokens: dict[str, str], path: str, code: int) -> None:
    answer = get(site, path, tokens["admin"])
    assert answer.code == code
    assert "<script>" not in answer.text and "\u202e" not in answer.text and "Traceback" not in answer.text


@pytest.mark.parametrize("text", ["x' or '1'='1", "%';--", "../../etc/passwd", '"><b>', "{{7*7}}", "=cmd|'/C calc'!A0"])
def test_hostile_ids_find_nothing_and_are_shown_as_text(site: ApiServer, tokens: dict[str, str], text: str) -> None:
    from urllib.parse import quote

    from markupsafe import escape

    answer = get(site, f"dags/orders_cdc/transaction?id={quote(text, safe='')}", tokens["admin"])
    assert answer.code == 200 and f"Nothing is known of {escape(text)}." in answer.text
    answer = get(site, f"dags/shop_cdc/key?table=parts&key.id=1&key.part={quote(text, safe='')}", tokens["admin"])
    assert answer.code == 200 and "No change of it was ever released." in answer.text


def test_each_page_forbids_what_it_does_not_need(site: ApiServer, tokens: dict[str, str]) -> None:
    for path, token in (("", tokens["admin"]), ("dags/orders_cdc", tokens["admin"]), ("dags/orders_cdc", None)):
        headers = get(site, path, token).headers
        assert headers["content-security-policy"] == (
            "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; form-action 'self';"
            " base-uri 'none'; frame-ancestors 'self'"
        )
        assert (headers["x-content-type-options"], headers["referrer-policy"]) == ("nosniff", "no-referrer")
        assert headers["cache-control"] == "no-store"


def test_only_the_browser_keeps_when_somebody_looked(site: ApiServer, tokens: dict[str, str]) -> None:
    for path in ("", "dags/orders_cdc", "dags/orders_cdc/runs"):
        assert get(site, path, tokens["admin"]).headers["set-cookie"].startswith("txloom_look="), path
    for path, token in (("", None), ("dags/private_cdc", tokens["guest"]), ("static/page.css", None)):
        assert "set-cookie" not in get(site, path, token).headers, path


def test_data_docs_may_do_nothing_and_are_for_who_may_read_the_pipeline(
    site: ApiServer, tokens: dict[str, str]
) -> None:
    listed = get(site, "dags/shop_cdc/expectations", tokens["admin"]).text
    (path,) = re.findall(r'href="/txloom/(dags/shop_cdc/data_docs/[^"]+)"', listed)
    response = get(site, path, tokens["admin"])
    assert response.code == 200 and response.headers["content-security-policy"].startswith(
        "sandbox allow-same-origin; default"
    )
    assert (get(site, path, tokens["nobody"]).code, get(site, path).code) == (403, 401)


def test_everybody_may_have_the_style_sheet(site: ApiServer) -> None:
    answer = get(site, "static/page.css")
    assert answer.code == 200 and answer.headers["content-type"] == "text/css; charset=utf-8"


def test_the_plugin_loads_without_spark() -> None:
    code = "import sys; sys.path.insert(0, 'plugins'); import txloom_plugin; print('pyspark' in sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], cwd=PROJECT, capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines()[-1] == "False"
