"""Write docs/configuration.md: every key of a declaration with its type, default, meaning and an example.

    .venv/bin/python scripts/config_reference.py

The page is made from the models in include/txloom/config/models. Examples come from a description ("such as 30m"), from
the shipped declarations, or from EXAMPLES below; each is validated as a value of its key before it is written.
tests/docs/test_config_reference.py fails while the committed page differs from what this script writes.
"""

import json
import re
import sys
import types
import typing
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin

import yaml
from pydantic import TypeAdapter
from pydantic.fields import FieldInfo

from txloom.config.models import fields
from txloom.config.models.alerts import Alerts, AppriseChannel, EmailChannel, LogChannel, SlackChannel, WebhookChannel
from txloom.config.models.audit import Audit, Repair
from txloom.config.models.base import Model
from txloom.config.models.column_types import SPARK_TYPES, ColumnType
from txloom.config.models.durations import show_duration
from txloom.config.models.expectations import Expectation
from txloom.config.models.maintenance import ChangeEvents, History, Maintenance, Optimize, Reports, Vacuum
from txloom.config.models.partitions import Partition
from txloom.config.models.pipeline import (
    Aggregate,
    Child,
    ColumnDetail,
    Completeness,
    Mirror,
    Pipeline,
    Table,
    Targets,
)
from txloom.config.models.source import ChangeSets, Debezium, Files, Kafka, Signals, Snapshots, Source
from txloom.config.models.spark import Spark

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "configuration.md"
SHIPPED = (
    ROOT / "include" / "pipelines" / "orders.yaml",
    *sorted((ROOT / "include/pipelines/examples").glob("*.yaml")),
)
ELSEWHERE = re.compile(r"\$\{ORDERS_\w+:-([^}]*)\}")
"""What `orders` leaves to its environment; the example shows what it is without."""

TYPE_NAMES = {
    "Text": "text",
    "Remark": "text",
    "Statement": "SQL",
    "LowerName": "lower-case name",
    "TableName": "name",
    "TablePattern": "name or pattern",
    "ColumnName": "name",
    "FieldName": "name",
    "SourceTable": "source table",
    "EntryName": "name, or names",
    "EntrySource": "source table",
    "SourceColumn": "text",
    "Topic": "topic",
    "Folder": "folder",
    "Schedule": "cron, or `@continuous`",
    "Asset": "URI",
    "Cron": "cron",
    "Day": "date",
    "Address": "e-mail address",
    "ConnectionId": "connection id",
    "Groups": "multiple of 8",
    "SchemaName": "name of a schema",
    "Memory": "memory: a number with `m` or `g`",
    "Share": "share: a number with `%`",
    "Url": "URL",
    "AppriseUrl": "URL of Apprise",
    "Whole": "whole number",
    "Count": "whole number above 0",
    "Wait": "duration, 0s to 1d",
    "Duration": "duration, 1s to 3650d",
    "Retention": "duration, 1h to 3650d",
}
"""The names on the page for the kinds of value of `txloom.config.models.fields`."""

EXAMPLES: dict[str, Any] = {
    "after": ["txloom://orders/cuts"],
    "timeout": "2h",
    "judge": "always",
    "source.kafka.topics": ["dev.public.orders"],
    "source.kafka.options": {"security.protocol": "SASL_SSL"},
    "source.kafka.messages_per_run": 1000000,
    "source.debezium.database": "mysql",
    "source.signals": "{topic: shop-signals, notifications: shop-notifications}",
    "source.signals.topic": "shop-signals",
    "source.signals.notifications": "shop-notifications",
    "source.signals.prefix": "shop",
    "source.signals.watermarks": "public.debezium_signals",
    "source.debezium.time_precision_mode": "adaptive_time_microseconds",
    "source.change_sets.sequence": "number",
    "source.unknown_tables": "dead_letter",
    "source.max_message_bytes": 67108864,
    "source.run_token": "PROCESS_ID",
    "completeness.suspects": "hold",
    "completeness.max_rows": 10000000,
    "completeness.complete_now": "approve",
    "tables[].columns.NAME.source": "ORD_ID",
    "tables[].columns.NAME.source_aliases": ["ORDER_NO"],
    "tables[].undeclared_columns": "evolve",
    "tables[].dropped_columns": "keep",
    "targets.aggregates[].zorder": ["order_id"],
    "targets.catalog": "unity.lake",
    "targets.mirrors[].current": "readings_now",
    "targets.mirrors[].history": "readings_log",
    "expectations[].at_most": 10,
    "expectations[].codes": ["row was never seen"],
    "expectations[].expectation": "ExpectColumnValuesToNotBeNull",
    "expectations[].arguments": {"column": "product_id", "mostly": 0.99},
    "expectations[].where": "item_amount > 0",
    "expectations[].table": "orders",
    "expectations[].sql": "select order_id from orders where total_amount < 0",
    "expectations[].hint": "Compare the listed orders with the source.",
    "alerts.notify[].url": "${TXLOOM_WEBHOOK}",
    "alerts.notify[].to": ["on-call@example.com"],
    "maintenance.change_events.keep": "400d",
    "audit": {"connection": "shop_db"},
    "audit.connection": "shop_db",
    "spark": {"connection": "spark_prod", "executors": 8},
    "spark.connection": "spark_prod",
    "spark.state_groups": 32,
    "spark.settings": {"spark.executor.memoryOverhead": "1g"},
}
"""Examples for keys of which neither a description nor a shipped declaration has a useful one."""

