"""A replay in one and in several actors: contents, draws, order, bounds."""

import threading
import time
from collections import Counter

import numpy as np
import pytest
import ray
from scipy.stats import chisquare
from shard_cases import (
    FailingShard,
    ShowingShard,
    SlowShard,
    chunk,
    make_replay,
    masses_of,
    runs,
    steps_of,
)

from rllib_per_acc import EpisodeChunk, PrioritizedReplay
from rllib_per_acc.shards import MAX_CALLS_IN_FLIGHT, ShardedReplay, ShardOptions

pytestmark = pytest.mark.usefixtures("ray_session")


def infos(replay, key):
    return [info[key] for info in replay.shard_info()]


@pytest.fixture(scope="module")
def three():
    """Three shards of very unequal mass, most of it in short episodes."""
    replay = make_replay(3, 300)
    rng = np.random.default_rng(3)
    replay.add([chunk(0, 60)], weight=0.05)
    for i in range(1, 7):
        replay.add([chunk(i, 60 if i == 1 else 2)], weight=rng.random(60 if i == 1 else 2))
    for i in range(7, 20):
        replay.add([chunk(i, 2)], weight=3.0)
    return replay


def test_capacity_and_episodes_are_split(three):
    assert sum(infos(three, "steps")) == 60 + 60 + 5 * 2 + 13 * 2
    held = three.get_priorities()
    lengths = Counter(held["episode_id"])
    assert all(n in (2, 60) for n in lengths.values())
    full = make_replay(3, 100)
    for i in range(60):
        full.add([chunk(i, 5)])
    assert infos(full, "steps") == [30, 30, 30]  # of 34, 33, 33
    assert full.info()["steps_added"] == 300
    assert full.info()["steps_evicted"] == 210
    assert len(full.get_chunks(0, 100)) == 18
    assert [c.episode_id for c in full.get_chunks(4, 8)] == [
        c.episode_id for c in full.get_chunks(0, 100)[4:8]
    ]


@pytest.mark.parametrize(("n_step", "shorten"), [(1, False), (3, False), (3, True)])
def test_draws_are_proportional_to_the_masses_of_all(three, n_step, shorten):
    masses = masses_of(three)
    lengths = Counter(id_ for id_, _ in masses)
    fitting = {
        (id_, t): mass for (id_, t), mass in masses.items() if shorten or t + n_step <= lengths[id_]
    }
    counts = Counter()
    for _ in range(40):
        batch = three.sample(500, n_step=n_step, incomplete_n_step="shorten" if shorten else None)
        counts.update((f"e{number}", t) for number, t, _ in steps_of(batch))
    assert counts.keys() <= fitting.keys()
    total = sum(fitting.values())
    f_exp = np.array(list(fitting.values())) / total * 40 * 500
    keep = f_exp >= 1  # of the rest there are too few for the test; together they are one class
    observed = np.array([counts[key] for key in fitting])
    observed = np.append(observed[keep], observed[~keep].sum())
    f_exp = np.append(f_exp[keep], f_exp[~keep].sum())
    if f_exp[-1] == 0:
        observed, f_exp = observed[:-1], f_exp[:-1]
    assert chisquare(observed, f_exp).pvalue > 1e-3


def test_weights_use_the_total_the_least_and_the_number_of_all(three):
    masses = masses_of(three)
    batch = three.sample(200, beta=0.7)
    own = [masses[f"e{number}", t] for number, t, _ in steps_of(batch)]
    expected = (np.array(own) / min(masses.values())) ** -0.7
    np.testing.assert_allclose(batch.weights, expected, rtol=1e-10)


@pytest.mark.parametrize("num_shards", [1, 2])
def test_a_sample_sees_all_that_was_sent_before(num_shards):
    replay = make_replay(num_shards, shard_class=SlowShard)
    for i in range(6):
        replay.add([chunk(i, 5)])
    batch = replay.sample(300)
    assert {number for number, _, _ in steps_of(batch)} == set(range(6))
    batch.update((batch.observations[:, 0] == 3).astype(float))
    replay.add([chunk(6, 5)], weight=1e-9)
    again = replay.sample(200)
    seen = Counter(number for number, _, _ in steps_of(again))
    unseen = sum(mass for (id_, _), mass in masses_of(replay).items() if id_ != "e3")
    assert (seen[3] > 150) == (unseen < 0.5)


