"""The devices that every tree test runs over, and how hard hypothesis looks.

`pytest --hypothesis-profile fuzz --timeout 0` looks longer. RLLIB_PER_ACC_REQUIRE_GPU=1 makes a
missing GPU a failure instead of a skip. "acc-host" is the GPU backend, run on the host where there
is no GPU; it is skipped in builds without that backend.
"""

import os

import pytest
from hypothesis import HealthCheck, settings

from rllib_per_acc import BackendUnavailableError, PriorityTree

_SLOW_IS_FINE = [HealthCheck.too_slow, HealthCheck.data_too_large]
settings.register_profile(
    "default", max_examples=50, stateful_step_count=30, deadline=None,
    suppress_health_check=_SLOW_IS_FINE,
)  # fmt: skip
settings.register_profile(
    "fuzz", max_examples=1000, stateful_step_count=50, deadline=None,
    suppress_health_check=_SLOW_IS_FINE,
)  # fmt: skip
settings.load_profile("default")


os.environ["RLLIB_PER_ACC_TEST_ACC_HOST"] = "1"  # lets device="acc-host" through


@pytest.fixture(
    scope="session", params=["cpu", "acc-host", pytest.param("gpu", marks=pytest.mark.gpu)]
)
def device(request: pytest.FixtureRequest) -> str:
    """Each device that `PriorityTree` can run on here."""
    name: str = request.param
    try:
        PriorityTree(1, device=name)
    except BackendUnavailableError as error:
        required = name == "gpu" and os.environ.get("RLLIB_PER_ACC_REQUIRE_GPU") == "1"
        if name == "cpu" or required:
            pytest.fail(f"device {name!r} is required here: {error}")
        pytest.skip(f"no {name}: {error}")
    return name
