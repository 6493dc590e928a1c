"""The page in a real browser, in front of a real API server: what somebody on call sees of each pipeline."""

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from services.airflow.browsing import Visitor
from services.airflow.showcase import HIDDEN, HUGE, LETTERS, ORPHANS, QUOTES, SCRIPT, STUCK
from txloom.config import load
from txloom.config.project import PROJECT
from txloom.quality.incidents import ADVICE, GONE
from txloom.transactions import completeness

Visit = Callable[..., Visitor]
EXPECTATIONS = len(load(PROJECT / "include" / "pipelines" / "orders.yaml").expectations)
SIGN = HIDDEN.replace("\u202e", "U+202E")
"""What the page makes of a text that turns the direction of writing."""


def texts(page: Any, selector: str) -> list[str]:
    """Return what elements say, white space as one space."""
    return [re.sub(r"\s+", " ", each).strip() for each in page.locator(selector).all_inner_texts()]


def section(name: str) -> str:
    return f"section[aria-labelledby={name}]"


def table(page: Any, within: str = "main") -> list[list[str]]:
    """Return the cells of the first table within an element."""
    rows = page.locator(f"{within} table").first.locator("tbody tr").all()
    return [[re.sub(r"\s+", " ", text).strip() for text in row.locator("th, td").all_inner_texts()] for row in rows]


def moment(text: str) -> datetime:
    return datetime.strptime(text, "%Y-%m-%d %H:%M:%S UTC").replace(tzinfo=UTC)


def span(text: str) -> timedelta:
    hours, minutes = map(int, re.fullmatch(r"(\d+) h (\d+) min", text).groups())
    return timedelta(hours=hours, minutes=minutes)


def test_the_overview_shows_the_worst_first(visit: Visit) -> None:
    visitor = visit()
    page = visitor.open("/txloom/")
    visitor.keep("overview")
    rows = table(page)
    assert [row[0] for row in rows] == [
        "✕ broken red",
        "✕ empty red",
        "✕ failing red",
        "✕ huge red",
        "✕ private red",
        "✓ orders healthy",
        "✓ shop healthy",
    ]
    assert texts(page, "h1") == ["5 pipelines need you now"]
    assert rows[2][3].startswith("25 ") and rows[2][4] == "15" and rows[2][5].startswith("4 ")
    assert rows[3][3].startswith("10,000 ")
    assert "broken.yaml" in rows[0][1] and "txloom check" not in rows[5][1]
    page.get_by_role("link", name=re.compile("healthy 2")).click()
    assert [row[0] for row in table(page)] == ["✓ orders healthy", "✓ shop healthy"]


def test_a_healthy_pipeline_says_so_in_each_panel(visit: Visit) -> None:
    visitor = visit()
    page = visitor.open("/txloom/dags/orders_cdc")
    visitor.keep("healthy")
    assert texts(page, "h1") == ["✓ orders: healthy"]
    assert page.locator("main article.card.red, main article.card.amber").count() == 0
    assert f"All {EXPECTATIONS} hold." in texts(page, section("expectations"))[0]
    assert "No transaction waits." in texts(page, section("waiting"))[0]
    assert "No dead letter is open." in texts(page, section("letters"))[0]
    assert texts(page, f"{section('cut')} .versions li") == [
        f"{name} {version}"
        for name, version in (
            *(("order_attachments", 1), ("order_details", 1), ("order_line_items", 1), ("orders", 1)),
            *(("orders_current", 1), ("promo_codes", 1), ("promo_uses", 1)),
        )
    ]
    assert "balanced" in table(page, section("runs"))[0][3]
    panels = page.locator("main .head").count()
    assert page.locator("main .head .as-of").count() == panels == 8
    assert all(re.match(r"as of .* ago$", text) for text in texts(page, ".as-of")[:-1])


