"""ReplayBatch: sampled transitions, and the way back for their priorities."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from rllib_per_acc.activity import Activity
from rllib_per_acc.columns import Rows
from rllib_per_acc.episode_chunk import EpisodeChunk
from rllib_per_acc.replay_options import BetaSchedule, NStep, SequenceShape
from rllib_per_acc.sampling import checked_priorities

if TYPE_CHECKING:
    from rllib_per_acc.local_folder import Folder
    from rllib_per_acc.parts_on_file import Prepared


class RowHandle(NamedTuple):
    """Names rows as they were when sampled, so that a late priority cannot hit newer ones.

    Attributes:
        rows: Row numbers, int32 of shape (B,).
        generations: The generation each row had, uint32 of shape (B,).
        incarnation: Of the replay that the rows are in.
    """

    rows: Rows
    generations: NDArray[np.uint32]
    incarnation: int


class TakesPriorities(Protocol):
    """What a batch needs of the replay that it comes from."""

    def update(self, handle: Any, priorities: Any) -> None:
        """Gives the rows of a batch new priorities; called by `ReplayBatch.update`."""


class ReplayClient(TakesPriorities, Protocol):
    """What adapters need of a replay, wherever it lives."""

    def add(
        self, chunks: Sequence[EpisodeChunk], weight: Any = None, evict: Iterable[str] = ()
    ) -> None:
        """Stores chunks of episodes; see `PrioritizedReplay.add`."""

    def prepare_add(
        self, chunks: Sequence[EpisodeChunk], weight: Any = None, evict: Iterable[str] = ()
    ) -> Callable[[], None]:
        """What stores chunks; see `PrioritizedReplay.prepare_add`. An actor checks when it does."""

    def sample(
        self,
        num_items: int,
        *,
        n_step: NStep = 1,
        gamma: float = 0.99,
        beta: BetaSchedule | None = None,
        include_infos: bool = False,
        include_extra_model_outputs: bool = False,
        include_episode_ids: bool = False,
        incomplete_n_step: str | None = None,
        sequences: SequenceShape | None = None,
    ) -> ReplayBatch:
        """Draws transitions; see `PrioritizedReplay.sample`."""

    def read(
        self,
        episode_ids: Sequence[str],
        t: Any,
        n_step: Any,
        *,
        gamma: float = 0.99,
        include_infos: bool = False,
        include_extra_model_outputs: bool = False,
    ) -> list[tuple[dict[str, Any], Any]]:
        """Transitions that begin at named steps; see `PrioritizedReplay.read`."""

    def take_activity(self) -> Activity:
        """What happened since the last call."""

    def info(self) -> dict[str, Any]:
        """Counters; see `PrioritizedReplay.info`."""

    def shard_info(self) -> list[dict[str, Any]]:
        """For each process that holds rows its `pid` and its counters."""

    def shard_metrics(self) -> list[dict[str, float]]:
        """For each process that holds rows numbers to follow over time; asks none of them."""

    def get_priorities(self) -> dict[str, np.ndarray]:
        """The mass of every stored step; see `PrioritizedReplay.get_priorities`."""

    def get_chunks(self, start: int, stop: int) -> list[EpisodeChunk]:
        """Copies of stored episodes; see `PrioritizedReplay.get_chunks`."""

    def get_chunks_of(self, episode_ids: Sequence[Any]) -> list[EpisodeChunk]:
        """Copies of named episodes; see `PrioritizedReplay.get_chunks_of`."""

    def episode_ids(self) -> list[Any]:
        """Which episodes are stored; see `PrioritizedReplay.episode_ids`."""

    def get_state(self) -> dict[str, Any]:
        """Everything needed to go on, as copies."""

    def set_state(self, state: dict[str, Any]) -> None:
        """Goes on from a state."""

    def save_in(self, folder: Folder) -> dict[str, Any]:
        """Writes everything needed to go on into folders below `folder`, without copying it.

        Returns:
            What `prepare_restore` needs beside the folder, in JSON-able form.

        Raises:
            OSError: If a file cannot be written.
            TypeError, ValueError: If an object cannot be written as JSON.
        """

    def prepare_restore(self, folder: Folder, saved: dict[str, Any]) -> Prepared:
        """Reads what `save_in` of this or another client wrote, to go on from it at `commit()`.

        Raises:
            FileNotFoundError, ValueError: If something is missing or damaged.
        """


class ReplayBatch:
    """Sampled transitions in columns of B items; those that end an episode come last.

    Attributes:
        columns: `observations`, `actions`, `next_observations` (nested arrays), `rewards`
            (float64), `terminateds`, `truncateds` (bool), `t`, `n_step` (int64), `weights`
            (float64), and where asked for `infos`, `next_infos`, `episode_id` (object arrays) and
            `extra_model_outputs` (nested arrays by name).
            Of sequences: what `sequences.gather_sequences` returns, and `weights`.
        handle: Names the rows for `update`.
    """

    def __init__(self, columns: dict[str, Any], handle: Any, client: TakesPriorities) -> None:
        self.columns = columns
        self.handle = handle
        self._client = client
        self._updated = False

    def __len__(self) -> int:
        return len(self.columns["rewards"])

    def __getattr__(self, name: str) -> Any:
        try:
            return self.__dict__["columns"][name]
        except KeyError:
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}") from None

    def update(self, priorities: Any) -> None:
        """Sends new priorities (absolute TD errors), one for each item, once for each batch.

        Args:
            priorities: Numbers of shape (B,). Rows evicted since are skipped and counted.

        Raises:
            RuntimeError: If the batch has been updated before.
            TypeError: If the priorities are not real numbers.
            ValueError: If their number is wrong, or one is NaN or infinite.
        """
        if self._updated:
            raise RuntimeError("priorities: got a second update of one batch, expected only one")
        self._client.update(self.handle, checked_priorities(priorities, len(self)))
        self._updated = True
