"""What all tests share: the devices that tree tests run over, hypothesis profiles, one local Ray.

`pytest --hypothesis-profile fuzz --timeout 0` looks longer. RLLIB_PER_ACC_REQUIRE_GPU=1 makes a
missing GPU a failure instead of a skip. "acc-host" is the GPU backend, run on the host where there
is no GPU; it is skipped in builds without that backend.
"""

import collections
import os
import pathlib

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


def pytest_terminal_summary(terminalreporter):
    """What was skipped, a line a reason: hundreds of tests have the same one."""
    counts = collections.Counter(
        report.longrepr[2].removeprefix("Skipped: ")
        for report in terminalreporter.stats.get("skipped", [])
    )
    if counts:
        terminalreporter.section("skipped")
    for reason, count in counts.most_common():
        terminalreporter.write_line(f"{count:>5} {reason}")


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


@pytest.fixture(scope="session")
def ray_session(tmp_path_factory):
    """One local Ray of eight logical CPUs for all tests, shut down when they end."""
    import ray

    folders = [str(path) for path in pathlib.Path(__file__).parent.iterdir() if path.is_dir()]
    with pytest.MonkeyPatch.context() as patch:
        # Workers import classes of tests.
        patch.setenv("PYTHONPATH", os.pathsep.join(folders), prepend=os.pathsep)
        patch.setenv("SLOW_SHARDS", str(tmp_path_factory.mktemp("slow_shards")))
        ray.init(
            address="local",
            num_cpus=8,
            num_gpus=0,
            include_dashboard=False,
            object_store_memory=200 * 1024 * 1024,
            log_to_driver=False,
            configure_logging=False,
        )
        yield
    ray.shutdown()
