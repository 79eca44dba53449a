"""A loop that the compiler takes for sequential gives the right bits, slowly, and says nothing."""

import pathlib
import re
import subprocess

import pytest

from rllib_per_acc import _core

CORE = pathlib.Path(__file__).parents[2] / "cpp" / "core"


def test_only_the_loops_over_levels_are_sequential(tmp_path):
    if _core.build_info()["openacc"] != "gcc-nvptx" or not CORE.exists():
        pytest.skip("needs the source tree and a build with RLLIB_PER_ACC_OPENACC=gcc-nvptx")
    flags = re.findall(r"-f(?:openacc|offload)\S*", _core.build_info()["openacc_flags"])
    arguments = [*flags, "-DRPA_BACKEND=acc", "-fopt-info-omp", "-c", CORE / "device_tree.cpp"]
    done = subprocess.run(
        ["g++", "-std=c++20", "-O2", *arguments, "-o", tmp_path / "device_tree.o"],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    source = (CORE / "kernels.hpp").read_text().splitlines()
    found = re.findall(r"kernels\.hpp:(\d+):\d+: .*assigned OpenACC ([a-z ]+) loop", done.stderr)
    kinds = {int(line): kind for line, kind in found}
    loops = {
        number: line
        for number, line in enumerate(source, 1)
        if re.match(r"#pragma acc (parallel )?loop", line)
    }
    assert set(kinds) == set(loops), done.stderr
    for number, kind in kinds.items():
        assert ("seq" in kind) == ("seq" in loops[number]), (number, kind)
    assert "gang vector" in kinds.values()
