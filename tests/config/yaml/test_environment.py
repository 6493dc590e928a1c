"""Values from the environment enter the declaration, and never a message."""

import traceback
from collections.abc import Callable
from pathlib import Path

import pytest

from txloom.config import load
from txloom.config.yaml.environment import expand
from txloom.errors import ConfigurationError

SECRET = "hunter2"

Refused = Callable[..., str]
Declared = Callable[..., Path]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("${SHOP}", "one"),
        ("a/${SHOP}/${SHOP}", "a/one/one"),
        ("${EMPTY}", ""),
        ("${SHOP:-two}", "one"),
        ("${EMPTY:-two}", "two"),
        ("${UNSET:-two}", "two"),
        ("${UNSET:-}", ""),
        ("${UNSET:-a b/c:d}", "a b/c:d"),
        ("$${SHOP} and $5", "${SHOP} and $5"),
    ],
)
def test_references_are_replaced(text: str, expected: str) -> None:
    assert expand(text, {"SHOP": "one", "EMPTY": ""}) == expected


def test_a_value_is_not_expanded_again() -> None:
    assert expand("${OUTER}", {"OUTER": "${INNER}", "INNER": "x"}) == "${INNER}"


def test_a_declaration_takes_its_values_from_the_environment(
    declared: Declared, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOP_INBOX", "/deliveries")
    monkeypatch.setenv("SHOP_FILES", "12")
    changes = (("path: inbox", "path: ${SHOP_INBOX}/shop"), ("patience: 30m", "patience: ${SHOP_WAIT:-45m}"))
    optimize = ("maintenance:", "maintenance:\n  optimize:\n    min_small_files: ${SHOP_FILES}")
    pipeline = load(declared(*changes, optimize))
    assert pipeline.source.files.path == "/deliveries/shop"
    assert pipeline.completeness.patience.total_seconds() == 45 * 60
    assert pipeline.maintenance.optimize.min_small_files == 12


def test_a_variable_that_is_not_set_is_named(refused: Refused) -> None:
    assert refused("path: inbox", "path: ${SHOP_NOWHERE}/in") == (
        "shop.yaml:6: source.files.path: found '${SHOP_NOWHERE}/in', expected the environment to set SHOP_NOWHERE. "
        "Set it, or give a default: ${SHOP_NOWHERE:-default}."
    )


@pytest.mark.parametrize("text", ["${SHOP", "${}", "${SHOP-x}", "${1SHOP}", "${SHOP:-a${B}}"])
def test_a_reference_that_is_written_wrong_is_shown(refused: Refused, text: str) -> None:
    assert refused("path: inbox", f"path: '{text}'") == (
        f"shop.yaml:6: source.files.path: found '{text}', expected ${{NAME}} or ${{NAME:-default}}. "
        "A text that holds ${ itself is written with $${."
    )


def test_a_wrong_value_is_named_by_its_variable(refused: Refused, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_WAIT", "30 minutes")
    assert refused("patience: 30m", "patience: ${SHOP_WAIT}") == (
        "shop.yaml:10: completeness.patience: found '${SHOP_WAIT}' (its value is not shown), "
        "expected a duration such as 30s, 15m, 2h or 7d."
    )


@pytest.mark.parametrize(
    "position",
    [
        "name: shop",
        '"*/15 * * * *"',
        "goldengate",
        "dev.transactions",
        "counts",
        "30m",
        "name: orders",
        "PUBLIC.ORDERS",
        "order_id: long",
        "decimal(20,4)",
        "[order_id]",
        "root: orders",
        "table: items",
        "many",
        "- orders",
        "zorder: [item_no]",
        "child: items",
        "parent: orders",
        "block",
        "10m",
        "7d",
    ],
)
@pytest.mark.parametrize("secret", [SECRET, f"../{SECRET}", f"decimal({SECRET})", f"_txloom_{SECRET}", f"{SECRET}*"])
def test_a_secret_is_in_no_message_and_no_traceback(
    declared: Declared, monkeypatch: pytest.MonkeyPatch, position: str, secret: str
) -> None:
    monkeypatch.setenv("SHOP_SECRET", secret)
    head, colon, value = position.partition(": ")
    reference = '"${SHOP_SECRET}"'
    dash = "- " if position.startswith("- ") else ""
    new = f"{head}{colon}[{reference}]" if value.startswith("[") else f"{head}{colon}{reference}"
    new = f"[{reference}]" if position.startswith("[") else new if colon else f"{dash}{reference}"
    try:
        load(declared((position, new)))
    except ConfigurationError:
        assert SECRET not in traceback.format_exc()


def test_cross_checks_name_what_stands_in_the_file(refused: Refused, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_TABLE", SECRET)
    assert refused("name: orders", "name: ${SHOP_TABLE}", ("key: [order_id]", "key: [ordr_id]")) == (
        "shop.yaml:18: tables[0].key[0]: found 'ordr_id', expected a declared column of ${SHOP_TABLE}. "
        "Did you mean 'order_id'?\n"
        "shop.yaml:30: targets.aggregates[0].root: found 'orders', expected a watched table.\n"
        "shop.yaml:36: targets.mirrors[0]: found 'orders', expected a watched table.\n"
        "shop.yaml:43: expectations[0].parent: found 'orders', expected a watched table."
    )