TYPES: dict[str, str] = {
    "tables[].columns": "mapping of names to types, or to mappings",
    "tables[].key": "list of names, or `none`",
    "targets.mirrors": "list of names, patterns or mappings",
}
"""Types for keys where a declaration may hold more forms than the model."""
MOST_SHOWN = 60
"""Characters of an example from a declaration."""
CLOSED = 10
"""Texts of a closed list that a cell shows; longer lists are written below the table."""


@dataclass(frozen=True)
class Section:
    """One model of the page, under the path of its key; kind: which of several models the section is about."""

    path: str
    model: type[Model]
    kind: str = ""
    keys: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """Return the heading: the path, and the kind where there are several."""
        return f"`{self.path}`, kind `{self.kind}`" if self.kind else f"`{self.path}`" if self.path else "A pipeline"


def keys_of(model: type[Model]) -> tuple[str, ...]:
    """Return the keys of a model, in its order."""
    return tuple(field.alias or name for name, field in model.model_fields.items())


def kinds(path: str, models: Sequence[type[Model]]) -> list[Section]:
    """Return the sections of models that differ by `kind`: first the keys that all have, then those of each."""
    shared = tuple(key for key in keys_of(models[0]) if all(key in keys_of(each) for each in models))
    sections = [Section(path, models[0], keys=shared)]
    for each in models:
        item_keys = tuple(key for key in keys_of(each) if key not in shared)
        sections.append(Section(path, each, get_args(each.model_fields["kind"].annotation)[0], item_keys))
    return sections


SECTIONS = (
    Section("", Pipeline),
    Section("source", Source),
    Section("source.files", Files),
    Section("source.kafka", Kafka),
    Section("source.debezium", Debezium),
    Section("source.signals", Signals),
    Section("source.change_sets", ChangeSets),
    Section("source.snapshots", Snapshots),
    Section("completeness", Completeness),
    Section("tables[]", Table),
    Section("tables[].columns.NAME", ColumnDetail),
    Section("targets", Targets),
    Section("targets.aggregates[]", Aggregate),
    Section("targets.aggregates[].children[]", Child),
    Section("targets.mirrors[]", Mirror),
    *kinds("expectations[]", get_args(get_args(Expectation)[0])),
    Section("alerts", Alerts),
    *kinds("alerts.notify[]", (LogChannel, WebhookChannel, SlackChannel, EmailChannel, AppriseChannel)),
    Section("maintenance", Maintenance),
    Section("maintenance.change_events", ChangeEvents),
    Section("maintenance.history", History),
    Section("maintenance.reports", Reports),
    Section("maintenance.optimize", Optimize),
    Section("maintenance.vacuum", Vacuum),
    Section("spark", Spark),
    Section("audit", Audit),
    Section("audit.repair", Repair),
)

HEAD = """# Configuration reference

<!-- Written by scripts/config_reference.py out of include/txloom/config/models. Change the models, then run it. -->

Every key of a declaration. [Declare a pipeline](declaring.md) explains them in context, and
`include/pipelines/orders.yaml` is a commented example. `txloom check` names every mistake of a file with its line;
`txloom schema` prints the JSON schema for editors. A key that is not listed here is refused.

`[]` stands for an item of a list. A **duration** is a whole number with `s`, `m`, `h` or `d`. A **name** has letters,
digits and underscores and begins with a letter; a **source table** is schema and name, such as `PUBLIC.ORDERS`. Any
value may come from the environment: `${NAME}` or `${NAME:-default}`.
"""

