"""One Ray for all tests of this folder."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import ray


@pytest.fixture(scope="session")
def ray_session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A local Ray of eight logical CPUs; shut down when the tests end."""
    here = str(Path(__file__).parent)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", here, prepend=os.pathsep)  # workers import classes of tests
        patch.setenv("SLOW_SHARDS", str(tmp_path_factory.mktemp("slow_shards")))
        start()
        yield
    ray.shutdown()


def start() -> None:
    """The Ray of these tests."""
    ray.init(
        address="local",
        num_cpus=8,
        num_gpus=0,
        include_dashboard=False,
        object_store_memory=200 * 1024 * 1024,
        log_to_driver=False,
        configure_logging=False,
    )
