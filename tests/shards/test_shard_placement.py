"""Where shards are placed, and what is said when they cannot be."""

import pytest
import ray
from ray.cluster_utils import Cluster
from ray.util.placement_group import placement_group, remove_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy
from shard_cases import chunk, comes_true, make_replay, runs

from rllib_per_acc import BackendUnavailableError
from rllib_per_acc.shards import (
    ShardPlacementError,
    connection,
    owned_shards,
    placement,
    shard_group,
)


@pytest.fixture
def soon(monkeypatch):
    """Placement is given up after a few seconds; the bound itself is read in a test."""
    assert placement.PLACEMENT_TIMEOUT_S <= 60
    for module in (owned_shards, placement, shard_group):
        monkeypatch.setattr(module, "PLACEMENT_TIMEOUT_S", 4.0)


@pytest.mark.usefixtures("ray_session")
class TestOneNode:
    def test_what_they_ask_for_is_taken(self):
        free = ray.available_resources()["CPU"]
        replay = make_replay(2, num_cpus_per_shard=0.5)
        assert comes_true(lambda: ray.available_resources()["CPU"] == free - 1)
        del replay
        assert comes_true(lambda: ray.available_resources()["CPU"] == free)

    def test_a_shard_on_another_node_than_asked_is_told(self, monkeypatch, caplog):
        make_replay(1)
        assert "another node" not in caplog.text
        monkeypatch.setattr(connection.ShardConnection, "is_near", False)
        make_replay(1, shard_placement="spread")
        assert "another node" not in caplog.text
        make_replay(1)
        assert "put rllib_per_acc replay shard 0 (pid" in caplog.text
        assert "on another node than the algorithm's" in caplog.text

    @pytest.mark.parametrize("where", ["colocated", "spread"])
    def test_no_room_is_an_error_with_numbers(self, soon, where):
        before = ray.available_resources()["CPU"]
        with pytest.raises(ShardPlacementError) as raised:
            make_replay(2, num_cpus_per_shard=before - 1, shard_placement=where)
        message = str(raised.value)
        total = ray.cluster_resources()["CPU"]
        for part in (f"'CPU': {before - 1}", f"'CPU': {total}", "num_shards=2", repr(where)):
            assert part in message, (part, message)
        assert comes_true(lambda: ray.available_resources()["CPU"] == before)

    def test_a_custom_resource_that_is_not_there(self, soon):
        with pytest.raises(ShardPlacementError, match="replay_memory"):
            make_replay(1, resources_per_shard={"replay_memory": 1})

    def test_a_gpu_that_is_not_there(self, soon):
        with pytest.raises(ShardPlacementError, match=r"'GPU': 0\.5"):
            make_replay(1, num_gpus_per_shard=0.5)

    def test_a_gpu_that_cannot_be_used(self):
        with pytest.raises(BackendUnavailableError, match="gpu"):
            make_replay(1, options={"device": "gpu"})

    def test_in_a_placement_group(self, soon):
        """As in a Tune trial: nothing asked always fits, what is asked needs a bundle."""

        @ray.remote(num_cpus=1)
        class Trial:
            def make(self, **options):
                replay = make_replay(2, **options)
                replay.add([chunk(i) for i in range(4)])
                return [info["steps"] for info in replay.shard_info()]

        group = placement_group([{"CPU": 1}, {"CPU": 0.25}, {"CPU": 0.25}])
        strategy = PlacementGroupSchedulingStrategy(
            group, placement_group_bundle_index=0, placement_group_capture_child_tasks=True
        )
        trial = Trial.options(scheduling_strategy=strategy).remote()
        try:
            ray.get(group.ready(), timeout=30)
            assert ray.get(trial.make.remote(), timeout=60) == [20, 20]
            assert ray.get(trial.make.remote(num_cpus_per_shard=0.25), timeout=60) == [20, 20]
            with pytest.raises(ShardPlacementError, match=r"bundles.*'CPU': 0\.25"):
                ray.get(trial.make.remote(num_cpus_per_shard=2), timeout=120)
        finally:
            ray.kill(trial)
            remove_placement_group(group)


@pytest.mark.slow
@pytest.mark.timeout(600)
class TestTwoNodes:
    """R8. Each test has its own cluster, so none may be running."""

    @pytest.fixture
    def cluster(self):
        if ray.is_initialized():
            ray.shutdown()
        cluster = Cluster(
            initialize_head=True,
            head_node_args={
                "num_cpus": 2,
                "include_dashboard": False,
                "object_store_memory": 100 * 1024 * 1024,
            },
        )
        cluster.add_node(num_cpus=2, object_store_memory=100 * 1024 * 1024)
        ray.init(address=cluster.address, log_to_driver=False)
        cluster.wait_for_nodes()
        yield cluster
        ray.shutdown()
        cluster.shutdown()

    def test_spread_and_colocated(self, cluster):
        here = ray.get_runtime_context().get_node_id()
        both = make_replay(2, shard_placement="spread", num_cpus_per_shard=1)
        assert len({info["node"] for info in both.shard_info()}) == 2
        near = make_replay(2)
        assert {info["node"] for info in near.shard_info()} == {here}

    def test_the_drivers_node_is_full(self, cluster, soon):
        """A clear error, not another node."""
        with pytest.raises(ShardPlacementError, match=r"algorithm's node has.*'CPU': 2"):
            make_replay(2, num_cpus_per_shard=2)
        spread = make_replay(2, num_cpus_per_shard=2, shard_placement="spread")
        assert len({info["node"] for info in spread.shard_info()}) == 2

    def test_a_node_is_lost(self, cluster):
        """The shard there is counted as lost and comes back on the other node."""
        replay = make_replay(2, shard_placement="spread", num_cpus_per_shard=1)
        here = ray.get_runtime_context().get_node_id()
        for i in range(20):
            replay.add([chunk(i)])
        batch = replay.sample(32)
        batch.update(batch.rewards)
        infos = replay.shard_info()
        (away,) = [i for i, info in enumerate(infos) if info["node"] != here]
        (worker,) = [n for n in cluster.list_all_nodes() if n.node_id != here]
        cluster.remove_node(worker, allow_graceful=False)
        for i in range(20, 60):
            replay.add([chunk(i)])
            replay.sample(32).update([1.0] * 32)

        def is_back() -> bool:  # the process there may go on for a moment without its node
            info = replay.shard_info()[away]
            return info["is_up"] and info["restarts"] > 0

        assert comes_true(is_back, 120)
        after = replay.shard_info()
        assert [info["node"] for info in after] == [here, here]
        assert after[away]["lost_steps"] >= 100
        assert after[away]["restarts"] == 1
        assert after[1 - away]["lost_steps"] == 0
        assert not runs(infos[away]["pid"])
