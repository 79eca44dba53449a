"""Costs decide which algorithm and which instructions run; the answers do not depend on them."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from rllib_per_acc import PriorityTree, SumSegmentTree, _core, build_info

COSTS = ("element_node", "touched_node", "touched_level", "swept_node")
TABLES: dict[str, dict[str, float]] = {
    "per_element": {"element_node": 0.0, "touched_node": 1.0, "swept_node": 1.0},
    "touched, all levels listed": {"element_node": 1e9, "touched_node": 1.0, "swept_node": 1e9},
    "touched": {"element_node": 1e9, "touched_node": 1.0, "touched_level": 1.0, "swept_node": 1.0},
    "rebuild": {"element_node": 1e9, "touched_node": 1e9, "swept_node": 0.0},
}


@pytest.fixture
def restore_table() -> Iterator[None]:
    before = _core.cost_table()
    yield
    _core.set_cost_table(**before)
    _core.allow_descents(*_core.descents())


def run_program(capacity: int) -> list[Any]:
    """A random program of updates and descents; returns everything seen."""
    rng = np.random.default_rng(capacity)
    tree, single = PriorityTree(capacity, device="cpu"), SumSegmentTree(capacity)
    seen: list[Any] = []
    for k in (1, 2, 3, 7, 50, 63, 64, 65, 512, 3000):
        indices = rng.integers(0, capacity, k)
        masses = np.where(rng.random(k) < 0.3, 0.0, 10.0 ** rng.uniform(-12, 6, k))
        tree.update(indices, masses)
        single[indices] = -masses
        seen += [tree.sum().hex(), tree.min().hex(), single.sum().hex()]
        if tree.sum() > 0.0:
            total = tree.sum()
            lookups = np.concatenate([rng.random(k) * total, [0.0, total, np.nextafter(total, 0)]])
            seen.append(tree.find_prefixsum(lookups).tolist())
    return [*seen, tree.get_state()["leaves"].tobytes(), single.get_state()]


@pytest.mark.usefixtures("restore_table")
@pytest.mark.parametrize("capacity", [1, 2, 11, 1000, 1024, 50_000])
def test_answers_do_not_depend_on_the_table(capacity: int) -> None:
    expected = run_program(capacity)
    for table in TABLES.values():
        for descent in _core.descents():
            _core.set_cost_table(**table)
            _core.allow_descents(descent)
            assert run_program(capacity) == expected


@pytest.mark.usefixtures("restore_table")
def test_a_measured_table_is_sane() -> None:
    _core.measure_cost_table()
    table: dict[str, Any] = dict(_core.cost_table())
    assert tuple(table) == COSTS
    # A node costs some nanoseconds: nothing here is a fraction of a clock or a millisecond.
    assert all(0.0 <= cost < 1e6 for cost in table.values())
    assert table["element_node"] > 0.0
    assert table["swept_node"] > 0.0


@pytest.mark.usefixtures("restore_table")
def test_entries_that_are_not_given_keep_their_values() -> None:
    before = _core.cost_table()
    _core.set_cost_table(swept_node=12.5)
    assert _core.cost_table() == {**before, "swept_node": 12.5}


@pytest.mark.usefixtures("restore_table")
def test_wrong_entries_are_refused_and_change_nothing() -> None:
    before = _core.cost_table()
    for bad in (-1.0, float("nan"), float("inf")):
        with pytest.raises(ValueError, match=r"swept_node is .*: expected a finite number"):
            _core.set_cost_table(element_node=1.0, swept_node=bad)
    with pytest.raises(ValueError, match="descent is 'mmx': expected one of"):
        _core.allow_descents("portable", "mmx")
    with pytest.raises(ValueError, match="no descent is named"):
        _core.allow_descents()
    assert _core.allowed_descents() == _core.descents()
    with pytest.raises(TypeError, match="speed is not an entry"):
        _core.set_cost_table(element_node=1.0, speed=1.0)
    assert _core.cost_table() == before


def test_build_info_says_which_descents_there_are() -> None:
    assert build_info()["descents"] == list(_core.descents())
    assert _core.descents()[0] == "portable"


@pytest.mark.usefixtures("restore_table")
@pytest.mark.parametrize("n", [12, 200, 50_000])
def test_the_path_is_chosen_by_trials_among_those_allowed(n: int) -> None:
    tree = _core.PriorityTree(777)
    tree.assign(np.ones(777))
    for allowed in (("portable",), _core.descents()[-2:], _core.descents()):
        _core.allow_descents(*allowed)
        assert _core.allowed_descents() == allowed
        assert _core.chosen_descent(777, n) is None
        for _ in range(150):
            tree.find_prefixsum(np.zeros(n))
        assert _core.chosen_descent(777, n) in allowed
        assert _core.chosen_descent(777, 1) == "portable"


def test_find_by_takes_the_path_it_is_told() -> None:
    tree = _core.PriorityTree(1000)
    tree.assign(np.arange(1000.0))
    masses = np.random.default_rng(0).random(500) * tree.sum()
    for descent in _core.descents():
        assert (tree.find_by(masses, descent) == tree.find_prefixsum(masses)).all()
    with pytest.raises(ValueError, match="descent is 'mmx': expected one of"):
        tree.find_by(masses, "mmx")
