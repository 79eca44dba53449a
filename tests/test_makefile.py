"""`make demo` says early and by name what the machine lacks, and with which command to get it."""

import os
import pathlib
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[1]


def make(target, cwd=ROOT, env=None, **variables):
    done = subprocess.run(
        ["make", target, *(f"{name}={value}" for name, value in variables.items())],
        cwd=cwd,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=60,
    )
    return done.returncode, done.stdout


def make_check(**variables):
    return make("check", **variables)


@pytest.fixture
def fresh(tmp_path):
    """What a clone holds that the set-up reads, without an environment."""
    for name in ("Makefile", "pyproject.toml", "constraints-dev.txt", "CMakeLists.txt"):
        shutil.copy(ROOT / name, tmp_path)
    for name in ("CMakePresets.json", "rllib_per_acc/_version.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / "cpp").mkdir()
    return tmp_path


def test_nothing_is_missing_here():
    assert make_check(PYTHON=sys.executable)[0] == 0


@pytest.mark.parametrize(
    ("probe", "package"), [("ensurepip", "python3-venv"), ("Python.h", "python3-dev")]
)
def test_what_the_interpreter_lacks_is_named(probe, package, tmp_path):
    python = tmp_path / "python"
    python.write_text(
        f'#!/bin/sh\ncase "$*" in *{probe}*) exit 1;; esac\nexec {sys.executable} "$@"\n'
    )
    python.chmod(0o755)
    status, output = make_check(PYTHON=python)
    assert status != 0
    assert f"apt-get install {package}\n" in output


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({"PYTHON": "no-such-python"}, "apt-get install python3"),
        ({"PYTHON": sys.executable, "CXX": "no-such-g++"}, "apt-get install g++"),
    ],
)
def test_a_missing_tool_is_named(variables, message):
    status, output = make_check(**variables)
    assert status != 0
    assert message in output


def test_an_old_python_is_named(tmp_path):
    python = tmp_path / "python"
    python.write_text('#!/bin/sh\ncase "$*" in *version_info*) exit 1;; esac\necho Python 3.9.2\n')
    python.chmod(0o755)
    status, output = make_check(PYTHON=python)
    assert status != 0
    assert f"Python >= 3.10 is needed, {python} is Python 3.9.2." in output


def test_a_full_disk_is_named_before_anything_is_made(fresh):
    status, output = make("demo", cwd=fresh, PYTHON=sys.executable, DISK_GB=10**7)
    assert status != 0
    assert "need 10000000 GB of disk" in output
    assert not (fresh / ".venv").exists()


def test_a_package_index_out_of_reach_is_named(fresh):
    env = {name: value for name, value in os.environ.items() if not name.startswith("PIP_")}
    # Nothing listens there. Without this machine's own settings of pip: they may name others.
    env |= {"PIP_CONFIG_FILE": os.devnull, "PIP_INDEX_URL": "http://127.0.0.1:1/simple"}
    status, output = make("demo", cwd=fresh, env=env, PYTHON=sys.executable, DISK_GB=0)
    assert status != 0
    assert "No network, or no package index" in output
    assert "Set-up 2 of 2" not in output


WITHOUT_TOKENS = {**os.environ, "RAY_AUTH_MODE": "disabled"}  # of those that the user may have
RAY_THAT_CHANGES_ITS_VERSION = """
import json, ray, sys
from ray._common.usage import usage_constants as names
from ray._private import ray_constants
from ray._raylet import GcsClient
context = ray.init(address="local", num_cpus=1, include_dashboard=False, logging_level="ERROR")
address = context.address_info["gcs_address"]
print(address, flush=True)
for version in sys.stdin:
    client, space = GcsClient(address=address), ray_constants.KV_NAMESPACE_CLUSTER
    metadata = json.loads(client.internal_kv_get(names.CLUSTER_METADATA_KEY, namespace=space))
    metadata["ray_version"] = version.strip()
    value = json.dumps(metadata).encode()
    client.internal_kv_put(names.CLUSTER_METADATA_KEY, value, True, namespace=space)
    print("changed", flush=True)
"""


def test_a_running_ray_of_another_version_is_named():
    import ray

    with subprocess.Popen(
        [sys.executable, "-c", RAY_THAT_CHANGES_ITS_VERSION],
        env=WITHOUT_TOKENS,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as running:
        address = running.stdout.readline().strip()
        same = check_ray(address)
        running.stdin.write("1.2.3\n")
        running.stdin.flush()
        assert running.stdout.readline() == "changed\n"
        other = check_ray(address)
        running.stdin.close()
    assert (same.returncode, same.stdout) == (0, "")
    assert other.returncode == 1
    named = f"A Ray runs at {address} that Ray {ray.__version__} of this environment cannot join."
    assert other.stdout.startswith(named)
    assert "Ray: 1.2.3\n" in other.stdout  # of the two versions that Ray names


@pytest.mark.parametrize("address", ["127.0.0.1:1", "local"])
def test_where_no_ray_runs_nothing_is_said(address):
    done = check_ray(address)
    assert (done.returncode, done.stdout) == (0, "")


def check_ray(address):
    return subprocess.run(
        [sys.executable, ROOT / "tools" / "check_ray.py"],
        env={**WITHOUT_TOKENS, "RAY_ADDRESS": address},
        stdout=subprocess.PIPE,
        text=True,
        check=False,
        timeout=120,
    )


def test_a_compiler_without_offloading_builds_without_openacc(tmp_path):
    """Such a g++ answers with the name of the program that it was asked for, slash included."""
    compiler = tmp_path / "g++"
    compiler.write_text('#!/bin/sh\necho "${1#-print-prog-name=}"\n')
    compiler.chmod(0o755)
    shown = subprocess.run(
        ["make", "-s", "-f", "Makefile", "-f", "-", f"CXX={compiler}", "show"],
        input="show: ; @echo $(OPENACC)",
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    ).stdout
    assert shown == "none\n"
