"""`enable` in multi-agent setups."""

import pytest
from multi_agent_buffers import TYPE
from ray.rllib.algorithms.dqn import DQNConfig
from ray.rllib.algorithms.sac import SACConfig

from rllib_per_acc import (
    AccDQN,
    AccDQNConfig,
    AccMultiAgentPrioritizedEpisodeReplayBuffer,
    enable,
)

SINGLE = "rllib_per_acc.AccPrioritizedEpisodeReplayBuffer"


def two_modules(config: DQNConfig) -> DQNConfig:
    return config.multi_agent(
        policies={"m1", "m2"}, policy_mapping_fn=lambda agent_id, _, **__: "m1"
    )


@pytest.mark.parametrize(
    "type_",
    [
        "EpisodeReplayBuffer",
        "PrioritizedEpisodeReplayBuffer",
        "MultiAgentEpisodeReplayBuffer",
        "MultiAgentPrioritizedEpisodeReplayBuffer",
        SINGLE,
        TYPE,
    ],
)
@pytest.mark.parametrize("config_class", [DQNConfig, SACConfig])
def test_the_type_is_the_multi_agent_buffer(config_class: type, type_: str) -> None:
    config = two_modules(config_class().training(lr=None))
    enabled = enable(config, type=type_, capacity=77)
    assert enabled.replay_buffer_config["type"] == TYPE
    assert enable(enabled).replay_buffer_config == enabled.replay_buffer_config
    enabled.validate()
    assert enabled.copy().replay_buffer_config["capacity"] == 77


def test_a_class_is_kept() -> None:
    enabled = enable(two_modules(SACConfig()), type=AccMultiAgentPrioritizedEpisodeReplayBuffer)
    kept = enabled.replay_buffer_config["type"]
    assert kept is AccMultiAgentPrioritizedEpisodeReplayBuffer


def test_a_misspelt_key_is_named() -> None:
    with pytest.raises(TypeError, match=r"'kapacity'.*'capacity'"):
        enable(two_modules(DQNConfig()), kapacity=3)


def test_a_buffer_for_another_number_of_agents_is_found_by_validate() -> None:
    late = two_modules(AccDQNConfig())
    with pytest.raises(ValueError, match=f"got '{SINGLE}'.*expected '{TYPE}' with the policies"):
        late.validate()
    enable(late).validate()
    single = enable(DQNConfig(), type="MultiAgentPrioritizedEpisodeReplayBuffer")
    with pytest.raises(ValueError, match=f"got '{TYPE}'.*expected '{SINGLE}'.*default_policy"):
        single.validate()


def test_resources_of_every_module() -> None:
    config = enable(two_modules(DQNConfig()), num_shards=3, num_cpus_per_shard=0.5)
    bundles = AccDQN.default_resource_request(config).bundles
    assert bundles.count({"CPU": 0.5}) == 6
