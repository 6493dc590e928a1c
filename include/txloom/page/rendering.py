"""Templates and static files: every value is escaped, and a name that a template lacks raises an error."""

import hashlib
from collections.abc import Mapping
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from txloom.page import formatting
from txloom.page.links import Links, with_query

HERE = Path(__file__).parent
STATIC: Mapping[str, str] = {"page.css": "text/css; charset=utf-8", "page.js": "text/javascript; charset=utf-8"}
"""Static files that everybody may load, and their content types."""
POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none';"
    " frame-ancestors 'self'"
)
HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
"""Headers of each page: only the page's files run, nothing is cached, and only Airflow may frame it."""

SANDBOX = "sandbox allow-same-origin; default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'self'"
DATA_DOCS_HEADERS: Mapping[str, str] = {**HEADERS, "Content-Security-Policy": SANDBOX}
"""Headers of a page that Great Expectations rendered: it has inline styles, and may run and load nothing."""


@cache
def static(name: str) -> bytes:
    """Return the content of a static file; raises KeyError for any other name."""
    if name not in STATIC:
        raise KeyError(name)
    return (HERE / "static" / name).read_bytes()


@cache
def cache_key(name: str) -> str:
    """Return a hash of a static file's content: it is part of its address, so that browsers may cache the file."""
    return hashlib.sha256(static(name)).hexdigest()[:12]


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        name: getattr(formatting, name) for name in ("visible", "value", "count", "many", "span", "moment", "ago")
    }
    environment.globals["with_query"] = with_query
    return environment


def render(template: str, links: Links, now: datetime, **values: Any) -> str:
    """Return a page as HTML; now: the time by which ages are computed."""
    files = {name.replace(".", "_"): links.static(name, cache_key(name)) for name in STATIC}
    return _environment().get_template(template).render(links=links, now=now, files=files, **values)
