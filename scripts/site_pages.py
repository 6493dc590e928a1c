"""Hooks of mkdocs for the site: pages from the top of the repository, and a check of the built site.

mkdocs.yml names this file under `hooks`; mkdocs calls the functions by their names.
"""

import re
from pathlib import Path
from typing import Any

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[1]
PAGES = {"README.md": "index.md", "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
"""Files at the top of the repository, and the page made from each."""
TOP_LINK = re.compile(rf"\]\(((?:\.\./)*)({'|'.join(map(re.escape, PAGES))})(?=[)#])")
LOADED = re.compile(
    r"<(?:script|img|source|iframe)\b[^>]*?\bsrc=[\"']?([^\"'\s>]+)|<link\b[^>]*?\bhref=[\"']?([^\"'\s>]+)"
)
CSS_LOADED = re.compile(r"url\([\"']?((?:https?:)?//[^)\"']+)|@import\s+[\"']((?:https?:)?//[^\"']+)")


def on_config(config: Any) -> Any:
    """Add each decision record to the navigation, below the index of decisions."""
    records = sorted(path.name for path in (ROOT / "docs" / "adr").glob("[0-9]*.md"))
    for section in config.nav:
        if "Decisions" in section:
            section["Decisions"] += [f"adr/{name}" for name in records]
    return config


def on_files(files: Files, config: Any) -> Files:
    """Add pages made from files at the top of the repository; links to `docs` are rewritten."""
    for name, page in PAGES.items():
        text = (ROOT / name).read_text().replace("](docs/", "](")
        files.append(File.generated(config, page, content=TOP_LINK.sub(_page_beside, text)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Rewrite links from `docs` to files at the top of the repository: they lead to the pages made from those."""
    return markdown if page.file.src_uri in PAGES.values() else TOP_LINK.sub(_page_below, markdown)


def on_post_build(config: Any) -> None:
    """Raise PluginError for a site that loads anything from another host, or a file that it does not hold."""
    site = Path(config.site_dir)
    wrong = [each for path in sorted(site.rglob("*.html")) for each in _wrong_in(path, site)]
    for path in sorted(site.rglob("*.css")):
        wrong += [f"{path.relative_to(site)} loads {a or b}" for a, b in CSS_LOADED.findall(path.read_text())]
    if wrong:
        raise PluginError("\n".join(["the site stands alone and holds all that it loads:", *wrong]))


def _page_beside(link: re.Match[str]) -> str:
    return f"]({PAGES[link[2]]}"


def _page_below(link: re.Match[str]) -> str:
    """Return the link from a page in `docs`, with one `../` less."""
    return f"]({link[1].removeprefix('../')}{PAGES[link[2]]}" if link[1] else link[0]


def _wrong_in(path: Path, site: Path) -> list[str]:
    """Return what a page loads that is not on the site."""
    wrong = []
    for source, sheet in LOADED.findall(path.read_text()):
        target = source or sheet
        file = (site if target.startswith("/") else path.parent) / target.split("?")[0].split("#")[0].lstrip("/")
        if re.match(r"(?:[a-z]+:)?//", target) or (not target.startswith("data:") and not file.exists()):
            wrong.append(f"{path.relative_to(site)} loads {target}")
    return wrong