def test_a_failing_pipeline_says_what_since_when_which_rows_and_what_to_do(visit: Visit) -> None:
    visitor, opened = visit(), datetime.now(UTC)
    page, loaded = visitor.open("/txloom/dags/failing_cdc"), datetime.now(UTC)
    visitor.keep("failing")
    wrong = texts(page, f"{section('wrong')} h3")
    (broken,) = [each for each in wrong if "pipeline broken" in each]
    lasts, since = broken.removeprefix("✕ pipeline broken for ").split(", since ")
    assert texts(page, "h1") == [f"✕ failing: 7 things are wrong, the first for {lasts}"]
    assert opened - moment(since) - timedelta(seconds=61) < span(lasts) <= loaded - moment(since)
    assert loaded - moment(since) > timedelta(hours=3.6), "the first landing lies so far before the tables were made"
    assert [re.sub(r" for .*", "", each) for each in wrong] == [
        "✕ failed expectation: orphan_line_items",
        "✕ pipeline broken",
        "✕ dead letters",
        "✕ finding: changed type: orders.total_amount",
        "✕ ledger unbalanced",
        "✕ table gone",
        "! stuck transactions",
    ]
    assert [each for each in wrong if " since 20" not in each] == ["✕ table gone"], "nobody saw when it went"
    (gone,) = [each for each in texts(page, f"{section('wrong')} article") if each.startswith("✕ table gone")]
    assert gone == (
        "✕ table gone 3 tables of the newest cut are gone. orders_current orders order_line_items "
        f"What to do: {ADVICE[GONE]} It concerns whole tables, which are named above. Open failing_cdc in Airflow"
    )
    assert page.locator(f"{section('wrong')} article .todo").count() == len(wrong)
    failed = texts(page, f"{section('expectations')} article")
    assert len(failed) == 1 and f"{ORPHANS} of 5,000 rows fail" in failed[0] and "2 runs in a row" in failed[0]
    assert "Nothing is published until it passes." in failed[0]
    assert table(page, section("expectations")) == [
        ["Story", "11", "4711", SCRIPT],
        ["Story", "12", "4712", SIGN],
        ["Story", "13", "4713", "null"],
    ]
    assert f"All {STUCK} waiting transactions" in texts(page, section("waiting"))[0]
    longest = table(page, section("waiting"))
    assert len(longest) == 10 and longest[0][0] == "9024" and longest[1][0] == "9023"
    assert longest[1][2] == "order_line_items 3/4 1 missing orders 1/1" and longest[1][3] == completeness.SHORT
    assert [(row[0], int(row[1])) for row in table(page, section("letters"))] == list(LETTERS.items())
    assert "unbalanced" in table(page, section("runs"))[0][3]
    assert "5 are unaccounted for" in texts(page, section("runs"))[0]
    lease = next(each for each in texts(page, ".figures > div") if each.startswith("Lease"))
    assert re.fullmatch(
        r"Lease merge_current run scheduled 5, on worker-2 as process 4242, .* ago\. No sign of life since .* ago: "
        r"its process is gone, or hangs\. The next run takes over",
        lease,
    )
    redrive = page.locator(f"{section('letters')} a[data-airflow]")
    assert redrive.get_attribute("href") == "/dags/failing_dead_letters"
    assert [row[0] for row in table(page, section("incidents"))] == ["warn stuck transactions", "warn dead letters"]


def test_dead_letters_are_shown_by_cause_and_never_what_they_hold(visit: Visit) -> None:
    page = visit().open(f"/txloom/dags/failing_cdc/letters?cause={completeness.NO_METADATA}")
    assert texts(page, "main .pages p") == ["1 to 3 of 3"]
    assert "secret" not in page.content()
    assert texts(page, "main > p")[0].startswith("15 events of 5 transactions are open.")
    (settled,) = table(page, 'main [aria-label^="Dismissed dead letters"]')
    assert settled[:5] == ["broken JSON", "1", "0", "ada", f"sent again {SCRIPT}"]
    assert re.fullmatch(r"(\d+ min|\d min \d+ s) ago", settled[5]), "seven minutes before the tables were made"


def test_cuts_tell_their_gaps_and_versions(visit: Visit) -> None:
    page = visit().open("/txloom/dags/failing_cdc/cuts")
    assert texts(page, "main article h2") == ["Cut 4", "Cut 3", "Cut 2", "Cut 1"]
    newest = texts(page, "main article")[0]
    assert "1 gap transactions" in newest and "csn 399 (xid 8999): metadata never came" in newest
    assert "amends 1 earlier entry" in newest and "cut 2: csn 150 (xid 77)" in newest


