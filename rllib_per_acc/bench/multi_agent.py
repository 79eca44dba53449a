"""The multi-agent buffer against RLlib's own: sample, update and add, two agents in two modules."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
from ray.rllib.env.multi_agent_episode import MultiAgentEpisode
from ray.rllib.utils.replay_buffers.multi_agent_prioritized_episode_buffer import (
    MultiAgentPrioritizedEpisodeReplayBuffer,
)

from rllib_per_acc.bench.buffer import (
    ACTION_SPACE,
    ALPHA,
    BATCH,
    BETA,
    EPISODE_STEPS,
    GAMMA,
    N_STEP,
    OBSERVATION_SPACE,
    Calls,
    operations,
)
from rllib_per_acc.bench.report import Settings, Table
from rllib_per_acc.rllib.multi_agent_buffer import AccMultiAgentPrioritizedEpisodeReplayBuffer

AGENTS = ("a", "b")


def _module_of(agent_id: str, _: Any) -> str:
    return f"module_{agent_id}"


def episodes(rng: np.random.Generator) -> Iterator[MultiAgentEpisode]:
    """CartPole-sized episodes of `EPISODE_STEPS` steps with random content, without end."""
    steps = range(EPISODE_STEPS)
    for number in itertools.count():
        obs = rng.normal(size=(EPISODE_STEPS + 1, 2, 4)).astype(np.float32)
        actions, rewards = rng.integers(0, 2, (EPISODE_STEPS, 2)), rng.normal(size=(100, 2))
        yield MultiAgentEpisode(
            f"episode-{number}",
            observations=[{a: obs[t, i] for i, a in enumerate(AGENTS)} for t in [*steps, -1]],
            observation_space=dict.fromkeys(AGENTS, OBSERVATION_SPACE),
            actions=[{a: actions[t, i] for i, a in enumerate(AGENTS)} for t in steps],
            action_space=dict.fromkeys(AGENTS, ACTION_SPACE),
            rewards=[{a: float(rewards[t, i]) for i, a in enumerate(AGENTS)} for t in steps],
            terminateds=dict.fromkeys((*AGENTS, "__all__"), True),
            agent_to_module_mapping_fn=_module_of,
            len_lookback_buffer=0,
        ).to_numpy()


class _RLlibs(MultiAgentPrioritizedEpisodeReplayBuffer):  # type: ignore[misc]
    """RLlib's buffer, which takes priorities for all samples since the last update."""

    def sample(self, *args: Any, **kwargs: Any) -> Any:
        self._module_to_last_sampled_indices.clear()
        return super().sample(*args, **kwargs)


def _update(buffer: Any, td_errors: np.ndarray) -> None:
    for agent_id in AGENTS:
        buffer.update_priorities(td_errors, _module_of(agent_id, None))


def run(settings: Settings) -> list[Table]:
    """The table of operations of full buffers in this process."""
    capacity, repeats = (5_000, 3) if settings.quick else (250_000, 25)
    buffers: dict[str, Any] = {"rllib": _RLlibs(capacity, alpha=ALPHA)}
    for sample_format in ("rows", "episodes"):
        buffers[sample_format] = AccMultiAgentPrioritizedEpisodeReplayBuffer(
            capacity, alpha=ALPHA, num_shards=0, sample_format=sample_format
        )
    calls = Calls(
        episodes(np.random.default_rng(0)),
        lambda b: b.sample(num_items=BATCH, n_step=N_STEP, gamma=GAMMA, beta=BETA),
        _update,
    )
    return [
        Table(
            name="multi_agent",
            title=(
                f"RLlib's MultiAgentPrioritizedEpisodeReplayBuffer and ours: {capacity:,} steps of "
                f"two CartPole-sized agents in two modules, batch {BATCH} of each, n_step {N_STEP}"
            ),
            columns=("operation", "RLlib", "ours", "ratio"),
            rows=operations("multi_agent", buffers, calls, capacity, repeats, settings.progress),
            notes=("Times in milliseconds, medians; ratios are medians over the repeats.",),
        )
    ]
