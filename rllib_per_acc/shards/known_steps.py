"""KnownSteps: what a client knows of the steps in the shards, to check new ones before they go."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from rllib_per_acc.episode_chunk import EpisodeChunk
from rllib_per_acc.replay_options import ReplayOptions
from rllib_per_acc.sampling import Floats, PrioritySampler, checked_weight
from rllib_per_acc.structures import map_leaves
from rllib_per_acc.transition_store import TransitionStore


class KnownSteps:
    """Checks chunks as a shard's store would that holds no episode yet.

    It has a store of its own, in which is a step of the first chunks only. So nesting, shapes,
    dtypes and lengths are checked by the same code, and all of an add before any of it is sent.

    Args:
        options: Of the replay.
    """

    def __init__(self, options: ReplayOptions) -> None:
        self._frame_stack = options.frame_stack
        self._sampler = PrioritySampler(replace(options, device="cpu"))
        self.forget()

    def forget(self) -> None:
        """Starts anew: any first steps will do."""
        self._examples: list[EpisodeChunk] = []
        self._store = TransitionStore(None, self._frame_stack)

    def learn(self, examples: Sequence[EpisodeChunk]) -> None:
        """Knows such steps from now on, and no others."""
        examples = [_example(chunk, number) for number, chunk in enumerate(examples)]
        store = TransitionStore(None, self._frame_stack)
        store.add(examples)
        self._examples, self._store = examples, store

    def check(self, chunks: Sequence[EpisodeChunk], weight: Any) -> Floats | None:
        """The weights of chunks that can be sent.

        Raises:
            TypeError, ValueError: If a chunk or a weight does not fit; nothing is changed.
        """
        for number, chunk in enumerate(chunks):
            if not isinstance(chunk, EpisodeChunk):
                raise TypeError(
                    f"chunks: got a {type(chunk).__name__} at position {number}, expected an "
                    "EpisodeChunk"
                )
        weights = None
        if weight is not None:
            weights = checked_weight(weight, sum(map(len, chunks)))
            self._sampler.check("weight", weights)
        examples, store = self._examples, self._store
        try:
            for chunk in chunks:
                # One by one: together they would be joined, which copies them.
                self._store.prepare([chunk])
                if not self._knows(chunk):
                    self.learn([*self._examples, chunk])
        except BaseException:
            self._examples, self._store = examples, store
            raise
        return weights

    def _knows(self, chunk: EpisodeChunk) -> bool:
        columns = self._store.columns
        return bool(
            columns.observations.leaves
            and (columns.actions.leaves or not len(chunk))
            and (columns.infos.leaves or not any(chunk.infos or ()))
            and chunk.extra_model_outputs.keys() <= columns.extras.keys()
        )


def _example(chunk: EpisodeChunk, number: int) -> EpisodeChunk:
    """The first step of a chunk, or of one that has none its observation."""
    steps = min(len(chunk), 1)

    def cut(leaf: Any) -> Any:
        return leaf[:steps]

    def cut_longer(leaf: Any) -> Any:
        return leaf[: steps + 1]

    return EpisodeChunk(
        f"example {number}",
        map_leaves(cut_longer, chunk.observations),
        map_leaves(cut, chunk.actions),
        chunk.rewards[:steps],
        infos=None if chunk.infos is None else list(chunk.infos)[: steps + 1],
        extra_model_outputs={
            name: map_leaves(cut, values) for name, values in chunk.extra_model_outputs.items()
        },
    )
