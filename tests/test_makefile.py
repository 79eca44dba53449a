"""`make check` says what the machine lacks, and with which command to get it."""

import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[1]


def make_check(**variables):
    done = subprocess.run(
        ["make", "check", *(f"{name}={value}" for name, value in variables.items())],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=60,
    )
    return done.returncode, done.stdout


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
