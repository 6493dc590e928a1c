"""Rules for a declaration's source and its completeness rule."""

from collections.abc import Iterator

from txloom.config.problems import Problem
from txloom.config.validation.draft import Draft
from txloom.config.yaml.document import Item

RULES = {
    "goldengate": ("counts", "progress"),
    "debezium": ("counts",),
    "wal2json": ("markers",),
    "change_events": ("single",),
    "change_sets": ("single", "progress"),
    "snapshots": ("single",),
}
"""By format, the completeness rules that it supports, the usual one first."""
BY_DATABASE = ("adaptive", "adaptive_time_microseconds")
"""Values of Debezium's time.precision.mode under which a column's type in its database decides its unit."""
PATIENT = ("counts", "markers")
"""Rules under which an incomplete transaction is given up."""


def check_source(draft: Draft) -> Iterator[Problem]:
    """Yield problems of a source: transport, rule, transaction topic, fields and times must fit its format."""
    source, completeness = draft.root.get("source"), draft.root.get("completeness")
    form = draft.word(source, "format") if source else None
    if source is not None and not draft.is_reported(source):
        yield from _transport(draft, source)
    if source is None or form is None or form.value not in RULES:
        return
    rule = draft.word(completeness, "rule") if completeness else None
    if rule is not None and rule.value not in RULES[form.value]:
        expected = " or ".join(f"'{each}'" for each in RULES[form.value])
        hint = f"It is what makes a transaction of {form.value} whole."
        yield draft.problem(rule, f"{expected} for the format {form.value}", hint)
        rule = None
    yield from _topic(draft, source, form.value, rule.value if rule else RULES[form.value][0])
    yield from _fields(draft, source, form.value, rule)
    yield from _debezium(draft, source)
    yield from _signals(draft, source, form.value)
    if completeness is not None and rule is not None and not draft.is_reported(completeness):
        yield from _times(draft, completeness, rule.value)


def _topic(draft: Draft, source: Item, form: str, rule: str) -> Iterator[Problem]:
    """Yield a problem of the transaction topic: the rule counts needs it, no other rule has one."""
    topic = source.given("transaction_topic")
    if topic is None and rule == "counts" and not draft.is_reported(source):
        yield draft.missing(source, "transaction_topic", "the topic that carries the transaction metadata")
    elif topic is not None and rule != "counts":
        yield draft.problem(topic, f"no transaction topic: {form} has none under the rule {rule}")


def _fields(draft: Draft, source: Item, form: str, rule: Item | None) -> Iterator[Problem]:
    """Yield problems of change_sets: it is for that format only, and its transaction field is for progress only."""
    fields = source.given("change_sets")
    if fields is not None and form != "change_sets":
        yield draft.problem(fields, "source.format: change_sets", value=f"fields of change sets for {form}")
        return
    transaction = fields.given("transaction") if fields is not None else None
    if form != "change_sets" or rule is None:
        return
    if rule.value == "progress" and transaction is None:
        expected = "source.change_sets.transaction: the field with the id of the source's transaction"
        yield draft.problem(rule, expected, value="progress without it")
    elif transaction is not None and rule.value != "progress":
        yield draft.problem(transaction, "completeness.rule: progress", "Without it each row stands alone.")


def _signals(draft: Draft, source: Item, form: str) -> Iterator[Problem]:
    """Yield problems of signals: a connector takes them, over Kafka, and they are addressed to its prefix."""
    signals, topic = source.given("signals"), source.given("transaction_topic")
    if signals is None or draft.is_reported(signals):
        return
    if form != "debezium" or source.given("kafka") is None:
        yield draft.problem(signals, "source.format: debezium, over source.kafka", value="signals without a connector")
    elif signals.given("prefix") is None and topic is not None and not str(topic.value).endswith(".transaction"):
        expected = "the connector's topic.prefix, because transaction_topic does not end in .transaction"
        yield draft.missing(signals, "prefix", expected)


def _debezium(draft: Draft, source: Item) -> Iterator[Problem]:
    """Yield problems of Debezium's time options: one way to give the unit, and a database where the mode needs it."""
    options = source.get("debezium")
    if options is None or draft.is_reported(options):
        return
    unit, database, mode = (options.given(name) for name in ("time_unit", "database", "time_precision_mode"))
    if unit is not None and (database or mode):
        expected = "either time_unit, or database and time_precision_mode"
        yield draft.problem(unit, expected, value="time_unit beside them")
    if mode is not None and database is None and mode.value in BY_DATABASE:
        yield draft.problem(mode, "source.debezium.database beside it", "Each database counts in other units.")


def _times(draft: Draft, completeness: Item, rule: str) -> Iterator[Problem]:
    """Yield problems of patience and idle_after: each is for the rules that use it."""
    patience, idle = completeness.given("patience"), completeness.given("idle_after")
    if patience is None and rule in PATIENT:
        yield draft.missing(completeness, "patience", "how long an incomplete transaction may wait, such as 30m")
    elif patience is not None and rule == "progress":
        hint = "Transactions wait until every partition has gone past them; see completeness.idle_after."
        yield draft.problem(patience, "no patience under the rule progress", hint)
    if idle is not None and rule not in ("progress", "counts"):
        yield draft.problem(idle, f"no idle time under the rule {rule}", "No partition waits for another.")


def _transport(draft: Draft, source: Item) -> Iterator[Problem]:
    """Yield a problem unless a source has exactly one of files and kafka."""
    files, kafka = source.given("files"), source.given("kafka")
    if files is None and kafka is None:
        expected = "a mapping with path, settle and layout, or source.kafka instead of it"
        yield draft.missing(source, "files", expected)
    elif files is not None and kafka is not None:
        yield draft.problem(kafka, "either files or kafka", value="kafka beside files")


def check_snapshots(draft: Draft) -> Iterator[Problem]:
    """Yield problems of snapshots: extracts are files, declare what a missing row means, and need a key and a target.

    A table that no target writes has no current rows to compare.
    """
    source = draft.root.get("source")
    form = draft.word(source, "format") if source else None
    if source is None or form is None or draft.is_reported(source):
        return
    options, kafka = source.given("snapshots"), source.given("kafka")
    if form.value != "snapshots":
        if options is not None:
            yield draft.problem(options, f"no snapshots: {form.value} has none", value="a mapping")
        return
    if options is None:
        yield draft.missing(source, "snapshots", "a mapping with extracts: full or partial")
    if kafka is not None:
        yield draft.problem(kafka, "files: extracts are folders of files", value="kafka")
    for table in draft.tables:
        if table.has_no_key and (key := table.item.get("key")):
            yield draft.problem(key, "a key", "Rows of an extract are told apart by it.")
        name = draft.word(table.item, "name")
        if name and not draft.is_written(name):
            hint = "Extracts are compared with its current rows. Add it to targets.mirrors."
            yield draft.problem(name, "a table that a target writes", hint)
