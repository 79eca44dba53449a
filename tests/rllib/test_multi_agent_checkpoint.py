"""A multi-agent buffer in a folder: a replay for each module, all or none of them."""

import itertools
from pathlib import Path

import numpy as np
import pytest
from multi_agent_buffers import make_buffer
from multi_agent_episodes import TWO, play_multi
from multi_agent_oracle import masses_of
from rllib_buffers import COUNTERS
from saved_files import files_below


def filled(capacity: int = 100, **options):
    buffer = make_buffer(capacity, **options)
    runner = play_multi(2, 5, TWO, seed=3)
    for episodes in itertools.islice(runner, 20):
        use(buffer, episodes)
    return buffer, runner


def use(buffer, episodes: list) -> list:
    buffer.add(episodes)
    sample = buffer.sample(num_items=8, gamma=0.9)
    for module_id in buffer.get_module_ids():
        buffer.update_priorities(np.linspace(0.1, 2.0, 8), module_id)
    return [group.id_ for group in sample]


def held(buffer) -> dict:
    return {module_id: masses_of(buffer, module_id) for module_id in buffer.get_module_ids()}


def counts(buffer) -> dict:
    modules = (None, *buffer.get_module_ids())
    return {(name, m): getattr(buffer, name)(m) for name in COUNTERS for m in modules} | {
        "agents": (buffer.get_num_agent_timesteps(), buffer.get_added_agent_timesteps())
    }


@pytest.mark.parametrize("sample_format", ["rows", "episodes"])
def test_a_restored_buffer_goes_on_the_same(tmp_path: Path, sample_format: str) -> None:
    buffer, runner = filled(sample_format=sample_format)
    buffer.save_to_path(tmp_path)
    other = make_buffer(100, seed=77, sample_format=sample_format)
    other.restore_from_path(tmp_path)
    assert len(held(other)) == 2
    assert held(other) == held(buffer)
    assert counts(other) == counts(buffer)
    other.sample(num_items=8)  # no steps, and so no spaces, have come yet
    other.restore_from_path(tmp_path)
    for episodes in itertools.islice(runner, 20):
        use(buffer, episodes)
        use(other, episodes)
        assert held(other) == held(buffer)
    assert counts(other) == counts(buffer)


def test_less_capacity_keeps_the_newest_episodes_of_all_modules(tmp_path: Path) -> None:
    buffer, runner = filled()
    buffer.save_to_path(tmp_path)
    other = make_buffer(40)
    other.restore_from_path(tmp_path)
    assert 0 < other.get_num_timesteps() <= 40
    for module_id, masses in held(other).items():
        assert masses.items() <= held(buffer)[module_id].items()
    use(other, next(runner))


def test_what_is_damaged_changes_no_module(tmp_path: Path) -> None:
    buffer, _ = filled()
    buffer.save_to_path(tmp_path)
    other, _ = filled(60)
    before = held(other), counts(other)
    for path in files_below(tmp_path):
        whole = path.read_bytes()
        if whole:
            path.write_bytes(whole[:-2] + b"!" + whole[-1:])
            with pytest.raises(ValueError, match=str(tmp_path)):
                other.restore_from_path(tmp_path)
            assert (held(other), counts(other)) == before
            path.write_bytes(whole)
    other.restore_from_path(tmp_path)
    assert counts(other)["get_added_timesteps", None] == buffer.get_added_timesteps()


def test_a_save_of_one_agent_is_refused(tmp_path: Path) -> None:
    from rllib_buffers import filled as filled_with_one

    one = filled_with_one("half full")
    one.save_to_path(tmp_path / "one")
    buffer, _ = filled()
    with pytest.raises(ValueError, match="not the save of a multi-agent buffer"):
        buffer.restore_from_path(tmp_path / "one")
    buffer.save_to_path(tmp_path / "several")
    with pytest.raises(ValueError, match=r"expected \['replay'\]"):
        one.restore_from_path(tmp_path / "several")


@pytest.mark.slow
@pytest.mark.parametrize(("before", "after"), [(0, 2), (2, 0), (2, 1)])
def test_any_number_of_shards(ray_session: None, tmp_path: Path, before: int, after: int) -> None:
    buffer, runner = filled(num_shards=before)
    buffer.save_to_path(tmp_path)
    other = make_buffer(100, num_shards=after)
    other.restore_from_path(tmp_path)
    assert held(other) == held(buffer)
    assert counts(other) == counts(buffer)
    for episodes in itertools.islice(runner, 10):
        use(other, episodes)
    assert other.get_num_timesteps() <= 100
