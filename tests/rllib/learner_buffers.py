"""Buffers whose TD errors are followed through learners."""

from rllib_per_acc import AccPrioritizedEpisodeReplayBuffer


def make_buffer(sample_format: str) -> AccPrioritizedEpisodeReplayBuffer:
    return AccPrioritizedEpisodeReplayBuffer(
        2000, alpha=1.0, beta=0.4, num_shards=0, seed=3, sample_format=sample_format
    )
