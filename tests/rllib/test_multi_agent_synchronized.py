"""Synchronized samples: RLlib's columns, and what RLlib leaves out of them."""

from collections import Counter
from typing import Any

import numpy as np
import pytest
from multi_agent_buffers import make_buffer
from multi_agent_episodes import IN_TURNS, SHARED, UNEQUAL, make_multi
from multi_agent_oracle import MultiAgentOracle
from ray.rllib.env.multi_agent_episode import MultiAgentEpisode

from rllib_per_acc.rllib import synchronized

NAMES = {
    "obs", "actions", "rewards", "new_obs", "terminateds", "truncateds", "weights", "n_step",
}  # fmt: skip


def rows_of(columns: dict[str, Any]) -> list[tuple]:
    """Number and time step of the agent, action, reward, and of the next observation its time."""
    return [
        (int(obs[0]), int(obs[1]), int(action), round(float(reward), 9), int(next_obs[1]))
        for obs, action, reward, next_obs in zip(
            columns["obs"], columns["actions"], columns["rewards"], columns["new_obs"], strict=True
        )
    ]


class Listed:
    """Stands in for RLlib's random generator: all places, one after the other."""

    def __init__(self) -> None:
        self.place = -1

    def integers(self, high: int) -> int:
        self.place = (self.place + 1) % high
        return self.place


def all_rows_of_rllib(episodes: list[MultiAgentEpisode], n_step: int) -> dict[str, set[tuple]]:
    """What RLlib can draw; it never draws the last step of an episode."""
    theirs = MultiAgentOracle(1000)
    theirs.add(episodes)
    theirs.rng = Listed()
    sample = theirs.sample(num_items=3000, n_step=n_step, gamma=0.9, replay_mode="synchronized")
    return {module_id: set(rows_of(columns)) for module_id, columns in sample.items()}


