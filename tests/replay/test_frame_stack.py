"""Stacked frames kept once: what is read is what was written, in a quarter of the memory."""

import itertools

import numpy as np
import pytest
from fault_injection import same
from hypothesis import given, settings
from hypothesis import strategies as st
from replay_checks import check_invariants
from saved_replays import assert_equal

from rllib_per_acc import EpisodeChunk, PrioritizedReplay
from rllib_per_acc.local_folder import LocalFolder
from rllib_per_acc.parts_on_file import LocalPart, prepare_parts, save_parts
from rllib_per_acc.saved_parts import dealt_out

DEPTH = 4


def stacked(frames, depth=DEPTH, start="repeat"):
    """The observations of an episode with these frames, as environments stack them."""
    first = frames[:1] if start == "repeat" else np.zeros_like(frames[:1])
    padded = np.concatenate([first] * (depth - 1) + [frames])
    windows = [padded[i : i + len(frames)] for i in range(depth)]
    return np.stack(windows, axis=-1)


def chunks_of(name, observations, cuts=(), end="terminated"):
    """An episode with these observations in pieces."""
    length = len(observations) - 1
    edges = sorted({0, length, *(cut for cut in cuts if 0 < cut < length)})
    rewards = np.arange(length, dtype=np.float64)
    return [
        EpisodeChunk(
            name,
            observations[a : b + 1],
            rewards[a:b].astype(int),
            rewards[a:b],
            t_started=a,
            terminated=end == "terminated" and b == length,
        )
        for a, b in itertools.pairwise(edges)
    ]


def assert_alike(compressed, plain):
    """The same transitions in the same order."""
    arguments = {"n_step": (1, 3), "gamma": 0.9, "incomplete_n_step": "shorten"}
    one, two = (replay.sample(24, **arguments) for replay in (compressed, plain))
    assert_equal(one.columns, two.columns)
    for ours, theirs in zip(compressed.get_chunks(0, 99), plain.get_chunks(0, 99), strict=True):
        assert ours.episode_id == theirs.episode_id
        assert_equal(ours.observations, theirs.observations)


def frames_in_use(replay):
    """Frames kept, and how many of these are those of stored rows."""
    (leaf,) = replay._store.columns.observations.leaves
    pool = leaf._pool
    stored = np.unique(leaf._index)
    return pool.num_used - pool.num_free, len(stored[stored >= 0])


episodes = st.tuples(
    st.integers(1, 12),  # steps
    st.lists(st.integers(1, 11), max_size=4),  # cuts into chunks
    st.sampled_from(["repeat", "zeros", "no window", "shifted frames", "alike", "signed zeros"]),
    st.booleans(),  # whether it ends
)


def observations_like(kind, steps, rng, dtype):
    # Few different values, so that frames are equal by chance too.
    frames = rng.integers(0, 3, (steps + 1, 2, 3)).astype(dtype)
    if kind == "alike":
        frames[:] = 1
    observations = stacked(frames, start="zeros" if kind == "zeros" else "repeat")
    if kind == "no window":
        return rng.integers(0, 3, observations.shape).astype(dtype)
    if kind == "shifted frames":  # a window now and then, and something else between
        changed = rng.random(steps + 1) < 0.4
        observations[changed] = rng.integers(0, 3, observations[changed].shape)
    if kind == "signed zeros" and np.issubdtype(dtype, np.floating):
        observations[rng.random(observations.shape) < 0.2] = -0.0
        observations[rng.random(observations.shape) < 0.1] = np.nan
    return observations


@settings(max_examples=40)
@given(
    capacity=st.integers(1, 40),
    script=st.lists(st.lists(episodes, min_size=1, max_size=3), max_size=10),
    dtype=st.sampled_from([np.uint8, np.int16, np.float32, np.float64]),
    seed=st.integers(0, 1000),
)
def test_it_reads_as_a_replay_that_keeps_every_observation(capacity, script, dtype, seed):
    """Chunks of several episodes interleave; whole episodes are evicted; rows are used again."""
    rng = np.random.default_rng(seed)
    compressed = PrioritizedReplay(capacity, seed=1, frame_stack=DEPTH)
    plain = PrioritizedReplay(capacity, seed=1)
    number = 0
    for together in script:
        waiting = []
        for steps, cuts, kind, ends in together:
            observations = observations_like(kind, steps, rng, dtype)
            end = "terminated" if ends else ""
            waiting.append(chunks_of(f"episode-{number}", observations, cuts, end))
            number += 1
        while any(waiting):
            calls = [pieces.pop(0) for pieces in waiting if pieces]
            gone = [c for c in calls if c.t_started and not is_stored(plain, c.episode_id)]
            calls = [c for c in calls if c not in gone]
            if calls:
                for replay in (compressed, plain):
                    replay.add(calls)
            assert_alike(compressed, plain)
        check_invariants(compressed)
        used, referenced = frames_in_use(compressed)
        assert used == referenced


def is_stored(replay, episode_id):
    return replay._store.episodes.get(episode_id) is not None


