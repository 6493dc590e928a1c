"""The kinds of value in a declaration, each with a validator that refuses other values."""

import re
from collections.abc import Callable
from datetime import date, timedelta
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, WithJsonSchema

from txloom.config.models.cron import parse_cron, parse_schedule
from txloom.config.models.durations import PATTERN, parse_duration, show_duration
from txloom.config.names import SYSTEM_PREFIX
from txloom.config.problems import Unfit

NAME = r"[A-Za-z][A-Za-z0-9_]{0,99}"
COLUMN = r"[A-Za-z_][A-Za-z0-9_]{0,99}"
PATTERN_OF_NAMES = r"[A-Za-z*?][A-Za-z0-9_*?]{0,99}"
LOWER = r"[a-z][a-z0-9_]{0,63}"
SOURCE_TABLE = r"[\w$#]+(\.[\w$#]+){1,2}"
SCHEMA_NAME = r"[A-Za-z_][A-Za-z0-9_]{0,99}(\.[A-Za-z_][A-Za-z0-9_]{0,99}){0,2}"
NAME_OR_RANGE = r"[A-Za-z][A-Za-z0-9_]*(\{[0-9]+\.\.[0-9]+\}[A-Za-z0-9_]*)?"
SOURCE_OF_NAMES = r"([\w$#]|\{name\})+(\.([\w$#]|\{name\})+){1,2}"
TOPIC = r"(?!\.{1,2}$)[A-Za-z0-9._-]{1,249}"
ADDRESS = r"[^@\s<>,;]+@[^@\s<>,;]+"
CONNECTION = r"[A-Za-z_][A-Za-z0-9_-]*"
MEMORY = r"[1-9][0-9]{0,5}[kmgt]"
SHARE = r"(100|[0-9]{1,2}(\.[0-9]{1,2})?)%"
URL = r"https?://[!-~]+|\$\{conn:[!-~]+"
"""A reference to a connection also matches, because it is not resolved where the secrets are not available."""
APPRISE = r"[a-z][a-z0-9+.-]{0,30}://[!-~]+|\$\{conn:[!-~]+"
"""As in URL, a reference to a connection also matches."""
PRINTABLE = r"[^\x00-\x1f\x7f]*\S[^\x00-\x1f\x7f]*"
LONGEST = timedelta(days=3650)
NO_KEY = "none"
"""The value of `key` that declares a table without a key."""


def _matching(pattern: str, expected: str) -> Callable[[Any], str]:
    def check(value: Any) -> str:
        if not isinstance(value, str):
            scalar = isinstance(value, int | float)
            raise Unfit(expected, "Put it in quotes." if scalar and re.fullmatch(pattern, str(value)) else "")
        if re.fullmatch(pattern, value) is None:
            is_reserved = value.startswith("_") and pattern in (NAME, LOWER)
            raise Unfit(expected, "A leading underscore marks what is txloom's own." if is_reserved else "")
        return value

    return check


def _text(pattern: str, expected: str) -> tuple[Any, ...]:
    return BeforeValidator(_matching(pattern, expected)), WithJsonSchema(_schema(pattern))


def _schema(pattern: str) -> dict[str, Any]:
    return {"type": "string", "pattern": rf"^{pattern}$|\$\{{"}


def _not_ours(name: str) -> str:
    if name.lower().startswith(SYSTEM_PREFIX):
        raise Unfit(f"a name that does not begin with {SYSTEM_PREFIX}", "That prefix marks txloom's own columns.")
    return name


def _date(value: Any) -> date:
    if isinstance(value, date):
        return value
    try:
        if isinstance(value, str) and re.fullmatch(r"\d{4}-\d\d-\d\d", value):
            return date.fromisoformat(value)
    except ValueError:
        pass
    raise Unfit("a date such as 2025-01-31")


def _number(value: Any, digits: int = 15) -> int | None:
    """Return a whole number of at most so many digits; None for anything else."""
    text = str(value) if isinstance(value, str | int) and not isinstance(value, bool) else ""
    return int(text) if re.fullmatch(rf"[0-9]{{1,{digits}}}", text) else None


def _count(value: Any) -> int:
    if not (number := _number(value)):
        raise Unfit("a whole number above 0")
    return number


def _groups(value: Any) -> int:
    if not (number := _number(value, 4)) or number % 8:
        raise Unfit("a multiple of 8, up to 9992")
    return number


def _whole(value: Any) -> int:
    if (number := _number(value)) is None:
        raise Unfit("a whole number")
    return number


def _url(value: Any) -> str:
    if not isinstance(value, str) or not re.fullmatch(URL, value):
        raise Unfit("a URL that begins with http:// or https://, or ${NAME} that holds one")
    return value


