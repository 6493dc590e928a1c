"""The numbers that monitoring gets of a pipeline: what they count, and how Prometheus reads them."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from called import step_of
from released import BEGAN, Released
from topics import no_session
from txloom.config import load
from txloom.quality.incidents import Facts, Rows
from txloom.steps.publish.publish import publish
from txloom.storage import system_tables
from txloom.storage.delta import small_tables
from txloom.storage.health.metrics import HELP, exposition, metrics

NOW = datetime(2026, 1, 2, tzinfo=UTC)


def numbers(facts: Facts) -> dict[tuple[str, ...], float]:
    return {(each.name, *each.labels.values()): each.value for each in metrics(facts)}


def test_ages_are_counted_from_the_commit_at_the_source_from_the_publishing_and_from_the_first_that_waits() -> None:
    waiting = Rows(7, NOW - timedelta(minutes=3))
    facts = Facts(NOW, 9, NOW - timedelta(hours=1), NOW - timedelta(minutes=5), waiting=waiting)
    shown = numbers(facts)
    assert shown["valid_through_age_seconds",] == 3600
    assert shown["last_cut_age_seconds",] == 300
    assert (shown["waiting_transactions",], shown["waiting_age_seconds",]) == (7, 180)


def test_a_pipeline_that_never_published_has_no_age_and_one_where_nothing_waits_has_0() -> None:
    shown = numbers(Facts(NOW))
    assert not {("valid_through_age_seconds",), ("last_cut_age_seconds",)} & shown.keys()
    assert set(shown.values()) == {0}


def test_a_source_whose_clock_is_ahead_has_no_negative_age() -> None:
    assert numbers(Facts(NOW, 9, NOW + timedelta(hours=1)))["valid_through_age_seconds",] == 0


def test_findings_and_expectations_are_counted_by_severity_also_where_there_are_none() -> None:
    rows = [{"severity": "error"}, {"severity": "error"}, {"severity": "info"}]
    shown = numbers(Facts(NOW, findings=rows, expectations=[{"severity": "block"}]))
    assert [shown["findings_open", each] for each in ("error", "warn", "info")] == [2, 0, 1]
    assert [shown["expectations_failing", each] for each in ("block", "warn", "info")] == [1, 0, 0]


def test_prometheus_reads_the_state_of_every_pipeline_and_a_broken_one_hides_no_other(tmp_path: Path) -> None:
    lake = Released(tmp_path, "id: long")
    lake.release(7, [("I", {}, {"id": 7})])
    lake.merge(no_session)
    publish(step_of(lake.pipeline, lake.folder, "r"))
    row = {"transaction_id": "x9:9", "first_landed_at": BEGAN + timedelta(days=9)}
    small_tables.replace(lake.paths.table("pending_transactions"), [row], system_tables.PENDING_TRANSACTIONS, {})
    (tmp_path / "broken.yaml").write_text((tmp_path / "plant.yaml").read_text().replace("name: plant", "name: broken"))
    (tmp_path / "broken" / "cuts" / "_delta_log").mkdir(parents=True)
    (tmp_path / "broken" / "cuts" / "_delta_log" / f"{0:020}.json").write_text("{")
    declared = [lake.pipeline, load(tmp_path / "broken.yaml")]
    text = exposition(declared, str(tmp_path), {"plant": {"publish": 2.5}}, BEGAN + timedelta(days=10))
    families = {each.name: each for each in text_string_to_metric_families(text)}
    assert families.keys() == {f"txloom_{name}" for name in HELP}
    assert all(family.type == "gauge" and family.documentation for family in families.values())
    read = {
        (sample.name.removeprefix("txloom_"), *sample.labels.values()): sample.value
        for family in families.values()
        for sample in family.samples
    }
    assert (read["up", "plant"], read["up", "broken"]) == (1, 0)
    assert read["valid_through_age_seconds", "plant"] == 3 * 86400
    assert (read["waiting_transactions", "plant"], read["waiting_age_seconds", "plant"]) == (1, 86400)
    assert read["step_seconds", "plant", "publish"] == 2.5
    assert [key for key in read if "broken" in key] == [("up", "broken")]
