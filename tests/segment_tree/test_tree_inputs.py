"""What indices and masses may be: any real array, wherever its bytes lie."""

import numpy as np
import pytest
from tree_reference import refused, same_bits

from rllib_per_acc import PriorityTree

INDICES = [9, 0, 4, 9, 2]
MASSES = [1.0, 2.0, 3.0, 4.0, 0.0]
LEAVES = [2.0, 0, 0, 0, 3.0, 0, 0, 0, 0, 4.0]

INTEGERS = [
    np.dtype(kind) for kind in ("i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", ">i4", ">i8")
]
FLOATS = [np.dtype(kind) for kind in ("f2", "f4", "f8", ">f4", ">f8", "longdouble")]


def read_only(array):
    array.setflags(write=False)
    return array


LAYOUTS = {
    "list": np.ndarray.tolist,
    "tuple": lambda array: tuple(array.tolist()),
    "read-only": lambda array: read_only(array.copy()),
    "every third": lambda array: np.repeat(array, 3)[::3],
    "backwards": lambda array: array[::-1].copy()[::-1],
    "column": lambda array: np.stack([array, array], axis=1)[:, 0],
    "unaligned": lambda array: np.frombuffer(b"x" + array.tobytes(), array.dtype, offset=1),
    "list of scalars": list,
}


def assert_works_with(device, indices, masses):
    tree = PriorityTree(10, device=device)
    tree.update(indices, masses)
    assert same_bits(tree.get_state()["leaves"], LEAVES)
    assert (tree.sum(), tree.min()) == (9.0, 2.0)
    assert same_bits(tree[indices], [4.0, 2.0, 3.0, 4.0, 0.0])
    assert tree.find_prefixsum(masses).tolist() == [0, 4, 4, 4, 0]


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_indices_of_every_integer_type(device, dtype):
    assert_works_with(device, np.array(INDICES, dtype=dtype), MASSES)


@pytest.mark.parametrize("dtype", INTEGERS + FLOATS, ids=str)
def test_masses_of_every_real_type(device, dtype):
    assert_works_with(device, INDICES, np.array(MASSES, dtype=dtype))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout(device, layout):
    convert = LAYOUTS[layout]
    assert_works_with(device, convert(np.array(INDICES)), convert(np.array(MASSES)))


@pytest.mark.parametrize("index_type", ["int32", "int64", "uint8"])
@pytest.mark.parametrize("mass_type", ["float16", "float32", "float64", "int64"])
def test_torch_tensors(device, index_type, mass_type):
    torch = pytest.importorskip("torch")
    indices = torch.tensor(INDICES, dtype=getattr(torch, index_type))
    assert_works_with(device, indices, torch.tensor(MASSES, dtype=getattr(torch, mass_type)))
    # Every second item, in storage that torch owns.
    strided = torch.tensor(MASSES, dtype=getattr(torch, mass_type)).repeat_interleave(2)[::2]
    assert_works_with(device, indices, strided)


def test_complex_torch_tensors_are_refused(device):
    torch = pytest.importorskip("torch")
    tree = PriorityTree(10, device=device)
    with refused(tree, TypeError, "masses"):
        tree.update([0, 1], torch.tensor([1 + 1j, 2]))
    with refused(tree, TypeError, "indices"):
        tree.update(torch.tensor([0.0, 1.0]), [1.0, 2.0])


@pytest.mark.parametrize("index", [3, np.int64(3), np.int32(3), np.uint8(3)], ids=repr)
@pytest.mark.parametrize("mass", [2, 2.0, np.float64(2), np.float32(2), np.int16(2)], ids=repr)
def test_scalars(device, index, mass):
    tree = PriorityTree(5, device=device)
    tree.update(index, mass)
    assert tree[index] == 2.0
    assert type(tree[index]) is float
    assert tree.find_prefixsum(mass) == 3
    assert type(tree.find_prefixsum(mass)) is int
    assert (type(tree.sum()), type(tree.min())) == (float, float)


def test_inputs_are_not_written_to(device):
    indices, masses = np.array(INDICES), np.array(MASSES)
    assert_works_with(device, indices, masses)
    assert indices.tolist() == INDICES
    assert masses.tolist() == MASSES


def test_results_are_the_callers_own(device):
    tree = PriorityTree(10, device=device)
    tree.update(INDICES, MASSES)
    everything = np.arange(10)
    for result in (tree[everything], tree.get_state()["leaves"], tree.find_prefixsum(MASSES)):
        result[:] = 7
    assert same_bits(tree[everything], LEAVES)
    assert tree[everything].dtype == np.float64
