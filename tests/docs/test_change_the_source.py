"""The table of docs/declaring.md that says what an edit of the source does: each row of it has its tests."""

from collections.abc import Callable
from pathlib import Path

from docs import test_settings_of_the_source as settings
from steps.landing import test_former_names as former
from steps.snapshots import test_columns_declared_later as extracts
from storage.edits import test_other_csns as other_csns

PROJECT = Path(__file__).parents[2]
PLAYED: dict[str, Callable[..., None]] = {
    "the topic with the metadata": former.test_a_transaction_that_waits_keeps_the_metadata_of_a_former_topic,
    "of change sets get other names": former.test_rows_under_former_names_of_fields_are_read,
    "name another field": other_csns.test_a_field_that_earlier_rows_have_too_is_no_new_name,
    "`source.format`": other_csns.test_it_is_refused_by_landing_plan_and_check,
    "`snapshots.extracts`": extracts.test_a_partial_date_stays_partial_once_extracts_are_declared_full,
    "`max_message_bytes`": former.test_a_lower_limit_of_bytes_holds_for_new_messages_alone,
    "`files.path`": settings.test_files_of_a_moved_folder_are_not_landed_again,
    "`files.layout`": settings.test_later_files_are_read_in_their_layout,
    "`unknown_tables`": settings.test_rows_of_unknown_tables_stay_what_they_became,
    "`completeness.patience`": settings.test_a_transaction_that_waits_is_judged_by_another_patience,
    "`completeness.max_rows`": settings.test_a_limit_of_rows_holds_when_a_transaction_that_waits_gets_rows,
    "`completeness.rule` of GoldenGate": (
        former.test_metadata_that_came_while_no_topic_of_it_was_declared_is_read_once_its_topic_is_declared_again
    ),
    "`run_token`": former.test_a_waiting_transaction_has_one_producer_run_after_the_token_got_another_name,
}
"""By words of a row, one of its tests."""


def test_every_edit_of_the_page_has_its_test() -> None:
    section = (PROJECT / "docs" / "declaring.md").read_text().split("\n## Change the source\n")[1].split("\n## ")[0]
    edits = [line.split("|")[1].strip() for line in section.splitlines() if line.startswith("|")][2:]
    assert [sum(words in edit for words in PLAYED) for edit in edits] == [1] * len(PLAYED)
