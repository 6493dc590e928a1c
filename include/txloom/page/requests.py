"""Parse the parameters of a request: which transaction, which row; raises ConfigurationError that names a wrong one."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

from txloom.config.models.durations import parse_duration
from txloom.config.models.pipeline import Pipeline
from txloom.config.problems import Unfit
from txloom.errors import ConfigurationError
from txloom.page.links import KEY
from txloom.storage.views.stories.row_lookup import row_question

LARGEST_CSN = 2**63 - 1
LONGEST = 300
"""Characters that an id, a cause or a key may have."""
SPANS = {"6h": "6 hours", "1d": "a day", "7d": "7 days", "30d": "30 days"}
"""Durations that a chart can cover."""


def sane(name: str, text: str | None) -> str | None:
    """Return a parameter without surrounding spaces; None for an empty one.

    Raises ConfigurationError for invisible characters and overlong texts: no address that a page makes has them.
    """
    if text is None or not (stripped := text.strip()):
        return None
    if len(stripped) > LONGEST:
        raise ConfigurationError(f"{name} has {len(stripped)} characters; at most {LONGEST} are looked up")
    unseen = next((sign for sign in stripped if not sign.isprintable()), None)
    if unseen is not None:
        raise ConfigurationError(f"{name} has an invisible character (U+{ord(unseen):04X}); look it up by its csn")
    return stripped


def transaction_names(id_: str) -> list[dict[str, str | int]]:
    """Return what an id may be, in the order of lookup: xid, then csn where it is a number, then transaction id.

    >>> transaction_names("7")
    [{'xid': '7'}, {'csn': 7}, {'transaction_id': '7'}]
    """
    number = int(id_) if id_.isascii() and id_.isdigit() and len(id_) < 20 else None
    csn: list[dict[str, str | int]] = [{"csn": number}] if number is not None and number <= LARGEST_CSN else []
    return [{"xid": id_}, *csn, {"transaction_id": id_}]


def csn_of(text: str | None) -> int | None:
    """Return the csn of a request; None for an empty one; raises ConfigurationError for what is no csn."""
    if (digits := sane("csn", text)) is None:
        return None
    if not (digits.isascii() and digits.isdigit() and int(digits) <= LARGEST_CSN):
        raise ConfigurationError(f"csn is a number; found {digits!r}")
    return int(digits)


def longer_than(text: str | None) -> timedelta | None:
    """Return the duration of a request; None for an empty one; raises ConfigurationError for what is no duration."""
    if (duration := sane("longer", text)) is None:
        return None
    try:
        return parse_duration(duration)
    except (Unfit, OverflowError):
        raise ConfigurationError(f"longer is a duration such as 10m or 2h; found {duration!r}") from None


@dataclass(frozen=True)
class RowQuery:
    """The row that a request names.

    tables: the tables to choose from. columns: the key of the chosen table. key: None unless every column of it is
    given. given: the columns that are.
    """

    tables: tuple[str, ...]
    table: str | None = None
    columns: tuple[str, ...] = ()
    key: Mapping[str, str] | None = None
    given: Mapping[str, str] | None = None


def row_query(pipeline: Pipeline, table: str | None, value: str | None, query: Mapping[str, str]) -> RowQuery:
    """Return the row that a request names; value: of a key with one column.

    Raises ConfigurationError for an unknown table, and for values that no key can have.
    """
    tables = tables_with_keys(pipeline)
    if (name := sane("table", table)) is None:
        return RowQuery(tables)
    columns = row_question(pipeline, name).key
    key_fields = {each.removeprefix(KEY): text for each, text in query.items() if each.startswith(KEY)}
    if not key_fields and value is not None and value.strip() and len(columns) == 1:
        key_fields = {columns[0]: value.strip()}
    for column, text in key_fields.items():
        if len(text) > LONGEST:
            raise ConfigurationError(f"{column} has {len(text)} characters; at most {LONGEST} are looked up")
        if "\x00" in text:
            raise ConfigurationError(f"{column} has a sign that no key can have (U+0000)")
    whole = set(key_fields) == set(columns) and all(key_fields.values())
    return RowQuery(tables, name, columns, key_fields if whole else None, key_fields)


def tables_with_keys(pipeline: Pipeline) -> tuple[str, ...]:
    """Return the tables whose rows have a story: documents first, then watched tables with a key."""
    documents = [each.current for each in pipeline.targets.aggregates]
    return (*documents, *(table.name for table in pipeline.tables if not table.insert_only))
