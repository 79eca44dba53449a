"""The replay of single transitions against the formulas of prioritized replay, written out."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rllib_per_acc import PrioritizedReplay, TransitionReplay

ALPHA, BETA, MIN_PRIORITY = 0.4, 0.4, 1e-5  # the defaults


def transitions(first, n):
    """n transitions whose every value tells which one they are."""
    numbers = np.arange(first, first + n)
    observations = np.repeat(numbers[:, None], 3, axis=1).astype(np.float32)
    return observations, numbers % 5, numbers / 2, observations + 0.5, numbers % 7 == 0


def filled(capacity, td_errors, **options):
    replay = TransitionReplay(capacity, **{"seed": 0} | options)
    replay.add_batch(*transitions(0, len(td_errors)), td_errors)
    return replay


def masses_of(replay):
    """The mass of each stored transition, oldest first."""
    stored = np.arange(replay.num_added - len(replay), replay.num_added)
    return replay.tree[replay._rows_of(stored)]


def formula(td_errors, alpha=ALPHA, min_priority=MIN_PRIORITY):
    return [(abs(float(td)) + min_priority) ** alpha for td in td_errors]


TD_ERRORS = np.array([0.0, -0.3, 2.0, 1e-7, -1e4, 0.7, 0.7, 12.0, 3e-3, -5.0])


def test_the_defaults():
    replay = TransitionReplay()
    assert replay.capacity == 600_000
    options = replay.options
    assert (options.alpha, options.beta, options.min_priority) == (ALPHA, BETA, MIN_PRIORITY)
    assert (options.sampling, options.weight_normalization) == ("stratified", "batch")


@pytest.mark.parametrize("min_priority", [1e-5, 0.1, 0.0])
@pytest.mark.parametrize("alpha", [0.0, 0.4, 1.0, 1.7])
def test_masses(alpha, min_priority):
    td_errors = TD_ERRORS[1:]  # with min_priority 0 a TD error of 0 has no mass to compare
    replay = filled(16, td_errors, alpha=alpha, min_priority=min_priority)
    expected = formula(td_errors, alpha, min_priority)
    assert masses_of(replay).tolist() == expected
    assert replay.total_priority() == pytest.approx(sum(expected), rel=1e-14)
    replay.update(np.arange(3), [4.0, -9.0, 0.25])
    expected[:3] = formula([4.0, -9.0, 0.25], alpha, min_priority)
    assert masses_of(replay).tolist() == expected


def test_td_errors_count_without_their_signs_where_priorities_have_a_floor():
    replay = filled(4, [-2.0, 3.0], alpha=1.0, min_priority=None)
    assert masses_of(replay).tolist() == [2.0, 3.0]
    replay.update([1, 0], [-5.0, 0.0])
    assert masses_of(replay).tolist() == [1e-12, 5.0]
    assert replay.max_priority == 5.0


def test_a_transition_without_any_mass_can_still_be_drawn():
    replay = filled(4, [0.0], min_priority=0.0)
    assert masses_of(replay).tolist() == [np.finfo(np.float64).tiny]
    assert len(replay.sample(1)) == 1


@pytest.mark.parametrize("sampling", ["stratified", "proportional"])
def test_probabilities_and_weights(sampling):
    replay = filled(16, TD_ERRORS, sampling=sampling)
    batch = replay.sample(8)
    masses = np.array(formula(TD_ERRORS))[batch.indices]
    probabilities = masses / sum(formula(TD_ERRORS))
    weights = (len(TD_ERRORS) * probabilities) ** -BETA
    np.testing.assert_allclose(batch.weights, weights / weights.max(), rtol=1e-12)
    of_buffer = filled(16, TD_ERRORS, sampling=sampling, weight_normalization="buffer").sample(8)
    np.testing.assert_array_equal(of_buffer.indices, batch.indices)
    least = min(formula(TD_ERRORS)) / sum(formula(TD_ERRORS))
    np.testing.assert_allclose(
        of_buffer.weights, weights / (len(TD_ERRORS) * least) ** -BETA, rtol=1e-12
    )
    np.testing.assert_allclose(replay.sample(8, beta=0.0).weights, 1.0)


def test_a_schedule_of_beta_goes_by_the_transitions_added():
    replay = filled(4, TD_ERRORS, beta=[[0, 0.0], [20, 1.0]])  # 10 were added
    batch = replay.sample(3)
    np.testing.assert_array_equal(batch.weights, filled(4, TD_ERRORS).sample(3, beta=0.5).weights)


@given(
    td_errors=st.lists(st.floats(-100, 100), min_size=1, max_size=40),
    share=st.floats(0, 1),
    seed=st.integers(0, 2**32 - 1),
)
def test_one_draw_from_each_of_equal_parts(td_errors, share, seed):
    """The same random numbers, on running sums in the place of a tree."""
    batch_size = max(1, round(share * len(td_errors)))
    replay = filled(50, td_errors, seed=seed)
    batch = replay.sample(batch_size)

    ends = np.cumsum(formula(td_errors))
    segment = ends[-1] / batch_size
    uniform = np.random.default_rng(seed).random(batch_size)
    points = segment * np.arange(batch_size) + segment * uniform
    expected = np.searchsorted(ends, points, side="right")
    # A point may be next to the border of two transitions: then either is right.
    apart = np.abs(ends[:, None] - points).min(axis=0) > 1e-12 * ends[-1]
    np.testing.assert_array_equal(batch.indices[apart], expected[apart])
    assert (batch.indices < len(td_errors)).all()


@pytest.mark.parametrize("sampling", ["stratified", "proportional"])
def test_frequencies(sampling):
    replay = filled(16, TD_ERRORS, sampling=sampling)
    rounds, batch_size = 4000, 8
    drawn = np.concatenate([replay.sample(batch_size).indices for _ in range(rounds)])
    counts = np.bincount(drawn, minlength=len(TD_ERRORS))
    masses = np.array(formula(TD_ERRORS))
    expected = rounds * batch_size * masses / masses.sum()
    chi_square = ((counts - expected) ** 2 / expected).sum()
    assert chi_square < 27.9  # the 0.1% limit of 9 degrees of freedom; strata vary less


def test_strata_vary_less_than_independent_draws():
    """With as many equal masses as draws, each transition comes once in every batch."""
    td_errors = np.full(8, 0.5)
    assert np.unique(filled(8, td_errors).sample(8).indices).tolist() == list(range(8))
    replay = filled(8, td_errors, sampling="proportional")
    assert any(len(np.unique(replay.sample(8).indices)) < 8 for _ in range(20))


def check_rows(batch):
    """Every row holds the values of the transition that its index names."""
    numbers = batch.indices
    expected = transitions(0, int(numbers.max()) + 1)
    names = ("observations", "actions", "rewards", "next_observations", "terminateds")
    for name, values in zip(names, expected, strict=True):
        given = getattr(batch, name)
        np.testing.assert_array_equal(given, values[numbers])
        assert given.dtype == values.dtype


@settings(max_examples=30)
@given(
    capacity=st.integers(1, 12),
    steps=st.lists(
        st.tuples(st.sampled_from(["add", "add_batch", "update", "clear"]), st.integers(1, 30)),
        max_size=15,
    ),
    seed=st.integers(0, 1000),
)
def test_programs(capacity, steps, seed):
    """A dict of the masses by index, and the oldest goes: nothing else is expected."""
    rng = np.random.default_rng(seed)
    replay = TransitionReplay(capacity, seed=seed)
    expected, added, dropped, highest = {}, 0, 0, 1.0
    for what, n in steps:
        td_errors = rng.normal(size=n)
        if what == "clear":
            replay.clear()
            expected, highest = {}, 1.0
        elif what == "update" and added:
            indices = rng.integers(0, added, n)
            replay.update(indices, td_errors)
            for index, td_error in zip(indices.tolist(), td_errors, strict=True):
                if index in expected:
                    (expected[index],) = formula([td_error])
                    highest = max(highest, abs(td_error))
                else:
                    dropped += 1
        elif what == "add":
            values = [value[0] for value in transitions(added, 1)]
            given_one = [td_errors[0]] if n % 2 else []
            replay.add(*values, *given_one)
            td_error = td_errors[0] if given_one else highest
            (expected[added],) = formula([td_error])
            highest = max(highest, abs(td_error))
            added += 1
        elif what == "add_batch":
            replay.add_batch(*transitions(added, n), td_errors)
            expected |= dict(zip(range(added, added + n), formula(td_errors), strict=True))
            added += n
            highest = max(highest, np.abs(td_errors[-capacity:]).max())
        expected = dict(list(expected.items())[-capacity:])
        assert len(replay) == len(expected)
        assert replay.num_added == added
        assert masses_of(replay).tolist() == list(expected.values())
        assert replay.max_priority == highest
        assert replay.num_stale_dropped == dropped
        if expected:
            check_rows(replay.sample(len(expected)))


def test_an_update_of_what_was_replaced_reaches_nothing():
    replay = filled(4, np.ones(4), alpha=1.0)
    batch = replay.sample(4)
    replay.add_batch(*transitions(4, 3), np.full(3, 2.0))
    batch.update(np.full(4, 9.0))
    kept = batch.indices == 3
    expected = formula([9.0] if kept.any() else [1.0], alpha=1.0) + formula([2.0] * 3, alpha=1.0)
    assert masses_of(replay).tolist() == expected
    assert replay.num_stale_dropped == 4 - kept.sum()
    with pytest.raises(RuntimeError, match="second update"):
        batch.update(np.ones(4))


def test_too_few_transitions_are_an_error_that_says_so():
    replay = TransitionReplay(10)
    with pytest.raises(ValueError, match="batch_size: got 1, expected at most the 0"):
        replay.sample(1)
    replay.add_batch(*transitions(0, 3))
    with pytest.raises(ValueError, match="batch_size: got 4, expected at most the 3"):
        replay.sample(4)
    assert len(replay.sample(3)) == 3


def test_nested_observations_keep_their_shapes_and_dtypes():
    replay = TransitionReplay(10)
    observation = {"image": np.full((4, 4), 7, np.uint8), "pair": (1.5, np.int16(3))}
    replay.add(observation, np.array([0.5], np.float32), 1, observation, False)
    batch = replay.sample(1)
    assert batch.observations["image"].dtype == np.uint8
    assert batch.observations["image"].shape == (1, 4, 4)
    assert batch.next_observations["pair"][1].dtype == np.int16
    assert batch.actions.shape == (1, 1)
    assert batch.rewards.dtype == np.float64


GOOD = dict(
    zip(
        ("observations", "actions", "rewards", "next_observations", "terminateds"),
        transitions(0, 2),
        strict=True,
    )
)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("observations", np.zeros((3, 3))),
        ("observations", np.zeros((2, 4))),
        ("observations", {"a": np.zeros((2, 3))}),
        ("actions", [1]),
        ("actions", np.zeros((2, 2))),
        ("rewards", 1.0),
        ("rewards", ["a", "b"]),
        ("rewards", np.zeros((2, 1))),
        ("next_observations", np.zeros((2, 5))),
        ("terminateds", [0, 2]),
        ("terminateds", [0.0, 0.5]),
        ("td_errors", [1.0]),
        ("td_errors", [1.0, np.nan]),
        ("td_errors", [1.0, np.inf]),
        ("td_errors", ["a", "b"]),
        ("td_errors", 1.0),
    ],
)
def test_what_does_not_fit_is_refused_and_changes_nothing(name, value):
    replay = filled(5, np.ones(3))
    before = replay.get_state()
    with pytest.raises((TypeError, ValueError), match=name):
        replay.add_batch(**GOOD | {name: value})
    np.testing.assert_equal(replay.get_state(), before)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("indices", ([0.0], [1.0])),
        ("indices", (["a"], [1.0])),
        ("indices", ([[0]], [1.0])),
        ("indices", ([-1], [1.0])),
        ("indices", ([3], [1.0])),
        ("td_errors", ([0], [np.nan])),
        ("td_errors", ([0, 1], [1.0])),
        ("td_errors", ([0], [1e300])),
    ],
)
def test_an_update_that_does_not_fit_is_refused_and_changes_nothing(name, arguments):
    replay = filled(5, np.ones(3), alpha=1.0)
    before = replay.get_state()
    with pytest.raises((TypeError, ValueError), match=name):
        replay.update(*arguments)
    np.testing.assert_equal(replay.get_state(), before)


@pytest.mark.parametrize("value", [-1, float("nan"), float("inf"), "1", True])
@pytest.mark.parametrize("kind", [TransitionReplay, PrioritizedReplay])
def test_min_priority(kind, value):
    with pytest.raises((TypeError, ValueError), match="min_priority"):
        kind(10, min_priority=value)


@pytest.mark.parametrize("kind", [TransitionReplay, PrioritizedReplay])
def test_beta_none_is_the_default(kind):
    assert kind(10, beta=None).options.beta == kind(10).options.beta == BETA


@pytest.mark.parametrize(
    ("capacity", "added", "cleared"), [(10, 0, 0), (10, 4, 0), (10, 10, 0), (10, 27, 0), (10, 8, 7)]
)
@pytest.mark.parametrize("new_capacity", [3, 9, 10, 11, 40])
def test_saves(tmp_path, capacity, added, cleared, new_capacity):
    replay = TransitionReplay(capacity, seed=5, max_priority="buffer")
    for first, n, clear in ((0, cleared, True), (cleared, added, False)):
        for one in range(first, first + n, 3):
            size = min(3, first + n - one)
            replay.add_batch(*transitions(one, size), np.arange(size) + one + 1.0)
        if clear:
            replay.clear()
    replay.save(tmp_path / "save")
    loaded = TransitionReplay.load(tmp_path / "save", new_capacity)
    kept = min(len(replay), new_capacity)
    assert len(loaded) == kept
    assert loaded.num_added == replay.num_added
    assert masses_of(loaded).tolist() == masses_of(replay)[len(replay) - kept :].tolist()
    if new_capacity == capacity:
        again = TransitionReplay(capacity, max_priority="buffer")
        again.set_state(replay.get_state())
        np.testing.assert_equal(again.get_state(), replay.get_state())
        if kept:
            for other in (loaded, again):
                other.rng.bit_generator.state = replay.rng.bit_generator.state
            batch = replay.sample(kept)
            for other in (loaded, again):
                np.testing.assert_equal(other.sample(kept).columns, batch.columns)
    for more in range(3):  # they go on alike
        first = loaded.num_added
        loaded.add_batch(*transitions(first, 2 + more), np.full(2 + more, 2.0))
        check_rows(loaded.sample(len(loaded)))
    assert len(loaded) == min(kept + 9, new_capacity)


def test_a_save_of_another_kind_is_refused(tmp_path):
    TransitionReplay(10).save(tmp_path / "transitions")
    PrioritizedReplay(10).save(tmp_path / "episodes")
    with pytest.raises(ValueError, match="holds: got 'transitions', expected a save of episodes"):
        PrioritizedReplay.load(tmp_path / "transitions")
    with pytest.raises(ValueError, match="holds: got 'episodes', expected a save of transitions"):
        TransitionReplay.load(tmp_path / "episodes")


@pytest.mark.parametrize("key", ["num_added", "first", "columns", "sampler", "rng"])
@pytest.mark.parametrize("value", [None, -1, "x", {}])
def test_a_damaged_state_is_refused_and_changes_nothing(key, value):
    replay = filled(5, np.ones(8))
    before = replay.get_state()
    state = filled(5, np.ones(7)).get_state()
    state["description"][key] = value
    with pytest.raises(ValueError, match="state"):
        replay.set_state(state)
    np.testing.assert_equal(replay.get_state(), before)


def test_other_exponents_for_a_save(tmp_path):
    filled(16, TD_ERRORS).save(tmp_path)
    loaded = TransitionReplay.load(tmp_path, alpha=0.8, min_priority=0.01)
    expected = formula(TD_ERRORS, 0.8, 0.01)
    np.testing.assert_allclose(masses_of(loaded), expected, rtol=1e-6)