def test_new_steps_get_the_highest_priority_of_all_shards():
    replay = make_replay(2)
    for i in range(4):
        replay.add([chunk(i, 4)])
    batch = replay.sample(50)
    priorities = np.where(np.arange(50) == 7, 9.0, 0.5)
    batch.update(priorities)
    for i in range(4, 8):
        replay.add([chunk(i, 4)])
    masses = masses_of(replay)
    assert {masses[f"e{i}", t] for i in range(4, 8) for t in range(4)} == {9.0}


def test_the_highest_priority_in_the_buffer():
    replay = make_replay(2, 40, options={"max_priority": "buffer"})
    replay.add([chunk(0, 10), chunk(1, 10)], weight=[5.0] * 10 + [2.0] * 10)
    replay.add([chunk(2, 10)])
    replay.add([chunk(3, 15), chunk(4, 15)], weight=0.25)  # evict what was there before
    replay.add([chunk(5, 3)])
    masses = masses_of(replay)
    alive = {id_ for id_, _ in masses}
    expected = 5.0 if alive & {"e0", "e2"} else 0.25
    assert masses["e5", 0] in (expected, 5.0)
    assert set(masses.values()) <= {0.25, 2.0, 5.0}


def test_weights_of_chunks_go_with_them():
    replay = make_replay(3)
    lengths = [4, 1, 3, 2, 5]
    weight = np.arange(1.0, 1.0 + sum(lengths))
    replay.add([chunk(i, n) for i, n in enumerate(lengths)], weight=weight)
    masses = masses_of(replay)
    expected = iter(weight)
    for i, n in enumerate(lengths):
        for t in range(n):
            assert masses[f"e{i}", t] == next(expected)
    with pytest.raises(ValueError, match="weight"):
        replay.add([chunk(9, 3)], weight=[1.0, 2.0])


@pytest.mark.parametrize("num_shards", [1, 3])
def test_updates_reach_their_rows(num_shards):
    replay = make_replay(num_shards)
    for i in range(12):
        replay.add([chunk(i, 8, t) for t in (0,)])
    batches = [replay.sample(40) for _ in range(3)]
    for batch in (batches[2], batches[0], batches[1]):
        batch.update([number * 100 + t + 1 for number, t, _ in steps_of(batch)])
    masses = masses_of(replay)
    seen = {(f"e{number}", t) for batch in batches for number, t, _ in steps_of(batch)}
    for (id_, t), mass in masses.items():
        assert mass == (int(id_[1:]) * 100 + t + 1 if (id_, t) in seen else 1.0)
    with pytest.raises(RuntimeError, match="second update"):
        batches[0].update(np.ones(40))


def test_one_shard_draws_what_a_local_replay_draws():
    local, remote = (
        PrioritizedReplay(100, alpha=0.6, seed=5),
        make_replay(1, 100, options={"alpha": 0.6, "seed": 5}),
    )
    for i in range(12):
        for replay in (local, remote):
            replay.add([chunk(i, 10)])
        batches = [replay.sample(32, n_step=(1, 3)) for replay in (local, remote)]
        assert steps_of(batches[0]) == steps_of(batches[1])
        np.testing.assert_array_equal(batches[0].weights, batches[1].weights)
        for batch in batches:
            batch.update(batch.rewards)
    mine, theirs = remote.take_activity(), local.take_activity()
    assert mine.counts == theirs.counts
    assert list(mine.steps_stored) == list(theirs.steps_stored)


def test_runs_with_several_shards_can_be_repeated():
    def run():
        replay = make_replay(2, 60)
        steps = []
        for i in range(10):
            replay.add([chunk(i, 10)])
            batch = replay.sample(32, n_step=(1, 3))
            batch.update(batch.rewards + 0.1)
            steps.append(steps_of(batch))
        return steps, replay.take_activity().counts

    first, second = run(), run()
    assert first == second
    assert first[1].steps_added == 100
    assert first[1].steps_evicted == 40
    assert first[1].num_samples == 10
    assert first[1].steps_sampled == 320


