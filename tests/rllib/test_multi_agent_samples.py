"""What is sampled of every module is what RLlib's multi-agent buffer samples, in both formats."""

import itertools

import numpy as np
import pytest
from multi_agent_buffers import filled, make_buffer, uneven
from multi_agent_episodes import IN_TURNS, SHARED, TWO, UNEQUAL, make_multi, number_of, play_multi
from multi_agent_oracle import MultiAgentOracle, masses_of, read_modules
from older_rays import own_turns_raise
from ray.rllib.env.multi_agent_episode import MultiAgentEpisode
from ray.rllib.env.single_agent_episode import SingleAgentEpisode
from ray.rllib.utils.replay_buffers.utils import update_priorities_in_episode_replay_buffer

FORMATS = ["rows", "episodes"]


@pytest.mark.parametrize("sample_format", FORMATS)
@pytest.mark.parametrize(
    "agents",
    [
        SHARED,
        pytest.param(UNEQUAL, marks=own_turns_raise),
        pytest.param(IN_TURNS, marks=own_turns_raise),
    ],
    ids=["shared", "unequal", "turns"],
)
def test_transitions_and_weights(sample_format: str, agents: dict) -> None:
    adds = list(itertools.islice(play_multi(4, 3, agents, seed=2), 12))
    ours, theirs = uneven(sample_format, adds, capacity=60)
    assert theirs.get_num_episodes_evicted() > 0
    for n_step, gamma in ((1, 0.99), (2, 0.5)):
        check_sample(ours, theirs, n_step, gamma)


def check_sample(ours, theirs: MultiAgentOracle, n_step: int, gamma: float) -> None:
    modules = read_modules(ours.sample(num_items=60, n_step=n_step, gamma=gamma, beta=0.5))
    assert set(modules) == set(theirs.get_module_ids())
    for module_id, rows in modules.items():
        assert len(rows) == 60
        expected = read_modules(
            theirs.sample_steps(
                module_id, [row.step for row in rows], [n_step] * 60, gamma=gamma, beta=0.5
            )
        )[module_id]
        for mine, rllib in zip(rows, expected, strict=True):
            assert mine.transition == rllib.transition
            assert mine.weight == pytest.approx(rllib.weight, rel=1e-12)


@pytest.mark.parametrize("sample_format", FORMATS)
def test_modules_to_sample(sample_format: str) -> None:
    ours = make_buffer(sample_format=sample_format)
    ours.add([make_multi(n, 6) for n in range(3)])
    sample = ours.sample(num_items=9, modules_to_sample=["m2"])
    assert {m: len(rows) for m, rows in read_modules(sample).items()} == {"m2": 9}
    ours.update_priorities(np.ones(9), "m2")
    with pytest.raises(RuntimeError, match="priorities of module 'm1' without a sample"):
        ours.update_priorities(np.ones(9), "m1")
    for wrong in (["m2", "m5"], {"typo"}):
        with pytest.raises(ValueError, match=r"modules_to_sample: got '.*expected some of \['m1'"):
            ours.sample(num_items=9, modules_to_sample=wrong)
    with pytest.raises(TypeError, match="modules_to_sample: got 'm1', expected a list"):
        ours.sample(num_items=9, modules_to_sample="m1")


def test_modules_without_long_episodes_are_left_out(caplog: pytest.LogCaptureFixture) -> None:
    ours = make_buffer()
    with pytest.raises(ValueError, match="empty"):
        ours.sample(num_items=3)
    ours.add([make_multi(n, 4, "", {"a": TWO["a"], "b": UNEQUAL["c"]}) for n in range(3)])
    for _ in range(2):
        assert set(read_modules(ours.sample(num_items=5, n_step=3))) == {"m1"}
    assert caplog.text.count("Module 'm2' is not sampled for now: n_step: got 3") == 1
    assert set(read_modules(ours.sample(num_items=5, n_step=2))) == {"m1", "m2"}
    with pytest.raises(ValueError, match="n_step: got 5"):
        ours.sample(num_items=5, n_step=5)


