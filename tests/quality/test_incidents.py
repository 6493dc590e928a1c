"""Which facts are which incident: tables of cases, each kind and its limits, and what excludes what."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from txloom.config.models.alerts import Alerts
from txloom.quality import incidents as rules
from txloom.quality.incidents import BROKEN, OLD, QUIET, Facts, PendingStep, Rows, incidents

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
ALERTS = Alerts(
    valid_through_age=timedelta(minutes=30),
    source_quiet=timedelta(hours=2),
    stuck_after=timedelta(minutes=10),
    dead_letters=0,
)
FINE = Facts(
    now=NOW,
    valid_through=7,
    valid_at=NOW - timedelta(minutes=5),
    landed_at=NOW - timedelta(minutes=5),
    judged_at=NOW - timedelta(minutes=5),
)


def ago(minutes: float) -> datetime:
    return NOW - timedelta(minutes=minutes)


def incidents_of(alerts: Alerts = ALERTS, **facts: Any) -> list[rules.Incident]:
    return incidents(replace(FINE, **facts), alerts, "shop")


def waits(minutes: float) -> Rows:
    return Rows(1, ago(minutes), ("x9:9: table short; items 1/2",))


def test_a_pipeline_that_works_has_none() -> None:
    assert incidents_of() == []


@pytest.mark.parametrize(
    ("facts", "kinds"),
    [
        ({"valid_at": ago(30), "waiting": waits(5)}, []),
        ({"valid_at": ago(30.1), "waiting": waits(5)}, [OLD]),
        ({"valid_at": ago(300)}, []),
        ({"valid_at": ago(300), "landed_at": ago(120)}, []),
        ({"valid_at": ago(300), "landed_at": ago(120.1)}, [QUIET]),
        ({"valid_at": ago(300), "landed_at": ago(300), "waiting": waits(200)}, [OLD]),
        ({"valid_at": ago(300), "landed_at": ago(300), "judged_at": ago(30)}, [QUIET]),
        ({"valid_at": ago(300), "landed_at": ago(300), "judged_at": ago(30.1)}, [BROKEN]),
        ({"valid_at": ago(300), "pending_steps": PendingStep("What was landed was not buffered", ago(30.1))}, [BROKEN]),
        ({"pending_steps": PendingStep("What was landed was not buffered", ago(30))}, []),
        ({"lease": PendingStep("Run r held the lease", ago(29))}, []),
        (
            {"lease": PendingStep("Run r held the lease", ago(31)), "waiting": waits(90), "landed_at": ago(500)},
            [BROKEN],
        ),
        ({"judged_at": None, "landed_at": None, "valid_at": None, "valid_through": None}, [BROKEN]),
        ({"valid_at": None, "valid_through": None}, []),
    ],
)
def test_an_old_state_has_one_reason(facts: dict[str, Any], kinds: list[str]) -> None:
    assert [each.kind for each in incidents_of(**facts)] == kinds


def test_an_old_state_while_cuts_are_held_names_the_tables_and_the_way_out() -> None:
    facts = {"valid_at": ago(300), "waiting": waits(200), "held": ["orders_current", "lines"]}
    (incident,) = incidents_of(**facts)
    assert incident.kind == OLD
    assert "No cut is published while orders_current, lines are not complete." in incident.what
    assert "publish_without" in incident.todo and "snapshot" in incident.todo
    assert incidents_of(**facts | {"valid_at": ago(5)}) == []


moments = st.none() | st.integers(0, 600).map(ago)


@given(
    valid_at=moments,
    landed_at=moments,
    judged_at=moments,
    pending=moments,
    lease=moments,
    waiting=st.integers(0, 3),
)
def test_broken_old_and_quiet_exclude_each_other(
    valid_at: Any, landed_at: Any, judged_at: Any, pending: Any, lease: Any, waiting: int
) -> None:
    state = {
        "valid_at": valid_at,
        "landed_at": landed_at,
        "judged_at": judged_at,
        "pending_steps": pending and PendingStep("It was not done", pending),
        "lease": lease and PendingStep("Run r held the lease", lease),
        "waiting": Rows(waiting, ago(1), ()),
    }
    kinds = [each.kind for each in incidents_of(**state)]
    assert len(kinds) <= 1
    late = [each for each in (judged_at or ago(1e4), pending, lease) if each and each < ago(30)]
    assert (kinds == [BROKEN]) == bool(late)
    if not late:
        assert (kinds == [OLD]) == bool(waiting and valid_at and valid_at < ago(30))


def test_a_broken_pipeline_says_what_it_did_not_do_and_what_readers_see() -> None:
    lease = PendingStep("Run r3 (merge_current, process 7 on host) held the lease", ago(150))
    (broken,) = incidents_of(judged_at=ago(45), lease=lease, valid_at=ago(60))
    assert broken == rules.Incident(
        BROKEN,
        "",
        ago(150),
        "error",
        "No landing succeeded for 45 minutes; Run r3 (merge_current, process 7 on host) held the lease for 2 hours. "
        "Readers see valid-through 7, the source as of 2026-01-01 11:00:00 UTC.",
        rules.ADVICE[BROKEN],
        page="dags/shop_cdc",
    )


def test_what_waits_and_what_is_quiet_are_told_in_words() -> None:
    """An old state begins when the first transaction began to wait, whatever the source's clock said then."""
    (old,) = incidents_of(valid_at=ago(60), waiting=waits(50))
    assert old.what == (
        "Readers see valid-through 7, the source as of 2026-01-01 11:00:00 UTC. 1 transaction waits above it."
    )
    assert (old.total, old.rows, old.since) == (1, ("x9:9: table short; items 1/2",), ago(50))
    (quiet,) = incidents_of(landed_at=ago(4000))
    assert quiet.what == (
        "Nothing new came for 2 days, though landing works. Readers see valid-through 7, the source as of "
        "2026-01-01 11:55:00 UTC."
    )
    assert (quiet.severity, quiet.since) == ("warn", ago(4000))
    (never,) = incidents_of(judged_at=None, valid_through=None, valid_at=None)
    assert never.what == "Nothing was ever landed. Nothing is published yet."


