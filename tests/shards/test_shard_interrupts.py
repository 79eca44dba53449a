"""Calls to shards that are interrupted at some line: all of an add or update, or nothing of it."""

import itertools

import numpy as np
import pytest
from fault_injection import count_lines, fault, places
from shard_cases import chunk, make_replay, masses_of, steps_of

pytestmark = pytest.mark.usefixtures("ray_session")


def interrupted(call, at, number):
    """Makes a call that is interrupted there; whether it was."""
    error = (KeyboardInterrupt, MemoryError)[number % 2]
    try:
        with fault(at, error):
            call()
    except error:
        return True
    return False


def check_sums(replay):
    info = replay.info()
    assert info["steps_added"] == info["steps"] + info["steps_evicted"]
    assert info["lost_steps"] == 0
    return info


@pytest.mark.parametrize("num_shards", [1, 3])
@pytest.mark.parametrize("most", [40, pytest.param(None, marks=pytest.mark.slow)])
def test_an_add_is_sent_whole_or_not_at_all(num_shards, most):
    replay = make_replay(num_shards, 1 << 20)
    lengths = (2, 3, 4)
    replay.add([chunk(number, n) for number, n in enumerate(lengths)])
    lines = count_lines(lambda: replay.add([chunk(10 + i, n) for i, n in enumerate(lengths)]))
    sent = 0
    for number, at in enumerate(places(lines, most)):
        first = 100 + 10 * number
        chunks = [chunk(first + i, n) for i, n in enumerate(lengths)]
        interrupted(lambda chunks=chunks: replay.add(chunks), at, number)
        held = {id_ for id_, _ in masses_of(replay)}
        there = [f"e{first + i}" in held for i in range(3)]
        assert len(set(there)) == 1, f"line {at} of {lines}"
        sent += there[0]
        if not there[0]:  # it can be made again
            replay.add(chunks)
            assert f"e{first}" in {id_ for id_, _ in masses_of(replay)}
        if number % 10 == 0:
            assert len(steps_of(replay.sample(8))) == 8
    assert sent > 0
    info = check_sums(replay)
    assert info["steps"] == 9 * (2 + number + 1)
    assert replay.take_activity().counts.steps_added == info["steps"]


@pytest.mark.parametrize("num_shards", [1, 3])
@pytest.mark.parametrize("most", [40, pytest.param(None, marks=pytest.mark.slow)])
def test_an_update_is_sent_whole_or_not_at_all(num_shards, most):
    replay = make_replay(num_shards, 1 << 20)
    replay.add([chunk(number, 10) for number in range(6)])
    lines = count_lines(lambda: replay.sample(64).update(np.ones(64)))
    for number, at in enumerate(places(lines, most)):
        batch = replay.sample(64)
        rows = {(f"e{n}", t) for n, t, _ in steps_of(batch)}
        before = masses_of(replay)
        value = number + 2.0
        interrupted(lambda b=batch, v=value: b.update(np.full(64, v)), at, number)
        masses = masses_of(replay)
        changed = {key for key in masses if masses[key] != before[key]}
        assert changed in (set(), rows), f"line {at} of {lines}"
        assert all(masses[key] == value for key in changed)
    check_sums(replay)


@pytest.mark.parametrize("num_shards", [1, 3])
@pytest.mark.parametrize("prefetch", [0, 2])
@pytest.mark.parametrize("most", [30, pytest.param(None, marks=pytest.mark.slow)])
def test_after_a_sample_or_report_that_was_interrupted_all_goes_on(num_shards, prefetch, most):
    replay = make_replay(num_shards, 1 << 20, prefetch=prefetch)
    replay.add([chunk(number, 10) for number in range(6)])
    added = itertools.count(1000)
    for call in (
        lambda: replay.sample(16),
        replay.get_priorities,
        replay.shard_info,
        replay.get_state,
    ):
        lines = count_lines(call)
        for number, at in enumerate(places(lines, most)):
            interrupted(call, at, number)
            if number % 5 == 0:
                replay.add([chunk(next(added), 3)])
                batch = replay.sample(16)
                assert len(steps_of(batch)) == 16
                batch.update(np.ones(16))
    info = check_sums(replay)
    counts = replay.take_activity().counts
    assert counts.steps_added == info["steps_added"]
    assert counts.steps_sampled == info["steps_sampled"]
