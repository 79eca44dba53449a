"""Saves with anything wrong in them: what is read is what was saved, or nothing, in little memory.

Every case damages one save in one way: a flipped byte, a file cut off, longer, gone, swapped or
made a link, or a manifest with another value in it and the right checksum. What such a manifest
says may be as good as what was saved; then what was read can be used.
"""

import itertools
import json
import pathlib
import random
import resource
import shutil
import subprocess
import sys
import zlib

import numpy as np
import pytest
from multi_agent_buffers import make_buffer as make_multi
from multi_agent_episodes import TWO, play_multi
from rllib_buffers import filled, make_buffer

from rllib_per_acc import EpisodeChunk, PrioritizedReplay, TransitionReplay
from rllib_per_acc.draws import NothingToSampleError
from rllib_per_acc.local_folder import LocalFolder
from rllib_per_acc.replay_checkpoint import SavedReplays, save_replays
from rllib_per_acc.replay_files import MANIFEST, _with_checksum
from rllib_per_acc.replay_part import ReplayPart

CASES = 1000
ROOM = 512 << 20
BAD = [None, "x", "", -1, 0, 1, 2**40, 10**30, 1.5, [], {}, True, "../x", [0], ["part-0"] * 2]


def of_episodes(cls=PrioritizedReplay, number=5):
    replay = cls(30, seed=1, max_priority="buffer", frame_stack=2)
    rng = np.random.default_rng(0)
    for n in range(number):
        stacks = {"s": rng.integers(0, 256, (8, 3, 2, 2), np.uint8), "x": rng.random(8)}
        infos = [{"t": t} for t in range(8)]
        chunk = EpisodeChunk((n, "a"), stacks, np.arange(7), np.arange(7.0), infos=infos)
        replay.add([chunk], weight=0.5 + n)
    return replay


def of_transitions():
    replay = TransitionReplay(8, seed=1)
    for n in range(20):
        replay.add(np.full(2, n), n, n, np.full(2, n + 1), False, n + 1.0)
    return replay


def use_plain(replay):
    replay.sample(4).update(np.ones(4))


class Replays:
    """A replay or several in a folder, as buffers have them."""

    def __init__(self, number):
        self.number = number
        self.parts = [of_episodes(ReplayPart, 4 + n) for n in range(number)]

    def save(self, folder):
        from rllib_per_acc.parts_on_file import LocalPart, save_parts

        class Parts:
            def save_in(_, folder):
                saved = save_parts(folder, [LocalPart(part) for part in self.parts])
                return {"parts": saved, "steps_sampled": 3}

        save_replays(LocalFolder(folder), {"a": Parts()})

    @staticmethod
    def load(folder):
        replay = PrioritizedReplay(100, seed=9, max_priority="buffer", frame_stack=2)
        SavedReplays(LocalFolder(folder)).restore({"a": replay})
        return replay


def multi():
    buffer = make_multi(60)
    for episodes in itertools.islice(play_multi(2, 5, TWO, seed=3), 12):
        buffer.add(episodes)
    return buffer


def restored(buffer, folder):
    before = repr(buffer.get_state())
    try:
        buffer.restore_from_path(folder)
    except Exception:
        assert repr(buffer.get_state()) == before
        raise
    return buffer


def use_buffer(buffer):
    buffer.sample(num_items=4)
    buffer.get_metrics()


# How it is saved, read, used.
KINDS = {
    "episodes": (lambda f: of_episodes().save(f), PrioritizedReplay.load, use_plain),
    "transitions": (lambda f: of_transitions().save(f), TransitionReplay.load, use_plain),
    "parts": (lambda f: Replays(2).save(f), Replays.load, use_plain),
    "one agent": (
        lambda f: filled("half full").save_to_path(f),
        lambda f: restored(make_buffer(), f),
        use_buffer,
    ),
    "several agents": (
        lambda f: multi().save_to_path(f),
        lambda f: restored(make_multi(60), f),
        use_buffer,
    ),
}


def state_of(replay):
    state = replay.get_state()
    state.pop("spaces", None)
    return repr(state)


def leaves_of(value, path=()):
    yield path
    items = value.items() if isinstance(value, dict) else ()
    if isinstance(value, list):
        items = enumerate(value)
    for key, item in items:
        yield from leaves_of(item, (*path, key))


def signed(manifest):
    text = json.dumps(manifest | {"crc32": ""}, indent=1).encode()
    return _with_checksum(text, f"{zlib.crc32(text):08x}")


def damage(folder, outside, rng):
    """Does one thing to a save; what it did, and whether it can be as good as before."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    manifests = [path for path in files if path.name == MANIFEST]
    what = rng.choice(["flip", "cut", "longer", "gone", "swap", "link", *["signed"] * 6])
    path = rng.choice(files)
    if what == "signed":
        path = rng.choice(manifests)
        manifest = json.loads(path.read_bytes())
        *where, last = at = rng.choice(list(leaves_of(manifest))[1:])
        value = manifest
        for key in where:
            value = value[key]
        bad = rng.choice([*BAD, KeyError])
        if bad is KeyError:
            del value[last]
        else:
            value[last] = bad
        path.write_bytes(signed(manifest))
        return f"{path.relative_to(folder)} {at} {bad}", True
    content = bytearray(path.read_bytes())
    if what == "flip" and content:
        content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
    elif what == "cut" and content:
        del content[rng.randrange(len(content)) :]
    elif what == "longer":
        content += rng.choice([b"\0", b"\n", bytes(10**6), bytes(content)])
    path.unlink()
    if what == "swap":
        other = rng.choice([p for p in files if p != path] or files)
        content = other.read_bytes() if other != path else b""
    if what == "link":
        outside.write_bytes(content)
        path.symlink_to(outside)
    elif what != "gone":
        path.write_bytes(content)
    return f"{what} {path.relative_to(folder)}", False


def run(kind, folder, seed):
    save, load, use = KINDS[kind]
    rng = random.Random(seed)
    whole, broken, outside = folder / "whole", folder / "broken", folder / "outside"
    save(whole)
    expected = state_of(load(whole))
    use(load(whole))
    with open("/proc/self/statm") as statm:
        now = int(statm.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (now + ROOM, resource.RLIM_INFINITY))
    refused = 0
    for _ in range(CASES):
        shutil.rmtree(broken, ignore_errors=True)
        shutil.copytree(whole, broken)
        what, may_differ = damage(broken, outside, rng)
        try:
            replay = load(broken)
        except (ValueError, FileNotFoundError) as error:
            refused += 1
            if str(broken) not in str(error):
                raise AssertionError(f"{what}: the message names no file") from error
            continue
        except Exception as error:
            raise AssertionError(what) from error
        if may_differ:
            try:
                use(replay)
            except NothingToSampleError:
                pass
            except Exception as error:
                raise AssertionError(what) from error
        else:
            assert state_of(replay) == expected, what
    print(refused)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_thousand_saves_with_something_wrong(tmp_path, kind):
    command = [sys.executable, __file__, kind, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=900)
    assert done.returncode == 0, done.stderr[-3000:]
    assert int(done.stdout.split()[-1]) > CASES // 2


if __name__ == "__main__":
    run(sys.argv[1], pathlib.Path(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else 0)
