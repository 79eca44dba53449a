"""`frame_stack` in RLlib's buffer: the same samples, in this process and in an actor."""

import gymnasium as gym
import numpy as np
import pytest
from ray.rllib.env.single_agent_episode import SingleAgentEpisode

from rllib_per_acc import AccPrioritizedEpisodeReplayBuffer

IMAGES = gym.spaces.Box(0, 255, (6, 5, 4), np.uint8)


def image_episode(number, steps=20):
    rng = np.random.default_rng(number)
    frames = rng.integers(0, 256, (steps + 4, 6, 5), np.uint8)
    frames[:3] = frames[3]
    return SingleAgentEpisode(
        id_=f"episode-{number}",
        observations=[np.stack(frames[t : t + 4], axis=-1) for t in range(steps + 1)],
        observation_space=IMAGES,
        actions=list(rng.integers(0, 2, steps)),
        action_space=gym.spaces.Discrete(2),
        rewards=rng.random(steps).tolist(),
        terminated=True,
        len_lookback_buffer=0,
    )


@pytest.mark.parametrize("num_shards", [0, 1])
def test_samples_are_those_of_whole_observations(num_shards, request):
    if num_shards:
        request.getfixturevalue("ray_session")
    options = {"capacity": 100, "beta": 0.4, "num_shards": num_shards, "seed": 3}
    compressed = AccPrioritizedEpisodeReplayBuffer(**options, frame_stack=4)
    plain = AccPrioritizedEpisodeReplayBuffer(**options)
    for number in range(8):
        for buffer in (compressed, plain):
            buffer.add([image_episode(number)])
    for _ in range(3):
        one, two = (buffer.sample(32, n_step=2) for buffer in (compressed, plain))
        for ours, theirs in zip(one, two, strict=True):
            n = len(theirs)
            for rows in (slice(0, n), slice(1, n + 1)):
                np.testing.assert_array_equal(
                    ours.get_observations(rows), theirs.get_observations(rows)
                )
    (less,), (more,) = (buffer.get_shard_info() for buffer in (compressed, plain))
    assert less["bytes"] < more["bytes"]
    again = AccPrioritizedEpisodeReplayBuffer(**options, frame_stack=4)
    again.set_state(compressed.get_state())
    assert len(again.sample(16)) > 0
