"""What a DQN learner makes of a sample."""

import torch
from ray.rllib.algorithms.dqn.torch.dqn_torch_learner import DQNTorchLearner
from ray.rllib.env.single_agent_episode import SingleAgentEpisode


def train_batch(
    learner: DQNTorchLearner, sample: list[SingleAgentEpisode]
) -> dict[str, torch.Tensor]:
    """What the learner would train on."""
    batch = learner._learner_connector(
        rl_module=learner.module, batch={}, episodes=sample, shared_data={}, metrics=learner.metrics
    )
    assert set(batch) == {"default_policy"}
    return dict(batch["default_policy"])
