"""What the buffers for RLlib's new API stack share: their keys, and their end."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

import gymnasium
import ray
from ray.rllib.utils.metrics.metrics_logger import MetricsLogger

from rllib_per_acc.changes import Change
from rllib_per_acc.descriptions import instance_of, or_none, tuple_of
from rllib_per_acc.ray_versions import warn_if_newer
from rllib_per_acc.replay_batch import ReplayClient
from rllib_per_acc.replay_options import SequenceShape, non_negative_int, positive_int
from rllib_per_acc.rllib.buffer_config import split_options
from rllib_per_acc.rllib.client import close_client
from rllib_per_acc.rllib.closed import Closed
from rllib_per_acc.rllib.compat import in_data_worker, made_into_actor
from rllib_per_acc.rllib.last_samples import LastSamples
from rllib_per_acc.shards.shard_options import ShardOptions
from rllib_per_acc.threads import AllOrNothing, serialized

_check_space = or_none(instance_of(gymnasium.Space, "a space or None"))
check_spaces = tuple_of(_check_space, _check_space)
"""Checks the observation and the action space in a state."""


class EpisodeBufferBase(AllOrNothing):
    """Put before one of RLlib's episode buffers: its constructor, and nothing of its storage."""

    _ended_by_close: ClassVar[tuple[str, ...]]
    """Attributes that hold rows, or what is known of them; `_last_samples` among them."""

    def __init__(
        self,
        capacity: int = 10000,
        *,
        batch_size_B: int = 16,
        batch_length_T: int = 1,
        alpha: float = 1.0,
        metrics_num_episodes_for_smoothing: int = 100,
        **options: Any,
    ) -> None:
        """Builds the buffer.

        Args:
            capacity: Time steps to keep; whole episodes are evicted, oldest first.
            batch_size_B: Transitions per sample where `sample` is not told.
            batch_length_T: Steps of the sequences to sample where `sample` is not told; 0 or 1 for
                transitions.
            alpha: Exponent of the priorities, >= 0.
            metrics_num_episodes_for_smoothing: Window of the metrics that are means.
            **options: The fields of `ReplayOptions`, `ShardOptions` and `AdapterOptions`.

        Raises:
            TypeError, ValueError: If a key is unknown (the nearest known one is named) or a value
                is wrong.
        """
        AllOrNothing.__init__(self)
        warn_if_newer(ray.__version__)
        self.capacity = positive_int("capacity", capacity)
        self.batch_size_B = positive_int("batch_size_B", batch_size_B)
        self.batch_length_T = non_negative_int("batch_length_T", batch_length_T)
        self._metrics_num_episodes_for_smoothing = positive_int(
            "metrics_num_episodes_for_smoothing", metrics_num_episodes_for_smoothing
        )
        self._replay_options, self._shard_options, adapter = split_options(
            {
                **options,
                "alpha": alpha,
                "metrics_window": metrics_num_episodes_for_smoothing,
            },
        )
        in_actor = made_into_actor(type(self))
        if in_actor or in_data_worker():
            self._shard_options = ShardOptions(num_shards=0)
        self._last_samples = LastSamples(in_actor)
        self.sample_format = adapter.sample_format
        self.include_infos = adapter.include_infos
        self.include_extra_model_outputs = adapter.include_extra_model_outputs
        self.lookback = adapter.lookback
        self.eta = adapter.eta
        self.metrics = MetricsLogger(root=False)

    @abstractmethod
    def _replays(self) -> Mapping[Any, ReplayClient]:
        """The replays that the buffer has now."""

    @serialized
    def close(self) -> None:
        """Ends the buffer: its rows are gone, and so are its actors. Again: does nothing.

        Every later call raises a `ReplayClosedError`. With `enable` an algorithm closes its buffer
        in `stop()`.
        """
        if isinstance(self._last_samples, Closed):
            return
        change = Change()
        for client in self._replays().values():
            change.call(close_client, client)
        for name in self._ended_by_close:
            change.let(self, name, Closed())
        self._commit(change)

    def _num_items(self, num_items: int | None, batch_size_B: int | None) -> int:
        """How many transitions `sample` is asked for.

        Raises:
            ValueError: If its arguments contradict each other.
        """
        if num_items is not None and batch_size_B is not None:
            raise ValueError(
                f"sample: got num_items={num_items} and batch_size_B={batch_size_B}, "
                "expected one of them"
            )
        count = num_items if num_items is not None else batch_size_B
        if count == 0:
            raise ValueError(
                "num_items: got 0, expected an integer >= 1. RLlib samples train_batch_size // "
                "num_learners rows for each learner: is train_batch_size less than num_learners?"
            )
        return self.batch_size_B if count is None else count

    def _include(self, infos: bool | None, outputs: bool | None) -> dict[str, Any]:
        """What comes along with a sample, where None stands for the keys."""
        return {
            "include_infos": self.include_infos if infos is None else infos,
            "include_extra_model_outputs": (
                self.include_extra_model_outputs if outputs is None else outputs
            ),
        }

    def _steps_before(self, lookback: int) -> SequenceShape | None:
        """Which steps come along before each transition; None for none.

        Args:
            lookback: How many `sample` is asked for; the key counts if it is more. Row groups have
                none: RLlib's data workers ask for one that their buffers do not give either.

        Raises:
            TypeError, ValueError: If it is wrong.
        """
        most = max(non_negative_int("lookback", lookback), self.lookback)
        if not most:
            return None
        before = SequenceShape(0, most)
        before.check(1)
        return before if self.sample_format == "episodes" else None
