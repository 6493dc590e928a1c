"""Undeclared columns that a table takes up, across edits of its declaration."""

from dataclasses import replace
from pathlib import Path

import pytest

from txloom import read
from txloom.config import load
from txloom.errors import ConfigurationError
from txloom.quality import findings as f
from txloom.steps.settling.forecast import forecast
from txloom.storage.checks import findings
from txloom.storage.declarations import records as r
from workloads.named.test_edited_lakes import declared, insert
from workloads.named.test_named_lakes import PLAIN, commit, cycle, lake_of, messages, row


@pytest.mark.parametrize("history", ["t_changes", "renamed_changes"], ids=["its history", "another history"])
def test_a_table_that_took_up_a_column_keeps_it_under_another_name(tmp_path: Path, history: str) -> None:
    lake, made, producer = lake_of(tmp_path, "debezium/postgresql", PLAIN)
    whole = declared(tmp_path, made, [PLAIN]).read_text()
    taking_up = whole.replace("      v: string\n", "").replace(
        "    key: [id]\n", "    key: [id]\n    undeclared_columns: evolve\n"
    )
    text = taking_up.replace("- table: t\n", "- {table: t, current: t, history: t_changes}\n")
    for name, kept in (("t", "t_changes"), ("renamed", history)):
        renamed = text.replace("- name: t\n", f"- name: {name}\n").replace("{table: t,", f"{{table: {name},")
        (tmp_path / "workload.yaml").write_text(renamed.replace("history: t_changes", f"history: {kept}"))
        lake.pipeline = load(tmp_path / "workload.yaml")
        if name == "t":
            cycle(lake, producer, messages(commit(made, 1000, ("I", None, row(1, "a")), ("I", None, row(2, "b")))))
    cycle(lake, producer, ())
    assert {each["id"]: each["v"] for each in lake.rows("t")} == {1: "a", 2: "b"}
    cycle(lake, producer, messages(commit(made, 1010, ("U", row(2, "b"), row(2, "c")))))
    assert {each["id"]: each["v"] for each in lake.rows("t")} == {1: "a", 2: "c"}
    was = read.as_of(lake.pipeline, "t", csn=1000, warehouse=lake.warehouse).to_pylist()
    assert {each["id"]: each["v"] for each in was} == {1: "a", 2: "b"}


def test_a_column_that_was_declared_with_another_type_is_left_out_until_it_is_declared_again(tmp_path: Path) -> None:
    of_longs = replace(PLAIN, columns={"id": "long", "v": "long"})
    lake, made, producer = lake_of(tmp_path, "debezium/postgresql", of_longs)
    text = declared(tmp_path, made, [of_longs]).read_text()
    cycle(lake, producer, messages(commit(made, 1000, ("I", None, row(1, "5")))))
    taking_up = text.replace("    key: [id]\n", "    key: [id]\n    undeclared_columns: evolve\n")
    without = taking_up.replace("      v: long\n", "")
    for number, yaml in enumerate((without, text, without), 2):
        (tmp_path / "workload.yaml").write_text(yaml)
        lake.pipeline = load(tmp_path / "workload.yaml")
        cycle(lake, producer, messages(commit(made, 1000 * number, ("I", None, row(number, str(5 * number))))))
        expected = {of: 5 * of if yaml == text else None for of in range(1, number + 1)}
        assert {each["id"]: each.get("v") for each in lake.rows("t")} == expected
    assert [row["code"] for row in findings.open_findings(lake.paths) if "its name in the lake" in row["evidence"]]


def test_a_plan_loses_no_column_that_a_table_took_up(tmp_path: Path) -> None:
    lake, made, producer = lake_of(tmp_path, "debezium/postgresql", PLAIN)
    text = declared(tmp_path, made, [PLAIN]).read_text()
    taking_up = text.replace("    key: [id]\n", "    key: [id]\n    undeclared_columns: evolve\n")
    for csn, yaml in enumerate((taking_up.replace("      v: string\n", ""), text), 1000):
        (tmp_path / "workload.yaml").write_text(yaml)
        lake.pipeline = load(tmp_path / "workload.yaml")
        cycle(lake, producer, messages(insert(made, csn, PLAIN, csn)))
    (tmp_path / "workload.yaml").write_text(text.replace("      v: string\n", ""))
    lake.pipeline = load(tmp_path / "workload.yaml")
    assert not any(forecast(lake.pipeline, lake.paths).removed.values())


def test_a_type_that_a_taken_up_column_does_not_fit_can_be_taken_back(tmp_path: Path) -> None:
    lake, made, producer = lake_of(tmp_path, "debezium/postgresql", PLAIN)
    text = declared(tmp_path, made, [PLAIN]).read_text()
    taking_up = text.replace("    key: [id]\n", "    key: [id]\n    undeclared_columns: evolve\n")
    without = taking_up.replace("      v: string\n", "")
    for csn, yaml in enumerate((without, taking_up.replace("v: string", "v: long"), without), 1000):
        (tmp_path / "workload.yaml").write_text(yaml)
        lake.pipeline = load(tmp_path / "workload.yaml")
        sent = messages(insert(made, csn, PLAIN, csn))
        if "v: long" in yaml:
            with pytest.raises(ConfigurationError, match=r"expected a type that reads .a., such as string"):
                cycle(lake, producer, sent)
        else:
            cycle(lake, producer, sent)
    assert {each["id"]: each["v"] for each in lake.rows("t")} == {1000: "a", 1001: "a", 1002: "a"}


def taking_up(text: str) -> str:
    """Return a declaration whose table takes up undeclared columns."""
    return text.replace("    key: [id]\n", "    key: [id]\n    undeclared_columns: evolve\n")


@pytest.mark.parametrize("kept", [True, False])
def test_a_column_that_was_left_out_has_its_earlier_values_when_it_is_taken_up(tmp_path: Path, *, kept: bool) -> None:
    """They were null in all rows that did not change since; kept: the messages of these rows are."""
    lake, made, producer = lake_of(tmp_path, "debezium/postgresql", PLAIN)
    text = declared(tmp_path, made, [PLAIN]).read_text().replace("      v: string\n", "")
    (tmp_path / "workload.yaml").write_text(text)
    lake.pipeline = load(tmp_path / "workload.yaml")
    cycle(lake, producer, messages(commit(made, 1000, ("I", None, row(1, "a")), ("I", None, row(2, "b")))))
    if not kept:
        lake.forget("kind = 'row'")
    (tmp_path / "workload.yaml").write_text(taking_up(text))
    lake.pipeline = load(tmp_path / "workload.yaml")
    cycle(lake, producer, messages(commit(made, 2000, ("I", None, row(3, "c")))))
    values = {each["id"]: each["v"] for each in lake.rows("t")}
    assert values == ({1: "a", 2: "b", 3: "c"} if kept else {1: None, 2: None, 3: "c"})
    changed = [each for each in findings.open_findings(lake.paths) if each["code"] == f.CHANGED]
    nulls = [(each["table"], each["column"], each["since_csn"]) for each in changed]
    assert nulls == ([] if kept else [("t", "v", 1000)])
    assert lake.shown_through() == 2000
    assert [dict(each["versions"]).keys() for each in lake.rows("cuts")] == [{"t"}] * 2
    states = r.states(r.read(lake.paths))
    cycle(lake, producer, messages(commit(made, 3000, ("U", row(3, "c"), row(3, "d")))))
    assert r.states(r.read(lake.paths)) == states, "the history is settled"
