"""All that RLlib's own code asks of an episode buffer is listed here, and answered by a call."""

import ast
import inspect
import pathlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import ray.rllib
from rllib_episodes import mixed_episodes

from rllib_per_acc import (
    AccMultiAgentPrioritizedEpisodeReplayBuffer,
    AccPrioritizedEpisodeReplayBuffer,
)

RLLIB = pathlib.Path(ray.rllib.__file__).parent
FILES = sorted(
    path
    for folder in ("algorithms", "offline", "env", "evaluation", "connectors", "examples")
    for path in (RLLIB / folder).rglob("*.py")
    if "tests" not in path.parts and "_old_api_stack" not in path.parts
)
NAMES = {"episode_buffer", "local_replay_buffer"}

ANSWERS: dict[str, Callable[[AccPrioritizedEpisodeReplayBuffer], Any]] = {
    "add": lambda buffer: buffer.add(mixed_episodes()[0]),
    "sample": lambda buffer: buffer.sample(num_items=3, n_step=1, sample_episodes=True),
    "get_metrics": lambda buffer: buffer.get_metrics(),
    "get_state": lambda buffer: buffer.get_state(),
    "set_state": lambda buffer: buffer.set_state(buffer.get_state()),
    "episode_id_to_index": lambda buffer: "episode-0" in buffer.episode_id_to_index,
}


def asked() -> tuple[set[str], set[str]]:
    """The attributes that RLlib reads of buffers, and the keywords that it gives to `sample`."""
    attributes, keywords = set(), set()
    for path in FILES:
        text = path.read_text()
        if not any(name in text for name in NAMES):
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Attribute) and _is_buffer(node.value):
                attributes.add(node.attr)
            if isinstance(node, ast.Call) and _is_sample_of_buffer(node.func):
                keywords |= {keyword.arg for keyword in node.keywords if keyword.arg}
    return attributes, keywords


def _is_sample_of_buffer(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == "sample" and _is_buffer(node.value)


def _is_buffer(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and node.attr in NAMES


def test_what_rllib_asks_for_is_answered() -> None:
    attributes, _ = asked()
    assert {"add", "sample", "get_metrics"} <= attributes
    assert attributes <= set(ANSWERS)


@pytest.mark.parametrize("name", ANSWERS)
@pytest.mark.parametrize("sample_format", ["rows", "episodes"])
def test_an_answer(name: str, sample_format: str) -> None:
    buffer = AccPrioritizedEpisodeReplayBuffer(1000, num_shards=0, sample_format=sample_format)
    buffer.add(mixed_episodes()[1:])
    ANSWERS[name](buffer)
    assert buffer.get_num_timesteps() in (31, 36)
    buffer.sample(num_items=4)
    buffer.update_priorities(np.ones(4))


@pytest.mark.parametrize(
    "kind", [AccPrioritizedEpisodeReplayBuffer, AccMultiAgentPrioritizedEpisodeReplayBuffer]
)
def test_sample_takes_every_keyword_that_rllib_gives(kind: type) -> None:
    _, keywords = asked()
    assert {"num_items", "n_step", "batch_length_T", "lookback", "beta"} <= keywords
    assert keywords <= set(inspect.signature(kind.sample).parameters) | {"replay_mode"}