def test_starts_are_filled_up_with_one_frame():
    rng = np.random.default_rng(0)
    frames = rng.integers(1, 256, (11, 5, 5), np.uint8)
    for start, extra in (("repeat", 0), ("zeros", 1)):
        replay = PrioritizedReplay(100, frame_stack=DEPTH)
        replay.add(chunks_of("one", stacked(frames, start=start), cuts=(3, 7)))
        assert frames_in_use(replay) == (11 + extra,) * 2


def image_episode(number, steps, rng):
    frames = rng.integers(0, 256, (steps + 1, 84, 84), np.uint8)
    return chunks_of(f"episode-{number}", stacked(frames))


def test_images_take_at_most_eight_kib_a_step_and_no_more_later():
    """Turned over twice, a full buffer takes less than 5% more."""
    rng = np.random.default_rng(0)
    replay = PrioritizedReplay(1500, seed=0, frame_stack=4)
    filled, number = None, 0
    while replay.info()["steps_evicted"] < 2 * 1500:
        replay.add(image_episode(number, int(rng.integers(30, 90)), rng))
        number += 1
        if filled is None and replay.info()["steps_evicted"]:
            filled = replay.info()["bytes"]
            assert filled <= 8192 * len(replay)
    assert replay.info()["bytes"] < 1.05 * filled


def test_nested_observations_keep_frames_and_the_rest():
    rng = np.random.default_rng(0)
    frames = rng.integers(0, 256, (8, 3, 3), np.uint8)
    observations = {
        "image": stacked(frames, 3),
        "speed": rng.random((8, 3), np.float32),  # one axis: no stack
        "colour": rng.integers(0, 256, (8, 3, 4), np.uint8),  # another depth
        "text": np.array([f"step {t}" for t in range(8)]),
    }
    rewards = np.zeros(7)
    one = EpisodeChunk("one", observations, rewards, rewards, terminated=True)
    compressed, plain = (PrioritizedReplay(50, seed=2, frame_stack=n) for n in (3, 0))
    for replay in (compressed, plain):
        replay.add([one])
        assert replay.sample(3).observations["image"].flags.c_contiguous
    assert_alike(compressed, plain)
    arrays = compressed.get_state()["arrays"]
    assert len(arrays["observations.0.frames"]) == 8
    assert "observations.1" in arrays


def test_another_dtype_later_is_taken_where_it_is_exact():
    rng = np.random.default_rng(0)
    compressed, plain = (PrioritizedReplay(50, seed=2, frame_stack=n) for n in (4, 0))
    for number, dtype in enumerate((np.uint8, np.int64, np.uint8)):
        frames = (100 * rng.random((6, 3, 3))).astype(dtype)
        for replay in (compressed, plain):
            replay.add(chunks_of(f"episode-{number}", stacked(frames), cuts=(2,)))
        assert_alike(compressed, plain)
    for replay in (compressed, plain):
        before = replay.get_state()
        with pytest.raises(ValueError, match="float64, expected what is exactly uint8"):
            replay.add(chunks_of("other", stacked(rng.random((6, 3, 3))), cuts=(2,)))
        assert same(replay.get_state(), before)


@pytest.mark.parametrize("shape", [(4,), (4, 3), (4, 4, 3)])
def test_observations_that_are_no_such_stacks_are_refused(shape):
    replay = PrioritizedReplay(50, frame_stack=4)
    one = EpisodeChunk("one", np.zeros((3, *shape)), np.zeros(2), np.zeros(2))
    with pytest.raises(ValueError, match="frame_stack: got 4 and observations of shape"):
        replay.add([one])
    assert len(replay) == 0


@pytest.mark.parametrize("value", [-1, 1.5, "4", True, None])
def test_values_of_the_option(value):
    with pytest.raises((TypeError, ValueError), match="frame_stack"):
        PrioritizedReplay(50, frame_stack=value)


def filled_pair(capacity=60):
    rng = np.random.default_rng(3)
    pair = [PrioritizedReplay(capacity, seed=2, frame_stack=n) for n in (DEPTH, 0)]
    for number in range(9):
        frames = rng.integers(0, 3, (int(rng.integers(2, 15)), 2, 3), np.uint8)
        end = "terminated" if number < 8 else ""
        for replay in pair:
            replay.add(chunks_of(f"episode-{number}", stacked(frames), cuts=(4,), end=end))
    return pair


@pytest.mark.parametrize("capacity", [1, 20, 60, 100])
@pytest.mark.parametrize("by", ["state", "save"])
def test_states_and_saves(tmp_path, capacity, by):
    restored = []
    for number, replay in enumerate(filled_pair()):
        if by == "save":
            replay.save(tmp_path / str(number))
            restored.append(PrioritizedReplay.load(tmp_path / str(number), capacity))
        else:
            restored.append(PrioritizedReplay(capacity, frame_stack=replay.options.frame_stack))
            restored[-1].set_state(replay.get_state())
    assert_alike(*restored)
    rng = np.random.default_rng(4)
    for number in range(20, 26):
        frames = rng.integers(0, 3, (9, 2, 3), np.uint8)
        for replay in restored:
            replay.add(chunks_of(f"episode-{number}", stacked(frames), cuts=(2, 5)))
        assert_alike(*restored)
        assert len(set(frames_in_use(restored[0]))) == 1