def test_calls_in_flight_are_bounded():
    replay = make_replay(2, shard_class=SlowShard)
    in_flight = []
    for i in range(100):
        replay.add([chunk(i, 3)], weight=1.0)
        in_flight.append(max(infos_in_flight(replay)))
    assert 1 < max(in_flight) <= MAX_CALLS_IN_FLIGHT
    batches = [replay.sample(8) for _ in range(60)]
    in_flight.clear()
    for batch in batches:
        batch.update(np.ones(8))
        in_flight.append(max(infos_in_flight(replay)))
    assert 1 < max(in_flight) <= MAX_CALLS_IN_FLIGHT
    assert replay.info()["steps"] == 300


def infos_in_flight(replay):
    return [connection.num_in_flight for connection in replay._group.connections]


@pytest.mark.parametrize("num_shards", [1, 2])
def test_an_exception_in_a_shard_arrives(num_shards):
    replay = make_replay(num_shards, shard_class=FailingShard)
    for i in range(10, 16):
        replay.add([chunk(i, 3)])
    with pytest.raises(OSError, match="no room for e13"):
        replay.sample(4)
    assert len(replay.sample(4)) == 4
    assert replay.info()["steps"] == 5 * 3


def test_an_exception_arrives_at_one_who_only_adds():
    replay = make_replay(2, shard_class=FailingShard)

    def add():
        for i in range(13, 14 + 4 * MAX_CALLS_IN_FLIGHT):
            replay.add([chunk(i, 1)], weight=1.0)

    with pytest.raises(OSError, match="no room for e13"):
        add()


def test_arguments_are_checked():
    replay = make_replay(2)
    with pytest.raises(ValueError, match="empty"):
        replay.sample(4)
    replay.add([chunk(0, 2), chunk(1, 2)])
    with pytest.raises(ValueError, match=r"n_step: got 3.*2 steps"):
        replay.sample(4, n_step=3)
    for wrong, name in (({"num_items": 0}, "num_items"), ({"beta": -1}, "beta")):
        with pytest.raises(ValueError, match=name):
            replay.sample(**({"num_items": 4} | wrong))
    for wrong in (
        {"n_steps": 3},
        {"num_items": "4"},
        {"n_step": "1"},
        {"beta": "x"},
        {"gamma": None},
        {"sequences": 3},
        {"include_infos": 1},
        {"include_extra_model_outputs": "yes"},
        {"include_episode_ids": None},
    ):
        with pytest.raises(TypeError, match=f"{next(iter(wrong))}.*got|got.*{next(iter(wrong))}"):
            replay.sample(**({"num_items": 4} | wrong))
    with pytest.raises(ValueError, match="incomplete_n_step: got 'no'"):
        replay.sample(4, incomplete_n_step="no")
    with pytest.raises(ValueError, match="num_shards=5"):
        make_replay(5, 4)
    assert len(replay.sample(4)) == 4


@pytest.mark.parametrize("num_shards", [1, 2])
def test_prefetch_draws_ahead_and_priorities_find_their_rows(num_shards):
    replay = make_replay(num_shards, prefetch=3)
    for i in range(10):
        replay.add([chunk(i, 20)])
    batches = [replay.sample(16) for _ in range(5)]
    assert len(replay._draws) == 3
    for order in (3, 0, 4, 1, 2):
        batch = batches[order]
        batch.update([number * 100 + t + 2 for number, t, _ in steps_of(batch)])
    masses = masses_of(replay)
    seen = {(f"e{number}", t) for batch in batches for number, t, _ in steps_of(batch)}
    for (id_, t), mass in masses.items():
        assert mass == (int(id_[1:]) * 100 + t + 2 if (id_, t) in seen else 1.0)
    assert len(replay.sample(5)) == 5  # another request: what was drawn ahead is given up
    assert len(replay.sample(16)) == 16
    counts = replay.take_activity().counts
    assert counts.num_samples == 7
    assert counts.steps_added == 200


