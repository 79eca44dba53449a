"""States of multi-agent buffers: round trips, other capacities, and actors instead of none."""

import copy
import itertools

import numpy as np
import pytest
from multi_agent_buffers import make_buffer
from multi_agent_episodes import IN_TURNS, SHARED, UNEQUAL, make_multi, play_multi
from multi_agent_oracle import read_modules
from rllib_buffers import COUNTERS


def played(**options):
    """A buffer in the middle of several episodes, and what comes next."""
    buffer = make_buffer(**options)
    runner = play_multi(3, 4, UNEQUAL, seed=4)
    for episodes in itertools.islice(runner, 12):
        buffer.add(episodes)
    for _ in range(3):
        for module_id in read_modules(buffer.sample(num_items=20)):
            buffer.update_priorities(np.random.default_rng(1).exponential(size=20), module_id)
    return buffer, runner


def everything(buffer) -> dict:
    held = {name: values.tolist() for name, values in buffer.get_priorities().items()}
    counts = {
        (name, m): getattr(buffer, name)(m)
        for name in COUNTERS
        for m in (None, *buffer.get_module_ids())
    }
    return held | counts | {"agent steps": buffer.get_added_agent_timesteps()}


@pytest.mark.parametrize("sample_format", ["rows", "episodes"])
def test_what_is_restored_goes_on_the_same(sample_format: str) -> None:
    one, runner = played(capacity=90, sample_format=sample_format)
    state = one.get_state()
    kept = copy.deepcopy(state)
    two = make_buffer(90, sample_format=sample_format)
    two.set_state(state)
    assert everything(one) == everything(two)
    for episodes in itertools.islice(runner, 8):
        rows = []
        for buffer in (one, two):
            buffer.add(episodes)
            rows.append(read_modules(buffer.sample(num_items=9, n_step=2, beta=0.4)))
            for module_id in rows[-1]:
                buffer.update_priorities(np.full(9, 2.0), module_id)
        assert rows[0] == rows[1]
    assert everything(one) == everything(two)
    three = make_buffer(90, sample_format=sample_format)
    three.set_state(state)
    np.testing.assert_equal(state, kept)


def test_an_empty_buffer() -> None:
    one, two = make_buffer(), played()[0]
    two.set_state(one.get_state())
    assert everything(two) == everything(one)
    assert two.get_module_ids() == []
    with pytest.raises(ValueError, match="empty"):
        two.sample(num_items=3)


@pytest.mark.parametrize("capacity", [20, 1000])
def test_another_capacity(capacity: int) -> None:
    one, _ = played(capacity=90)
    two = make_buffer(capacity)
    two.set_state(one.get_state())
    if capacity == 1000:
        assert everything(one) == everything(two)
        return
    assert 0 < two.get_num_timesteps() <= 20
    held_1, held_2 = one.get_priorities("m1"), two.get_priorities("m1")
    assert len(held_2["t"]) == two.get_num_timesteps("m1")
    assert held_1["mass"][-len(held_2["t"]) :].tolist() == held_2["mass"].tolist()
    assert two.get_num_episodes_evicted() > one.get_num_episodes_evicted()


def test_a_sample_before_cannot_be_updated() -> None:
    one, _ = played()
    one.sample(num_items=4)
    one.set_state(one.get_state())
    with pytest.raises(RuntimeError, match="without a sample"):
        one.update_priorities(np.ones(4), "m1")


def test_what_is_no_state_changes_nothing() -> None:
    one, _ = played()
    good, before = one.get_state(), everything(one)
    broken = copy.deepcopy(good)
    broken["modules"]["replays"]["m2"]["arrays"].pop("episode_rows")
    short = copy.deepcopy(good)
    short["episodes"]["arrays"]["env_t"] = short["episodes"]["arrays"]["env_t"][:-5]
    for wrong in (None, {}, 3, {"modules": {}}, good | {"counts": {}}, broken, short):
        with pytest.raises(ValueError, match="state: cannot be restored"):
            one.set_state(wrong)
        assert everything(one) == before


@pytest.mark.parametrize(
    ("num_shards", "prefetch"),
    [(1, 0), pytest.param(2, 2, marks=pytest.mark.slow)],
)
def test_in_actors_it_is_the_same(ray_session: None, num_shards: int, prefetch: int) -> None:
    """Counts, evictions and priorities; with one actor also what is drawn."""
    inside = make_buffer(60)
    outside = make_buffer(60, num_shards=num_shards, prefetch=prefetch, sample_format="episodes")
    for i, episodes in enumerate(itertools.islice(play_multi(3, 4, IN_TURNS, seed=4), 25)):
        inside.add(episodes, weight={"m1": 1.0 + i})
        outside.add(episodes, weight={"m1": 1.0 + i})
        if i % 5 == 4:
            mine = read_modules(inside.sample(num_items=7))
            theirs = read_modules(outside.sample(num_items=7))
            assert {m: len(rows) for m, rows in theirs.items()} == {"m1": 7, "m2": 7}
            if num_shards == 1:
                assert {m: sorted(rows) for m, rows in mine.items()} == {
                    m: sorted(rows) for m, rows in theirs.items()
                }
                for module_id, rows in mine.items():
                    inside.update_priorities(np.ones(len(rows)), module_id)
                    outside.update_priorities(np.ones(len(rows)), module_id)
    for name in COUNTERS[:4]:
        for m in (None, "m1", "m2"):
            assert getattr(inside, name)(m) == getattr(outside, name)(m), (name, m)
    one, two = inside.get_priorities(), outside.get_priorities()
    rows = [
        sorted(zip(held["module_id"], held["episode_id"], held["t"], held["mass"], strict=True))
        for held in (one, two)
    ]
    assert rows[0] == rows[1]
    infos = outside.get_shard_info()
    assert sorted(info["module_id"] for info in infos) == sorted(["m1", "m2"] * num_shards)
    assert len({info["pid"] for info in infos}) == 2 * num_shards
    assert set(outside.get_metrics()) >= {"num_module_steps_added", "num_module_steps_sampled"}


def test_made_into_an_actor_it_keeps_its_rows_in_itself(ray_session: None) -> None:
    import ray

    from rllib_per_acc import AccMultiAgentPrioritizedEpisodeReplayBuffer

    actor = ray.remote(AccMultiAgentPrioritizedEpisodeReplayBuffer).remote(capacity=100)
    episode = make_multi(0, 9, "", SHARED)
    episode.agent_to_module_mapping_fn = None
    ray.get(actor.add.remote([episode]))
    infos = ray.get(actor.get_shard_info.remote())
    assert [info["steps"] for info in infos] == [18, 9]
    assert len({info["pid"] for info in infos}) == 1
    ray.kill(actor)