TYPES_HEAD = """
## Column types

| declared | in Spark |
|---|---|
"""

TYPES_TAIL = """| `decimal(p,s)` | `decimal(p,s)`, 1 to 38 digits |
| `array<type>` | `array<type>`, of any type but array, json and binary |

[What a value is](operations.md#what-a-value-is) says what fits a type exactly.
"""


def page() -> str:
    """Return the whole page."""
    declared = [yaml.safe_load(ELSEWHERE.sub(r"\1", file.read_text())) for file in SHIPPED]
    parts = [HEAD, *(section_text(each, declared) for each in SECTIONS), TYPES_HEAD]
    rows = "".join(f"| `{name}` | `{spark}` |\n" for name, spark in SPARK_TYPES.items())
    return "".join(parts) + rows + TYPES_TAIL


def section_text(section: Section, declared: Sequence[Any]) -> str:
    """Return the heading, the sentence and the table of one model."""
    shared = section.keys and not section.kind
    lines = [f"\n## {section.title}\n", "What each kind has." if shared else sentence(section.model), ""]
    hints = typing.get_type_hints(section.model, include_extras=True)
    rows, below = list[str](), list[str]()
    for name, field in section.model.model_fields.items():
        key = field.alias or name
        if (section.keys or section.kind) and key not in section.keys:
            continue
        path = f"{section.path}.{key}" if section.path else key
        shown = kinds_of(section.path) if shared and key == "kind" else TYPES.get(path) or type_name(hints[name])
        meaning = described(field)
        example = example_cell(path, section, field, hints[name], declared)
        rows.append(f"| `{key}` | {shown} | {default_text(field)} | {meaning} | {example} |")
        if options := closed_list(hints[name]):
            below.append(f"\n`{key}` takes {', '.join(f'`{each}`' for each in options)}.")
    if rows:
        lines += ["| key | type | default | what it says | example |", "|---|---|---|---|---|", *rows, *below]
    else:
        lines.append("It has no keys of its own.")
    return "\n".join(lines) + "\n"


def kinds_of(path: str) -> str:
    """Return the kinds that items of a list may have."""
    return ", ".join(f"`{each.kind}`" for each in SECTIONS if each.path == path and each.kind)


def closed_list(hint: Any) -> tuple[str, ...]:
    """Return the texts that a key, or the items of its list, may be, where there are more than CLOSED."""
    if get_origin(hint) in (Annotated, tuple):
        return closed_list(get_args(hint)[0])
    options = get_args(hint) if get_origin(hint) is Literal else ()
    return options if len(options) > CLOSED else ()


def sentence(model: type[Model]) -> str:
    """Return the first line of a model's docstring."""
    return (model.__doc__ or "").strip().split("\n")[0]


def described(field: FieldInfo) -> str:
    """Return a field's description as a sentence."""
    words = re.sub(r"[\w.]*\$?\{[^{}]*\}|\[[^\]]*\]", r"`\g<0>`", field.description or "")
    return f"{escaped(words)}."


def type_name(hint: Any) -> str:
    """Return the name of a key's type."""
    if get_origin(hint) is Annotated:
        known = known_type(hint)
        return known if known else type_name(get_args(hint)[0])
    if get_origin(hint) in (typing.Union, types.UnionType):
        options = [each for each in get_args(hint) if each is not type(None)]
        return "mapping" if all(is_model(each) for each in options) else " or ".join(map(type_name, options))
    if get_origin(hint) is tuple:
        item = type_name(get_args(hint)[0])
        return f"list of {item}{'es' if item.endswith('s') else 's'}"
    if get_origin(hint) is dict:
        return "mapping"
    if get_origin(hint) is Literal:
        return "text" if closed_list(hint) else ", ".join(f"`{each}`" for each in get_args(hint))
    if is_model(hint):
        return "mapping"
    return {ColumnType: "[column type](#column-types)", Partition: "column, or `year(c)`, `month(c)`, `day(c)`"}[hint]


def known_type(hint: Any) -> str:
    """Return the name of the kind of value in `fields` that an annotation was made from; empty where it is none."""
    base, *metadata = get_args(hint)
    fitting = [("", 0)]
    for name, shown in TYPE_NAMES.items():
        kind, *values = get_args(getattr(fields, name))
        if kind is base and metadata[: len(values)] == values:
            fitting.append((shown, len(values)))
    return max(fitting, key=lambda each: each[1])[0]


