"""A small local Ray for the tests of this folder."""

import logging
import os
from pathlib import Path

import pytest
import ray


@pytest.fixture(scope="session")
def ray_here():
    """A Ray of six logical CPUs, or the one that is there."""
    if ray.is_initialized():
        yield
        return
    with pytest.MonkeyPatch.context() as patch:
        # Workers import classes of these tests.
        patch.setenv("PYTHONPATH", str(Path(__file__).parent), prepend=os.pathsep)
        ray.init(
            address="local",
            num_cpus=6,
            num_gpus=0,
            include_dashboard=False,
            object_store_memory=200 * 1024 * 1024,
            log_to_driver=False,
            logging_level=logging.ERROR,
        )
    yield
    ray.shutdown()
