"""What importing the package costs, and what it says of its build."""

import subprocess
import sys
from importlib.metadata import version

import pytest

import rllib_per_acc

NAMES = [
    "PriorityTree",
    "SumSegmentTree",
    "MinSegmentTree",
    "BackendUnavailableError",
    "build_info",
]


def run_fresh(code: str) -> str:
    """Runs code in an interpreter of its own and returns what it prints."""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    "use",
    [
        "pass",
        "rllib_per_acc.PriorityTree(5, device='cpu').update([1], [2.0])",
        "rllib_per_acc.SumSegmentTree(5)[1] = 2.0",
        "rllib_per_acc.build_info()",
        "dir(rllib_per_acc)",
    ],
)
def test_neither_ray_nor_torch_is_imported(use):
    code = f"import sys, rllib_per_acc\n{use}\nprint(*sys.modules)"
    imported = {name.partition(".")[0] for name in run_fresh(code).split()}
    assert not imported & {"ray", "torch", "gymnasium", "tensorflow"}


def test_importing_loads_no_accelerator_module():
    use = "rllib_per_acc.PriorityTree(5, device='cpu')"
    loaded = run_fresh(f"import sys, rllib_per_acc\n{use}\nprint(*sys.modules)").split()
    assert "rllib_per_acc._core" in loaded
    assert "rllib_per_acc._core_acc" not in loaded


@pytest.mark.parametrize("order", ["torch, rllib_per_acc", "rllib_per_acc, torch"])
def test_torch_may_come_first_or_last(order):
    pytest.importorskip("torch")
    use = "tree = rllib_per_acc.PriorityTree(5)\ntree.update(1, 2.0)\nprint(tree.sum())"
    assert run_fresh(f"import {order}\n{use}").split()[-1] == "2.0"


def test_one_version_everywhere():
    from rllib_per_acc import _core

    assert _core.__version__ == rllib_per_acc.__version__ == version("rllib_per_acc")
    assert rllib_per_acc.build_info()["version"] == rllib_per_acc.__version__


def test_build_info_says_what_was_built():
    info = rllib_per_acc.build_info()
    assert {"version", "compilers", "flags", "backends", "devices"} <= info.keys()


@pytest.mark.parametrize("name", NAMES)
def test_names_are_found_lazily_and_listed(name):
    assert name in dir(rllib_per_acc)
    assert getattr(rllib_per_acc, name).__name__ == name


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="NoSuchTree"):
        rllib_per_acc.NoSuchTree  # noqa: B018
