"""Builds without the GPU backend, and a stand-in for the NVIDIA driver."""

import pathlib
import shutil
import subprocess

import pytest

from rllib_per_acc import _core

FAKE_CUDA = pathlib.Path(__file__).parents[2] / "cpp" / "tests" / "fake_cuda" / "fake_cuda.cpp"


@pytest.fixture
def acc_build():
    """Skips where the GPU backend is not compiled."""
    if _core.build_info()["openacc"] == "none":
        pytest.skip("this build has no OpenACC backend (RLLIB_PER_ACC_OPENACC=none)")


@pytest.fixture(scope="session")
def fake_driver(tmp_path_factory):
    """The environment in which the process finds a GPU that is none: kernels do nothing there."""
    if _core.build_info()["openacc"] != "gcc-nvptx":
        pytest.skip("this build has no OpenACC backend by GCC (RLLIB_PER_ACC_OPENACC=gcc-nvptx)")
    compiler = shutil.which("g++")
    if compiler is None or not FAKE_CUDA.exists():
        pytest.skip("the stand-in for the driver needs g++ and the source tree")
    folder = tmp_path_factory.mktemp("fake_cuda")
    subprocess.run(
        [compiler, "-std=c++20", "-shared", "-fPIC", FAKE_CUDA, "-o", folder / "libcuda.so.1"],
        check=True,
        timeout=120,
    )
    return {"LD_LIBRARY_PATH": str(folder)}
