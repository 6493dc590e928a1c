"""Files that are not YAML, or not plain YAML, each with its whole message."""

from collections.abc import Callable
from typing import Any

import pytest

from txloom.config.yaml.document import read

Refused = Callable[..., str]


def test_a_key_that_comes_twice_names_both_lines(refused: Refused) -> None:
    assert refused("rule: counts", "rule: counts\n  patience: 15m") == (
        "shop.yaml:11: completeness.patience: found the same key again, expected each key once. The "
        "first is in line 10."
    )


def test_a_tag_that_runs_code_is_refused(refused: Refused) -> None:
    assert refused("path: inbox", "path: !!python/object/apply:os.getcwd []") == (
        "shop.yaml:6: source.files.path: found the tag '!!python/object/apply:os.getcwd', expected plain"
        " YAML without tags."
    )


def test_a_tag_of_another_type_is_refused(refused: Refused) -> None:
    assert refused("path: inbox", "path: !!binary aW5ib3g=") == (
        "shop.yaml:6: source.files.path: found the tag '!!binary', expected plain YAML without tags."
    )


def test_a_cron_without_quotes_asks_for_them(refused: Refused) -> None:
    assert refused('"*/15 * * * *"', "*/15 * * * *") == (
        "shop.yaml:2: found text that is not YAML (did not find expected alphabetic or numeric "
        "character), expected YAML. A text that begins with * needs quotes."
    )


def test_a_name_of_a_schedule_without_quotes_asks_for_them(refused: Refused) -> None:
    assert refused('"*/15 * * * *"', "@daily") == (
        "shop.yaml:2: found text that is not YAML (found character that cannot start any token), "
        "expected YAML. A text that begins with @ needs quotes."
    )


def test_a_pattern_of_mirrors_without_quotes_asks_for_them(refused: Refused) -> None:
    assert refused("    - orders", "    - *") == (
        "shop.yaml:36: found text that is not YAML (did not find expected alphabetic or numeric "
        "character), expected YAML. A text that begins with * needs quotes."
    )


def test_a_tab_asks_for_spaces(refused: Refused) -> None:
    for mistake in ("\trule: counts", "\t# how a transaction is whole\n  rule: counts"):
        assert refused("  rule: counts", mistake) == (
            "shop.yaml:9: found text that is not YAML (found character that cannot start any token), "
            "expected YAML. Indent with spaces, not with tabs."
        )


def test_a_colon_inside_a_text_asks_for_quotes(refused: Refused) -> None:
    assert refused("hint: Look at the topics.", "hint: Look: the topics.") == (
        "shop.yaml:53: found text that is not YAML (mapping values are not allowed in this context), "
        "expected YAML. A text that holds ': ' needs quotes."
    )


def test_a_variable_inside_braces_asks_for_quotes(refused: Refused) -> None:
    assert refused("  files:\n    path: inbox", "  files: {path: ${SHOP_INBOX}}") == (
        "shop.yaml:5: found text that is not YAML (did not find expected ',' or '}'), expected YAML. "
        "Inside { } and [ ], a text with ${...} needs quotes."
    )


@pytest.mark.parametrize("comment", ["# note: 12: noon", "# @daily: or so", "# {x: ${Y}}"])
def test_a_comment_before_a_mistake_is_not_the_mistake(refused: Refused, comment: str) -> None:
    assert refused("  rule: counts", f"  rule counts\n{comment}") == (
        "shop.yaml:11: found text that is not YAML (did not find expected key), expected YAML."
    )


def test_a_second_document_is_refused(refused: Refused) -> None:
    assert refused("maintenance:", "---\nmaintenance:") == (
        "shop.yaml:54: found a second document, expected one pipeline in each file."
    )


def test_a_key_that_is_no_text_is_refused(refused: Refused) -> None:
    assert refused("  rule: counts", "  rule: counts\n  [a, b]: c") == (
        "shop.yaml:10: completeness: found a key that is no text, expected text as a key."
    )


def test_a_control_character_names_its_line(refused: Refused) -> None:
    assert refused("path: inbox", "path: in\x07box") == (
        "shop.yaml:6: found text that is not YAML (control characters are not allowed), expected YAML."
    )


def read_plain(text: str) -> Any:
    root, problems = read(text, "plain.yaml", {})
    assert root is not None and problems == []
    return root.plain


def refused_text(text: str) -> str:
    root, problems = read(text, "plain.yaml", {})
    assert root is None
    return "\n".join(str(problem) for problem in problems)


def test_scalars_are_read_as_yaml_1_2_reads_them() -> None:
    text = (
        "{a: no, b: on, c: 12:30, d: 2025-01-31, e: 0x1F, f: 1_000, g: 1e3, h: ~, i: true, j: '5', k: !!str 5, l: +5}"
    )
    assert read_plain(text) == {
        "a": "no",
        "b": "on",
        "c": "12:30",
        "d": "2025-01-31",
        "e": "0x1F",
        "f": "1_000",
        "g": 1000.0,
        "h": None,
        "i": True,
        "j": "5",
        "k": "5",
        "l": 5,
    }


def test_aliases_and_merged_mappings_are_fine() -> None:
    assert read_plain("a: &a {x: 1, y: 2}\nb: *a\nc: {<<: *a, y: 3}\nd: {<<: [{y: 4}, *a]}") == {
        "a": {"x": 1, "y": 2},
        "b": {"x": 1, "y": 2},
        "c": {"x": 1, "y": 3},
        "d": {"x": 1, "y": 4},
    }


def test_only_a_mapping_is_merged() -> None:
    _, problems = read("a: {<<: 5}", "plain.yaml", {})
    assert [str(problem) for problem in problems] == [
        "plain.yaml:1: a.'<<': found something else, expected an alias of a mapping."
    ]


def test_a_number_too_long_for_python_is_refused() -> None:
    _, problems = read(f"a: {'9' * 5000}", "plain.yaml", {})
    assert [str(problem) for problem in problems] == [
        f"plain.yaml:1: a: found '{'9' * 57}...', expected what its tag !!int says."
    ]


@pytest.mark.parametrize(
    "text",
    [
        "a: &a [*a]",
        "[" * 100_000 + "]" * 100_000,
        "a: &a [1, 2, 3, 4, 5, 6, 7, 8, 9]\n"
        + "\n".join(f"{b}: &{b} [{', '.join([f'*{a}'] * 9)}]" for a, b in zip("abcdefgh", "bcdefghi", strict=True)),
    ],
    ids=["an alias of itself", "deep nesting", "an alias bomb"],
)
def test_values_without_end_are_refused(text: str) -> None:
    assert refused_text(text) == ("plain.yaml:1: found values inside values without end, expected a plain declaration.")


def test_an_alias_of_nothing_asks_for_quotes() -> None:
    assert refused_text("mirrors:\n  - *orders") == (
        "plain.yaml:2: found text that is not YAML (found undefined alias), expected YAML. "
        "A text that begins with * needs quotes."
    )


def test_a_quote_without_end_is_refused() -> None:
    assert refused_text("name: 'shop\nowner: me\n") == (
        "plain.yaml:3: found text that is not YAML (found unexpected end of stream), expected YAML."
    )