def test_one_step_episodes_name_their_agents() -> None:
    """As RLlib's do; the rows of one agent in one episode follow each other."""
    ours, theirs = filled("episodes", [[make_multi(n, 9, "truncated", SHARED) for n in range(4)]])
    sample = ours.sample(num_items=200, beta=0.4, include_infos=True)
    whole = {e.id_: e for e in theirs.episodes}
    keys = []
    for episode in sample:
        assert isinstance(episode, SingleAgentEpisode)
        agent_episode = whole[episode.multi_agent_episode_id].agent_episodes[episode.agent_id]
        assert episode.id_ == agent_episode.id_
        assert episode.module_id == agent_episode.module_id
        number, t = episode.get_observations(0)[:2]
        assert number == number_of(int(episode.multi_agent_episode_id[8:]), episode.agent_id)
        assert episode.t_started == t
        assert [info["t"] for info in episode.get_infos(slice(0, 2))] == [t, t + 1]
        keys.append((episode.multi_agent_episode_id, episode.agent_id))
    assert len(list(itertools.groupby(keys))) == len(set(keys)) == 12


def test_priorities_reach_their_rows_in_either_format() -> None:
    for sample_format in FORMATS:
        ours = make_buffer(alpha=1.0, sample_format=sample_format)
        ours.add([make_multi(n, 9, "truncated", SHARED) for n in range(4)])
        modules = read_modules(ours.sample(num_items=100))
        errors = {
            m: {"td_error": np.array([1000.0 * row.step[0] + row.step[1] + 1 for row in rows])}
            for m, rows in modules.items()
        }
        update_priorities_in_episode_replay_buffer(
            replay_buffer=ours, td_errors=errors | {"__all__": None}
        )
        for module_id, rows in modules.items():
            masses = masses_of(ours, module_id)
            for row in rows:
                number, t = row.step
                assert masses[number, t] == 1000.0 * number + t + 1


def test_wrong_priorities_change_nothing() -> None:
    ours = make_buffer()
    ours.add([make_multi(0, 9)])
    with pytest.raises(RuntimeError, match="without a sample"):
        ours.update_priorities(np.ones(4), "m1")
    ours.sample(num_items=4)
    before = ours.get_priorities()["mass"]
    for wrong in (np.ones(3), np.full(4, np.nan), ["x"] * 4):
        with pytest.raises((TypeError, ValueError), match="priorities"):
            ours.update_priorities(wrong, "m1")
    with pytest.raises(RuntimeError, match=r"module_id: got None, expected one .*m1"):
        ours.update_priorities(np.ones(4))
    np.testing.assert_array_equal(ours.get_priorities()["mass"], before)
    ours.update_priorities(np.full(4, 2.0), "m1")
    with pytest.raises(RuntimeError, match="without a sample"):
        ours.update_priorities(np.ones(4), "m1")
    ours.update_priorities(np.full(4, 2.0), "m2")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_items": 3, "batch_size_B": 3}, "expected one of them"),
        ({"num_items": 0}, "num_items: got 0"),
        ({"num_items": 3, "batch_length_T": 4}, "batch_length_T=4"),
        ({"num_items": 3, "lookback": -1}, "lookback: got -1"),
        ({"num_items": 3, "replay_mode": "lockstep"}, "replay_mode: got 'lockstep'"),
        ({"num_items": 3, "replay_mode": "synchronized", "n_step": (3, 1)}, "n_step: got"),
        ({"num_items": 3, "replay_mode": "synchronized", "gamma": -1.0}, "gamma: got -1.0"),
        ({"num_items": 0, "replay_mode": "synchronized"}, "num_items: got 0"),
        ({"num_items": 3, "beta": -1.0}, "beta: got -1.0"),
        ({"num_items": 3, "n_step": 0}, "n_step: got 0"),
    ],
)
def test_wrong_arguments_of_sample(arguments: dict, message: str) -> None:
    ours = make_buffer()
    ours.add([make_multi(0, 9)])
    with pytest.raises(ValueError, match=message):
        ours.sample(**arguments)