def test_an_empty_pipeline_claims_nothing(visit: Visit) -> None:
    visitor = visit()
    page = visitor.open("/txloom/dags/empty_cdc")
    visitor.keep("empty")
    said = texts(page, "main")[0]
    for sentence in ("Nothing was ever landed.", "No run has written anything yet.", "Nothing was published yet."):
        assert sentence in said
    assert re.search(r"No table lies in /.*/empty yet\.", said)
    assert f"{EXPECTATIONS} of {EXPECTATIONS} were never checked." in said and said.count("No run has looked yet.") == 3
    assert page.locator("svg").count() == 0 and "No cut was published by then." in said
    assert set(texts(page, ".head .as-of")) == {"nothing was written yet"}
    for part in ("waiting", "letters", "expectations", "findings", "incidents", "runs", "cuts"):
        page = visitor.open(f"/txloom/dags/empty_cdc/{part}")
        assert page.locator("main .null, main article").count(), part
        assert texts(page, "h1 + .as-of") == ["nothing was written yet"], part


def test_ten_thousand_stuck_transactions_come_in_pages_with_the_right_totals(visit: Visit) -> None:
    visitor = visit()
    page = visitor.open("/txloom/dags/huge_cdc")
    assert "The 10 that wait longest of 10,000." in texts(page, section("waiting"))[0]
    page.get_by_role("link", name="All 10,000 waiting transactions").click()
    visitor.keep("huge", whole=False)
    assert texts(page, ".chips a")[:3] == ["All causes 10,000", "metadata never came 5,000", "table short 5,000"]
    assert texts(page, ".pages p") == ["1 to 100 of 10,000"] * 2 and len(table(page)) == 100
    assert table(page)[0][0] == str(9000 + HUGE - 1)
    page.get_by_role("link", name="Last").first.click()
    assert texts(page, ".pages p")[0] == "9,901 to 10,000 of 10,000" and table(page)[-1][0] == "9000"
    page.get_by_role("link", name=re.compile("table short")).click()
    page.wait_for_url("**cause=table*")
    page.get_by_role("link", name="more than 1 d").click()
    page.wait_for_url("**longer=1d*")
    assert texts(page, ".pages p")[0] == "1 to 100 of 4,287"
    page = visitor.open("/txloom/dags/huge_cdc/waiting?page=101")
    assert texts(page, ".pages p") == ["There is no page 101; 10,000 rows are on 100 pages"]


def test_a_transaction_tells_its_whole_story(visit: Visit) -> None:
    visitor = visit()
    page = visitor.open("/txloom/dags/orders_cdc")
    page.get_by_label("Transaction", exact=True).fill("1431")
    page.get_by_role("button", name="Its story").click()
    visitor.keep("transaction", whole=False)
    assert texts(page, "h1") == ["Transaction 1431"] and "Released" in texts(page, ".lead")[0]
    assert [each.split(" ", 3)[3] for each in texts(page, ".timeline li")] == [
        "landed 4087 events landed with landing 1.",
        "metadata Its metadata came and counts order_line_items 4000, orders 1.",
        "released 4001 rows released into history by release 1000000000.",
        "shown Cut 1 is the first that shows it.",
    ]
    assert texts(page, ".counted li") == ["order_line_items 4,000/4,000", "orders 1/1"]
    assert texts(page, ".pages p") == ["1 to 100 of 4,087"]
    page.get_by_role("link", name="Last").click()
    assert texts(page, ".pages p") == ["4,001 to 4,087 of 4,087"]
    page.locator("main summary").first.click()
    assert '"op_type"' in page.locator("main pre").first.inner_text()
    for other in ("csn=34213144", "id=34213144", "transaction=1431:34213144"):
        assert texts(visitor.open(f"/txloom/dags/orders_cdc/transaction?{other}"), "h1") == ["Transaction 1431"]
    page = visitor.open("/txloom/dags/orders_cdc/transaction?id=no-such")
    assert "Nothing is known of no-such." in texts(page, "main")[0]


