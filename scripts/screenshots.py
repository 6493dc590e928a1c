"""Write the pictures of docs/on-call.md into docs/images: a real Chromium in front of a real API server.

    .venv/bin/python scripts/screenshots.py

They show the pipelines of the page's tests (tests/services/airflow/showcase.py). Takes about three minutes.
"""

import os
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from services.airflow.api_server import ApiServer  # noqa: E402
from services.airflow.browsing import browser, visiting  # noqa: E402
from services.airflow.showcase import showcase  # noqa: E402
from services.fetched import NotHere  # noqa: E402

IMAGES = ROOT / "docs" / "images"
SIZE = {"width": 1100, "height": 700}
PICTURES = {
    "overview": "/plugin/txloom",
    "changes": "/txloom/dags/failing_cdc?since=1d#changes",
    "healthy": "/txloom/dags/orders_cdc",
    "failing": "/txloom/dags/failing_cdc",
    "expectation": "/txloom/dags/failing_cdc#expectations",
    "waiting": "/txloom/dags/failing_cdc/waiting",
    "dead_letters": "/txloom/dags/failing_cdc/letters",
    "lag": "/txloom/dags/failing_cdc#chart",
    "transaction": "/txloom/dags/orders_cdc/transaction?id=1431",
    "row": "/txloom/dags/shop_cdc/key?table=items&value=1",
}
PHONE = {"phone_overview": "/txloom/", "phone_failing": "/txloom/dags/failing_cdc"}
"""Pictures of a phone's size."""
NARROW = {"width": 390, "height": 844}
DARK = ("failing",)
"""Pictures that are also taken in the dark color scheme."""


def main() -> int:
    """Take the pictures; return 3 where there is no Chromium, else 0."""
    with tempfile.TemporaryDirectory() as folder:
        pipelines, warehouse = _lakes(Path(folder))
        try:
            with ApiServer(Path(folder) / "airflow", pipelines, warehouse) as server:
                _take(server)
        except NotHere as reason:
            print(reason, file=sys.stderr)
            return 3
    return 0


def _lakes(folder: Path) -> tuple[Path, Path]:
    os.environ.setdefault("TXLOOM_DRIVER_MEMORY", "2g")
    from txloom.storage.spark.session import open_session

    spark = open_session("txloom screenshots")
    try:
        return showcase(spark, folder)
    finally:
        spark.stop()


def _take(server: ApiServer) -> None:
    IMAGES.mkdir(parents=True, exist_ok=True)
    with browser() as chromium:
        for dark in (False, True):
            with visiting(chromium, server, "admin", dark=dark) as visitor:
                for size, pictures in ((SIZE, PICTURES), (NARROW, PHONE)):
                    visitor.page.set_viewport_size(size)
                    for name, path in pictures.items():
                        if not dark or name in DARK:
                            _picture(visitor.open(path), path, f"{name}{'_dark' if dark else ''}")


def _picture(page: Any, path: str, name: str) -> None:
    if path.startswith("/plugin/"):
        page.frame_locator("iframe").locator("h1").wait_for()
    file = IMAGES / f"{name}.png"
    page.screenshot(path=file)
    print(f"{file.relative_to(ROOT)}: {file.stat().st_size // 1024} KB", flush=True)


if __name__ == "__main__":
    sys.exit(main())
