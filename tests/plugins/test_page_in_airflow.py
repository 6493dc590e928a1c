"""The page within Airflow's own UI, for everybody's eyes and hands: navigation, tab, theme, keyboard, accessibility."""

from collections.abc import Callable
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe

from services.airflow.browsing import Visitor

Visit = Callable[..., Visitor]
PAGES = (
    "",
    "?color=green",
    *(f"dags/failing_cdc{part}" for part in ("", "/expectations", "/letters", "/findings", "/incidents", "/runs")),
    *("dags/failing_cdc/cuts", "dags/huge_cdc/waiting", "dags/empty_cdc", "dags/nothing_cdc"),
    *("dags/orders_cdc/transaction?id=1431", "dags/orders_cdc/key", "dags/shop_cdc/key?table=items&value=1"),
)


def frame(page: Any) -> Any:
    """Return the page's frame in Airflow's, once it shows something."""
    iframe = page.frame_locator("iframe")
    iframe.locator("h1").wait_for()
    return iframe


def test_the_overview_is_an_entry_of_airflows_navigation(visit: Visit) -> None:
    visitor = visit()
    page = visitor.open("/")
    page.locator("a[href$='/plugin/txloom']").click()
    framed = frame(page)
    assert framed.locator("h1").inner_text() == "5 pipelines need you now"
    visitor.keep("in_airflow", whole=False)
    framed.get_by_role("link", name="failing", exact=True).click()
    page.wait_for_url("**/plugin/txloom/txloom/dags/failing_cdc")
    page.reload()
    assert frame(page).locator("h1").inner_text().startswith("✕failing: 7 things are wrong".replace("✕", "✕ "))


def test_a_link_to_a_dag_opens_it_in_airflow_and_not_in_the_frame(visit: Visit) -> None:
    page = visit().open("/plugin/txloom/txloom/dags/failing_cdc/letters")
    frame(page).get_by_role("link", name="failing_dead_letters", exact=True).click()
    page.wait_for_url("**/dags/failing_dead_letters")
    assert page.locator("iframe").count() == 0


@pytest.mark.parametrize("dag", ["failing_cdc", "failing_maintenance"])
def test_each_dag_of_a_pipeline_has_the_page_as_a_tab(visit: Visit, dag: str) -> None:
    visitor = visit()
    page = visitor.open(f"/dags/{dag}")
    page.locator("a[href$='/plugin/txloom-pipeline']").click()
    assert "failing: 7 things are wrong" in frame(page).locator("h1").inner_text()
    visitor.keep("tab", whole=False)


def test_the_page_follows_airflows_own_theme(visit: Visit) -> None:
    visitor = visit()
    page = visitor.open("/")
    page.evaluate("localStorage.setItem('theme', 'dark')")
    page = visitor.open("/plugin/txloom")
    ground = "getComputedStyle(document.body).backgroundColor"
    framed = frame(page)
    assert framed.locator("body").evaluate(ground) == "rgb(17, 19, 23)"
    page.evaluate("document.documentElement.classList.replace('dark', 'light')")
    framed.locator(":root[data-theme=light]").wait_for()
    assert framed.locator("body").evaluate(ground) == "rgb(255, 255, 255)"


def test_the_frame_shows_who_may_not_see_a_pipeline_why(visit: Visit) -> None:
    visitor = visit("guest")
    page = visitor.open("/plugin/txloom/txloom/dags/private_cdc")
    assert frame(page).locator("h1").inner_text() == "You may not see this"
    visitor.keep("no_permission", whole=False)
    visitor = visit(None)
    page = visitor.open("/txloom/dags/orders_cdc")
    visitor.keep("not_logged_in", whole=False)
    assert page.locator("h1").inner_text() == "Log in first"
    page.get_by_role("link", name="Log in").click()
    page.get_by_label("Username").fill("ann")
    page.get_by_label("Password").fill("secret")
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url("**/txloom/dags/orders_cdc")
    assert "orders: healthy" in page.locator("h1").inner_text()


@pytest.mark.parametrize("dark", [False, True])
def test_axe_finds_nothing(visit: Visit, dark: bool) -> None:
    visitor = visit(dark=dark)
    violations = []
    for path in PAGES:
        report = Axe().run(visitor.open(f"/txloom/{path}")).response
        assert len(report["passes"]) > 15, path
        violations += [(path, each["impact"], each["id"], each["nodes"][0]["html"]) for each in report["violations"]]
    assert violations == []
