"""enable(): which configs it takes, and that what it returns is a config like any other."""

import copy
import dis
import importlib
import io
import pickle
import warnings
from typing import Any

import pytest
from ray import cloudpickle
from ray.rllib.algorithms.dqn import DQN, DQNConfig
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.algorithms.sac import SAC, SACConfig
from tqc_here import HAS_TQC, TQC, AccTQC, AccTQCConfig, TQCConfig, needs_tqc

import rllib_per_acc
from rllib_per_acc import (
    AccAlgorithmMixin,
    AccConfigMixin,
    AccDQN,
    AccDQNConfig,
    AccPrioritizedEpisodeReplayBuffer,
    AccSAC,
    AccSACConfig,
    enable,
)

TYPE = "rllib_per_acc.AccPrioritizedEpisodeReplayBuffer"
ENABLED = [
    (DQNConfig, AccDQNConfig, DQN, AccDQN),
    (SACConfig, AccSACConfig, SAC, AccSAC),
    *([(TQCConfig, AccTQCConfig, TQC, AccTQC)] if HAS_TQC else []),
]


def settings(config: Any) -> dict[str, Any]:
    """All settings of a config, with the buffer's class by its name."""
    found = config.to_dict()
    found.pop("class", None)  # left behind by RLlib's from_state
    if found["replay_buffer_config"]["type"] is AccPrioritizedEpisodeReplayBuffer:
        found["replay_buffer_config"]["type"] = TYPE
    return found


@pytest.mark.parametrize(("plain", "enabled", "algorithm", "enabled_algorithm"), ENABLED)
def test_a_new_config_of_the_paired_classes(
    plain: type, enabled: type, algorithm: type, enabled_algorithm: type
) -> None:
    config = plain().environment("CartPole-v1").training(gamma=0.5)
    before = config.to_dict()
    result = enable(config, capacity=77, num_shards=0)
    assert type(result) is enabled
    assert result.algo_class is enabled_algorithm
    assert config.to_dict() == before
    assert config.algo_class is algorithm
    assert (result.gamma, result.env) == (0.5, "CartPole-v1")
    assert result.replay_buffer_config == {
        **before["replay_buffer_config"], "type": TYPE, "capacity": 77, "num_shards": 0,
    }  # fmt: skip
    assert issubclass(enabled_algorithm, algorithm)
    assert type(enabled_algorithm.get_default_config()) is enabled
    assert enabled_algorithm.get_default_config().algo_class is enabled_algorithm


@pytest.mark.parametrize(("plain", "enabled"), [pair[:2] for pair in ENABLED])
def test_the_class_alone_is_an_enabled_config(plain: type, enabled: type) -> None:
    assert settings(enabled()) == settings(enable(plain()))


@pytest.mark.parametrize("name", [
    "AccDQN", "AccSACConfig", "AccDQNConfig", pytest.param("AccTQC", marks=needs_tqc),
])  # fmt: skip
def test_classes_stand_in_their_module_by_name(name: str) -> None:
    class_ = getattr(rllib_per_acc, name)
    assert class_ is getattr(importlib.import_module(class_.__module__), class_.__qualname__)
    assert pickle.loads(pickle.dumps(class_)) is class_


@pytest.mark.parametrize("algorithm", [
    AccDQN, AccSAC, pytest.param(AccTQC, marks=needs_tqc),
])  # fmt: skip
def test_ray_can_disassemble_an_algorithm(algorithm: type) -> None:
    """Ray does so with an actor's class, classes among its attributes included."""
    listing = io.StringIO()
    dis.dis(algorithm, file=listing)
    assert "config_class" in listing.getvalue()


def test_twice_is_once() -> None:
    once = enable(SACConfig().training(tau=0.1), alpha=0.3)
    twice = enable(once)
    assert twice is not once
    assert type(twice) is AccSACConfig
    assert settings(twice) == settings(once)
    assert enable(once, beta=0.9).replay_buffer_config == {**once.replay_buffer_config, "beta": 0.9}
    assert once.replay_buffer_config["beta"] == 0.4


def test_in_any_order_with_other_calls() -> None:
    def others(config: DQNConfig) -> DQNConfig:
        return (
            config.environment("CartPole-v1")
            .env_runners(num_env_runners=3)
            .learners(num_learners=2)
            .training(lr=0.1, replay_buffer_config={"capacity": 99, "beta": 0.7})
            .callbacks(on_algorithm_init=print)
        )

    assert settings(others(enable(DQNConfig(), num_shards=0))) == settings(
        enable(others(DQNConfig()), num_shards=0)
    )


