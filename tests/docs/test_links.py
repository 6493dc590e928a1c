"""Links between documents lead somewhere, as the repository shows them; the site checks its own while it is built."""

import re
from pathlib import Path

import pytest
import yaml

PROJECT = Path(__file__).resolve().parents[2]
TOP = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")
DOCUMENTS = [*(PROJECT / name for name in TOP), *sorted((PROJECT / "docs").rglob("*.md"))]
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#{1,6} (.+)$", re.MULTILINE)
CODE = re.compile(r"^```.*?^```|^    .*?$|`[^`\n]*`", re.MULTILINE | re.DOTALL)


def anchor(heading: str) -> str:
    """Return the anchor that GitHub and the site make of a heading."""
    return re.sub(r"[^\w -]", "", heading.strip().lower()).replace(" ", "-")


def anchors(document: Path) -> set[str]:
    text = re.sub(r"^```.*?^```", "", document.read_text(), flags=re.MULTILINE | re.DOTALL)
    return {anchor(heading) for heading in HEADING.findall(text)}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.relative_to(PROJECT).as_posix())
def test_every_link_leads_to_a_file_and_a_heading(document: Path) -> None:
    broken = []
    for link in LINK.findall(CODE.sub("", document.read_text())):
        if re.match(r"[a-z]+:", link):
            continue
        name, _, fragment = link.partition("#")
        target = (document.parent / name).resolve() if name else document
        if not target.is_file() or (fragment and fragment not in anchors(target)):
            broken.append(link)
    assert broken == []


def test_every_page_has_its_place_on_the_site() -> None:
    text = (PROJECT / "mkdocs.yml").read_text().split("\nnav:\n")[1]
    listed = set(re.findall(r"[\w/-]+\.md", str(yaml.safe_load(text))))
    pages = {path.relative_to(PROJECT / "docs").as_posix() for path in (PROJECT / "docs").rglob("*.md")}
    decisions = {page for page in pages if re.match(r"adr/\d", page)}
    assert pages - decisions == listed - {"index.md", "contributing.md", "changelog.md"}


def test_every_picture_is_shown_by_a_document() -> None:
    shown = {Path(link).name for path in DOCUMENTS for link in LINK.findall(path.read_text())}
    pictures = {path.name for path in (PROJECT / "docs" / "images").iterdir()}
    assert pictures - shown == set()


@pytest.mark.parametrize("picture", sorted((PROJECT / "docs" / "images").glob("*.svg")), ids=lambda path: path.name)
def test_a_drawn_picture_stands_alone_and_has_a_dark_side(picture: Path) -> None:
    text = picture.read_text()
    assert "prefers-color-scheme: dark" in text
    assert re.findall(r"(?:https?:)?//[^\"' )]+", text) == ["http://www.w3.org/2000/svg"]
    assert "<title" in text and "<desc" in text
