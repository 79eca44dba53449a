"""What differs between versions of Ray: seen on this one, and pretended where it is another."""

import logging
import pathlib
import subprocess
import sys
from collections.abc import Iterator

import pytest
import ray
from ray.rllib.utils.metrics.metrics_logger import MetricsLogger

from rllib_per_acc import AccPrioritizedEpisodeReplayBuffer, AccPrioritizedReplayBuffer
from rllib_per_acc.ray_versions import TESTED_RAY, warn_if_newer
from rllib_per_acc.rllib.compat import reduction

ROOT = pathlib.Path(__file__).parents[2]


@pytest.fixture
def nothing_said() -> Iterator[None]:
    warn_if_newer.cache_clear()
    yield
    warn_if_newer.cache_clear()


@pytest.mark.parametrize("buffer_class", [
    AccPrioritizedEpisodeReplayBuffer, AccPrioritizedReplayBuffer,
])  # fmt: skip
def test_a_newer_ray_is_told_once(
    buffer_class: type,
    nothing_said: None,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(ray, "__version__", "2.999.0")
    for _ in range(3):
        buffer_class(10, num_shards=0)
    told = [record for record in caplog.records if "2.999.0" in record.getMessage()]
    assert len(told) == 1
    assert told[0].levelno == logging.WARNING
    assert TESTED_RAY[-1] in told[0].getMessage()
    assert "\n" not in told[0].getMessage()


@pytest.mark.parametrize("version", TESTED_RAY)
def test_nothing_is_said_of_a_tested_ray(
    version: str, nothing_said: None, caplog: pytest.LogCaptureFixture
) -> None:
    warn_if_newer(version)
    assert not caplog.records


def test_sums_are_cleared_lifetime_sums_are_not_and_items_are_the_last() -> None:
    logger = MetricsLogger(root=True)
    seen = []
    for value in (1, 2):
        for name in ("sum", "lifetime_sum", "item"):
            logger.log_value(name, value, **reduction(name))
            logger.log_value(name, value + 1, **reduction(name))
        seen.append({name: int(number) for name, number in logger.reduce().items()})
    assert seen == [
        {"sum": 3, "lifetime_sum": 3, "item": 2},
        {"sum": 5, "lifetime_sum": 8, "item": 3},
    ]


def without_tqc(statements: str) -> str:
    """What a fresh Python prints in which RLlib has no TQC."""
    hide = (
        "import importlib.util; find = importlib.util.find_spec\n"
        "def spec(name, *rest):\n"
        "    return None if name == 'ray.rllib.algorithms.tqc' else find(name, *rest)\n"
        "importlib.util.find_spec = spec\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", hide + statements],
        capture_output=True, text=True, check=False, timeout=280,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_without_tqc_its_names_say_so_and_the_others_work() -> None:
    out = without_tqc(
        "import rllib_per_acc\n"
        "from ray.rllib.algorithms.dqn import DQNConfig\n"
        "from ray.rllib.algorithms.sac import SACConfig\n"
        "for config in DQNConfig(), SACConfig():\n"
        "    print(type(rllib_per_acc.enable(config)).__name__)\n"
        "for name in 'AccTQC', 'AccTQCConfig':\n"
        "    try: getattr(rllib_per_acc, name)\n"
        "    except ImportError as error: print(error)\n"
    )
    lines = out.splitlines()
    assert lines[:2] == ["AccDQNConfig", "AccSACConfig"]
    assert len(lines) == 4
    assert all("has no ray.rllib.algorithms.tqc" in line for line in lines[2:])


def test_the_readme_and_the_package_name_the_tested_versions() -> None:
    readme = (ROOT / "README.md").read_text()
    assert all(f"| {version} |" in readme for version in TESTED_RAY)
    oldest = ".".join(TESTED_RAY[0].split(".")[:2])
    assert f'"ray[rllib]>={oldest}"' in (ROOT / "pyproject.toml").read_text()