@pytest.mark.parametrize("num_shards", [1, 2])
def test_priorities_of_rows_evicted_since_are_dropped(num_shards):
    replay = make_replay(num_shards, 40, prefetch=2)
    for i in range(4):
        replay.add([chunk(i, 10)])
    batches = [replay.sample(30) for _ in range(3)]
    for i in range(4, 8):
        replay.add([chunk(i, 10)])
    for batch in batches:
        batch.update(np.full(30, 50.0))
    assert set(masses_of(replay).values()) == {1.0}
    assert replay.info()["stale_priorities_dropped"] == 90
    numbers = {number for _ in range(3) for number, _, _ in steps_of(replay.sample(30))}
    late = {number for number, _, _ in steps_of(replay.sample(30))}
    assert numbers <= set(range(8))
    assert late <= {4, 5, 6, 7}


def test_what_could_not_be_drawn_ahead_is_drawn_anew():
    replay = make_replay(1, prefetch=2, capacity=10)
    replay.add([chunk(0, 10)])
    replay.sample(4, n_step=5)
    replay.add([chunk(1, 2, done=True)])  # too short, and evicts the other
    replay.sample(4, n_step=5)  # was drawn before
    replay.sample(4, n_step=5)
    for _ in range(3):
        with pytest.raises(ValueError, match="n_step"):
            replay.sample(4, n_step=5)
    replay.add([chunk(2, 8)])
    assert {n for _, _, n in steps_of(replay.sample(4, n_step=5))} == {5}


@pytest.mark.parametrize("num_shards", [1, 3])
def test_others_add_through_a_writer(num_shards):
    replay = make_replay(num_shards)
    replay.add([chunk(0, 5)])

    @ray.remote(num_cpus=0)
    def write(writer, first):
        for i in range(first, first + 30):
            writer.add([chunk(i, 6, done=False)])
            writer.add([chunk(i, 4, 6)], weight=2.0)
        writer.flush()

    writer = replay.writer()
    ray.get([write.remote(writer, first) for first in (100, 200)], timeout=60)
    assert replay.info()["steps"] == 605
    assert replay.info()["episodes"] == 61
    masses = masses_of(replay)
    assert {masses[f"e{i}", 7] for i in range(200, 230)} == {2.0}
    assert min(infos(replay, "steps")) > 0
    assert len(set(steps_of(replay.sample(500)))) > 200


def test_a_writer_of_a_replay_that_has_ended_gets_an_error():
    replay = make_replay(1)
    writer = replay.writer()
    writer.add([chunk(0, 5)])
    writer.flush()
    replay.close()

    def go_on():
        for i in range(1, 50):
            writer.add([chunk(i, 5)])

    with pytest.raises(RuntimeError, match="replay shard"):
        go_on()


@pytest.mark.parametrize("num_shards", [1, 2])
def test_the_actors_go_with_the_replay(num_shards):
    replay = make_replay(num_shards)
    writer = replay.writer()  # holds their handles
    pids = infos(replay, "pid")
    assert len(set(pids)) == num_shards
    assert all(map(runs, pids))
    del replay
    end = time.monotonic() + 60
    while any(map(runs, pids)):
        assert time.monotonic() < end
        time.sleep(0.1)
    assert writer is not None


def test_what_it_holds_does_not_stay_in_the_object_store():
    """What came through Ray's store is copied out of it: views of it cannot be written to (R9)."""
    replay = make_replay(1, shard_class=ShowingShard)
    for i in range(3):
        observations = {"image": np.zeros((21, 100, 100), np.uint8)}
        facts = [{"image": np.zeros((100, 100), np.uint8), "list": [np.zeros(9)]}] * 21
        extras = {"logits": np.zeros((20, 100))}
        chunk = EpisodeChunk(
            f"e{i}", observations, np.zeros(20), np.zeros(20), infos=facts,
            extra_model_outputs=extras,
        )  # fmt: skip
        replay.add([chunk])
    (reply,) = replay._group.ask_all("arrays_held").values()
    assert reply.result == {"writeable": 3 * 21 * 2 + 4, "read-only": 0}