@pytest.mark.parametrize("type_", [TYPE, AccPrioritizedEpisodeReplayBuffer])
@pytest.mark.parametrize("also", [{"capacity": 5}, {}])
def test_naming_the_buffer_again_keeps_the_other_keys(type_: Any, also: dict) -> None:
    for given in (TYPE, AccPrioritizedEpisodeReplayBuffer):
        config = enable(DQNConfig(), type=given, alpha=0.1, seed=3)
        config.training(replay_buffer_config={"type": type_, **also})
        assert config.replay_buffer_config == {
            "capacity": 50000, "beta": 0.4, "alpha": 0.1, "seed": 3, **also, "type": type_,
        }  # fmt: skip


def test_a_frozen_config() -> None:
    config = DQNConfig()
    config.freeze()
    result = enable(config)
    result.training(gamma=0.3)
    assert config._is_frozen
    assert config.gamma == 0.99


def test_nothing_is_shared_with_the_original() -> None:
    config = DQNConfig().training(replay_buffer_config={"beta": [[0, 0.4], [100, 1.0]]})
    result = enable(config)
    result.replay_buffer_config["beta"][0][1] = 0.0
    result.env_config["x"] = 1
    assert config.replay_buffer_config["beta"][0][1] == 0.4
    assert "x" not in config.env_config


@pytest.mark.parametrize("again", [
    lambda config: config.copy(),
    copy.deepcopy,
    lambda config: pickle.loads(pickle.dumps(config)),
    lambda config: cloudpickle.loads(cloudpickle.dumps(config)),
    lambda config: type(config).from_dict(config.to_dict()),
    lambda config: type(config).from_state(config.get_state()),
    lambda config: DQNConfig.from_state(config.get_state()),
])  # fmt: skip
def test_copies_are_the_same(again: Any) -> None:
    config = enable(DQNConfig().environment("CartPole-v1"), capacity=77, num_shards=0)
    copied = again(config)
    assert type(copied) is AccDQNConfig
    assert copied.algo_class is AccDQN
    assert settings(copied) == settings(config)


def test_replay_buffer_config_holds_what_the_user_wrote_and_nothing_else() -> None:
    config = enable(SACConfig().environment("Pendulum-v1").training(lr=None), num_cpus_per_shard=1)
    expected = {
        "type": TYPE, "capacity": 1_000_000, "alpha": 0.6, "beta": 0.4, "num_cpus_per_shard": 1,
    }  # fmt: skip
    assert config.replay_buffer_config == expected
    config.validate()
    assert config.replay_buffer_config == expected


def test_an_unknown_key_names_the_nearest() -> None:
    with pytest.raises(TypeError, match=r"'kapacity'.*'capacity'"):
        enable(DQNConfig(), kapacity=3)
    config = DQNConfig().training(replay_buffer_config={"num_shard": 0})
    with pytest.raises(TypeError, match=r"'num_shard'.*'num_shards'"):
        enable(config)
    enabled = enable(DQNConfig()).training(replay_buffer_config={"sampel_format": "rows"})
    with pytest.raises(TypeError, match=r"'sampel_format'.*'sample_format'"):
        enabled.validate()


@pytest.mark.parametrize(("key", "value"), [
    ("capacity", 0), ("capacity", "10"), ("alpha", -1), ("num_shards", -1), ("beta", "x"),
    ("sample_format", "row"), ("num_cpus_per_shard", -1), ("batch_size_B", 1.5),
])  # fmt: skip
def test_a_wrong_value_is_found_by_validate(key: str, value: Any) -> None:
    config = enable(DQNConfig(), **{key: value})
    with pytest.raises((TypeError, ValueError), match=f"{key}: got {value!r}"):
        config.validate()


def test_values_to_search_are_taken() -> None:
    from ray import tune

    space = tune.grid_search([10, 20])
    assert enable(DQNConfig(), capacity=space).replay_buffer_config["capacity"] == space


def test_tune_may_choose_the_type() -> None:
    from ray import tune

    space = tune.grid_search([TYPE, "PrioritizedEpisodeReplayBuffer"])
    config = enable(DQNConfig(), type=space, num_shards=tune.choice([0, 1]))
    assert config.replay_buffer_config["type"] == space
    with pytest.raises(TypeError, match=r"'num_shard'.*'num_shards'"):
        enable(DQNConfig(), type=space, num_shard=1)


