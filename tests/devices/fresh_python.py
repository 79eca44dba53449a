"""Fresh interpreters, for what a process may do only once."""

import os
import subprocess
import sys


def run_python(code, **env):
    """The standard output of a fresh interpreter that must end by itself, with status 0."""
    unset = {"ACC_DEVICE_TYPE", "ACC_DEVICE_NUM", "CUDA_VISIBLE_DEVICES"}
    environment = {key: value for key, value in os.environ.items() if key not in unset}
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=environment | {"RLLIB_PER_ACC_TEST_ACC_HOST": "1"} | env,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, (done.returncode, done.stdout, done.stderr)
    return done.stdout.strip()
