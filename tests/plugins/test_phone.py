"""The page on a phone at night: 390 by 844, light and dark; nothing lies beside the screen or is too small."""

from collections.abc import Callable
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe

from services.airflow.browsing import Visitor
from txloom.page.pages import PARTS

Visit = Callable[..., Visitor]
WIDTH, HEIGHT = 390, 844
ROUTES = (
    *("", "?color=red", "dags/empty_cdc", "dags/orders_cdc", "dags/nothing_cdc", "dags/huge_cdc/waiting"),
    *(f"dags/failing_cdc/{part}".rstrip("/") for part in PARTS),
    *("dags/orders_cdc/transaction?id=1431", "dags/orders_cdc/transaction?id=none", "dags/shop_cdc/transaction?id=x3"),
    *("dags/shop_cdc/key?table=items&value=1", "dags/shop_cdc/key?table=parts", "dags/failing_cdc?since=7d#changes"),
)
SMALL = """
    [...document.querySelectorAll("a[href], button, input:not([type=hidden]), select, summary")]
    .filter((one) => one.checkVisibility() && !one.matches(".skip"))
    .map((one) => [one.textContent.trim().slice(0, 40) || one.name, one.getBoundingClientRect()])
    .filter(([, box]) => box.height < 40 || box.width < 40).map(([text, box]) => `${text} ${box.width} x ${box.height}`)
"""
"""What is to be tapped and is smaller than a finger."""
TINY = """
    [...document.querySelectorAll("body *")].filter((one) => one.checkVisibility()
        && [...one.childNodes].some((child) => child.nodeType === 3 && child.textContent.trim()))
    .map((one) => [one.textContent.trim().slice(0, 40),
        parseFloat(getComputedStyle(one).fontSize) * (one.getScreenCTM?.().a ?? 1)])
    .filter(([, size]) => size < 12).map(([text, size]) => `${text} ${size}`)
"""
"""Texts that are smaller than 12 pixels, also in a chart that is scaled."""
BESIDE = """
    [...document.querySelectorAll("body *")].filter((one) => one.checkVisibility())
    .filter((one) => !one.closest(".skip, .scroll, .charts"))
    .filter((one) => one.getBoundingClientRect().right > innerWidth + 1).map((one) => one.outerHTML.slice(0, 80))
"""
"""What reaches beyond the screen and lies in no box that scrolls by itself."""


@pytest.fixture(params=[False, True], ids=["light", "dark"])
def phone(visit: Visit, request: pytest.FixtureRequest) -> Visitor:
    visitor = visit(dark=request.param)
    visitor.page.set_viewport_size({"width": WIDTH, "height": HEIGHT})
    return visitor


def test_no_page_scrolls_sideways_and_all_can_be_read_and_tapped(phone: Visitor) -> None:
    wrong: list[tuple[str, Any]] = []
    for path in ROUTES:
        page = phone.open(f"/txloom/{path}")
        page.evaluate("for (const each of document.querySelectorAll('details')) each.open = true")
        if (width := page.evaluate("document.scrollingElement.scrollWidth")) > WIDTH:
            wrong.append((path, f"{width} pixels wide"))
        wrong += [(path, each) for script in (BESIDE, SMALL, TINY) for each in page.evaluate(script)]
    assert wrong == []


def test_axe_finds_nothing_in_a_narrow_window(phone: Visitor) -> None:
    violations = []
    for path in ("", "dags/failing_cdc", "dags/failing_cdc/letters", "dags/failing_cdc/runs"):
        report = Axe().run(phone.open(f"/txloom/{path}")).response
        violations += [(path, each["id"], each["nodes"][0]["html"]) for each in report["violations"]]
    assert violations == []


def test_rows_of_tables_are_cards_that_name_their_cells(phone: Visitor) -> None:
    page = phone.open("/txloom/")
    row = page.locator(".pipelines tbody tr").nth(2)
    labels = row.locator("td").evaluate_all("all => all.map(one => getComputedStyle(one, '::before').content)")
    assert labels == [
        f'"{name}"'
        for name in ("What is wrong, since when", "Readers see", "Waiting", "Dead letters", "Last cut", "As of")
    ]
    phone.keep("phone", whole=False)
    page = phone.open("/txloom/dags/failing_cdc")
    phone.keep("phone_failing", whole=False)
    assert page.locator("h1").inner_text().endswith("min")


def test_without_javascript_tables_scroll_in_their_own_box(chromium: Any, phone: Visitor) -> None:
    context = chromium.new_context(viewport={"width": WIDTH, "height": HEIGHT}, java_script_enabled=False)
    context.add_cookies(phone.context.cookies())
    page = context.new_page()
    page.goto(f"{phone.server.url}/txloom/dags/failing_cdc/letters")
    box = page.locator(".scroll").first
    assert box.evaluate("one => getComputedStyle(one).overflowX") == "auto" and page.locator(".cards").count() == 0
    context.close()
