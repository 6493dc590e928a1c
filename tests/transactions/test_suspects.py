"""Transactions whose rows come from two producer runs: released with a mark, or held until somebody redrives them."""

import numpy as np
import pytest

from transactions.test_buffer import COUNTED, ORDER, PATIENCE, Seen, numbers
from transactions.test_reopen import again
from txloom.transactions import buffer


def of_runs(landed: np.ndarray, *runs: int) -> np.ndarray:
    landed["run"][: len(runs)] = runs
    return landed


@pytest.mark.parametrize(("runs", "suspect"), [((7, 7, 7), 0), ((7, 7, 8), 1), ((0, 7, 7), 0), ((0, 0, 0), 0)])
def test_rows_of_two_known_runs_make_a_transaction_suspect(runs: tuple[int, ...], suspect: int) -> None:
    _, decisions = buffer.decide(
        buffer.Held(), of_runs(numbers(1, [*ORDER, COUNTED], 10), *runs), buffer.Rules(PATIENCE)
    )
    assert [part.suspect.sum() for part in decisions.released] == [suspect]


def test_a_row_that_came_again_from_a_second_run_is_a_duplicate_only() -> None:
    twice = np.concatenate([numbers(1, [*ORDER, COUNTED], 10), of_runs(numbers(1, list(ORDER), 10), 8, 8, 8)])
    twice["run"][:3] = 7
    _, decisions = buffer.decide(buffer.Held(), twice, buffer.Rules(PATIENCE))
    assert [part.suspect.sum() for part in decisions.released] == [0]


def test_a_suspect_that_is_held_is_given_up_after_patience_and_released_by_a_redrive() -> None:
    seen, held = Seen(), buffer.Held()
    landings = [of_runs(numbers(1, [*ORDER, COUNTED], 10), 7, 7, 8), *(numbers(n, [], n * 10) for n in (2, 3, 4))]
    for arrived in [*landings, of_runs(again(5, *ORDER, COUNTED), 0, 7, 7, 8)]:
        held, decisions = buffer.decide(held, arrived, buffer.Rules(PATIENCE, hold=True))
        seen.add(decisions)
    assert (seen.dead, seen.released) == ({1: buffer.SUSPECT}, {1: 50})
