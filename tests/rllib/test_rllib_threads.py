"""The RLlib buffer in several threads: calls wait, and priorities keep to their sample."""

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from rllib_episodes import make_episode

from rllib_per_acc import AccPrioritizedEpisodeReplayBuffer


@pytest.fixture
def buffer():
    filled = AccPrioritizedEpisodeReplayBuffer(100, num_shards=0, seed=1)
    filled.add([make_episode(number, 5, "terminated") for number in range(3)])
    return filled


@pytest.fixture
def other_thread():
    with ThreadPoolExecutor(1) as pool:
        yield lambda *call: pool.submit(*call).result()


def test_priorities_for_the_sample_of_another_thread_are_refused(buffer, other_thread):
    buffer.sample(4)
    other_thread(buffer.sample, 4)
    before = buffer.get_priorities()["mass"]
    with pytest.raises(RuntimeError, match="in another thread than that of the last sample"):
        buffer.update_priorities(np.full(4, 9.0))
    np.testing.assert_array_equal(buffer.get_priorities()["mass"], before)
    other_thread(buffer.update_priorities, np.full(4, 9.0))  # the refused ones were not taken
    assert buffer.get_priorities()["mass"].max() == 9.0
    buffer.sample(4)
    buffer.update_priorities(np.ones(4))


def test_a_named_sample_is_updated_in_any_thread(buffer, other_thread):
    sample = buffer.sample(4)
    other_thread(lambda: buffer.update_priorities(np.full(4, 9.0), sample_id=sample.sample_id))
    assert buffer.get_priorities()["mass"].max() == 9.0


@pytest.mark.parametrize("name", ["add", "sample", "get_metrics", "get_state"])
def test_a_call_waits_for_one_in_another_thread(buffer, monkeypatch, name):
    def other():
        done = {
            "add": lambda: buffer.add(make_episode(9, 5)),
            "sample": lambda: buffer.sample(4),
            "get_metrics": buffer.get_metrics,
            "get_state": buffer.get_state,
        }[name]
        done()
        finished.set()

    finished, seen = threading.Event(), []
    thread = threading.Thread(target=other)
    add = buffer._client.add

    def slow_add(*arguments):
        monkeypatch.undo()
        thread.start()
        seen.append(finished.wait(0.2))
        add(*arguments)

    monkeypatch.setattr(buffer._client, "add", slow_add)
    buffer.add(make_episode(8, 5))
    thread.join(10)
    assert seen == [False]
    assert finished.is_set()