@pytest.mark.parametrize("type_", ["MultiAgentReplayBuffer", "no.such.Buffer", 3, None, {}])
def test_a_type_that_is_no_buffer_of_ours(type_: Any) -> None:
    with pytest.raises(ValueError, match="type: got") as error:
        enable(DQNConfig(), type=type_)
    assert repr(type_) in str(error.value)
    assert TYPE in str(error.value)


def test_rllibs_uniform_buffer_is_replaced_too() -> None:
    config = DQNConfig().training(replay_buffer_config={"type": "EpisodeReplayBuffer"})
    assert enable(config).replay_buffer_config == {"type": TYPE}


class OwnBuffer(AccPrioritizedEpisodeReplayBuffer):
    """Takes keys of its own."""

    def __init__(self, *, own: int = 0, **options: Any) -> None:
        super().__init__(**options)
        self.own = own


def test_a_buffer_derived_from_ours_keeps_its_type_and_keys() -> None:
    config = enable(SACConfig(), type=OwnBuffer, own=3)
    assert config.replay_buffer_config["type"] is OwnBuffer
    assert config.replay_buffer_config["own"] == 3
    config.training(lr=None).validate()


class OwnDQN(DQN):
    """An algorithm of the user's."""

    @classmethod
    def get_default_config(cls) -> Any:
        return OwnConfig()


class OwnConfig(DQNConfig):
    """Its config."""

    def __init__(self) -> None:
        super().__init__(algo_class=OwnDQN)
        self.own = 1


@pytest.mark.parametrize("config", [PPOConfig(), {"lr": 1}, None, DQN])
def test_what_is_no_config_with_a_replay_buffer(config: Any) -> None:
    with pytest.raises(TypeError, match=r"config: got a .*expected a DQNConfig"):
        enable(config)


@pytest.mark.parametrize("config", [
    OwnConfig(),
    DQNConfig(algo_class=OwnDQN),
    SACConfig(algo_class=DQN),
    DQNConfig(algo_class="DQN"),
])  # fmt: skip
def test_a_class_of_the_users_own_needs_the_mixins(config: Any) -> None:
    with pytest.raises(TypeError, match="AccAlgorithmMixin") as error:
        enable(config)
    message = str(error.value)
    assert type(config).__name__ in message
    assert str(getattr(config.algo_class, "__name__", config.algo_class)) in message


