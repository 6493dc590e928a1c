"""Cases from public documentation and examples, which no one here invented."""

import pytest

from current.texts import Rows, folded, shown

AUTO_CDC = """
op at  id  name     city
I  1.1 124 Raul     Oaxaca
I  1.2 123 Isabel   Monterrey
I  2.1 125 Mercedes Tijuana
I  2.2 126 Lily     Cancun
D  6.1 123 -        -
U  6.2 125 Mercedes Guadalajara
U  5.1 125 Mercedes Mexicali
U  5.2 123 Isabel   Chihuahua
"""


def alive(rows: Rows) -> Rows:
    return [row for row in rows if row["gone"] == "-"]


def test_databricks_auto_cdc() -> None:
    assert alive(folded("id name city at", AUTO_CDC)) == shown(
        """
        id  name     city        at
        124 Raul     Oaxaca      1.1
        125 Mercedes Guadalajara 6.2
        126 Lily     Cancun      2.2
        """
    )


def test_databricks_auto_cdc_with_a_truncate() -> None:
    assert alive(folded("id name city at", f"{AUTO_CDC}T 3.1 - - -")) == shown(
        """
        id  name     city        at
        125 Mercedes Guadalajara 6.2
        """
    )


def test_the_change_sets_of_the_delta_seed() -> None:
    assert alive(
        folded(
            "id amount at",
            """
            op at  id amount
            I  1.1 1  10
            U  1.2 1  11
            D  1.3 1  -
            U  1.4 2  20
            D  1.5 3  -
            """,
        )
    ) == shown(
        """
        id amount at
        2  20     1.4
        """
    )


@pytest.mark.parametrize("csns", [(1, 2, 3), (1, 1, 1)])
def test_the_resolver_seed(csns: tuple[int, int, int]) -> None:
    first, second, third = csns
    assert folded(
        """
        id name  at
        1  Alice 0.1
        2  Bob   0.2
        """,
        f"""
        op at         id name
        I  {third}.3  2  Carol
        D  {second}.2 2  -
        U  {first}.1  1  Angela
        """,
    ) == shown(
        f"""
        id name   at
        1  Angela {first}.1
        2  Carol  {third}.3
        """
    )
