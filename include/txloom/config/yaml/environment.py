"""Values from the environment: ${NAME}, ${NAME:-default} and ${conn:ID.FIELD} inside a declaration's texts.

A value may be secret: it goes into the model, but never into a message, which names the variable instead.
"""

import re
from collections.abc import Mapping

from txloom.config.problems import Unfit
from txloom.config.yaml import connections

_FIELD = rf"(?:{'|'.join(connections.FIELDS)}|{re.escape(connections.EXTRA)}[^{{}}]+)"
_CONNECTION = rf"conn:(?P<connection>[A-Za-z_][A-Za-z0-9_-]*)\.(?P<field>{_FIELD})"
_VARIABLE = r"(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>[^{}]*))?"
_REFERENCE = re.compile(rf"\$\$\{{|\$\{{(?:{_CONNECTION}|{_VARIABLE})\}}|\$\{{[^}}]*\}}?")
EXPECTED = "${NAME} or ${NAME:-default}"
CONNECTION_FIELDS = ("source.kafka.brokers", "source.kafka.options", "source.files.path", "alerts.notify")
"""The fields that may refer to a connection, so that no name of a DAG, a table or anything else depends on a secret."""


def expand(text: str, environment: Mapping[str, str], *, connected: bool = True) -> str:
    """Return a text with its references replaced; an empty variable counts as unset where there is a default.

    connected: whether connections are looked up; else a reference to one stays as it is written. Raises Unfit for a
    reference that is malformed or has no value.

    >>> expand("${INBOX:-inbox}/of/${TEAM} costs $${5}", {"TEAM": "sales"})
    'inbox/of/sales costs ${5}'
    >>> expand("${conn:kafka.host}:9092", {"AIRFLOW_CONN_KAFKA": "kafka://broker-1"})
    'broker-1:9092'
    """

    def value(reference: re.Match[str]) -> str:
        if reference[0] == "$${":
            return "${"
        if (connection := reference["connection"]) is not None:
            return connections.field(connection, reference["field"], environment) if connected else reference[0]
        if reference["name"] is not None:
            return _variable(reference["name"], reference["default"], environment)
        if reference[0].startswith("${conn:"):
            raise Unfit("${conn:ID.FIELD}", f"FIELD is {', '.join(connections.FIELDS)} or {connections.EXTRA}NAME.")
        raise Unfit(EXPECTED, "A text that holds ${ itself is written with $${.")

    return _REFERENCE.sub(value, text)


def _variable(name: str, default: str | None, environment: Mapping[str, str]) -> str:
    if default is None and name not in environment:
        raise Unfit(f"the environment to set {name}", f"Set it, or give a default: ${{{name}:-default}}.")
    return environment.get(name) or default or ""


def values_in(text: str, environment: Mapping[str, str], *, connected: bool = True) -> set[str]:
    """Return the values of a text's references from the environment and connections, without defaults.

    >>> values_in("${INBOX:-inbox}/of/${TEAM}", {"TEAM": "sales"})
    {'sales'}
    """
    values = set()
    for reference in _REFERENCE.finditer(text):
        if reference["connection"] is not None and connected:
            values.add(connections.field(reference["connection"], reference["field"], environment))
        elif reference["name"] is not None:
            values.add(environment.get(reference["name"], ""))
    return values - {""}


def connections_in(text: str) -> list[str]:
    """Return the ids of the connections that a text names, in order.

    >>> connections_in("${conn:kafka.host}:${conn:kafka.port} $${conn:none.host}")
    ['kafka', 'kafka']
    """
    return [match["connection"] for match in _REFERENCE.finditer(text) if match["connection"] is not None]


def may_name_connections(path: str) -> bool:
    """Return whether the field at a path of a declaration may refer to a connection."""
    return any(path == position or path.startswith((f"{position}.", f"{position}[")) for position in CONNECTION_FIELDS)
