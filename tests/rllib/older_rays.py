"""Marks of tests whose oracle, RLlib's own buffer, is wrong in older versions of Ray."""

import inspect

import pytest
import ray
from ray.rllib.env.single_agent_episode import SingleAgentEpisode
from ray.rllib.utils.metrics import metrics_logger
from ray.rllib.utils.replay_buffers import PrioritizedEpisodeReplayBuffer

own_metrics_differ = pytest.mark.skipif(
    not hasattr(metrics_logger, "DEFAULT_STATS_CLS_LOOKUP"),
    reason=f"Ray {ray.__version__}: RLlib's own buffers count by agent and module otherwise; "
    "as the newest from 2.53 on",
)
own_eviction_raises = pytest.mark.skipif(
    "index(eps_evicted_idxs" in inspect.getsource(PrioritizedEpisodeReplayBuffer.add),
    reason=f"Ray {ray.__version__}: RLlib's own buffer raises ValueError when it evicts an episode "
    "of which it is just given more; mended in 2.55",
)
own_turns_raise = pytest.mark.skipif(
    "validate()" in inspect.getsource(SingleAgentEpisode.add_env_step),
    reason=f"Ray {ray.__version__}: RLlib's own buffer raises errors for agents that do not act at "
    "every step; mended in 2.55",
)
