"""A real source: which faults it knows, which folder a command means, and that its declaration is that of `orders`."""

from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

import pytest

from lake import ORDERS
from txloom.cli import main
from txloom.config import load
from txloom.generate.trial.catalogue import KINDS
from txloom.generate.trial.real_faults import IMPOSSIBLE, REAL_KINDS
from txloom.generate.trial.real_services import chosen
from txloom.generate.trial.real_source import RealSource
from txloom.generate.trial.source_folder import SourceFolder

NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TXLOOM_STATE", str(tmp_path))
    return tmp_path


def real(state: Path) -> RealSource:
    """Make the folder of a real source, whose services do not run."""
    chosen(state / "real" / "source")
    return RealSource(state / "real" / "source")


def said(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> str:
    assert main(["trial", *words]) == code
    printed = capsys.readouterr()
    return printed.out + printed.err


def test_each_fault_of_the_source_in_files_is_made_or_refused_with_a_reason() -> None:
    assert REAL_KINDS.keys() | IMPOSSIBLE.keys() == KINDS.keys()
    assert REAL_KINDS.keys().isdisjoint(IMPOSSIBLE)


def test_a_fault_that_a_database_refuses_is_refused(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    real(state)
    refused = said(capsys, "break", "bad-value", code=2)
    assert refused == (
        "FAULT: bad-value cannot be made with a real database: the types of PostgreSQL refuse such a value.\n"
    )
    assert "Did you mean 'lost-row'?" in said(capsys, "break", "lost-raw", code=2)


@pytest.mark.parametrize(
    ("fault", "answer"),
    [("orphan", "PostgreSQL does not answer"), ("connector-restart", "Kafka Connect does not answer")],
)
def test_a_fault_is_not_noted_where_nothing_answers(
    state: Path, capsys: pytest.CaptureFixture[str], fault: str, answer: str
) -> None:
    source = real(state)
    assert answer in said(capsys, "break", fault, code=2)
    assert source.open_faults() == []


def test_a_quiet_source_is_repaired(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = real(state)
    text = said(capsys, "break", "quiet-source")
    assert "note:    the source does not run now, and nobody reads it: `make up-real` starts both." in text
    assert source.is_open("quiet-source")
    assert "quiet-source: it is open since" in said(capsys, "break", "quiet-source", code=2)
    assert "repaired: quiet-source: the source works again." in said(capsys, "repair")
    assert source.open_faults() == []


def test_a_command_means_the_source_that_runs(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (state / "trial" / "source").mkdir(parents=True)
    files = SourceFolder()
    files.folder = state / "trial" / "source"
    source = real(state)
    assert len(said(capsys, "break").splitlines()) == len(KINDS), "none runs: that of `make up`"
    with ExitStack() as stack:
        stack.enter_context(source.running())
        assert len(said(capsys, "break").splitlines()) == len(REAL_KINDS)
        stack.enter_context(files.running())
        assert "two sources run, in" in said(capsys, "break", code=2)
    with files.running():
        assert len(said(capsys, "break").splitlines()) == len(KINDS)


def test_looking_for_a_source_makes_no_folder(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "no source lives here" in said(capsys, "break", code=2)
    assert list(state.iterdir()) == []


def test_both_declarations_of_orders_watch_the_same_columns() -> None:
    ours, theirs = load(ORDERS), load(ORDERS.parent / "examples" / "orders_debezium.yaml")
    assert ours.tables == theirs.tables
    assert ours.targets == theirs.targets
    assert {each.id for each in theirs.expectations} >= {"orphan_line_items", "order_totals"}
