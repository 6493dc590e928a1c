"""Finding and loading declarations."""

from collections.abc import Callable
from datetime import date, timedelta
from pathlib import Path

import pytest
from pydantic import ValidationError

from txloom.config import discover, find, load, pipelines_dir
from txloom.config.load import where
from txloom.config.models.pipeline import Child, Mirror, Pipeline
from txloom.errors import ConfigurationError

Declared = Callable[..., Path]


def message(path: str | Path) -> str:
    with pytest.raises(ConfigurationError) as error:
        load(path)
    return str(error.value)


def test_what_is_left_out_has_its_default(declared: Declared) -> None:
    pipeline = load(declared(('schedule: "*/15 * * * *"\n', ""), ("maintenance:\n  vacuum:\n    retain: 7d\n", "")))
    assert (pipeline.description, pipeline.owner, pipeline.schedule) == ("", "data-platform", None)
    assert pipeline.start_date == date(2025, 1, 1)
    assert pipeline.source.files.settle == timedelta(seconds=60)
    assert pipeline.tables[0].undeclared_columns == "ignore"
    assert pipeline.maintenance.schedule is None
    assert pipeline.maintenance.history.keep is None
    assert pipeline.maintenance.vacuum.retain == timedelta(days=7)


def test_names_of_targets_come_from_what_they_hold(declared: Declared) -> None:
    targets = load(declared()).targets
    [basket] = targets.aggregates
    assert (basket.history, basket.current, basket.children[0].as_) == ("basket_stream", "basket_current", "items")
    assert [(mirror.current, mirror.history) for mirror in targets.mirrors] == [
        ("orders", "orders_changes"),
        ("items", "items_changes"),
    ]


def test_a_pattern_of_mirrors_leaves_alone_what_is_named(declared: Declared) -> None:
    mirrors = load(declared(("    - orders\n", '    - "*"\n'))).targets.mirrors
    assert [(mirror.table, mirror.zorder) for mirror in mirrors] == [("orders", ()), ("items", ("item_no",))]


def test_a_column_may_have_another_name_in_the_source(declared: Declared) -> None:
    orders = load(declared(("order_id: long", "order_id: {type: long, source: ORD ID}"))).table("orders")
    assert orders.column("order_id").source == "ORD ID"
    assert orders.column("tags").source == "tags"
    assert orders.column_names == ("order_id", "total_amount", "tags")


def test_a_declaration_never_changes(declared: Declared) -> None:
    pipeline = load(declared())
    with pytest.raises(ValidationError):
        pipeline.name = "other"  # type: ignore[misc]


def test_models_are_made_in_python_by_the_names_of_their_fields() -> None:
    child = Child(table="items", as_="lines", relation="many", parent_key=("order_id",))
    assert child.as_ == "lines"
    assert Mirror(table="items").history == "items_changes"


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "shop.yaml"
    assert message(path) == f"{path}: found no such file, expected a declaration of a pipeline."


def test_a_folder_is_no_declaration(tmp_path: Path) -> None:
    assert message(tmp_path) == f"{tmp_path}: found Is a directory, expected a declaration of a pipeline."


@pytest.mark.parametrize("text", ["", "# nothing but a remark\n", "\n\n"])
def test_an_empty_file_is_refused(declared: Declared, text: str) -> None:
    assert message(declared(text=text)) == (
        "shop.yaml:1: found an empty file, expected a pipeline. include/pipelines/orders.yaml is an example."
    )


def test_a_list_is_no_declaration(declared: Declared) -> None:
    assert message(declared(text="- name: shop\n")) == (
        "shop.yaml:1: found a list, expected a mapping with name, description, owner, schedule, after, start_date, "
        "timeout, source, completeness, tables, targets, expectations, judge, alerts, maintenance, spark and audit."
    )


def test_a_file_in_another_encoding_is_refused(declared: Declared) -> None:
    path = declared()
    path.write_bytes(b"name: shop\nowner: caf\xe9\n")
    assert message(path) == "shop.yaml:2: found bytes that are not UTF-8, expected text in UTF-8."


def test_a_file_of_many_megabytes_is_refused(declared: Declared) -> None:
    path = declared(text="#" * (4 * 1024 * 1024 + 1))
    assert message(path) == "shop.yaml: found 4194305 bytes, expected a declaration of at most 4194304."


def test_a_byte_order_mark_does_no_harm(declared: Declared) -> None:
    path = declared()
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert load(path).name == "shop"


def test_a_pipeline_is_found_by_file_and_by_name(declared: Declared, monkeypatch: pytest.MonkeyPatch) -> None:
    path = declared()
    monkeypatch.setenv("TXLOOM_PIPELINES", str(path.parent.resolve()))
    assert find("shop") == find("shop.yaml") == find(path.resolve()) == load(path)


def test_a_pipeline_is_found_by_the_name_that_it_declares(declared: Declared) -> None:
    folder = declared().rename("store.yaml").parent.resolve()
    assert find("shop", folder).name == "shop"


def test_a_name_that_no_pipeline_has_is_answered_with_a_near_one(declared: Declared) -> None:
    folder = declared().parent.resolve()
    with pytest.raises(ConfigurationError) as error:
        find("shpo", folder)
    assert str(error.value) == (f"{folder}: found no pipeline 'shpo', expected a file shpo.yaml. Did you mean 'shop'?")


def test_pipelines_lie_in_the_project_unless_the_environment_says_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TXLOOM_PIPELINES", raising=False)
    assert pipelines_dir() == Path(__file__).resolve().parents[2] / "include" / "pipelines"
    monkeypatch.setenv("TXLOOM_PIPELINES", "/declarations")
    assert pipelines_dir() == Path("/declarations")


def test_a_folder_shows_all_its_declarations_in_order_whether_right_or_wrong(declared: Declared) -> None:
    declared(("name: shop", "name: zoo")).rename("zoo.yaml")
    declared(("name: shop", "name: 5")).rename("bad.yaml")
    declared()
    for ignored in (".hidden.yaml", "notes.txt", "old.yaml.bak", "deeper/shop.yaml"):
        Path(ignored).parent.mkdir(exist_ok=True)
        Path(ignored).write_text("nonsense: [")
    declarations_read = discover(Path())
    assert [(str(path), isinstance(pipeline, Pipeline)) for path, pipeline in declarations_read] == [
        ("bad.yaml", False),
        ("shop.yaml", True),
        ("zoo.yaml", True),
    ]
    assert str(declarations_read[0][1]) == (
        "bad.yaml:1: name: found 5, expected a name of lower-case letters, digits and underscores, "
        "beginning with a letter."
    )


def test_two_files_of_a_folder_do_not_declare_one_pipeline(declared: Declared) -> None:
    declared().rename("again.yaml")
    declared()
    (_, first), (_, second) = discover(Path())
    assert isinstance(first, Pipeline)
    assert str(second) == "shop.yaml:1: name: found the name of again.yaml, expected a name that no other file has."


def test_a_folder_that_is_not_there_has_no_declarations(tmp_path: Path) -> None:
    assert discover(tmp_path / "nowhere") == []


def test_a_key_of_an_expectation_has_its_line_until_the_file_says_something_else(declared: Declared) -> None:
    assert where(declared(), "stuck", "older_than") == (50, "expectations[1].older_than")
    for edit in (("id: stuck", "id: waiting"), ("    older_than: 10m\n", "")):
        assert where(declared(edit), "stuck", "older_than") == (1, "expectations")
    assert where(declared(text=""), "stuck", "older_than") == (1, "expectations")
