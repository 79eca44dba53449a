"""What a run of the tests says at its end."""

import pathlib
import shutil
import subprocess
import sys

TESTS = """
import pytest

@pytest.mark.parametrize("number", range(20))
def test_one(number):
    pytest.skip("no such device")

@pytest.mark.skipif(True, reason="too new")
def test_two(): ...

def test_three(): ...
"""


def test_what_was_skipped_is_said_in_a_line_a_reason(tmp_path):
    shutil.copy(pathlib.Path(__file__).with_name("conftest.py"), tmp_path)
    (tmp_path / "test_some.py").write_text(TESTS)
    shown = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "--rootdir", tmp_path, "-c", "/dev/null", tmp_path],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    ).stdout
    assert shown.count("no such device") == shown.count("too new") == 1
    assert "\n   20 no such device\n    1 too new\n" in shown