def is_model(kind: Any) -> bool:
    """Return whether a type is a part of a declaration with keys."""
    if get_origin(kind) is Annotated:
        return is_model(get_args(kind)[0])
    if get_origin(kind) in (typing.Union, types.UnionType):
        return all(is_model(each) for each in get_args(kind))
    return isinstance(kind, type) and issubclass(kind, Model)


def default_text(field: FieldInfo) -> str:
    """Return the default as a declaration would have it."""
    if field.is_required():
        return "required"
    if field.default_factory is not None:
        return "see there" if "by default" in (field.description or "") else "empty"
    default = field.default
    if default is None or default == ():
        return "none"
    if isinstance(default, Model):
        return "as below"
    if isinstance(default, timedelta):
        return f"`{show_duration(default)}`"
    if isinstance(default, tuple):
        return f"`[{', '.join(flow(each.model_dump() if isinstance(each, Model) else each) for each in default)}]`"
    return f"`{flow(default)}`"


def example_cell(path: str, section: Section, field: FieldInfo, hint: Any, declared: Sequence[Any]) -> str:
    """Return an example that the key takes; for a part with keys, a link to its section."""
    if (owner := section_of(path)) is not None:
        return f"[below](#{anchor(owner)})"
    value = example_value(path, section, field, declared)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # pydantic warns that the alias `as` has no effect here
        TypeAdapter(hint).validate_python(resolved(value))
    return escaped(f"`{flow(value)}`")


def resolved(value: Any) -> Any:
    """Return a value for validation: a text from the environment becomes an address."""
    if isinstance(value, str) and value.startswith("${"):
        return "https://example.com"
    return value


def section_of(path: str) -> Section | None:
    """Return the first section of a key that is a mapping, or a list of mappings."""
    return next((each for each in SECTIONS if each.path in (path, f"{path}[]")), None)


def anchor(section: Section) -> str:
    """Return the anchor of a section's heading, as GitHub and the site make it.

    >>> anchor(Section("alerts.notify[]", LogChannel, "log"))
    'alertsnotify-kind-log'
    """
    return re.sub(r"[^a-z0-9_ -]", "", section.title.lower()).replace(" ", "-")


def example_value(path: str, section: Section, field: FieldInfo, declared: Sequence[Any]) -> Any:
    """Return an example for a key: from EXAMPLES, a shipped declaration, its closed list, or its description."""
    if path in EXAMPLES:
        return EXAMPLES[path]
    for root in declared:
        for item in position_of(root, path.split("."), section.kind):
            return item
    options = get_args(field.annotation) if get_origin(field.annotation) is Literal else ()
    if options:
        return options[0]
    if such := re.search(r"such as (\{[^}]*\}|\[[^\]]*\]|[^,;]+)", field.description or ""):
        return yaml.safe_load(such[1].strip())
    if isinstance(field.default, str):
        return field.default
    raise LookupError(f"{path}: no example; add one to EXAMPLES in {Path(__file__).name}")


def position_of(value: Any, keys: Sequence[str], kind: str) -> Iterator[Any]:
    """Yield the values that a declaration has under a path; kind: the kind that its items must have."""
    if not keys:
        if len(flow(value)) <= MOST_SHOWN:
            yield value
        return
    key, rest = keys[0], keys[1:]
    if not isinstance(value, dict):
        return
    if key == "NAME":
        for each in value.values():
            yield from position_of(each if isinstance(each, dict) else {"type": each}, rest, kind)
    elif key.endswith("[]"):
        items = value.get(key[:-2]) or ()
        for each in items:
            if not kind or rest != keys[-1:] or (isinstance(each, dict) and each.get("kind") == kind):
                yield from position_of(each, rest, kind)
    elif key in value:
        yield from position_of(value[key], rest, kind)


def flow(value: Any) -> str:
    """Return a value as YAML on one line.

    >>> flow({"id": "long"}), flow("*/5 * * * *"), flow(True)
    ('{id: long}', '"*/5 * * * *"', 'true')
    """
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {flow(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(flow, value)) + "]"
    if isinstance(value, bool) or value is None:
        return json.dumps(value)
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, int | float):
        return str(value)
    text = " ".join(str(value).split())
    plain = text and yaml.safe_load(f"[{text}]") == [text] if not re.search(r"[{}\[\],&*#?|<>=!%@`]", text) else False
    return text if plain else json.dumps(text, ensure_ascii=False)


def escaped(text: str) -> str:
    """Return a text for a cell of a table."""
    return text.replace("|", "\\|")


if __name__ == "__main__":
    PAGE.write_text(page())
    print(PAGE.relative_to(ROOT), file=sys.stderr)
