"""Bad input: the right error, a message that says what and where, and nothing written."""

import numpy as np
import pytest
from tree_reference import padded, refused

from rllib_per_acc import MinSegmentTree, PriorityTree, SumSegmentTree

ARRAY_SIZES = [8, 600, 5000]  # one for each way an update may be carried out


@pytest.fixture
def tree(device):
    tree = PriorityTree(1000, device=device)
    tree.update(np.arange(0, 1000, 3), np.arange(1.0, 335.0))
    return tree


@pytest.mark.parametrize("size", ARRAY_SIZES)
@pytest.mark.parametrize("place", [0, 3, -1])
@pytest.mark.parametrize(
    ("bad", "shown"),
    [(np.nan, "nan"), (np.inf, "inf"), (-np.inf, "-inf"), (-1.0, "-1"), (-0.25, "-0.25")],
)
def test_masses_that_are_no_masses(tree, size, place, bad, shown):
    masses = np.full(size, 0.5)
    masses[place] = bad
    with refused(tree, ValueError, "masses", str(place % size), shown):
        tree.update(np.arange(size) % 1000, masses)


@pytest.mark.parametrize("capacity", [4, 5, 1000])
def test_masses_whose_sum_could_overflow(device, capacity):
    tree = PriorityTree(capacity, device=device)
    largest = np.finfo(np.float64).max / padded(capacity)
    with refused(tree, ValueError, "masses", "2"):
        tree.update([0, 1, 2], [1.0, 1.0, np.nextafter(largest, np.inf)])


@pytest.mark.parametrize("size", ARRAY_SIZES)
@pytest.mark.parametrize("place", [0, 3, -1])
@pytest.mark.parametrize("bad", [-1, 1000, 1023, 1024, 2**40, -(2**63), 2**63 - 1])
def test_indices_out_of_range(tree, size, place, bad):
    indices = np.arange(size) % 1000
    indices[place] = bad
    for call in (lambda: tree.update(indices, np.full(size, 0.5)), lambda: tree[indices]):
        with refused(tree, IndexError, "indices", str(place % size), str(bad), "1000"):
            call()


def test_an_unsigned_index_does_not_wrap_around(tree):
    with refused(tree, IndexError, "indices"):
        tree.update(np.array([3, 2**64 - 1], dtype=np.uint64), [0.5, 0.5])


def test_the_second_of_two_indices(tree):
    with refused(tree, IndexError, "indices", "1", "-1"):
        tree.update([3, -1], [0.5, 0.5])


@pytest.mark.parametrize("bad", [-1, 1000, 2**40, -(2**63)])
def test_a_scalar_index_out_of_range(tree, bad):
    for call in (lambda: tree.update(bad, 0.5), lambda: tree[bad]):
        with refused(tree, IndexError, "indices", str(bad), "1000"):
            call()


@pytest.mark.parametrize(("bad", "shown"), [(np.nan, "nan"), (np.inf, "inf"), (-1.0, "-1")])
def test_a_scalar_mass_that_is_none(tree, bad, shown):
    with refused(tree, ValueError, "masses", shown):
        tree.update(3, bad)


@pytest.mark.parametrize(("few", "many"), [(4, 5), (5, 4), (0, 4), (4, 0), (1, 4), (4, 1)])
def test_unequal_lengths(tree, few, many):
    with refused(tree, ValueError, str(few), str(many)):
        tree.update(np.arange(few), np.full(many, 0.5))


@pytest.mark.parametrize(
    "indices",
    [
        [0.0, 1.0],
        np.array([0.0, 1.0]),
        np.array([0, 1], dtype=np.float32),
        [0, 1.5],
        ["0", "1"],
        np.array([0, 1j]),
        np.array([True, False]),
        [None, 1],
    ],
    ids=repr,
)
def test_indices_that_are_no_integers(tree, indices):
    for call in (lambda: tree.update(indices, [0.5, 0.5]), lambda: tree[indices]):
        with refused(tree, TypeError, "indices"):
            call()


