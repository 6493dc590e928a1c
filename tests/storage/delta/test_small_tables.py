"""Small tables: whoever needs one that is not there creates it, and takes that of another who was first."""

from pathlib import Path
from typing import Any

import pytest
from deltalake.exceptions import CommitFailedError

from txloom.storage.delta import small_tables
from txloom.storage.system_tables import CUTS


@pytest.mark.parametrize("there", [True, False])
def test_a_table_that_another_process_creates_meanwhile_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, there: bool
) -> None:
    create, path = small_tables.create_table, str(tmp_path / "cuts")

    def beside_another(*given: Any, **choices: Any) -> None:
        if there:
            create(*given, **choices)
        raise CommitFailedError("Protocol changed since last commit")

    monkeypatch.setattr(small_tables, "create_table", beside_another)
    if there:
        small_tables.ensure(path, CUTS)
        assert small_tables.query(path, "select count(*) as n from t") == [{"n": 0}]
    else:
        with pytest.raises(CommitFailedError):
            small_tables.ensure(path, CUTS)
