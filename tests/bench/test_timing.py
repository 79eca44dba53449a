"""The harness of the benchmarks: who is run, on what, and what is made of the times."""

import gc
import itertools
import time

import pytest

from rllib_per_acc.bench.timing import Timing, interleaved


def test_every_contender_runs_as_often_on_inputs_of_its_own() -> None:
    seen: dict[str, list[int]] = {"a": [], "b": []}
    numbers = itertools.count()
    times = interleaved(
        {"a": seen["a"].append, "b": seen["b"].append}, lambda: next(numbers), repeats=5
    )
    assert [len(timing.seconds) for timing in times.values()] == [5, 5]
    assert min(map(len, seen.values())) >= 5
    everything = seen["a"] + seen["b"]
    assert len(set(everything)) == len(everything)


def test_times_are_in_seconds() -> None:
    times = interleaved({"a": time.sleep}, lambda: 0.02, repeats=3)
    assert min(times["a"].seconds) >= 0.02


def test_no_repeat_is_started_after_the_time_is_up() -> None:
    times = interleaved({"a": lambda _: None}, lambda: None, repeats=1000, seconds=0.0)
    assert len(times["a"].seconds) == 3


def test_ratios_are_medians_of_pairs() -> None:
    ours, theirs = Timing((1.0, 2.0, 10.0)), Timing((3.0, 4.0, 10.0))
    assert ours.median == 2.0
    assert ours.times_faster_than(theirs) == 2.0


def test_garbage_collection_is_back_on_afterwards() -> None:
    with pytest.raises(ZeroDivisionError):
        interleaved({"a": lambda _: 1 // 0}, lambda: None)
    assert gc.isenabled()
