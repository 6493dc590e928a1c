"""What txloom reads out of a connection is what Airflow reads."""

import json
import string

from airflow.sdk import Connection
from hypothesis import example, given, settings
from hypothesis import strategies as st

from drawn import examples
from txloom.config.problems import Unfit
from txloom.config.yaml import connections

TEXT = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), min_size=1, max_size=12)
HOST = st.text(string.ascii_lowercase + string.digits + ".-/_", min_size=1, max_size=12)
EXTRA = st.dictionaries(st.text(string.ascii_letters, min_size=1), TEXT | st.integers() | st.booleans(), max_size=3)
FIELDS = st.fixed_dictionaries(
    {"conn_type": st.sampled_from(["kafka", "http", "google_cloud"])},
    optional={
        "host": HOST,
        "port": st.integers(1, 65535),
        "login": TEXT,
        "password": TEXT,
        "schema": TEXT,
    },
)


def read(name: str, held: str) -> str | None:
    try:
        return connections.field("a", name, {"AIRFLOW_CONN_A": held})
    except Unfit:
        return None


@example({"conn_type": "http", "host": "https://h", "port": 1}, {})
@settings(max_examples=examples(300))
@given(FIELDS, EXTRA)
def test_uri_and_json_are_read_as_airflow_reads_them(fields: dict[str, object], extra: dict[str, object]) -> None:
    connection = Connection(conn_id="a", **fields, **({"extra": json.dumps(extra)} if extra else {}))  # type: ignore[call-overload]
    for held, theirs in (
        (connection.get_uri(), Connection.from_uri(connection.get_uri(), conn_id="a")),
        (connection.as_json(), Connection.from_json(connection.as_json(), conn_id="a")),
    ):
        for name in connections.FIELDS:
            value = getattr(theirs, name)
            assert read(name, held) == (None if value in (None, "") else str(value)), (name, held)
        for name, value in theirs.extra_dejson.items():
            assert read(f"extra.{name}", held) == (value if isinstance(value, str) else json.dumps(value)), held
