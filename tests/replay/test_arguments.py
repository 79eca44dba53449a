"""Every argument of the plain classes' methods, wrong: it is named, and nothing changes."""

import numpy as np
import pytest
from saved_replays import assert_equal

from rllib_per_acc import (
    EpisodeChunk,
    MinSegmentTree,
    PrioritizedReplay,
    PriorityTree,
    SumSegmentTree,
    TransitionReplay,
)


def replay():
    made = PrioritizedReplay(50, seed=1)
    made.add([chunk()])
    return made


def chunk(**changes):
    given = {
        "episode_id": "a",
        "observations": np.zeros((5, 3)),
        "actions": np.zeros(4, int),
        "rewards": np.zeros(4),
    } | changes
    return EpisodeChunk(**given)


def transitions():
    made = TransitionReplay(8, seed=1)
    made.add_batch(np.zeros((6, 2)), np.zeros(6, int), np.zeros(6), np.zeros((6, 2)), [False] * 6)
    return made


def tree(kind=PriorityTree):
    made = kind(8)
    if kind is PriorityTree:
        made.update(np.arange(4), np.ones(4))
    else:
        made[np.arange(4)] = np.ones(4)
    return made


NO_INT = ["1", 1.5, None, [1], True]
NO_COUNT = [*NO_INT, 0, -1]
NO_NUMBER = ["0.5", [], None, float("nan"), float("inf"), -1.0]
BATCH = {
    "observations": np.zeros((2, 2)),
    "actions": np.zeros(2, int),
    "rewards": np.zeros(2),
    "next_observations": np.zeros((2, 2)),
    "terminateds": [False, True],
}
BATCH_BAD = {
    "observations": [np.zeros((2, 3)), np.zeros((3, 2)), {"a": np.zeros((2, 2))}, None, 1.0],
    "actions": [np.zeros(3, int), np.zeros((2, 2), int), None],
    "rewards": [["a", "b"], None, 1.0, np.zeros((2, 2)), iter([1.0, 2.0])],
    "next_observations": [np.zeros((2, 3)), np.zeros((3, 2)), None],
    "terminateds": [[0.5, 1], [True], None, "ab"],
}

# What they are, a call with good arguments, and bad values of one of them after the other.
CASES = {
    "sample": (
        replay,
        lambda r, **given: r.sample(**{"num_items": 4} | given),
        {
            "num_items": NO_COUNT,
            "n_step": [*NO_INT[:4], 0, -1, (2, 1), (1, 2, 3), 2**40],
            "gamma": NO_NUMBER,
            "beta": [*NO_NUMBER[:2], -1.0, float("nan"), [[1, 2], [0, 1]]],
            "incomplete_n_step": ["drop", 3],
            "sequences": [3, "x", (1, 0, 1)],
        },
    ),
    "add": (
        replay,
        lambda r, chunks=None, **given: (
            r.add(**{"chunks": [chunk(episode_id="b")]} | given)
            if chunks is None
            else r.add(chunks, **given)
        ),
        {
            "chunks": [[3], [None], 3, "ab"],
            "weight": ["x", [1.0], np.ones(5), float("nan"), -1.0, [None] * 4],
        },
    ),
    "chunk": (
        replay,
        lambda r, **given: r.add([chunk(**{"episode_id": "b"} | given)]),
        {
            "observations": [np.zeros((4, 3)), np.zeros((5, 2)), {"a": np.zeros((5, 3))}, None],
            "actions": [np.zeros(3), np.zeros((4, 2)), None, 3],
            "rewards": [["a"] * 4, None, 3.0, np.zeros((4, 2))],
            "t_started": ["x", 1.5, None],
            "infos": [[{}] * 3, 3],
            "extra_model_outputs": [[1], 3, {"a": np.zeros(3)}],
        },
    ),
    "batch": (
        replay,
        lambda r, priorities: r.sample(4).update(priorities),
        {"priorities": [None, np.ones(3), [float("nan")] * 4, "abcd", [1j] * 4, [[1.0]] * 4]},
    ),
    "add_batch": (transitions, lambda r, **given: r.add_batch(**BATCH | given), BATCH_BAD),
    "td_errors": (
        transitions,
        lambda r, td_errors: r.add_batch(**BATCH, td_errors=td_errors),
        {"td_errors": [[1.0], ["a", "b"], [float("nan"), 1.0], np.ones((2, 2))]},
    ),
    "transitions": (
        transitions,
        lambda r, **given: r.sample(**{"batch_size": 2} | given),
        {"batch_size": [*NO_COUNT, 7], "beta": ["x", -1.0, float("nan"), []]},
    ),
    "update": (
        transitions,
        lambda r, indices=(0, 1), td_errors=(1.0, 2.0): r.update(np.array(indices), td_errors),
        {
            "indices": [[0.5, 1], [[0, 1]], [-1, 0], [0, 6], ["a", "b"]],
            "td_errors": [[1.0], [float("nan"), 1.0], None, ["a", "b"]],
        },
    ),
}
TABLE = [
    pytest.param(make, call, name, bad, id=f"{what}-{name}-{i}")
    for what, (make, call, arguments) in CASES.items()
    for name, values in arguments.items()
    for i, bad in enumerate(values)
]


@pytest.mark.parametrize(("make", "call", "name", "bad"), TABLE)
def test_a_wrong_argument_is_named_and_changes_nothing(make, call, name, bad):
    one, two = make(), make()
    if name == "priorities":
        two.sample(4)  # as `call` does, before what is refused
    with pytest.raises((TypeError, ValueError), match=rf"{name}\b.*got .*expected"):
        call(one, **{name: bad})
    assert_equal(one.get_state(), two.get_state())


@pytest.mark.parametrize("n_step", [5, 10**9, (5, 10**6)])
def test_a_sample_of_too_long_transitions_draws_nothing(n_step):
    one, two = replay(), replay()
    with pytest.raises(ValueError, match=r"n_step: got .* longest stored episode has 4 steps"):
        one.sample(4, n_step=n_step)
    assert_equal(one.get_state(), two.get_state())


TREES = [
    ("update", ["a", [0.5], [[0]], [8], [-1], None], [[1.0]]),
    ("update", [[0]], ["a", [float("nan")], [-1.0], [1.0, 2.0], None, [[1.0]], [1j]]),
]


@pytest.mark.parametrize(
    ("indices", "priorities"),
    [(i, p) for _, indices, values in TREES for i in indices for p in values],
)
def test_a_tree_that_refuses_an_update_is_as_it_was(indices, priorities):
    made = tree()
    before = made[np.arange(8)].tolist()
    with pytest.raises(
        (TypeError, ValueError, IndexError), match=r"(indices|masses)\b.* (is|has) .*expected "
    ):
        made.update(indices, priorities)
    assert made[np.arange(8)].tolist() == before


@pytest.mark.parametrize("kind", [PriorityTree, SumSegmentTree, MinSegmentTree])
@pytest.mark.parametrize("capacity", ["8", 1.5, None, 0, -1, [8], True])
def test_a_tree_of_no_capacity(kind, capacity):
    with pytest.raises((TypeError, ValueError), match=r"capacity\b.*(got|is) .*expected"):
        kind(capacity)