def test_a_transaction_that_waits_says_for_what(visit: Visit) -> None:
    page = visit().open("/txloom/dags/shop_cdc/transaction?id=x3")
    assert texts(page, ".lead") == [f"! Waits for missing parts: {completeness.NO_METADATA}"]
    assert texts(page, ".counted li") == ["items 1/?"]
    assert "no cut yet" in texts(page, ".figures")[0]


def test_a_row_tells_every_change_with_before_and_after(visit: Visit) -> None:
    visitor = visit()
    page = visitor.open("/txloom/dags/shop_cdc/key")
    page.get_by_label("Table or document").select_option("items")
    page.get_by_label("key").fill("1")
    page.get_by_role("button", name="Every change").click()
    visitor.keep("row")
    assert texts(page, "h2") == ["items now as of csn 2", "2 changes, the newest first"]
    assert texts(page, "main article h3") == ["Update items id=1", "Insert items id=1"]
    assert table(page, "main article:nth-of-type(1)") == [["name", QUOTES, SIGN], ["notes", "plain", SCRIPT]]
    page.get_by_role("link", name="2", exact=True).click()
    assert texts(page, "h1") == ["Transaction x2"]
    page = visitor.open("/txloom/dags/shop_cdc/key?table=parts")
    page.get_by_label("id", exact=True).fill("1")
    page.get_by_label("part", exact=True).fill("a'b")
    page.get_by_role("button", name="Every change").click()
    assert table(page, "main article") == [
        ["id", "no row", "1"],
        ["part", "no row", "a'b"],
        ["amount", "no row", "1.50"],
    ]


def test_markup_in_values_is_text_and_runs_nowhere(visit: Visit) -> None:
    visitor = visit()
    for path in ("shop_cdc/key?table=items&value=1", "failing_cdc", "failing_cdc/expectations"):
        page = visitor.open(f"/txloom/dags/{path}")
        visitor.keep("hostile")
        assert SCRIPT in page.locator("main").inner_text(), path
        assert page.locator("script").count() == 1 and page.locator("img").count() == 0
        assert SIGN in texts(page, "main")[0] and "\u202e" not in page.content()
    page = visitor.open("/txloom/dags/shop_cdc/transaction?id=x3")
    page.locator("main summary").first.click()
    assert "<script>" in page.locator("main pre").first.inner_text()
    assert "stolen" not in page.title() and visitor.dialogs == []


def test_the_page_leads_to_data_docs_that_show_markup_as_text_and_run_nothing(visit: Visit) -> None:
    visitor = visit()
    page = visitor.open("/txloom/dags/shop_cdc/expectations")
    visitor.keep("expectations")
    page.locator("section[aria-labelledby=data-docs] a").first.click()
    page.wait_for_selector("h1")
    visitor.keep("data_docs")
    assert "<i>Notes</i> are words." in page.locator("body").inner_text()
    page.locator("a", has_text="plain_notes").click()
    page.wait_for_selector("text=All expectations of this run")
    visitor.keep("data_docs_page")
    assert SCRIPT in page.locator("body").inner_text()
    assert page.locator("script, img, link").count() == 0 and page.title() != "stolen" and visitor.dialogs == []
    assert {each.split("/txloom/")[0] for each in visitor.requested} == {visitor.server.url}


def test_the_page_asks_nobody_but_its_own_server(visit: Visit) -> None:
    visitor = visit()
    for path in ("", "dags/failing_cdc", "dags/orders_cdc/transaction?id=1431"):
        visitor.open(f"/txloom/{path}")
    assert {each.split("/txloom/")[0] for each in visitor.requested} == {visitor.server.url}


@pytest.mark.parametrize("dark", [False, True])
def test_the_page_is_as_dark_as_the_system(visit: Visit, dark: bool) -> None:
    visitor = visit(dark=dark)
    page = visitor.open("/txloom/dags/failing_cdc")
    visitor.keep("dark" if dark else "light", whole=False)
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert ground == ("rgb(17, 19, 23)" if dark else "rgb(255, 255, 255)")