def _within(low: timedelta, high: timedelta) -> AfterValidator:
    def check(value: timedelta) -> timedelta:
        if not low <= value <= high:
            raise Unfit(f"a duration from {show_duration(low)} to {show_duration(high)}")
        return value

    return AfterValidator(check)


_LETTERS = "letters, digits and underscores, beginning with a letter"
_DURATION = (
    BeforeValidator(parse_duration),
    WithJsonSchema({"type": "string", "pattern": rf"{PATTERN}|\$\{{", "examples": ["30s", "15m", "2h", "7d"]}),
)
_NAMES = {"anyOf": [_schema(NAME_OR_RANGE), {"type": "array", "items": _schema(NAME_OR_RANGE), "minItems": 1}]}
_COUNT = {"anyOf": [{"type": "integer", "minimum": 1}, {"type": "string", "pattern": r"\$\{"}]}
_GROUPS = {"anyOf": [{"type": "integer", "minimum": 8, "multipleOf": 8}, {"type": "string", "pattern": r"\$\{"}]}
_WHOLE = {"anyOf": [{"type": "integer", "minimum": 0}, {"type": "string", "pattern": r"\$\{"}]}

Text = Annotated[str, *_text(PRINTABLE, "text")]
Remark = Annotated[str, *_text(r"[\s\S]*", "text")]
Statement = Annotated[str, *_text(r"[^\x00]*\S[^\x00]*", "SQL")]
LowerName = Annotated[str, *_text(LOWER, f"a name of lower-case {_LETTERS}")]
TableName = Annotated[str, *_text(NAME, f"a name of {_LETTERS}")]
TablePattern = Annotated[str, *_text(PATTERN_OF_NAMES, "the name of a watched table, or a pattern such as '*'")]
ColumnName = Annotated[str, *_text(COLUMN, "a name of letters, digits and underscores"), AfterValidator(_not_ours)]
FieldName = Annotated[str, *_text(NAME, f"a name of {_LETTERS}")]
SourceTable = Annotated[str, *_text(SOURCE_TABLE, "a source table as its schema and name, such as PUBLIC.ORDERS")]
EntryName = Annotated[TableName, WithJsonSchema(_NAMES)]
EntrySource = Annotated[SourceTable, WithJsonSchema(_schema(SOURCE_OF_NAMES))]
SourceColumn = Annotated[str, *_text(PRINTABLE, "the name of a source column")]
SchemaName = Annotated[str, *_text(SCHEMA_NAME, "the name of a schema, with its catalog or without")]
Topic = Annotated[str, *_text(TOPIC, "a topic: letters, digits, '.', '_' and '-'")]
Folder = Annotated[str, *_text(PRINTABLE, "a folder")]
Schedule = Annotated[
    str,
    BeforeValidator(parse_schedule),
    WithJsonSchema({"type": "string", "examples": ["*/15 * * * *", "@continuous"]}),
]
Asset = Annotated[str, *_text(PRINTABLE, "the URI of an asset")]
Cron = Annotated[str, BeforeValidator(parse_cron), WithJsonSchema({"type": "string", "examples": ["*/15 * * * *"]})]
Day = Annotated[date, BeforeValidator(_date), WithJsonSchema({"type": "string", "format": "date"})]
Address = Annotated[str, *_text(ADDRESS, "an e-mail address")]
AppriseUrl = Annotated[str, *_text(APPRISE, "a URL of Apprise, such as slack://..., or ${NAME} that holds one")]
ConnectionId = Annotated[str, *_text(CONNECTION, "the id of an Airflow connection")]
Memory = Annotated[str, *_text(MEMORY, "an amount of memory, such as 512m or 4g")]
Share = Annotated[str, *_text(SHARE, "a share from 0% to 100%, such as 10%")]
Url = Annotated[str, BeforeValidator(_url), WithJsonSchema({"type": "string", "pattern": r"^https?://|\$\{"})]
Whole = Annotated[int, BeforeValidator(_whole), WithJsonSchema(_WHOLE)]
Count = Annotated[int, BeforeValidator(_count), WithJsonSchema(_COUNT)]
Groups = Annotated[int, BeforeValidator(_groups), WithJsonSchema(_GROUPS)]
Wait = Annotated[timedelta, *_DURATION, _within(timedelta(0), timedelta(days=1))]
Duration = Annotated[timedelta, *_DURATION, _within(timedelta(seconds=1), LONGEST)]
Retention = Annotated[timedelta, *_DURATION, _within(timedelta(hours=1), LONGEST)]
