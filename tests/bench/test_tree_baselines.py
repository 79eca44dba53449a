"""What the tree is compared with does the same work, or the comparison would be worth nothing."""

from typing import Any

import numpy as np
import pytest

from rllib_per_acc import PriorityTree
from rllib_per_acc.bench.baselines import Batch, CTree, PythonTree
from rllib_per_acc.bench.peers import PEERS, make_peers

N = 1 << 10


@pytest.fixture
def leaves() -> Any:
    return np.random.default_rng(0).random(N) + 0.01


def filled(leaves: Any) -> PriorityTree:
    tree = PriorityTree(N, device="cpu")
    tree.set_state({"capacity": N, "leaves": leaves})
    return tree


def test_baselines_find_and_update_as_the_tree_does(leaves: Any) -> None:
    rng = np.random.default_rng(1)
    ours, python = filled(leaves), PythonTree(leaves)
    per_element, rebuilt = CTree(leaves, 512), CTree(leaves, 512)
    for k in (1, 7, 512):
        update = Batch.draw(rng, k, N, 1.0)
        ours.update(update.indices, update.values)
        python.update(update)
        per_element.update(update)
        rebuilt.rebuild(update)
        lookup = Batch.draw(rng, k, N, ours.sum())
        expected = ours.find_prefixsum(lookup.values).tolist()
        assert python.find(lookup) == expected
        assert per_element.find(lookup).tolist() == expected
        assert per_element.find_each(lookup) == expected
        assert rebuilt.find(lookup).tolist() == expected


def test_installed_peers_do_the_same_work(leaves: Any) -> None:
    rng = np.random.default_rng(2)
    peers, missing = make_peers(leaves)
    assert {*peers, *missing} == set(PEERS)
    assert "RLlib" in peers
    ours = filled(leaves)
    # Without duplicates: not everybody's last one wins.
    indices = rng.permutation(N)[:300]
    values = rng.random(300)
    update = Batch(
        indices, values, indices.tolist(), values.tolist(), indices.ctypes.data, values.ctypes.data
    )
    ours.update(indices, values)
    for peer in peers.values():
        peer.update(update)
        lookup = Batch.draw(rng, 200, N, 0.99 * ours.sum())
        expected = ours.find_prefixsum(lookup.values).tolist()
        if peer.find is not None:
            assert np.asarray(peer.find(lookup)).tolist() == expected


def test_a_missing_library_is_named_with_its_reason(
    leaves: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def absent(_: Any) -> Any:
        raise ImportError("No module named 'absent'")

    monkeypatch.setitem(PEERS, "absent", absent)
    peers, missing = make_peers(leaves)
    assert "absent" not in peers
    assert missing["absent"] == "No module named 'absent'"
