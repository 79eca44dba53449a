"""Marks of tests whose oracle, RLlib's own buffer, is wrong in older versions of Ray."""

import inspect

import pytest
import ray
from ray.rllib.env.single_agent_episode import SingleAgentEpisode
from ray.rllib.utils.replay_buffers import PrioritizedEpisodeReplayBuffer

_own_add = inspect.getsource(PrioritizedEpisodeReplayBuffer.add)

own_metrics_differ = pytest.mark.skipif(
    "module_to_num_episodes_added=module_to_num_steps_added" in _own_add,
    reason=f"Ray {ray.__version__}: RLlib's own buffers take a module's steps for its episodes, up "
    "to 2.58",
)
own_eviction_raises = pytest.mark.skipif(
    "index(eps_evicted_idxs" in _own_add,
    reason=f"Ray {ray.__version__}: RLlib's own buffer raises ValueError when it evicts an episode "
    "of which it is just given more; mended in 2.55",
)
own_turns_raise = pytest.mark.skipif(
    "validate()" in inspect.getsource(SingleAgentEpisode.add_env_step),
    reason=f"Ray {ray.__version__}: RLlib's own buffer raises errors for agents that do not act at "
    "every step; mended in 2.55",
)
