"""The page without a mouse: everything is reached by Tab, in order and in sight, nothing holds the focus."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from services.airflow.browsing import Visitor
from services.process import wait_until
from txloom.page.pages import PARTS

Visit = Callable[..., Visitor]
REACHED = "a[href], button, input:not([type=hidden]), select, summary, [tabindex='0']"
MARK = f"""[...document.querySelectorAll("{REACHED}")].filter(one => one.checkVisibility())
    .map((one, at) => one.dataset.at = at).length"""
FOCUSED = """(() => {
    const one = document.activeElement, box = one.getBoundingClientRect(), style = getComputedStyle(one);
    const middle = (first, last, size) => (Math.max(first, 0) + Math.min(last, size)) / 2;
    const x = Math.max(box.left, 0) + 2, top = document.elementFromPoint(x, middle(box.top, box.bottom, innerHeight));
    const inSight = box.bottom > 0 && box.top < innerHeight && (one === top || one.contains(top) || top?.contains(one));
    return {at: one.dataset.at, outline: style.outlineStyle, inSight, html: one.outerHTML.slice(0, 80)};
})()"""
"""What has the focus: its number, whether a line is drawn around it, and whether it is in sight and not covered."""
ROUTES = (
    *("", "dags/empty_cdc", "dags/orders_cdc", "dags/nothing_cdc"),
    *(f"dags/failing_cdc/{part}".rstrip("/") for part in PARTS),
    *("dags/shop_cdc/key?table=items&value=1", "dags/shop_cdc/transaction?id=x3", "dags/failing_cdc?since=7d"),
)


def tabbed(page: Any, key: str, times: int) -> Iterator[dict[str, Any]]:
    for _ in range(times):
        page.keyboard.press(key)
        yield page.evaluate(FOCUSED)


def test_tab_reaches_every_link_and_control_in_order_and_in_sight_and_leads_back(visit: Visit) -> None:
    visitor = visit()
    for path in ROUTES:
        page = visitor.open(f"/txloom/{path}")
        controls = page.evaluate(MARK)
        forth = list(tabbed(page, "Tab", controls))
        assert [each["at"] for each in forth] == [str(number) for number in range(controls)], path
        assert [each["html"] for each in forth if each["outline"] != "solid" or not each["inSight"]] == [], path
        back = list(tabbed(page, "Shift+Tab", controls - 1))
        assert [each["at"] for each in back] == [str(number) for number in reversed(range(controls - 1))], path
        assert [each["html"] for each in back if not each["inSight"]] == [], path


def test_the_first_link_skips_to_the_content(visit: Visit) -> None:
    visitor = visit()
    for path in ("", "dags/failing_cdc", "dags/failing_cdc/letters"):
        page = visitor.open(f"/txloom/{path}")
        page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        assert page.evaluate("document.activeElement.id") == "main", path
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.closest('main') !== null"), path


def test_enter_opens_what_is_folded_up_and_follows_its_links(visit: Visit) -> None:
    page = visit().open("/txloom/dags/failing_cdc")
    summary = page.locator("#changes > summary")
    assert page.locator("#changes").get_attribute("open") is None
    summary.focus()
    page.keyboard.press("Enter")
    assert page.locator("#changes").get_attribute("open") is not None
    page.get_by_role("link", name="12 dead letters of 4 transactions: table short").focus()
    page.keyboard.press("Enter")
    page.wait_for_url("**/letters?cause=*")


def test_a_box_that_is_too_wide_scrolls_by_arrows(visit: Visit) -> None:
    visitor = visit()
    visitor.page.set_viewport_size({"width": 760, "height": 900})
    page = visitor.open("/txloom/dags/failing_cdc/waiting")
    box = page.locator(".scroll").first
    box.focus()
    for _ in range(4):
        page.keyboard.press("ArrowRight")
    wait_until(lambda: box.evaluate("one => one.scrollLeft") > 0, "a box that has scrolled")


@pytest.mark.parametrize("key", ["Tab", "Shift+Tab"])
def test_the_frame_in_airflow_lets_the_focus_in_and_out(visit: Visit, key: str) -> None:
    page = visit().open("/plugin/txloom")
    framed = page.frame_locator("iframe")
    framed.locator("h1").wait_for()
    links = framed.locator("a[href]:visible")
    (links.last if key == "Tab" else links.nth(1)).focus()
    assert page.evaluate("document.activeElement.tagName") == "IFRAME"
    for _ in range(5):
        page.keyboard.press(key)
    assert page.evaluate("document.activeElement.tagName") != "IFRAME"
