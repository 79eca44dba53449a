"""What `make wheel` makes, installed as a user installs it."""

import email
import os
import pathlib
import platform
import re
import subprocess
import sys
import tarfile
import venv
import zipfile

import numpy
import pytest

import rllib_per_acc

ROOT = pathlib.Path(__file__).parents[1]
PROGRAM = """
import sys, rllib_per_acc
tree = rllib_per_acc.PriorityTree(3)
tree.update([0, 2], [1.0, 3.0])
print(rllib_per_acc.__version__, tree.sum(), tree.find_prefixsum(2.0), rllib_per_acc.__file__)
assert "ray" not in sys.modules
"""

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


def run(*command, cwd, env=None):
    done = subprocess.run(
        list(map(str, command)),
        cwd=cwd,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout[-4000:]
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The folder with the wheel and the sdist that it was built from."""
    out = tmp_path_factory.mktemp("dist")
    path = os.pathsep.join([str(pathlib.Path(sys.executable).parent), os.environ["PATH"]])
    run(ROOT / "tools" / "build-wheel", out, cwd=out, env={**os.environ, "PATH": path})
    return out


@pytest.mark.parametrize("pattern", ["*.whl", "*.tar.gz"], ids=["wheel", "sdist"])
def test_an_install_into_a_fresh_environment_works(built, pattern, tmp_path):
    """The wheel's without a compiler, or any other program, on the PATH."""
    (archive,) = built.glob(pattern)
    env = {**os.environ, "PATH": str(tmp_path)} if pattern == "*.whl" else None
    venv.create(tmp_path / "venv", with_pip=True)
    python = tmp_path / "venv" / "bin" / "python"
    # The tree needs NumPy alone: leaving Ray out also shows that it does not need Ray.
    pip = (python, "-m", "pip", "--disable-pip-version-check", "install", "-q")
    run(*pip, "--only-binary=:all:", f"numpy=={numpy.__version__}", cwd=tmp_path, env=env)
    run(*pip, "--no-deps", archive, cwd=tmp_path, env=env)
    version, total, leaf, where = run(python, "-c", PROGRAM, cwd=tmp_path, env=env).split()
    assert (version, float(total), int(leaf)) == (rllib_per_acc.__version__, 4.0, 2)
    assert pathlib.Path(where).is_relative_to(tmp_path)


def test_the_wheel_says_what_it_is_and_needs(built):
    (wheel,) = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        (metadata,) = (name for name in names if name.endswith(".dist-info/METADATA"))
        fields = email.message_from_bytes(archive.read(metadata))
    assert fields["Version"] == rllib_per_acc.__version__
    needed = [line for line in fields.get_all("Requires-Dist") if "extra ==" not in line]
    assert sorted(line.split("[")[0].split("=")[0].rstrip("<>~! ") for line in needed) == [
        "gymnasium",
        "numpy",
        "ray",
    ]
    assert {"rllib_per_acc/py.typed", "rllib_per_acc/_core.pyi"} <= set(names)
    assert {name.split("/")[0].split("-")[0] for name in names} == {"rllib_per_acc"}


def test_the_wheel_is_named_by_the_oldest_linux_that_will_do(built):
    (wheel,) = built.glob("*.whl")
    version = re.search(r"-manylinux_2_(\d+)_" + platform.machine(), wheel.name)
    assert version
    assert int(version[1]) <= int(platform.libc_ver()[1].split(".")[1])


def test_the_sdist_holds_the_sources_and_nothing_built(built):
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"CMakeLists.txt", "LICENSE", "README.md", "pyproject.toml"} <= names
    assert any(name.startswith("cpp/") for name in names)
    built_names = [
        name
        for name in names
        if name.endswith((".so", ".o", ".pyc")) or name.split("/")[0] in ("build", ".venv", "dist")
    ]
    assert not built_names
    assert os.path.getsize(sdist) < 2_000_000
