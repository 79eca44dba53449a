"""The program for machines with a GPU and nothing else: here it has to do without the GPU."""

import json
import pathlib
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).parents[2]
pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("acc_build")]


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    """The folder as it is copied to another machine."""
    for tool in ("cmake", "ninja", "patchelf", "g++"):
        if shutil.which(tool) is None:
            pytest.skip(f"the bundle is built with {tool}")
    build = tmp_path_factory.mktemp("build")
    folder = tmp_path_factory.mktemp("moved") / "gpu-bundle"
    commands = (
        ["cmake", "--preset", "gpu-bundle", "-B", build],
        ["cmake", "--build", build, "--target", "gpu_check"],
        ["cmake", "--install", build, "--component", "gpu_bundle", "--prefix", folder],
    )
    for command in commands:
        done = subprocess.run(
            command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=280
        )
        assert done.returncode == 0, done.stdout + done.stderr
    shutil.rmtree(build)
    return folder


def run(bundle, *arguments, **env):
    return subprocess.run(
        [bundle / "gpu_check", *arguments],
        env=env,
        cwd=bundle,
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )


def test_it_has_all_it_needs(bundle):
    assert {path.name for path in bundle.iterdir()} == {
        "README.txt",
        "gpu_check",
        "libgomp-plugin-nvptx.so.1",
        "libgomp-rpa.so.1",
    }


def test_without_a_gpu_it_checks_the_host_fallback_and_says_so(bundle, tmp_path):
    file = tmp_path / "result.json"
    done = run(bundle, "--quick", "--json", file)
    if "NO GPU" not in done.stdout:
        pytest.skip("there is a GPU")
    assert done.returncode == 0, done.stdout + done.stderr
    result = json.loads(file.read_text())
    assert result["device"] is None
    assert result["kernels_run_on_device"] is False
    assert result["random_batches_checked"] == 1000
    assert result["mismatches"] == 0
    assert result["traffic_of_random_batches"]["launches"] > 1000
    assert result["measurements_us"] == []
    assert run(bundle, "--require-gpu").returncode == 3


def test_wrong_bits_are_a_failure(bundle, fake_driver, tmp_path):
    # Kernels do nothing on this device.
    done = run(bundle, "--quick", "--json", tmp_path / "result.json", **fake_driver)
    assert done.returncode == 1
    assert "failed: " in done.stderr
    assert not (tmp_path / "result.json").exists()


def test_unknown_arguments_are_refused(bundle):
    done = run(bundle, "--fast")
    assert done.returncode == 2
    assert "usage" in done.stderr