@pytest.mark.parametrize(("before", "after"), [(1, 1), (2, 2), (3, 2), (1, 2), (2, 1)])
def test_state_goes_to_any_number_of_shards(before, after):
    old = make_replay(before, 200, prefetch=2)
    for i in range(30):
        old.add([chunk(i, 10)])
        batch = old.sample(20)
        batch.update(batch.rewards + 0.1)
    old.add([chunk(99, 6, done=False)])
    state = old.get_state()
    new = make_replay(after, 200 if before == after else 400, options={"seed": 77}, prefetch=2)
    new.add([chunk(500, 3)])
    new.set_state(state)
    assert masses_of(new) == masses_of(old)
    new.add([chunk(99, 4, 6)])  # goes on where it was
    assert len([key for key in masses_of(new) if key[0] == "e99"]) == 10
    counted = ("steps_added", "episodes_added", "steps_evicted", "steps_sampled")
    mine, theirs = new.info(), old.info()
    assert mine["steps_added"] == theirs["steps_added"] + 4
    assert all(mine[key] >= theirs[key] for key in counted)
    if before == after:
        old.add([chunk(99, 4, 6)])
        assert infos(new, "mass") == infos(old, "mass")
        for _ in range(3):
            batches = [replay.sample(30, n_step=(1, 2)) for replay in (old, new)]
            assert steps_of(batches[0]) == steps_of(batches[1])
            np.testing.assert_array_equal(batches[0].weights, batches[1].weights)
    assert new.sample(10).rewards.shape == (10,)
    smaller = make_replay(after, 60)
    smaller.set_state(state)
    kept = masses_of(smaller)
    assert kept.items() <= masses_of(old).items() | kept.items()
    assert 30 <= len(kept) <= 60
    assert ("e99", 0) in kept


def test_a_foreign_state_is_refused():
    replay = make_replay(1)
    replay.add([chunk(0, 3)])
    for state in (None, {}, {"description": {}, "arrays": {}}, {"shards": [{}]}):
        with pytest.raises(ValueError, match="state"):
            replay.set_state(state)
    assert replay.info()["steps"] == 3


def test_options_of_shards_are_checked():
    for wrong in (
        {"num_shards": -1},
        {"num_gpus_per_shard": -0.5},
        {"shard_placement": "near"},
        {"prefetch": -1},
        {"num_shards": 0, "prefetch": 1},
        {"resources_per_shard": {"GPU": 1}},
        {"resources_per_shard": {"a": -1}},
    ):
        with pytest.raises(ValueError, match=next(iter(wrong)).split("_")[0]):
            ShardOptions(**wrong)
    for wrong in (
        {"num_shards": 1.5},
        {"resources_per_shard": 3},
        {"resources_per_shard": {5: 1}},
        {"resources_per_shard": {"": 1}},
        {"restart_failed_shards": 1},
    ):
        with pytest.raises(TypeError, match=next(iter(wrong))):
            ShardOptions(**wrong)
    with pytest.raises(ValueError, match="device"):
        ShardedReplay(10, {"device": "cpu"}, ShardOptions(num_gpus_per_shard=1))


@pytest.mark.parametrize("name", ["add", "sample"])
def test_a_call_waits_for_one_in_another_thread(monkeypatch, name):
    replay = make_replay(1, 100)
    replay.add([chunk(0, 10)])
    call = {"add": lambda: replay.add([chunk(1, 10)]), "sample": lambda: replay.sample(4)}
    finished, seen = threading.Event(), []
    thread = threading.Thread(target=lambda: (call[name](), finished.set()))
    sent = replay._group.add

    def slow_add(*arguments):
        monkeypatch.undo()
        thread.start()
        seen.append(finished.wait(0.5))
        sent(*arguments)

    monkeypatch.setattr(replay._group, "add", slow_add)
    replay.add([chunk(2, 10)])
    thread.join(30)
    assert seen == [False]
    assert finished.is_set()
