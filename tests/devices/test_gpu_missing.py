"""Asking for a GPU where something is missing: an error that says what, and a living process."""

import pathlib
import shutil

import pytest
from fresh_python import run_python

from rllib_per_acc import BackendUnavailableError, PriorityTree, _core, build_info, devices

ASK = """
from rllib_per_acc import BackendUnavailableError, PriorityTree
try:
    print(PriorityTree(3, device={device!r}).device)
except BackendUnavailableError as error:
    print(error)
tree = PriorityTree(3, device="cpu")
tree.update([0], [1.0])
assert tree.sum() == 1.0
"""


def ask(device, **env):
    return run_python(ASK.format(device=device), **env)


def test_a_build_without_the_backend_says_how_to_get_it(monkeypatch):
    info = _core.build_info() | {"openacc": "none"}
    monkeypatch.setattr(devices._core, "build_info", lambda: info)
    with pytest.raises(BackendUnavailableError, match="RLLIB_PER_ACC_OPENACC=gcc-nvptx"):
        PriorityTree(3, device="gpu")
    assert PriorityTree(3, device="auto").device == "cpu"
    assert build_info()["backends"] == ["host"]
    assert "RLLIB_PER_ACC_OPENACC" in build_info()["problems"]["gpu"]


@pytest.mark.usefixtures("acc_build")
def test_a_missing_driver_is_named_and_the_backend_not_loaded(tmp_path):
    # A file that is no library hides a driver that may be installed.
    (tmp_path / "libcuda.so.1").write_text("")
    hidden = {"LD_LIBRARY_PATH": str(tmp_path)}
    assert "libcuda.so.1 cannot be loaded" in ask("gpu", **hidden)
    assert ask("auto", **hidden) == "cpu"
    doctor = run_python("from rllib_per_acc import doctor; print(doctor.main())", **hidden)
    assert "absent  tree on a GPU: the NVIDIA driver's libcuda.so.1 cannot be loaded" in doctor
    assert doctor.endswith("0")
    code = "import sys, rllib_per_acc as r; r.PriorityTree(3); print(*sys.modules)"
    assert "rllib_per_acc._core_acc" not in run_python(code, **hidden).split()


@pytest.mark.parametrize(
    ("env", "said"),
    [
        ({"FAKE_CUDA_INIT": "100"}, "error 100"),
        ({"FAKE_CUDA_INIT": "3"}, "fork"),
        ({"FAKE_CUDA_DEVICES": "0"}, "no device"),
        ({"FAKE_CUDA_DEVICES": "0", "CUDA_VISIBLE_DEVICES": ""}, "CUDA_VISIBLE_DEVICES=''"),
        ({"ACC_DEVICE_TYPE": "host"}, "ACC_DEVICE_TYPE is 'host'"),
        ({"ACC_DEVICE_TYPE": "tpu"}, "ACC_DEVICE_TYPE is 'tpu'"),
        ({"ACC_DEVICE_NUM": "7"}, "ACC_DEVICE_NUM is '7'"),
    ],
)
def test_a_driver_without_a_usable_device_is_reported(fake_driver, env, said):
    answer = ask("gpu", **fake_driver, **env)
    assert said in answer
    assert "device='gpu' is not available" in answer
    assert ask("auto", **fake_driver, **env) == "cpu"


@pytest.mark.usefixtures("acc_build")
def test_a_demanded_device_that_is_not_there_does_not_end_the_process(tmp_path):
    # OpenACC's runtime would end it in the first kernel.
    (tmp_path / "libcuda.so.1").write_text("")
    env = {"LD_LIBRARY_PATH": str(tmp_path), "ACC_DEVICE_TYPE": "nvidia"}
    assert "libcuda.so.1 cannot be loaded" in ask("gpu", **env)
    assert "ACC_DEVICE_TYPE is 'nvidia'" in ask("acc-host", **env)
    assert ask("auto", **env) == "cpu"


@pytest.mark.parametrize("hidden", ["libgomp-plugin-nvptx.so.1", "libgomp-rpa.so.1"])
def test_a_hidden_part_of_the_runtime_is_named(fake_driver, tmp_path, hidden):
    package = tmp_path / "rllib_per_acc"
    shutil.copytree(pathlib.Path(devices.__file__).parent, package)
    for part in pathlib.Path(_core.__file__).parent.glob("*.so*"):
        if part.name != hidden:
            shutil.copy(part, package)
    (package / hidden).unlink(missing_ok=True)
    # The copy comes before the installed package, also before an editable one.
    code = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
        "sys.meta_path = [f for f in sys.meta_path if 'scikit' not in type(f).__name__.lower()]\n"
        "import rllib_per_acc\n"
        f"assert rllib_per_acc.__file__.startswith({str(tmp_path)!r})\n"
    )
    assert f"{hidden}, a part of the OpenACC runtime" in run_python(
        code + ASK.format(device="gpu"), **fake_driver
    )
    assert run_python(code + ASK.format(device="auto"), **fake_driver) == "cpu"


def test_the_test_only_device_is_for_tests(monkeypatch):
    monkeypatch.delenv("RLLIB_PER_ACC_TEST_ACC_HOST")
    with pytest.raises(ValueError, match="device is 'acc-host'"):
        PriorityTree(3, device="acc-host")


def test_the_problem_is_in_the_build_info():
    info = build_info()
    assert ("gpu" in info["devices"]) == ("gpu" not in info["problems"])
    assert info["auto"] in info["devices"]
