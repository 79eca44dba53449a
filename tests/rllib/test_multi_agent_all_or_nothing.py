"""An interrupted add is in all modules and in what is known of their episodes, or in none."""

import itertools
from typing import Any

import pytest
from fault_injection import check_all_or_nothing
from multi_agent_buffers import make_buffer
from multi_agent_episodes import SHARED, play_multi

RUNNER = play_multi(3, 4, SHARED, seed=3)
ADDS = list(itertools.islice(RUNNER, 12))
NEXT = next(RUNNER)


def filled() -> Any:
    buffer = make_buffer(60)
    for episodes in ADDS:
        buffer.add(episodes)
    return buffer


def observed(buffer: Any) -> Any:
    buffer.get_num_episodes()  # what an interrupted call has left to do is done by the next one
    state = buffer.get_state()
    return [state["modules"]["replays"], state["episodes"], state["counts"]]


@pytest.mark.parametrize("most", [60, pytest.param(600, marks=pytest.mark.slow)])
def test_an_add_that_is_interrupted(most: int) -> None:
    undone, finished = check_all_or_nothing(
        filled, lambda buffer: buffer.add(NEXT), observed, most=most
    )
    assert undone
    assert finished


def test_the_first_add() -> None:
    undone, finished = check_all_or_nothing(
        lambda: make_buffer(60), lambda buffer: buffer.add(NEXT), observed, most=60
    )
    assert undone
    assert finished
