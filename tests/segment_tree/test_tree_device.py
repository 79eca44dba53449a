"""Which device a tree runs on, and what is said where there is none."""

import pytest

from rllib_per_acc import BackendUnavailableError, PriorityTree, build_info


def has_gpu() -> bool:
    try:
        PriorityTree(1, device="gpu")
    except BackendUnavailableError:
        return False
    return True


def test_auto_is_the_gpu_only_where_there_is_one():
    assert PriorityTree(8).device == PriorityTree(8, device="auto").device
    assert PriorityTree(8).device == ("gpu" if has_gpu() else "cpu")


def test_a_missing_gpu_is_an_error_that_names_it():
    if has_gpu():
        pytest.skip("this machine and build have a GPU")
    with pytest.raises(BackendUnavailableError, match=r"(?i)gpu"):
        PriorityTree(8, device="gpu")


def test_the_error_is_a_runtime_error():
    assert issubclass(BackendUnavailableError, RuntimeError)


@pytest.mark.parametrize("device", ["tpu", "", "CPU", "cuda:0"])
def test_an_unknown_device_is_refused(device):
    with pytest.raises(ValueError, match=r"device.*cpu"):
        PriorityTree(8, device=device)


def test_the_cpu_is_always_there():
    assert PriorityTree(8, device="cpu").device == "cpu"
    assert "cpu" in str(build_info()) or "host" in str(build_info())