def test_ages_grow_while_the_page_lies_open(visit: Visit) -> None:
    visitor = visit()
    visitor.page.clock.install()
    page = visitor.open("/txloom/")
    page.clock.run_for(61_000)
    assert re.match(r"Looked at 1 min", texts(page, ".loaded")[0])


def test_what_changed_is_shown_since_the_last_look_until_somebody_marks_it_as_seen(visit: Visit) -> None:
    visitor = visit()
    page = visitor.open("/txloom/")
    assert texts(page, ".compared a[aria-current]") == ["Never looked before: a day"]
    assert "2 pipelines have something new to act on." in texts(page, section("changes"))[0]
    (cookie,) = [each for each in visitor.context.cookies() if each["name"] == "txloom_look"]
    assert (cookie["path"], cookie["httpOnly"], cookie["sameSite"]) == ("/txloom/", True, "Lax")
    page.reload()
    assert texts(page, ".compared a[aria-current]") == ["Never looked before: a day"]
    assert "2 pipelines have something new to act on." in texts(page, section("changes"))[0]
    (row,) = [row for row in table(page) if row[0] == "✕ failing red"]
    assert "new orphan_line_items fails: 37 of 5000 rows; finding: changed type, orders.total_amount;" in row[1]
    page.locator("tr", has_text="failing").get_by_role("link", name="and 5 more").click()
    page.wait_for_url("**/failing_cdc#changes")
    visitor.keep("changes")
    changed = texts(page, ".changed li > a")
    assert changed[3:5] == [
        "12 dead letters of 4 transactions: table short",
        "3 dead letters of 1 transaction: metadata never came",
    ]
    assert changed[-1] == "4 cuts published: valid-through is 400; there was none before"
    page.get_by_role("link", name="12 dead letters of 4 transactions: table short").click()
    page.wait_for_url("**/letters?cause=*")
    assert texts(page, ".pages p") == ["1 to 12 of 12"]
    page = visitor.open("/txloom/dags/failing_cdc#changes")
    page.get_by_role("button", name="I have seen this").click()
    page.wait_for_url("**/txloom/dags/failing_cdc")
    assert "nothing new to act on, 0 cuts published" in texts(page, "#changes summary")[0]
    page.reload()
    assert re.match(r"What changed since you last looked, \d+ s ago: nothing new", texts(page, "#changes summary")[0])
    page = visitor.open("/txloom/")
    assert "Nothing new to act on. 0 cuts published." in texts(page, section("changes"))[0]
    page.get_by_role("link", name="7 days").click()
    page.wait_for_url("**since=7d*")
    assert "2 pipelines have something new to act on." in texts(page, section("changes"))[0]
    assert visitor.dialogs == [] and page.title() != "stolen"


def test_from_each_thing_that_is_wrong_its_rows_are_one_click_away(visit: Visit) -> None:
    visitor = visit()
    page = visitor.open("/txloom/dags/failing_cdc")
    cards = page.locator(f"{section('wrong')} article")
    links = [card.locator(".facts > :first-child").inner_text() for card in cards.all()]
    assert links == [
        "Rows that fail",
        "It concerns the pipeline: no row is wrong.",
        "Each dead letter",
        "The rows of transaction 881",
        "It concerns numbers of events: the ledger's row says which.",
        "It concerns whole tables, which are named above.",
        "Each transaction, with what it waits for",
    ]
    for name, there in (("Rows that fail", "expectations"), ("Each dead letter", "letters")):
        page = visitor.open("/txloom/dags/failing_cdc")
        page.locator(section("wrong")).get_by_role("link", name=name).click()
        page.wait_for_url(f"**/failing_cdc/{there}")
        assert page.locator("main table tbody tr").count() >= 3
    page.go_back()
    page = visitor.open("/txloom/dags/failing_cdc/expectations")
    page.get_by_role("link", name="Story").first.click()
    page.wait_for_url("**/key?table=order_line_items&key.line_item_id=11")
    for part in ("findings", "incidents"):
        page = visitor.open(f"/txloom/dags/failing_cdc/{part}")
        assert page.locator("main a").count() >= 2, part
    assert texts(page, "main tbody tr td:last-child") == [
        "Each transaction, with what it waits for",
        "Each dead letter",
    ]
