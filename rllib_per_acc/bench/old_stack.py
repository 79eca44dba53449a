"""A DQN training step on RLlib's old API stack, with RLlib's buffer and with ours, in turn."""

from __future__ import annotations

from typing import Any

from ray.rllib.algorithms.dqn import DQNConfig
from ray.rllib.utils.metrics import NUM_ENV_STEPS_SAMPLED
from ray.rllib.utils.replay_buffers import MultiAgentPrioritizedReplayBuffer

from rllib_per_acc.bench.buffer import ALPHA, BATCH, BETA
from rllib_per_acc.bench.report import Settings, Table
from rllib_per_acc.bench.training import filled, time_steps
from rllib_per_acc.rllib.compat import EpisodeBufferMeta

CAPACITY = 50_000
FIRST_STEPS = 1_000
OURS = "rllib_per_acc.AccMultiAgentPrioritizedReplayBuffer"


class Theirs(MultiAgentPrioritizedReplayBuffer, metaclass=EpisodeBufferMeta):  # type: ignore[misc]
    """RLlib's own, which its DQN cannot build without this metaclass."""


SIDES: dict[str, dict[str, Any]] = {
    "rllib": {"type": Theirs},
    "ours": {"type": OURS, "num_shards": 0},
    "ours, in an actor": {"type": OURS},
    "ours, a batch per call": {"type": OURS, "num_shards": 0, "items_per_sample_call": BATCH},
    "ours, both": {"type": OURS, "items_per_sample_call": BATCH},
}


def dqn_config(replay_buffer: dict[str, Any]) -> DQNConfig:
    """DQN on CartPole with RLlib's defaults but for batch 512, everything in one process."""
    return (
        DQNConfig()
        .api_stack(enable_rl_module_and_learner=False, enable_env_runner_and_connector_v2=False)
        .environment("CartPole-v1")
        .env_runners(num_env_runners=0)
        .training(
            replay_buffer_config={
                "capacity": CAPACITY,
                "prioritized_replay_alpha": ALPHA,
                "prioritized_replay_beta": BETA,
                **replay_buffer,
            },
            train_batch_size=BATCH,
            num_steps_sampled_before_learning_starts=FIRST_STEPS,
        )
    )


def run(settings: Settings) -> list[Table]:
    """The table of training steps; torch on one thread."""
    configs = {name: dqn_config(buffer) for name, buffer in SIDES.items()}
    with filled(configs, FIRST_STEPS, _steps_sampled, settings) as algorithms:
        timings = time_steps(algorithms, 3 if settings.quick else 20)
    rows = [
        (name, 1e3 * timing.median, timing.times_faster_than(timings["rllib"]))
        for name, timing in timings.items()
    ]
    return [
        Table(
            name="old_stack",
            title=(
                "A DQN training step on the old API stack: CartPole, RLlib's defaults, "
                f"batch {BATCH}"
            ),
            columns=("buffer", "ms", "times faster"),
            rows=rows,
            notes=(
                "Medians; ratios are medians over the repeats. torch runs on one thread.",
                f"A batch per call: items_per_sample_call={BATCH}.",
            ),
        )
    ]


def _steps_sampled(algorithm: Any) -> int:
    return int(algorithm._counters[NUM_ENV_STEPS_SAMPLED])
