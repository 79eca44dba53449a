"""What a buffer keeps of what is gone or counted: no more than it needs, however it is used."""

import gc
import itertools
import sys
import threading
import tracemalloc

import numpy as np
import pytest
from multi_agent_buffers import make_buffer
from multi_agent_episodes import TWO, make_multi, play_multi
from multi_agent_oracle import read_modules

from rllib_per_acc.rllib import departed_agents
from rllib_per_acc.rllib.departed_agents import DepartedAgents
from rllib_per_acc.rllib.multi_agent_ledger import AgentEpisode


def test_who_is_remembered_and_for_how_long() -> None:
    departed: DepartedAgents[str] = DepartedAgents(2)
    departed.note("m1", 1, "before any batch")
    with pytest.raises(KeyError):
        departed.find(1)
    departed.batches_read(["m1"])
    departed.note("m1", 1, "one")
    departed.note("m2", 2, "two")
    departed.batches_read(["m2", "m1"])
    departed.batches_read(["m2", "m2"])
    assert departed.find(1) == "one"
    departed.batches_read(["m1"])
    assert departed.find(1) == "one"
    departed.batches_read(["m1"])
    for id_ in (1, 2):
        with pytest.raises(KeyError):
            departed.find(id_)


def test_nothing_is_remembered_where_nothing_is_drawn_ahead() -> None:
    departed: DepartedAgents[str] = DepartedAgents(0)
    departed.batches_read(["m1"])
    departed.note("m1", 1, "one")
    with pytest.raises(KeyError):
        departed.find(1)


def test_modules_that_are_not_sampled_are_overdue(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(departed_agents, "KEPT", 3)
    departed: DepartedAgents[int] = DepartedAgents(1)
    departed.batches_read(["m1", "m2"])
    for i in range(4):
        assert departed.overdue(0) == []
        departed.note("m1", i, i)
    assert departed.overdue(0) == ["m1"]
    assert departed.overdue(4) == []
    departed.forget("m1")
    assert departed.overdue(0) == []


@pytest.mark.parametrize("num_shards", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_modules_sampled_in_turn_with_batches_drawn_ahead(
    ray_session: None, monkeypatch: pytest.MonkeyPatch, num_shards: int
) -> None:
    """A batch drawn ahead is read long after its episodes were evicted."""
    buffer = make_buffer(60, num_shards=num_shards, prefetch=1, sample_format="episodes")
    numbers = itertools.count()

    def add(times: int = 1) -> None:
        for _ in range(times):
            buffer.add([make_multi(next(numbers), 10, "terminated", TWO)])

    add(6)
    for module_id in ("m2", "m1", "m1", "m1", "m2", "m1", "m2", "m2", "m2"):
        add(8)
        rows = read_modules(buffer.sample(num_items=5, modules_to_sample=[module_id]))
        assert {m: len(some) for m, some in rows.items()} == {module_id: 5}
        buffer.update_priorities(np.ones(5), module_id)
    monkeypatch.setattr(departed_agents, "KEPT", 20)
    for _ in range(5):
        add(8)
        buffer.sample(num_items=5, modules_to_sample=["m1"])
    remembered = buffer._ledger.departed
    assert remembered.overdue(0) == []
    add(8)
    rows = read_modules(buffer.sample(num_items=5))
    newest = {number // 10 for number in range(10 * next(numbers)) if number // 10 >= 80}
    assert {row.step[0] // 10 for row in rows["m2"]} <= newest


def test_a_loop_that_never_reads_metrics_keeps_nothing_of_its_samples() -> None:
    buffer = make_buffer(2000)
    for episodes in itertools.islice(play_multi(4, 50, TWO), 10):
        buffer.add(episodes)

    def sample(times: int) -> int:
        for _ in range(times):
            buffer.sample(num_items=512)
        return tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    try:
        grown = -sample(10) + sample(40)
    finally:
        tracemalloc.stop()
    assert grown < 100_000


def test_adds_without_samples_keep_nothing_of_what_is_evicted() -> None:
    def in_memory() -> int:
        gc.collect()
        return sum(type(thing) is AgentEpisode for thing in gc.get_objects())

    before = in_memory()
    buffer = make_buffer(100)
    for n in range(300):
        buffer.add([make_multi(n, 10, "terminated", TWO)])
    assert in_memory() - before == buffer.get_num_timesteps() // 10 * 2


def test_readers_wait_for_adds() -> None:
    buffer = make_buffer(300)
    episodes = [make_multi(n, 10, "terminated", TWO) for n in range(500)]
    buffer.add(episodes[:20])
    done = threading.Event()
    errors: list[BaseException] = []

    def read() -> None:
        try:
            while not done.is_set():
                held = buffer.get_priorities()
                assert {len(values) for values in held.values()} == {len(held["t"])}
                assert buffer.get_num_agent_timesteps() >= buffer.get_num_timesteps("m1") > 0
                assert len(buffer.get_shard_info()) == 2
        except BaseException as error:
            errors.append(error)

    reader = threading.Thread(target=read)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        reader.start()
        for one in episodes[20:]:
            buffer.add([one])
    finally:
        sys.setswitchinterval(interval)
        done.set()
        reader.join()
    assert not errors, errors
