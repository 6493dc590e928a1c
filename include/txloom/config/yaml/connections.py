"""Airflow connections as the environment holds them: AIRFLOW_CONN_<ID>, as URI or JSON, read without Airflow.

Their values are secret: a message names the connection and the field, and shows no value.
"""

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from txloom.config.problems import Unfit

LAKE = "TXLOOM_WAREHOUSE_CONNECTION"
"""The variable with the id of the Airflow connection that reaches the lake."""
FIELDS = ("host", "port", "login", "password", "schema")
EXTRA = "extra."
_WHOLE = "__extra__"
"""The query parameter of a URI that holds an extra with other values than texts, as JSON."""
_PROVIDED = dict[str, str]()


def variable(connection: str) -> str:
    """Return the environment variable in which Airflow looks for a connection.

    >>> variable("kafka_prod")
    'AIRFLOW_CONN_KAFKA_PROD'
    """
    return f"AIRFLOW_CONN_{connection.upper()}"


def field(connection: str, name: str, environment: Mapping[str, str]) -> str:
    """Return one field of a connection: host, port, login, password, schema or extra.NAME.

    Raises:
        Unfit: The connection is not set, cannot be parsed, or has no such field.
    """
    known = fields(connection, environment)
    is_extra = name.startswith(EXTRA)
    value = known["extra"].get(name.removeprefix(EXTRA)) if is_extra else known.get(name)
    if value is None or value == "" or isinstance(value, dict | list):
        raise Unfit(f"the connection {connection} to have {name}", "It is empty there.")
    return value if isinstance(value, str) else json.dumps(value)


def provide(connection: str, text: str) -> None:
    """Let this process know a connection, as URI or JSON, that its environment does not have; nothing else sees it."""
    _PROVIDED[connection] = text


def fields(connection: str, environment: Mapping[str, str]) -> dict[str, Any]:
    """Return all fields of a connection; `extra` is a mapping.

    Raises:
        Unfit: The connection is not set, or cannot be parsed.
    """
    text = _PROVIDED.get(connection) or environment.get(variable(connection), "")
    if not text:
        hint = f"Define it in Airflow; for a job by hand set {variable(connection)} to its URI or JSON."
        raise Unfit(f"the connection {connection}", hint)
    try:
        return _fields(text)
    except ValueError:
        raise Unfit(f"{variable(connection)} to hold a connection as URI or JSON") from None


def _fields(text: str) -> dict[str, Any]:
    fields = _of_json(text) if text.lstrip().startswith("{") else _of_uri(text)
    extra = fields.get("extra") or {}
    extra = json.loads(extra) if isinstance(extra, str) else extra
    if not isinstance(extra, dict):
        raise ValueError("an extra that is no mapping")  # noqa: TRY004 (the same mistake as text that is no JSON)
    return {**fields, "extra": extra}


def _of_json(text: str) -> dict[str, Any]:
    fields: dict[str, Any] = json.loads(text)
    return fields


def _of_uri(text: str) -> dict[str, Any]:
    """Read a URI as Airflow does: TYPE://[PROTOCOL://][LOGIN[:PASSWORD]@]HOST[:PORT][/SCHEMA][?NAME=VALUE...]."""
    kind, mark, rest = text.partition("://")
    protocol, second, inner = rest.partition("://")
    if not mark or (second and ("@" in protocol or ":" in protocol)):
        raise ValueError("no URI")
    parts = urlsplit(f"//{inner}" if second else f"//{rest}")
    host = _host(parts)
    query = dict(parse_qsl(parts.query, keep_blank_values=True))
    return {
        "conn_type": kind.lower(),
        "host": f"{protocol}://{host}" if second and host else host,
        "port": parts.port,
        "login": unquote(parts.username or ""),
        "password": unquote(parts.password or ""),
        "schema": unquote(parts.path[1:]),
        "extra": query.get(_WHOLE, query),
    }


def _host(parts: SplitResult) -> str:
    """Return the host of a URI; a percent-encoded host with a slash in it keeps its case."""
    host = unquote(parts.hostname or "")
    if "/" in host:
        host = unquote(parts.netloc.rpartition("@")[2].partition(":")[0])
    return host