def test_the_recipe_of_the_error_works(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rllib_per_acc.rllib.config.PAIRS", dict(rllib_per_acc.rllib.config.PAIRS))
    monkeypatch.setattr("rllib_per_acc.rllib.mixins.PAIRS", rllib_per_acc.rllib.config.PAIRS)
    with pytest.raises(TypeError) as error:
        enable(OwnConfig())
    lines = [line.strip() for line in str(error.value).splitlines()[1:]]
    assert len(lines) == 2
    assert all(line.startswith("class ") for line in lines)
    namespace = dict(globals())
    exec("\n".join(lines), namespace)
    own = OwnConfig()
    own.own = 5
    config = enable(own, capacity=9)
    assert type(config) is namespace["AccOwnConfig"]
    assert config.algo_class is namespace["AccOwnDQN"]
    assert (config.own, config.replay_buffer_config["capacity"]) == (5, 9)
    assert type(namespace["AccOwnDQN"].get_default_config()) is namespace["AccOwnConfig"]
    assert type(enable(config)) is type(config)


class FurtherDQN(AccDQN):
    """Derived from an enabled algorithm: enabled already."""


class MoreConfig(AccDQNConfig):
    """Derived from an enabled config."""


class MoreDQN(AccDQN):
    """Its algorithm."""

    config_class = MoreConfig


def test_what_is_derived_from_an_enabled_algorithm_stays() -> None:
    assert enable(AccDQNConfig(algo_class=FurtherDQN)).algo_class is FurtherDQN
    assert issubclass(FurtherDQN, AccAlgorithmMixin)
    assert MoreConfig().algo_class is enable(MoreConfig()).algo_class is MoreDQN
    assert type(enable(MoreConfig())) is MoreConfig
    assert type(enable(DQNConfig())) is AccDQNConfig


@pytest.mark.parametrize("type_", [TYPE, AccPrioritizedEpisodeReplayBuffer])
@pytest.mark.parametrize("plain", [
    DQNConfig, SACConfig, pytest.param(TQCConfig, marks=needs_tqc),
])  # fmt: skip
def test_validate_takes_the_class_and_its_name(plain: type, type_: Any) -> None:
    config = plain().environment("Pendulum-v1")
    if plain is not DQNConfig:
        config.training(lr=None)
    config = enable(config, type=type_)
    config.validate()
    assert config.replay_buffer_config["type"] is type_


def test_rllibs_sac_alone_refuses_the_name() -> None:
    """Where this passes, `shown_as_rllibs` is no longer needed."""
    config = SACConfig().training(lr=None, replay_buffer_config={"type": TYPE})
    with pytest.raises(ValueError, match="must be of type"):
        config.validate()


def test_an_error_of_rllibs_validate_leaves_the_config_as_it_was() -> None:
    config = enable(SACConfig().training(lr=0.1))
    with pytest.raises(ValueError, match="learning rate"):
        config.validate()
    assert config.replay_buffer_config["type"] == TYPE


RANGE = {"n_step": (1, 3)}


def test_dqn_takes_a_range_of_steps_with_fragments_by_itself_only() -> None:
    plain = DQNConfig().environment("CartPole-v1").training(**RANGE)
    for num_env_runners in (0, 1):
        auto = plain.copy().env_runners(num_env_runners=num_env_runners)
        enable(auto).validate()
        assert enable(auto).get_rollout_fragment_length() == 3
        fixed = auto.copy().env_runners(rollout_fragment_length=4)
        with pytest.raises(TypeError, match="'<' not supported"):
            fixed.copy().validate()
        with pytest.raises(ValueError, match=r"rollout_fragment_length: got 4 .* \"auto\""):
            enable(fixed).validate()


def test_sac_takes_a_range_of_steps_with_longer_fragments() -> None:
    config = SACConfig().environment("Pendulum-v1").training(**RANGE)
    enable(config.copy().env_runners(rollout_fragment_length=3)).validate()
    with pytest.raises(ValueError, match="rollout_fragment_length"):
        enable(config.copy().env_runners(rollout_fragment_length=2)).validate()


@pytest.mark.parametrize("num_learners", [0, 1, 2, 4])
def test_a_train_batch_has_a_row_for_each_learner(num_learners: int) -> None:
    config = enable(DQNConfig().learners(num_learners=num_learners))
    config.training(train_batch_size=num_learners or 1).validate()
    config.training(train_batch_size=(num_learners or 1) - 1)
    with pytest.raises(ValueError, match=f"got 0 .*num_learners={num_learners}"):
        config.validate()


def test_another_buffer_in_an_enabled_config_is_warned_of(
    caplog: pytest.LogCaptureFixture,
) -> None:
    config = enable(SACConfig().training(lr=None))
    config.training(replay_buffer_config={"type": "EpisodeReplayBuffer", "capacity": 3})
    config.validate()
    assert "'EpisodeReplayBuffer'" in caplog.text
    assert TYPE in caplog.text


def request_of(**keys: Any) -> Any:
    config = AccDQNConfig().environment("CartPole-v1").env_runners(num_env_runners=2)
    config = enable(config.learners(num_learners=1), **keys)
    return AccDQN.default_resource_request(config.to_dict())


def test_shards_that_ask_for_nothing_add_no_bundle() -> None:
    plain = DQNConfig().environment("CartPole-v1").env_runners(num_env_runners=2)
    expected = DQN.default_resource_request(plain.learners(num_learners=1).to_dict())
    assert request_of() == expected
    assert request_of(num_shards=0, num_cpus_per_shard=2) == expected


@pytest.mark.parametrize(("cpus", "gpus"), [(1, 0), (0, 0.25), (2, 1)])
def test_a_shard_that_asks_has_the_last_bundle(cpus: float, gpus: float) -> None:
    bundle = {key: value for key, value in (("CPU", cpus), ("GPU", gpus)) if value}
    request = request_of(num_cpus_per_shard=cpus, num_gpus_per_shard=gpus)
    assert request.bundles == [*request_of().bundles, bundle]
    assert request.strategy == request_of().strategy


def test_bundles_with_a_main_process_that_asks_for_nothing() -> None:
    config = enable(DQNConfig().learners(num_learners=1), num_cpus_per_shard=1)
    config.resources(num_cpus_for_main_process=0)
    request = AccDQN.default_resource_request(config.to_dict())
    assert request.head_bundle_is_empty
    assert request.bundles == [{"CPU": 1}, {"CPU": 1}]


def test_enabled_configs_warn_of_nothing() -> None:
    with warnings.catch_warnings():
        warnings.filterwarnings("error", module="rllib_per_acc")
        enable(DQNConfig()).validate()
    assert issubclass(AccDQNConfig, AccConfigMixin)
