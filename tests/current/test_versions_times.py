"""Intervals in commit time: they begin and end when the transactions of their csns were committed."""

from datetime import UTC, datetime, timedelta

import pyarrow as pa

from current.texts import changes_of, row_schema, table
from txloom.current.versions import intervals, versions

COLUMNS = ("id", "name")
MIDNIGHT = datetime(2026, 1, 1, tzinfo=UTC)


def interval_texts(text: str) -> list[dict[str, str]]:
    """Return intervals as a text table: the rows, from and to in csn, and in hours of commit time."""
    changes = changes_of(text, COLUMNS)
    hours = [int(line["hour"]) for line in table(text)]
    committed = pa.array([MIDNIGHT + timedelta(hours=hour) for hour in hours], pa.timestamp("us", "UTC"))
    changes = changes.append_column("_txloom_committed_at", committed)
    finding = versions(changes, key=["id"], columns=COLUMNS, schema=row_schema(COLUMNS))
    rows = intervals(finding, key=["id"], columns=COLUMNS).sort_by([("id", "ascending")]).to_pylist()
    return [
        {
            "id": str(row["id"]),
            "name": row["name"],
            "csns": f"{row['_txloom_valid_from']}-{row['_txloom_valid_to'] or ''}",
            "hours": f"{hour(row['_txloom_valid_from_time'])}-{hour(row['_txloom_valid_to_time'])}",
            "is": "current" if row["_txloom_is_current"] else "past",
        }
        for row in rows
    ]


def hour(at: datetime | None) -> str:
    return "" if at is None else str((at - MIDNIGHT) // timedelta(hours=1))


def test_an_interval_ends_when_the_next_one_begins() -> None:
    assert interval_texts(
        """
        op at  id name hour
        I  5.1 1  Ada  1
        U  7.1 1  Ada  2
        U  8.1 1  Eve  4
        I  7.2 2  Bob  2
        D  9.1 2  -    9
        """
    ) == table(
        """
        id name csns hours is
        1  Ada  5-8  1-4   past
        1  Eve  8-   4-    current
        2  Bob  7-9  2-9   past
        """
    )


def test_a_deleted_row_that_comes_back_as_it_was_was_gone_in_between() -> None:
    assert interval_texts(
        """
        op at  id name hour
        I  1.1 1  -    1
        D  2.1 1  -    2
        I  3.1 1  -    3
        """
    ) == [
        {"id": "1", "name": None, "csns": "1-2", "hours": "1-2", "is": "past"},
        {"id": "1", "name": None, "csns": "3-", "hours": "3-", "is": "current"},
    ]


def test_a_clock_that_was_set_back_does_not_change_which_state_came_first() -> None:
    assert interval_texts(
        """
        op at   id name hour
        U  10.1 1  new  1
        I  9.1  1  old  5
        """
    ) == table(
        """
        id name csns hours is
        1  old  9-10 5-1   past
        1  new  10-  1-    current
        """
    )