@pytest.mark.parametrize("n_step", [1, 3])
def test_the_rows_are_rllibs(n_step: int) -> None:
    """And those whose last step is the last one of its episode."""
    episodes = [
        make_multi(n, 4 + n % 5, ("terminated", "truncated")[n % 2], SHARED) for n in range(8)
    ]
    ours = make_buffer()
    ours.add(episodes)
    seen: dict[str, set] = {"m1": set(), "m2": set()}
    for _ in range(8):
        sample = ours.sample(num_items=300, n_step=n_step, gamma=0.9, replay_mode="synchronized")
        assert set(sample) == {"m1", "m2"}
        for module_id, columns in sample.items():
            assert set(columns) == NAMES
            assert columns["n_step"].tolist() == [n_step] * len(columns["obs"])
            assert (columns["weights"] == 1.0).all()
            rows = rows_of(columns)
            seen[module_id] |= set(rows)
            for row, terminated, truncated in zip(
                rows, columns["terminateds"], columns["truncateds"], strict=True
            ):
                number, last = row[0] // 10, row[4] == 4 + row[0] // 10 % 5
                assert (terminated, truncated) == (
                    last and number % 2 == 0,
                    last and number % 2 == 1,
                )
    for module_id, rows in all_rows_of_rllib(episodes, n_step).items():
        at_the_end = {row for row in seen[module_id] if row[4] == 4 + row[0] // 10 % 5}
        assert seen[module_id] - at_the_end == rows
        assert at_the_end


def test_agents_are_at_the_same_step() -> None:
    ours = make_buffer()
    ours.add([make_multi(n, 7, "", SHARED) for n in range(4)])
    sample = ours.sample(num_items=40, n_step=(1, 3), replay_mode="synchronized")
    one, two = rows_of(sample["m1"]), rows_of(sample["m2"])
    assert (len(one), len(two)) == (80, 40)
    assert [(row[0] // 10, row[1], row[4]) for row in one[::2]] == [
        (row[0] // 10, row[1], row[4]) for row in two
    ]
    assert [row[0] % 10 for row in one] == [0, 1] * 40
    assert set(sample["m2"]["n_step"]) == {1, 2, 3}


def test_agents_that_are_not_always_there() -> None:
    ours = make_buffer()
    ours.add([make_multi(0, 8, "", UNEQUAL)])
    pairs = Counter()
    for _ in range(10):
        sample = ours.sample(num_items=30, n_step=2, replay_mode="synchronized")
        assert len(sample["m1"]["obs"]) == len(sample["m3"]["obs"]) == 30
        pairs.update((row[0], row[1]) for row in rows_of(sample["m2"]))
    # b leaves at 4, c arrives at 2.
    assert set(pairs) == {(1, t) for t in range(3)} | {(2, t) for t in range(5)}
    ours = make_buffer()
    ours.add([make_multi(0, 8, "", IN_TURNS)])
    only_c = ours.sample(num_items=5, n_step=3, replay_mode="synchronized")
    assert set(only_c) == {"m2"}
    assert {row[0] for row in rows_of(only_c["m2"])} == {2}


def test_a_step_of_the_environment_is_as_likely_as_another() -> None:
    ours = make_buffer()
    ours.add([make_multi(n, length, "") for n, length in enumerate((2, 6, 12))])
    ours.sample(num_items=50)
    ours.update_priorities(np.linspace(1, 1000, 50), "m1")
    counts = Counter()
    for _ in range(20):
        sample = ours.sample(num_items=400, replay_mode="synchronized", modules_to_sample=["m1"])
        assert set(sample) == {"m1"}
        counts.update((row[0], row[1]) for row in rows_of(sample["m1"]))
    assert len(counts) == 20
    expected = 8000 / 20
    chi_square = sum((n - expected) ** 2 / expected for n in counts.values())
    assert chi_square < 60  # 19 degrees of freedom: 1 in 10^6 is above


def test_what_comes_along() -> None:
    ours = make_buffer()
    ours.add([make_multi(0, 8, "", extras=True)])
    sample = ours.sample(
        num_items=9, n_step=2, replay_mode="synchronized", include_infos=True,
        include_extra_model_outputs=True,
    )  # fmt: skip
    for columns in sample.values():
        assert [info["t"] for info in columns["infos"]] == [t + 2 for t in columns["obs"][:, 1]]
        np.testing.assert_array_equal(columns["logp"], columns["obs"][:, 1])


def test_counts_and_no_update_after_it() -> None:
    ours = make_buffer()
    with pytest.raises(ValueError, match="empty"):
        ours.sample(num_items=3, replay_mode="synchronized")
    ours.add([make_multi(n, 5, "", SHARED) for n in range(3)])
    ours.sample(num_items=9, replay_mode="synchronized")
    assert ours.get_sampled_timesteps() == ours.get_sampled_timesteps("m2") == 9
    assert ours.get_sampled_timesteps("m1") == 18
    with pytest.raises(RuntimeError, match="without a sample"):
        ours.update_priorities(np.ones(9), "m2")
    with pytest.raises(ValueError, match="n_step: got 6, but no agent"):
        ours.sample(num_items=3, n_step=6, replay_mode="synchronized")
    restored = make_buffer()
    restored.set_state(ours.get_state())
    assert restored.get_sampled_timesteps("m1") == 18
    draws = [b.sample(num_items=9, replay_mode="synchronized") for b in (ours, restored)]
    assert rows_of(draws[0]["m1"]) == rows_of(draws[1]["m1"])


@pytest.mark.parametrize("num_shards", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_from_actors_it_is_the_same(ray_session: None, num_shards: int) -> None:
    buffers = [make_buffer(num_shards=n) for n in (0, num_shards)]
    episodes = [make_multi(n, 4 + n % 5, "terminated", SHARED) for n in range(8)]
    for buffer in buffers:
        buffer.add(episodes)
    one, two = (b.sample(num_items=30, n_step=2, replay_mode="synchronized") for b in buffers)
    for module_id in ("m1", "m2"):
        for name in NAMES:
            np.testing.assert_array_equal(one[module_id][name], two[module_id][name])


def test_steps_that_can_serve_are_looked_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """And are as likely as each other where most steps cannot."""
    looked = []
    look = synchronized._all_that_can

    def count(*arguments: Any) -> Any:
        looked.append(arguments)
        return look(*arguments)

    monkeypatch.setattr(synchronized, "_all_that_can", count)
    monkeypatch.setattr(synchronized, "_MISSES_PER_ITEM", 1)
    ours = make_buffer(10_000)
    ours.add([make_multi(n, 1, "terminated", SHARED) for n in range(500)])
    ours.add([make_multi(500, 7, "terminated", SHARED)])
    sample = ours.sample(num_items=3000, n_step=(5, 8), replay_mode="synchronized")
    assert len(looked) == 1
    pairs = Counter(
        (int(obs[1]), int(n))
        for obs, n in zip(sample["m2"]["obs"], sample["m2"]["n_step"], strict=True)
    )
    assert set(pairs) == {(0, 5), (1, 5), (2, 5), (0, 6), (1, 6), (0, 7)}
    assert sum(pairs.values()) == 3000
    assert all(350 < times < 650 for times in pairs.values())