def test_stuck_transactions_and_dead_letters_are_counted_and_sampled() -> None:
    letters = Rows(3, ago(9), ("table short: 3 events of 1 transactions, such as x9:9: items",), "Send them again.")
    stuck, dead = incidents_of(stuck=Rows(12, ago(40), ("x9:9: table short; items 1/2",)), dead_letters=letters)
    assert (stuck.kind, stuck.what, stuck.total, stuck.since) == (
        "stuck transactions",
        "12 transactions have waited for missing parts for more than 10m.",
        12,
        ago(40),
    )
    assert (dead.kind, dead.what, dead.todo, dead.page) == (
        "dead letters",
        "3 dead letters are open; 0 may be.",
        "Send them again. Then run the DAG shop_dead_letters.",
        "dags/shop_dead_letters",
    )


def test_dead_letters_up_to_the_declared_number_are_none() -> None:
    alerts = ALERTS.model_copy(update={"dead_letters": 3})
    assert incidents_of(alerts, dead_letters=Rows(3, ago(9), ("x",))) == []
    assert len(incidents_of(alerts, dead_letters=Rows(4, ago(9), ("x",)))) == 1


FAILED = {
    "expectation": "orphans",
    "severity": "block",
    "sentence": "Every item belongs to an order.",
    "hint": "Look at the foreign key.",
    "failed": 2,
    "checked": 9,
    "first": ["item=1", "item=2"],
    "since": ago(20),
}
FINDING = {
    "code": "csn jumped back",
    "severity": "error",
    "table": None,
    "column": None,
    "evidence": "x7 has csn 7, though 9 was before",
    "hint": "Was the source restored?",
    "at": ago(3),
}


def test_expectations_findings_and_the_ledger_are_told_without_a_declared_limit() -> None:
    facts = {
        "expectations": [FAILED, FAILED | {"expectation": "b", "severity": "warn"}, FAILED | {"severity": "info"}],
        "findings": [FINDING, FINDING | {"table": "t", "column": "c"}, FINDING | {"severity": "warn"}],
        "unbalanced": PendingStep("2 events are not accounted for", ago(8)),
    }
    incidents = incidents_of(Alerts(), **facts)
    assert [(each.kind, each.subject, each.severity, each.what, each.since) for each in incidents] == [
        (
            "failed expectation",
            "orphans",
            "error",
            "Every item belongs to an order. 2 of 9 rows fail. Nothing is published until it passes.",
            ago(20),
        ),
        ("failed expectation", "b", "warn", "Every item belongs to an order. 2 of 9 rows fail.", ago(20)),
        ("finding", "csn jumped back", "error", "x7 has csn 7, though 9 was before.", ago(3)),
        ("finding", "csn jumped back: t.c", "error", "x7 has csn 7, though 9 was before.", ago(3)),
        ("ledger unbalanced", "", "error", "2 events are not accounted for.", ago(8)),
    ]
    assert incidents[0].rows == ("item=1", "item=2")


def test_findings_about_several_transactions_of_one_table_are_one_incident_that_names_each() -> None:
    suspect = FINDING | {"code": "rebuilt from two producer runs", "table": "items"}
    facts = [suspect | {"evidence": f"rows of x{n}", "at": ago(9 - n)} for n in (1, 2, 3)]
    (incident,) = incidents_of(Alerts(), findings=facts)
    assert (incident.subject, incident.what) == (
        "rebuilt from two producer runs: items",
        "rows of x1. And 2 more transactions.",
    )
    assert (incident.since, incident.total, incident.rows) == (ago(8), 3, ("rows of x1", "rows of x2", "rows of x3"))


@pytest.mark.parametrize("kind", [*rules.JUDGED, rules.TASK])
def test_every_kind_has_a_line_in_the_page_for_operators(kind: str) -> None:
    page = Path(__file__).resolve().parents[2] / "docs" / "operations.md"
    assert f"| {kind} |" in page.read_text()
