"""A state that makes no sense is refused and changes nothing."""

import copy
import re

import numpy as np
import pytest
from saved_replays import (
    NON_EMPTY,
    assert_equal,
    filled,
    use,
)

from rllib_per_acc import PrioritizedReplay


def wrong_states():
    """(what is wrong, how it is made, what the error names)."""

    def at(name, index, value):
        def change(_, arrays):
            arrays[name][index] = value

        return change

    def instead(name, function):
        def change(_, arrays):
            arrays[name] = function(arrays[name])

        return change

    def described(*keys, value):
        def change(description, _):
            for key in keys[:-1]:
                description = description[key]
            description[keys[-1]] = value

        return change

    for name in NON_EMPTY:
        column = name.removesuffix(".present").removesuffix(".0")
        if name != "priorities":  # computed from the masses where there are none
            yield f"{name} missing", lambda _, a, name=name: a.pop(name), re.escape(column)
        yield f"{name} shorter", instead(name, lambda a: a[:-1]), "."
        yield f"{name} a list", instead(name, lambda a: a.tolist()), "."
    for name in ("rewards.0", "masses", "generation", "episode_rows", "episode_num_rows"):
        yield f"{name} of another dtype", instead(name, lambda a: a.astype(np.float32)), name[:7]
    yield "a mass NaN", at("masses", 3, np.nan), "masses: got nan at row 3"
    yield "a mass infinite", at("masses", 3, np.inf), "masses: got inf at row 3"
    yield "a mass negative", at("masses", 3, -1.0), "masses: got -1.0 at row 3"
    yield "a mass too large", at("masses", 3, 1e308), "1e\\+308"
    yield "a step without mass", at("masses", 3, 0.0), "masses: got 0.0 at row 3"
    yield "mass without a step", at("masses", slice(None), 1.0), "masses: got 1.0 at row"
    yield "a priority NaN", at("priorities", 3, np.nan), "priorities: got nan at row 3"
    yield "a row below 0", at("episode_rows", 0, -1), "episode_rows: got -1"
    yield "a row too high", at("episode_rows", 0, 10_000), "episode_rows: got .* 10000"
    yield "a row twice", lambda _, a: a["episode_rows"].__setitem__(0, a["episode_rows"][1]), "once"
    yield "an episode without rows", at("episode_num_rows", 0, 0), "episode_num_rows"
    yield "an episode of -1 rows", at("episode_num_rows", 0, -1), "episode_num_rows"
    yield "flags", at("episode_flags", 0, 4), "episode_flags"
    yield "a time step", at("episode_t_started", 0, 2**40), "episode_t_started"
    yield "an id twice", at("episode_ids", 0, "episode-32"), "episode_ids"
    yield "an id that is a list", instead("episode_ids", lambda a: np.array([[]] * 10, object)), "."
    yield "a layout", described("columns", "actions", value={"list": [None]}), "layout"
    yield (
        "a layout of more leaves",
        described("columns", "actions", value={"tuple": [None] * 2}),
        ".",
    )
    yield "an extra output", described("columns", "extras", value=["logits", "value"]), "value"
    yield "no columns", described("columns", value=None), "."
    yield "alpha", described("sampler", "alpha", value=-1), "alpha"
    yield "a maximum", described("sampler", "lifetime_max_priority", value=float("nan")), "lifetime"
    yield "random numbers", described("rng", value={"bit_generator": "PCG64"}), "."
    yield "other random numbers", described("rng", "bit_generator", value="MT19937"), "."
    yield "a counter", described("lifetimes", "steps_added", value=1.5), "steps_added"
    yield "another counter", described("lifetimes", "steps_eaten", value=1), "steps_eaten"
    yield "a negative counter", described("stale_priorities_dropped", value=-1), "stale"


WRONG = {what: (change, match) for what, change, match in wrong_states()}


@pytest.mark.parametrize("what", WRONG)
def test_a_wrong_state_is_refused_and_changes_nothing(what):
    change, match = WRONG[what]
    state = filled("wrapped", max_priority="buffer").get_state()
    change(state["description"], state["arrays"])
    replay = filled("half full", max_priority="buffer")
    handle = replay.sample(5).handle
    before = replay.get_state()
    with pytest.raises(ValueError, match=f"^state: cannot be restored, .*{match}"):
        replay.set_state(state)
    assert_equal(replay.get_state(), before)
    replay.update(handle, np.ones(5))
    assert replay.info()["stale_priorities_dropped"] == 0
    use(replay, 50)


def test_a_state_belongs_to_whoever_has_it():
    state = filled("wrapped").get_state()
    frozen = copy.deepcopy(state)
    one, two = PrioritizedReplay(100), PrioritizedReplay(100)
    one.set_state(state)
    two.set_state(state)
    for number in range(100, 130):
        use(one, number)
    one.sample(8, include_infos=True).infos[0]["mine"] = 1
    assert_equal(state, frozen)
    assert_equal(two.get_state(), frozen)


def test_a_state_of_read_only_arrays_can_be_restored():
    state = filled("wrapped").get_state()
    for array in state["arrays"].values():
        array.flags.writeable = False
    replay = PrioritizedReplay(100)
    replay.set_state(state)
    assert_equal(replay.get_state(), state)
    other = filled("wrapped")
    for number in range(100, 130):
        use(replay, number)
        use(other, number)
    assert_equal(replay.get_state(), other.get_state())