@pytest.mark.parametrize("index", [1.0, "1", 1j, None, np.float64(1.0)], ids=repr)
def test_a_scalar_index_that_is_no_integer(tree, index):
    with refused(tree, TypeError, "indices"):
        tree.update(index, 0.5)


@pytest.mark.parametrize(
    "masses",
    [
        np.array([1 + 0j, 2]),
        np.array(["0.5", "0.5"]),
        ["0.5", "0.5"],
        [b"1", b"2"],
        [None, 1.0],
        np.array([1, 2], dtype="datetime64[s]"),
    ],
    ids=repr,
)
def test_masses_that_are_no_real_numbers(tree, masses):
    with refused(tree, TypeError, "masses"):
        tree.update([0, 1], masses)
    with refused(tree, TypeError, "masses"):
        tree.find_prefixsum(masses)


@pytest.mark.parametrize(("bad", "shown"), [(np.nan, "nan"), (-1.0, "-1"), (-1e-9, "-1e-09")])
def test_masses_that_cannot_be_found(tree, bad, shown):
    with refused(tree, ValueError, "masses", "2", shown):
        tree.find_prefixsum([0.5, 0.5, bad, 0.5])
    with refused(tree, ValueError, "masses", shown):
        tree.find_prefixsum(bad)


@pytest.mark.parametrize("masses", [0.0, [0.0], [0.0, 1.0]])
def test_nothing_can_be_found_in_an_empty_tree(device, masses):
    tree = PriorityTree(8, device=device)
    for _ in range(2):  # fresh, then filled and emptied
        with refused(tree, ValueError, "sum"):
            tree.find_prefixsum(masses)
        tree.update(np.arange(8), np.full(8, 0.1))
        tree.update(np.arange(8), np.zeros(8))


def test_empty_arrays_are_no_error(tree):
    before = tree.get_state()["leaves"]
    tree.update([], [])
    tree.update(np.empty(0, dtype=np.int64), np.empty(0))
    assert (tree.get_state()["leaves"] == before).all()
    for nothing in ([], np.empty(0)):
        found = tree.find_prefixsum(nothing)
        assert (found.shape, found.dtype) == ((0,), np.int64)
    assert tree[np.empty(0, dtype=np.int64)].shape == (0,)


@pytest.mark.parametrize("capacity", [0, -1, -(2**63)])
def test_capacities_that_hold_nothing(device, capacity):
    with pytest.raises(ValueError, match=f"capacity.*{capacity}"):
        PriorityTree(capacity, device=device)


@pytest.mark.parametrize("capacity", [2.5, 2.0, "8", None, [8]])
def test_capacities_that_are_no_integers(device, capacity):
    with pytest.raises(TypeError, match="capacity"):
        PriorityTree(capacity, device=device)


@pytest.mark.parametrize("capacity", [2**60, 2**62 + 1, 2**63 - 1])
def test_capacities_that_no_machine_holds(device, capacity):
    with pytest.raises((ValueError, MemoryError)):
        PriorityTree(capacity, device=device)


@pytest.mark.parametrize("tree_class", [PriorityTree, SumSegmentTree, MinSegmentTree])
def test_a_capacity_that_no_memory_has_is_an_error_that_says_so(tree_class):
    size = 2 * 2**55 * (16 if tree_class is PriorityTree else 8)
    with pytest.raises(MemoryError, match=rf"capacity is {2**55}: such a tree takes {size} bytes"):
        tree_class(2**55, **({"device": "cpu"} if tree_class is PriorityTree else {}))


def test_the_first_wrong_value_of_a_long_batch_is_named(device):
    tree = PriorityTree(10, device=device)
    indices, masses = np.zeros(20_000, np.int64), np.ones(20_000)
    for at in (0, 4095, 4096, 19_999):
        wrong = indices.copy()
        wrong[at:] = 10
        with pytest.raises(IndexError, match=rf"indices\[{at}\] is 10"):
            tree.update(wrong, masses)
        wrong = masses.copy()
        wrong[at:] = -1.0
        with pytest.raises(ValueError, match=rf"masses\[{at}\] is -1"):
            tree.update(indices, wrong)
    assert tree.sum() == 0.0
