"""RLlib episodes as chunks for the store, and back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, overload

from ray.rllib.env.single_agent_episode import SingleAgentEpisode
from ray.rllib.env.utils.infinite_lookback_buffer import InfiniteLookbackBuffer

from rllib_per_acc.episode_chunk import EpisodeChunk
from rllib_per_acc.replay_batch import ReplayClient
from rllib_per_acc.rllib.row_group import NOBODY, Owner
from rllib_per_acc.rllib.space_values import values_of


def chunk_of(episode: SingleAgentEpisode) -> EpisodeChunk:
    """The steps of `episode`, without its lookback; arrays are shared, not copied."""
    n = len(episode)
    return EpisodeChunk(
        episode_id=episode.id_,
        observations=values_of(episode.observations, n + 1, episode.observation_space),
        actions=values_of(episode.actions, n, episode.action_space),
        rewards=values_of(episode.rewards, n, None),
        terminated=bool(episode.is_terminated),
        truncated=bool(episode.is_truncated),
        t_started=episode.t_started,
        infos=_list(episode.infos),
        extra_model_outputs={
            key: values_of(outputs, n, None) for key, outputs in episode.extra_model_outputs.items()
        },
    )


def episode_of(
    chunk: EpisodeChunk,
    observation_space: Any = None,
    action_space: Any = None,
    owner: Owner = NOBODY,
) -> SingleAgentEpisode:
    """The episode that a stored chunk came from, as arrays."""
    return SingleAgentEpisode(
        id_=chunk.episode_id,
        observations=InfiniteLookbackBuffer(chunk.observations),
        observation_space=observation_space,
        infos=InfiniteLookbackBuffer(list(chunk.infos or [{}] * (len(chunk) + 1))),
        actions=InfiniteLookbackBuffer(chunk.actions),
        action_space=action_space,
        rewards=InfiniteLookbackBuffer(chunk.rewards),
        terminated=chunk.terminated,
        truncated=chunk.truncated,
        extra_model_outputs={
            key: InfiniteLookbackBuffer(outputs)
            for key, outputs in chunk.extra_model_outputs.items()
        },
        t_started=chunk.t_started,
        len_lookback_buffer=0,
        **owner._asdict(),
    )


_AT_A_TIME = 16
"""How many episodes are copied out together when all are read."""


class EpisodesView(Sequence[SingleAgentEpisode]):
    """The stored episodes, oldest first, copied out when they are read, a few at a time.

    A loop is over those that were stored when it began, without those that are evicted meanwhile.

    Args:
        client: The replay that holds them.
        spaces: Their observation and action space.
        owner_of: Says by its id whose an episode is.
    """

    def __init__(
        self,
        client: ReplayClient,
        spaces: tuple[Any, Any],
        owner_of: Callable[[Any], Owner] = lambda _: NOBODY,
    ) -> None:
        self._client = client
        self._spaces = spaces
        self._owner_of = owner_of

    def __len__(self) -> int:
        return int(self._client.info()["episodes"])

    @overload
    def __getitem__(self, index: int) -> SingleAgentEpisode: ...
    @overload
    def __getitem__(self, index: slice) -> list[SingleAgentEpisode]: ...
    def __getitem__(self, index: int | slice) -> SingleAgentEpisode | list[SingleAgentEpisode]:
        chosen = range(len(self))[index]
        if isinstance(chosen, int):
            return self._copies(chosen, chosen + 1)[0]
        if not chosen:
            return []
        first = min(chosen)
        copies = self._copies(first, max(chosen) + 1)
        return [copies[i - first] for i in chosen]

    def __iter__(self) -> Iterator[SingleAgentEpisode]:
        ids = self._client.episode_ids()
        for start in range(0, len(ids), _AT_A_TIME):
            chunks = self._client.get_chunks_of(ids[start : start + _AT_A_TIME])
            yield from map(self._episode, chunks)

    def _copies(self, start: int, stop: int) -> list[SingleAgentEpisode]:
        return [*map(self._episode, self._client.get_chunks(start, stop))]

    def _episode(self, chunk: EpisodeChunk) -> SingleAgentEpisode:
        return episode_of(chunk, *self._spaces, self._owner_of(chunk.episode_id))


def _list(buffer: InfiniteLookbackBuffer) -> list[Any] | None:
    items = buffer.data[buffer.lookback :]
    return items if any(items) else None
