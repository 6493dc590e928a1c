"""History as public documentation shows it: the intervals of Databricks' AUTO CDC example, and the order joiner's.

Sources: "AUTO CDC" in the Databricks documentation; scenarios a to d of gunnarmorling's streaming examples.
"""

from typing import Any

import pyarrow as pa
import pytest

from current.folding.test_fold_public_cases import AUTO_CDC
from current.texts import change_schema, changes_of, row_schema
from txloom.current.documents.compose import Member
from txloom.current.documents.document_versions import document_intervals
from txloom.current.versions import intervals, versions

COLUMNS = ("id", "name", "city")


def interval_texts(untracked: tuple[str, ...] = ()) -> set[str]:
    """Return the intervals as the documentation writes them: id, columns, start and end."""
    changes = with_time(changes_of(AUTO_CDC, COLUMNS))
    finding = versions(changes, key=["id"], columns=COLUMNS, schema=row_schema(COLUMNS))
    rows = intervals(finding, key=["id"], columns=COLUMNS, untracked=untracked).to_pylist()
    shown = [name for name in COLUMNS if name not in untracked]
    return {" ".join([*(str(row[name]) for name in shown), span(row)]) for row in rows}


def span(row: dict[str, Any]) -> str:
    return f"{row['_txloom_valid_from']}-{row['_txloom_valid_to'] or ''}"


def with_time(changes: pa.Table) -> pa.Table:
    return changes.append_column("_txloom_committed_at", pa.nulls(changes.num_rows, pa.timestamp("us", "UTC")))


def test_the_history_of_auto_cdc() -> None:
    assert interval_texts() == {
        "123 Isabel Monterrey 1-5",
        "123 Isabel Chihuahua 5-6",
        "124 Raul Oaxaca 1-",
        "125 Mercedes Tijuana 2-5",
        "125 Mercedes Mexicali 5-6",
        "125 Mercedes Guadalajara 6-",
        "126 Lily Cancun 2-",
    }


def test_the_history_of_auto_cdc_that_does_not_track_city() -> None:
    assert interval_texts(untracked=("city",)) == {"123 Isabel 1-6", "124 Raul 1-", "125 Mercedes 2-", "126 Lily 2-"}


def test_what_is_not_tracked_shows_what_it_was_last() -> None:
    changes = with_time(changes_of(AUTO_CDC, COLUMNS))
    versions_read = versions(changes, key=["id"], columns=COLUMNS, schema=row_schema(COLUMNS))
    rows = intervals(versions_read, key=["id"], columns=COLUMNS, untracked=("city",)).to_pylist()
    assert {row["id"]: row["city"] for row in rows} == {
        123: "Chihuahua",
        124: "Oaxaca",
        125: "Guadalajara",
        126: "Cancun",
    }


ORDER, LINE = ("id", "name"), ("line", "id", "name")
Change = tuple[str, int, int, tuple[Any, ...]]
"""Operation, csn, position, values."""


def history(columns: tuple[str, ...], changes: list[Change]) -> pa.Table:
    """Write changes as a mirror's history and return its versions."""
    schema = row_schema(columns)
    rows = [
        dict(zip(columns, given, strict=True))
        | {"_txloom_op": op, "_txloom_csn": csn, "_txloom_pos": pos, "_txloom_xid": f"x{csn}"}
        for op, csn, pos, given in changes
    ]
    table = with_time(pa.Table.from_pylist(rows, change_schema(schema, columns)))
    return versions(table, key=columns[:1], columns=columns, schema=schema)


def documents(orders: list[Change], lines: list[Change]) -> list[str]:
    """Return the intervals of orders: name, lines, span; in the order in which they began."""
    member = Member("lines", "many", ("line",), ("id",), LINE)
    row = pa.struct([row_schema(LINE).field(name) for name in LINE])
    schema = pa.schema([*[row_schema(ORDER).field(name) for name in ORDER], ("lines", pa.list_(row))])
    by_key = document_intervals(history(ORDER, orders), ["id"], ORDER, [(member, history(LINE, lines))], schema)
    rows = sorted(by_key.to_pylist(), key=lambda row: row["_txloom_valid_from"])
    return [f"{row['name']} {','.join(str(line['line']) for line in row['lines'])} {span(row)}" for row in rows]


def test_order_joiner_a_lines_come_and_go() -> None:
    orders: list[Change] = [("I", 1, 1, (10001, "123 Main St")), ("U", 2, 4, (10001, "456 Oak Ave"))]
    lines: list[Change] = [
        ("I", 1, 2, (101, 10001, "2")),
        ("I", 1, 3, (102, 10001, "1")),
        ("I", 2, 5, (103, 10001, "3")),
    ]
    lines += [("D", 3, 6, (101, 10001, None)), ("D", 3, 7, (102, 10001, None))]
    assert documents(orders, lines) == ["123 Main St 101,102 1-2", "456 Oak Ave 101,102,103 2-3", "456 Oak Ave 103 3-"]


def test_order_joiner_b_the_one_that_commits_first_comes_first() -> None:
    orders: list[Change] = [("I", 2, 1, (1, "A")), ("I", 1, 2, (2, "B"))]
    lines: list[Change] = [("I", 2, 3 + n, (101 + n, 1, None)) for n in range(3)]
    lines += [("I", 1, 6 + n, (104 + n, 2, None)) for n in range(3)]
    assert documents(orders, lines) == ["B 104,105,106 1-", "A 101,102,103 2-"]


def test_order_joiner_c_five_transactions_are_five_states() -> None:
    counts = (3, 0, 5, 5, 5)
    orders: list[Change] = [("I" if csn == 1 else "U", csn, 1, (7, f"v{csn}")) for csn in range(1, 6)]
    lines: list[Change] = [
        ("I", csn, 2 + n, (100 * csn + n, 7, None)) for csn, count in enumerate(counts, 1) for n in range(count)
    ]
    documents_read = documents(orders, lines)
    assert [len(line.split()[1].split(",")) for line in documents_read] == [3, 3, 8, 13, 18]


@pytest.mark.parametrize("order_last", [True, False])
def test_order_joiner_d_an_order_that_goes_with_its_lines_is_gone(order_last: bool) -> None:
    orders: list[Change] = [("I", 1, 1, (1, "A")), ("D", 2, 9 if order_last else 5, (1, None))]
    lines: list[Change] = [("I", 1, 2, (101, 1, None)), ("I", 1, 3, (102, 1, None))]
    lines += [("D", 2, 6, (101, 1, None)), ("D", 2, 7, (102, 1, None))]
    assert documents(orders, lines) == ["A 101,102 1-2"]
