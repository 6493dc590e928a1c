"""What the tasks of a scheduler ask about pipelines."""

import pytest

from txloom.errors import TxloomError
from txloom.orchestration.pipelines import warehouse


def test_the_warehouse_is_the_environments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TXLOOM_WAREHOUSE", "s3://lake")
    assert warehouse() == "s3://lake"


@pytest.mark.parametrize("named", [None, ""])
def test_a_task_without_a_warehouse_says_what_to_set(named: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TXLOOM_WAREHOUSE", raising=False)
    if named is not None:
        monkeypatch.setenv("TXLOOM_WAREHOUSE", named)
    with pytest.raises(TxloomError) as refused:
        warehouse()
    assert str(refused.value) == "no warehouse: set TXLOOM_WAREHOUSE"
