"""One Ray for all tests of this folder."""

from collections.abc import Iterator

import pytest
import ray


@pytest.fixture(scope="session")
def ray_session() -> Iterator[None]:
    """A local Ray of eight logical CPUs; shut down when the tests end."""
    ray.init(
        num_cpus=8,
        num_gpus=0,
        include_dashboard=False,
        object_store_memory=200 * 1024 * 1024,
        log_to_driver=False,
        configure_logging=False,
    )
    yield
    ray.shutdown()