def test_a_smaller_replay_does_not_keep_the_frames_of_a_larger_one():
    large = PrioritizedReplay(2000, frame_stack=DEPTH)
    rng = np.random.default_rng(0)
    for number in range(20):
        frames = rng.integers(0, 256, (100, 2, 3), np.uint8)
        large.add(chunks_of(f"episode-{number}", stacked(frames)))
    small = PrioritizedReplay(5, frame_stack=DEPTH)
    small.set_state(large.get_state())
    kept = len(small.get_state()["arrays"]["observations.0.frames"])
    assert kept < len(large.get_state()["arrays"]["observations.0.frames"]) / 2


@pytest.mark.parametrize(("saved", "wanted"), [(4, 0), (0, 4), (4, 3)])
def test_a_state_with_another_frame_stack_is_refused(saved, wanted):
    replay = filled_pair()[0 if saved else 1]
    other = PrioritizedReplay(60, frame_stack=wanted)
    with pytest.raises(ValueError, match=f"frame_stack: got {wanted}"):
        other.set_state(replay.get_state())
    assert len(other) == 0


@pytest.mark.parametrize("change", ["missing", "past the end", "negative", "dtype", "too short"])
def test_a_damaged_index_is_refused(change):
    state = filled_pair()[0].get_state()
    arrays, name = state["arrays"], "observations.0.index"
    if change == "missing":
        del arrays[name]
    elif change == "past the end":
        arrays[name][0, 0] = len(arrays["observations.0.frames"])
    elif change == "negative":
        arrays[name][0, 0] = -2
    elif change == "dtype":
        arrays[name] = arrays[name].astype(np.int64)
    else:
        arrays[name] = arrays[name][:-1]
    other = PrioritizedReplay(60, frame_stack=DEPTH)
    with pytest.raises(ValueError, match="state"):
        other.set_state(state)
    assert len(other) == 0


def stacks_of(replays):
    """By episode its observations and masses."""
    held = {}
    for replay in replays:
        masses = replay.get_priorities()
        for chunk in replay.get_chunks(0, 99):
            own = masses["mass"][masses["episode_id"] == chunk.episode_id]
            held[chunk.episode_id] = (chunk.observations, own)
    return dict(sorted(held.items()))


@pytest.mark.parametrize(("before", "after"), [(1, 2), (2, 1), (2, 3), (3, 2)])
@pytest.mark.parametrize("capacity", [15, 1000])
def test_states_and_saves_dealt_out_to_other_parts(tmp_path, before, after, capacity):
    rng = np.random.default_rng(5)
    parts = [PrioritizedReplay(60, frame_stack=DEPTH) for _ in range(before)]
    for number in range(20):
        frames = rng.integers(0, 3, (int(rng.integers(2, 15)), 2, 3), np.uint8)
        chunks = chunks_of(f"episode-{number}", stacked(frames), cuts=(4,))
        parts[number % min(before, 2)].add(chunks, weight=number + 1)  # a third one stays empty
    folder = LocalFolder(tmp_path)
    names = save_parts(folder, [LocalPart(part) for part in parts])
    by_file, by_state = (
        [PrioritizedReplay(capacity, frame_stack=DEPTH) for _ in range(after)] for _ in range(2)
    )
    prepare_parts(folder, names, [LocalPart(part) for part in by_file], lambda: None).commit()
    dealt = dealt_out([part.state_arrays() for part in parts], [capacity] * after)
    for replay, state in zip(by_state, dealt, strict=True):
        replay.restore_arrays(*state)
    given, kept = stacks_of(parts), stacks_of(by_file)
    assert len(kept) == len(given) if capacity == 1000 else len(kept) >= after
    assert_equal(kept, {name: given[name] for name in kept})
    assert_equal(stacks_of(by_state), kept)
    for replay in [*by_file, *by_state]:
        assert len(set(frames_in_use(replay))) == 1
        frames = rng.integers(0, 3, (9, 2, 3), np.uint8)
        replay.add(chunks_of("another", stacked(frames)))
        assert_equal(stacks_of([replay])["another"][0], stacked(frames))


@pytest.mark.parametrize("change", ["past the end", "negative", "dtype", "too short"])
def test_a_damaged_index_is_not_dealt_out(change):
    description, arrays = filled_pair()[0].state_arrays()
    name = "observations.0.index"
    index = arrays[name].copy()
    if change == "dtype":
        index = index.astype(np.float64)
    elif change == "too short":
        index = index[:-1]
    else:
        row = arrays["episode_rows"][-1]
        index[row, 0] = -1 if change == "negative" else len(arrays["observations.0.frames"])
    with pytest.raises(ValueError, match=r"observations.0.(index|frames): got"):
        dealt_out([(description, arrays | {name: index})], [100, 100])
