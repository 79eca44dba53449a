"""State: a copy, restored into the same, a larger or a smaller buffer."""

import copy
import itertools
import pickle

import numpy as np
import pytest
from rllib_buffers import COUNTERS, FILLS, filled, make_buffer, masses_of, use
from rllib_episodes import make_episode, play


@pytest.mark.parametrize("sample_format", ["rows", "episodes"])
@pytest.mark.parametrize("fill", FILLS)
def test_a_restored_buffer_goes_on_the_same(fill: str, sample_format: str) -> None:
    buffer = filled(fill, sample_format=sample_format)
    other = make_buffer(seed=77, sample_format=sample_format)
    other.set_state(pickle.loads(pickle.dumps(buffer.get_state())))
    assert masses_of(other) == masses_of(buffer)
    for name in COUNTERS:
        assert getattr(other, name)() == getattr(buffer, name)(), name
    for number in range(500, 520):
        episodes = [make_episode(number, 9, "terminated")]
        assert use(buffer, episodes) == use(other, episodes)
    assert masses_of(other) == masses_of(buffer)


@pytest.mark.parametrize("fill", FILLS)
def test_a_saved_state_does_not_change_and_ties_nothing_together(fill: str) -> None:
    buffer = filled(fill)
    before = masses_of(buffer)
    state = buffer.get_state()
    frozen = pickle.dumps(copy.deepcopy(state))
    one, two = make_buffer(), make_buffer()
    one.set_state(state)
    two.set_state(state)
    for number in range(500, 520):
        use(buffer, [make_episode(number, 9, "terminated")])
        use(one, [make_episode(number, 9, "truncated")])
    assert pickle.dumps(copy.deepcopy(state)) == frozen
    assert masses_of(two) == before


def test_ongoing_episodes_can_go_on() -> None:
    runner = play(2, 5, seed=1)
    buffer, other = make_buffer(1000), make_buffer(1000)
    for episodes in itertools.islice(runner, 9):
        buffer.add(episodes)
    other.set_state(buffer.get_state())
    for episodes in itertools.islice(runner, 5):
        buffer.add(episodes)
        other.add(episodes)
    assert masses_of(buffer) == masses_of(other)


@pytest.mark.parametrize("capacity", [30, 1000])
def test_another_capacity(capacity: int) -> None:
    buffer = filled("wrapped")
    before = masses_of(buffer)
    other = make_buffer(capacity)
    other.set_state(buffer.get_state())
    after = masses_of(other)
    assert after.items() <= before.items()
    assert list(after) == list(before)[len(before) - len(after) :]  # the newest
    if capacity >= 100:
        assert after == before
    else:
        assert 0 < len(after) <= capacity
    use(other, [make_episode(900, 10, "terminated")])
    assert other.get_num_timesteps() <= capacity


def test_a_sample_from_before_cannot_be_updated_after() -> None:
    buffer = filled("full")
    buffer.sample(num_items=8)
    buffer.set_state(filled("half full").get_state())
    before = masses_of(buffer)
    with pytest.raises((ValueError, RuntimeError), match="sample"):
        buffer.update_priorities(np.ones(8))
    assert masses_of(buffer) == before


@pytest.mark.parametrize("state", [None, {}, {"episodes": []}, 5])
def test_a_foreign_state_is_refused(state: object) -> None:
    buffer = filled("half full")
    before = masses_of(buffer)
    with pytest.raises((ValueError, TypeError), match="state"):
        buffer.set_state(state)
    assert masses_of(buffer) == before
