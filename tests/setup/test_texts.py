"""No text of the project holds the traces of a merge that nobody ended."""

from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
ROOMS = ("dags", "docs", "include", "jobs", "plugins", "scripts", "tests")
KINDS = {".py", ".md", ".yaml", ".sh", ".txt", ".toml", ".json", ".html", ".css", ".js", ".properties"}
TRACES = tuple(sign * 7 for sign in "<>|")


def test_no_text_holds_a_conflict() -> None:
    files = [path for room in ROOMS for path in (PROJECT / room).rglob("*") if path.suffix in KINDS and path.is_file()]
    files += [path for path in PROJECT.iterdir() if path.is_file()]
    assert len(files) > 400
    conflicts = [
        f"{path.relative_to(PROJECT)}:{number}"
        for path in files
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1)
        if line.startswith(TRACES)
    ]
    assert conflicts == []
