"""The buffer in the checkpoints of an enabled algorithm."""

import logging
import os
import resource
from pathlib import Path

import numpy as np
import pytest
from ray.rllib.algorithms.algorithm import Algorithm
from rllib_buffers import COUNTERS
from rllib_episodes import make_episode
from saved_files import files_below
from small_algorithms import small_dqn

from rllib_per_acc import enable

pytestmark = pytest.mark.usefixtures("ray_session")


def algorithm(**options):
    asked = options.pop("store_buffer_in_checkpoints", True)
    config = small_dqn(**({"seed": 3, "num_shards": 0} | options))
    return enable(config.training(store_buffer_in_checkpoints=asked)).build_algo()


def priorities(buffer):
    """The mass of every step, by episode and time."""
    held = buffer.get_priorities()
    keys = zip(held["episode_id"].tolist(), held["t"].tolist(), strict=True)
    return dict(sorted(zip(keys, held["mass"].tolist(), strict=True)))


def drawn(buffer, n=32):
    """The observations of the next sample, whose rows get other priorities."""
    groups = buffer.sample(num_items=n, n_step=3, gamma=0.9, beta=0.4)
    buffer.update_priorities(np.linspace(0.1, 2.0, n))
    return np.concatenate([group.get_observations(slice(0, len(group))) for group in groups])


def assert_same_from_here(one: Algorithm, two: Algorithm, batches: int = 5) -> None:
    buffers = [algorithm.local_replay_buffer for algorithm in (one, two)]
    assert buffers[0].get_num_timesteps() > 0
    assert priorities(buffers[0]) == priorities(buffers[1])
    roots = [[info["mass"] for info in buffer.get_shard_info()] for buffer in buffers]
    assert roots[0] == roots[1]
    for name in COUNTERS:
        assert getattr(buffers[0], name)() == getattr(buffers[1], name)(), name
    for _ in range(batches):
        np.testing.assert_array_equal(*map(drawn, buffers))


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    messages = [r.getMessage() for r in caplog.records if r.name.startswith("rllib_per_acc")]
    caplog.clear()
    return [message for message in messages if "checkpoint at" in message]


def test_checkpoints_hold_the_buffer_where_asked(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    trained = algorithm()
    trained.train()
    path = trained.save_to_path(str(tmp_path / "with"))
    assert (tmp_path / "with" / "replay_buffer" / "manifest.json").is_file()
    with caplog.at_level(logging.WARNING, "rllib_per_acc"):
        restored = Algorithm.from_checkpoint(path)
        assert said(caplog) == []
        assert_same_from_here(trained, restored)
        assert restored.train()["training_iteration"] == 2

        # Not asked for, it is neither read nor written.
        without = algorithm(store_buffer_in_checkpoints=False)
        without.restore_from_path(path)
        (message,) = said(caplog)
        assert "holds a replay buffer, which is not restored" in message
        assert without.local_replay_buffer.get_num_timesteps() == 0
        bare = without.save_to_path(str(tmp_path / "without"))
        assert not (tmp_path / "without" / "replay_buffer").exists()

        # Asked for but not there, the log says so.
        trained.restore_from_path(bare)
        (message,) = said(caplog)
        assert "holds no replay buffer" in message
        assert trained.local_replay_buffer.get_num_timesteps() > 0

        # To act, nothing of it is read.
        (tmp_path / "with" / "replay_buffer" / "manifest.json").write_text("damaged")
        module = "learner_group/learner/rl_module"
        restored.restore_from_path(f"{path}/{module}", component=module)
        acting = Algorithm.from_checkpoint(path, inference_only=True)
        assert acting.local_replay_buffer.get_num_timesteps() == 0
        assert said(caplog) == []
        weights = [a.get_module().state_dict() for a in (trained, acting)]
        assert weights[0].keys() == weights[1].keys()
        with pytest.raises(ValueError, match="replay_buffer"):
            restored.restore_from_path(path)
    assert "replay_buffer" not in trained.get_state()
    for one in (trained, restored, without, acting):
        one.stop()


def test_where_the_disk_is_full_the_old_checkpoint_stays_whole(tmp_path: Path) -> None:
    """The buffer is written first; what RLlib writes after it is not touched then."""
    trained = algorithm(capacity=5000)
    trained.train()
    path = trained.save_to_path(str(tmp_path / "a"))
    held = priorities(trained.local_replay_buffer)
    contents = {p: p.read_bytes() for p in files_below(tmp_path)}
    trained.local_replay_buffer.add([make_episode(900, 4000)])
    trained.train()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, hard))
    try:
        with pytest.raises(OSError, match="too large"):
            trained.save_to_path(path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    after = {p: p.read_bytes() for p in files_below(tmp_path)}
    changed = {os.path.relpath(p, path) for p in contents if after.get(p) != contents[p]}
    assert changed <= {"class_and_ctor_args.pkl", "metadata.json"}  # the same, written again
    restored = Algorithm.from_checkpoint(path)
    assert priorities(restored.local_replay_buffer) == held
    assert restored.training_iteration == 1
    trained.stop()
    restored.stop()


SHARDS = ({"num_shards": 1}, {"num_shards": 1, "prefetch": 3}, {"num_shards": 3, "prefetch": 3})


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("options", SHARDS, ids=str)
def test_shards_go_on_the_same(tmp_path: Path, options: dict) -> None:
    """Also while draws are made ahead; batches drawn ahead of the checkpoint are given up."""
    trained = algorithm(**options)
    for _ in range(2):
        trained.train()
    path = trained.save_to_path(str(tmp_path))
    held = priorities(trained.local_replay_buffer)
    restored = Algorithm.from_checkpoint(path)
    # Several shards with draws under way: what comes first there is a matter of time.
    assert_same_from_here(trained, restored, batches=1 if options["num_shards"] > 1 else 5)
    for other in (0, 2):
        changed = algorithm(num_shards=other, capacity=700)
        changed.restore_from_path(path)
        assert priorities(changed.local_replay_buffer) == held
        assert changed.train()["training_iteration"] == 3
        changed.stop()
    trained.stop()
    restored.stop()
