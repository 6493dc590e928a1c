"""Folders of runs: one for each run, under names that every store takes."""

from hypothesis import given
from hypothesis import strategies as st

from txloom.storage.paths import run_folder

IDS = st.text(min_size=1, max_size=20) | st.text("aT0:+-~_.", min_size=1, max_size=12)
"""Any run ids, and such that look like Airflow's."""


@given(st.lists(IDS, min_size=2, max_size=2, unique=True))
def test_each_run_has_a_folder_that_every_store_takes(ids: list[str]) -> None:
    """HDFS takes no colon in a name."""
    first, second = (run_folder(each) for each in ids)
    assert first != second
    for name in (first, second):
        assert not set(name) & set(":/\\ ?#%*") and not name.startswith(".") and name not in ("", "..")
