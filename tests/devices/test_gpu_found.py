"""What is chosen where there is a GPU, and after a fork; a stand-in takes the GPU's place."""

import pytest
from fresh_python import run_python


def test_a_gpu_is_found_chosen_and_described(fake_driver):
    code = """
import sys
import rllib_per_acc as r
assert "rllib_per_acc._core_acc" not in sys.modules
assert r.PriorityTree(3, device="gpu").device == "gpu"
assert r.PriorityTree(3).device == "gpu"
info = r.build_info()
assert info["devices"] == ["cpu", "gpu"] and info["auto"] == "gpu" and not info["problems"]
assert "ray" not in sys.modules
print(info["gpu"]["name"])
"""
    assert run_python(code, **fake_driver) == "fake device"


def test_the_doctor_tries_the_gpu(fake_driver):
    code = "from rllib_per_acc import doctor; print(doctor.main())"
    printed = run_python(code, **fake_driver).splitlines()
    # On the stand-in kernels do nothing.
    (line,) = [line for line in printed if "tree on a GPU" in line]
    assert line.startswith("broken  tree on a GPU: the sum of 1 ... 1000 is")
    assert printed[-1] == "1"


def test_a_cpu_tree_loads_no_gpu_backend(fake_driver):
    code = """
import sys
import rllib_per_acc as r
r.PriorityTree(3, device="cpu"), r.SumSegmentTree(3)
print("rllib_per_acc._core_acc" in sys.modules)
"""
    assert run_python(code, **fake_driver) == "False"


def test_a_tree_too_large_for_the_device_is_a_memory_error(fake_driver):
    code = """
import rllib_per_acc as r
for capacity in 1 << 25, 1 << 50:
    try:
        r.PriorityTree(capacity, device="gpu")
    except MemoryError as error:
        print(error)
assert r.PriorityTree(1 << 20, device="gpu").capacity == 1 << 20
"""
    lines = run_python(code, **fake_driver).splitlines()
    assert len(lines) == 2
    assert all("bytes of device memory" in line for line in lines)


def test_a_forked_child_gets_errors_and_ends(fake_driver):
    code = """
import os
import rllib_per_acc as r
tree = r.PriorityTree(3, device="gpu")
if os.fork() == 0:
    try:
        tree.update([0], [1.0])
    except RuntimeError as error:
        print("update:", error, flush=True)
    try:
        r.PriorityTree(3, device="gpu")
    except r.BackendUnavailableError as error:
        print("new:", error, flush=True)
    assert r.PriorityTree(3, device="auto").device == "cpu"
    del tree
    os._exit(0)
_, status = os.wait()
assert status == 0
tree.update([0], [1.0])
print("parent", tree._tree.traffic()["bytes_in"])
"""
    update, new, parent = run_python(code, **fake_driver).splitlines()
    assert "forked" in update
    assert "spawn" in update
    assert "forked" in new
    assert parent == "parent 16"


@pytest.mark.slow
def test_auto_in_a_ray_worker_follows_ray(fake_driver):
    code = """
import ray
ray.init(address='local', num_cpus=1, num_gpus=1, include_dashboard=False, log_to_driver=False)

@ray.remote
def chosen():
    import rllib_per_acc as r
    return r.PriorityTree(3).device, r.build_info()["problems"].get("auto", "")

device, why = ray.get(chosen.remote(), timeout=90)
assert device == "cpu" and "Ray assigned no GPU" in why, (device, why)
print(ray.get(chosen.options(num_gpus=1).remote(), timeout=90))
import rllib_per_acc as r
print(r.PriorityTree(3).device)
ray.shutdown()
"""
    assigned, driver = run_python(code, **fake_driver).splitlines()[-2:]
    assert assigned == "('gpu', '')"
    assert driver == "gpu"
