"""The stored episodes as a sequence: copied out a few at a time, whatever happens meanwhile."""

import itertools

import pytest
from rllib_episodes import make_episode

from rllib_per_acc import AccPrioritizedEpisodeReplayBuffer

pytestmark = pytest.mark.usefixtures("ray_session")


def filled(num_shards: int, capacity: int = 200) -> AccPrioritizedEpisodeReplayBuffer:
    buffer = AccPrioritizedEpisodeReplayBuffer(capacity, num_shards=num_shards)
    buffer.add([make_episode(n, 2) for n in range(100)])
    return buffer


@pytest.mark.parametrize("num_shards", [0, 1, 3])
def test_a_loop_reads_all_of_them_once(num_shards: int) -> None:
    buffer = filled(num_shards, capacity=1000)
    ids = [episode.id_ for episode in buffer.episodes]
    assert sorted(ids) == sorted(f"episode-{n}" for n in range(100))
    assert [episode.id_ for episode in buffer.episodes[:]] == ids
    assert [buffer.episodes[i].id_ for i in (0, 57, -1)] == [ids[0], ids[57], ids[-1]]
    for episode in itertools.islice(buffer.episodes, 3):
        number = int(episode.id_.split("-")[1])
        assert episode.get_observations()[:, :2].tolist() == [[number, t] for t in range(3)]


def test_a_loop_that_ends_early_has_copied_little(monkeypatch: pytest.MonkeyPatch) -> None:
    buffer = filled(0)
    copied = []
    client = buffer._client
    get = client.get_chunks_of
    monkeypatch.setattr(client, "get_chunks_of", lambda ids: copied.extend(ids) or get(ids))
    next(iter(buffer.episodes))
    assert 0 < len(copied) <= 20


@pytest.mark.parametrize("num_shards", [0, 2])
def test_episodes_that_are_evicted_during_a_loop_are_left_out(num_shards: int) -> None:
    buffer = filled(num_shards)
    seen = []
    for episode in buffer.episodes:
        if not seen:
            buffer.add([make_episode(n, 2) for n in range(200, 250)])
        seen.append(episode.id_)
    assert len(set(seen)) == len(seen)
    assert seen[-1] in {f"episode-{n}" for n in range(100)}  # as of the loop's beginning
    assert 50 <= len(seen) < 70