def test_refused_episodes_change_nothing() -> None:
    """Not even the modules before the one whose steps do not fit."""
    ours = make_buffer(capacity=12)
    ours.add([make_multi(0, 6, "terminated")])
    before = ours.get_state()

    def fails(error: type, match: str, episodes, **options) -> None:
        with pytest.raises(error, match=match):
            ours.add(episodes, **options)
        after = ours.get_state()
        assert repr(after["episodes"]) == repr(before["episodes"])
        assert after["counts"] == before["counts"]
        assert list(after["modules"]["replays"]) == ["m1", "m2"]
        assert len(ours.get_priorities()["t"]) == 12

    single = make_multi(1, 3).agent_episodes["a"]
    fails(TypeError, "got a SingleAgentEpisode, expected a MultiAgentEpisode", single)
    fails(TypeError, "weight: got a list", make_multi(1, 3), weight=[1.0, 2.0])
    fails(ValueError, "weight", make_multi(1, 3), weight=-1.0)
    fails(ValueError, "weight", make_multi(1, 3), weight={"m2": np.inf})
    other = make_multi(1, 9, "", UNEQUAL)
    other.agent_episodes["c"].observations.data = np.zeros((8, 7), np.float32)
    fails(ValueError, "observations", other)
    assert ours.get_num_episodes_evicted() == 0


def test_beta_is_the_buffers_and_a_schedule_over_env_steps() -> None:
    weights = []
    for beta, given in (([[0, 0.0], [20, 1.0]], None), (0.4, 0.5), (0.5, None)):
        ours = make_buffer(alpha=1.0, beta=beta)
        ours.add([make_multi(0, 10, "", SHARED)])
        ours.sample(num_items=50)
        ours.update_priorities(np.linspace(1, 2, 50), "m1")
        ours.update_priorities(np.linspace(1, 2, 50), "m2")
        rows = read_modules(ours.sample(num_items=50, beta=given))
        weights.append({m: [row.weight for row in some] for m, some in rows.items()})
    assert weights[0] == weights[1] == weights[2]
    assert len(set(weights[0]["m1"])) > 5


def test_seeds() -> None:
    def draws(seed: int) -> dict:
        ours = make_buffer(seed=seed)
        ours.add([make_multi(n, 9) for n in range(3)])
        return {
            m: [row.step[1] for row in rows]
            for m, rows in read_modules(ours.sample(num_items=50)).items()
        }

    assert draws(3) == draws(3) != draws(4)
    assert draws(3)["m1"] != draws(3)["m2"]


def test_views() -> None:
    ours = make_buffer()
    whole = [make_multi(n, 5 + n, "terminated", SHARED) for n in range(3)]
    ours.add(whole)
    with pytest.raises(NotImplementedError, match="module_episodes"):
        _ = ours.episodes
    with pytest.raises(ValueError, match="module_id: got 'm7'"):
        ours.module_episodes("m7")
    view = ours.module_episodes("m1")
    assert [e.id_ for e in view] == [
        w.agent_episodes[a].id_ for w in whole for a in w.agent_episodes if a != "c"
    ]
    np.testing.assert_array_equal(
        view[-1].get_observations(), whole[2].agent_episodes["b"].get_observations()
    )
    (info_1, info_2) = ours.get_shard_info()
    assert (info_1["module_id"], info_1["steps"]) == ("m1", 36)
    assert (info_2["module_id"], info_2["steps"]) == ("m2", 18)


def test_row_groups_refuse_what_they_cannot_answer() -> None:
    ours = make_buffer()
    ours.add([make_multi(0, 9)])
    (rows,) = ours.sample(num_items=4)
    assert isinstance(rows, MultiAgentEpisode)
    assert rows.is_numpy
    assert len(rows) == 8
    assert repr(rows) == "MultiAgentRows({'m1': 4, 'm2': 4})"
    for read in (lambda: rows.get_observations(-1), lambda: rows.env_t_to_agent_t, rows.get_return):
        with pytest.raises(ValueError, match='"sample_format": "episodes"'):
            read()
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = rows.nonsense
