"""People who look at the page: a real Chromium in front of a real API server."""

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, BrowserContext, Error, Page, sync_playwright

from services import fetched
from services.airflow.api_server import ApiServer
from services.process import wait_until

SCREENSHOTS = Path(__file__).resolve().parents[3] / ".state" / "screenshots"
WIDE, TALL = 1280, 900


@contextmanager
def browser() -> Iterator[Browser]:
    """Start Chromium; raises NotHere where this machine has none."""
    program = fetched.chromium()
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        try:
            yield started
        finally:
            started.close()


@dataclass
class Visitor:
    """Somebody with a browser; requested: every address that the browser asked for; dialogs: what popped up."""

    server: ApiServer
    context: BrowserContext
    page: Page
    requested: list[str] = field(default_factory=list)
    dialogs: list[str] = field(default_factory=list)

    def open(self, path: str) -> Page:
        """Go to an address of the server."""
        self.page.goto(f"{self.server.url}{path}", wait_until="load")
        return self.page

    def keep(self, name: str, *, whole: bool = True) -> None:
        """Keep a screenshot; on a busy machine the browser may be unable to take one at first."""
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        wait_until(lambda: self._taken(SCREENSHOTS / f"{name}.png", whole), f"the screenshot {name}")

    def _taken(self, file: Path, whole: bool) -> bool:
        try:
            self.page.screenshot(path=file, full_page=whole)
        except Error as failed:
            if "Unable to capture screenshot" in str(failed):
                return False
            raise
        return True


@contextmanager
def visiting(chromium: Browser, server: ApiServer, person: str | None, *, dark: bool = False) -> Iterator[Visitor]:
    """Open a window of somebody who is logged in, as Airflow's own login leaves it: with a cookie; None: of nobody."""
    scheme: Any = "dark" if dark else "light"
    context = chromium.new_context(viewport={"width": WIDE, "height": TALL}, color_scheme=scheme)
    if person is not None:
        context.add_cookies([{"name": "_token", "value": server.token(person), "url": server.url}])
    visitor = Visitor(server, context, context.new_page())
    visitor.page.on("request", lambda request: visitor.requested.append(request.url))
    visitor.page.on("dialog", lambda dialog: (visitor.dialogs.append(dialog.message), dialog.dismiss()))
    try:
        yield visitor
    finally:
        context.close()


@dataclass(frozen=True)
class Answer:
    """What a server answered."""

    code: int
    headers: dict[str, str]
    text: str

    @property
    def content(self) -> Any:
        """Return the answer's JSON."""
        return json.loads(self.text)


class _Stays(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *arguments: Any, **more: Any) -> None:
        return None


def ask(server: ApiServer, path: str, token: str | None = None, accept: str = "text/html") -> Answer:
    """Ask as a program does, which shows addresses as they are, and follows no redirect."""
    headers = {"Accept": accept} | ({"Authorization": f"Bearer {token}"} if token else {})
    try:
        response = urllib.request.build_opener(_Stays).open(
            urllib.request.Request(server.url + path, headers=headers), timeout=60
        )
    except urllib.error.HTTPError as refused:
        response = refused
    with response:
        lower = {name.lower(): value for name, value in response.headers.items()}
        return Answer(response.status, lower, response.read().decode())
