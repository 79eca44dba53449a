"""What the README shows, and what stands in examples/, runs."""

import ast
import inspect
import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
DOCS = ("connectors", "multi_agent", "old_stack", "plain_buffer", "ray", "sequences")
PAGES = README + "".join((ROOT / "docs" / f"{page}.md").read_text() for page in DOCS)
# "<!-- slow -->" on the line before a block keeps it out of the quick tests.
BLOCKS = re.findall(
    r"^(?:<!-- (slow) -->\n)?```python\n(.*?)^```$", PAGES, re.DOTALL | re.MULTILINE
)
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
SLOW_EXAMPLES = {"apex_old_stack", "apex_style_dqn", "recurrent_dqn", "tune_sweep"}  # algorithms


def run_python(arguments, cwd, timeout):
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=cwd,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=timeout,
    )
    assert done.returncode == 0, done.stdout[-4000:]
    return done.stdout


@pytest.mark.parametrize(
    "code",
    [
        pytest.param(code, id=f"block{number}", marks=[pytest.mark.slow] if mark else ())
        for number, (mark, code) in enumerate(BLOCKS, 1)
    ],
)
def test_a_block_of_the_readme_runs(code, tmp_path):
    run_python(["-W", "error::DeprecationWarning:__main__", "-c", code], tmp_path, timeout=240)


def test_the_readme_has_blocks_and_names_only_targets_of_the_makefile():
    assert BLOCKS
    assert PAGES.count("```python\n") == len(BLOCKS)
    targets = set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = set(re.findall(r"\bmake ([a-z0-9-]+)\b", README))
    assert {"demo", "test"} <= named <= targets


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(
            path, id=path.stem, marks=[pytest.mark.slow] if path.stem in SLOW_EXAMPLES else ()
        )
        for path in EXAMPLES
    ],
)
def test_an_example_runs_small(path, tmp_path):
    assert run_python([str(path), "--smoke"], tmp_path, timeout=280).strip()


def test_the_table_of_keys_is_complete_and_has_the_defaults():
    from dataclasses import MISSING, fields

    from rllib_per_acc.rllib import buffer_config
    from rllib_per_acc.rllib.buffer_base import EpisodeBufferBase as Buffer

    kinds = (
        buffer_config.ReplayOptions,
        buffer_config.ShardOptions,
        buffer_config.AdapterOptions,
    )
    defaults = {
        f.name: f.default if f.default is not MISSING else f.default_factory()
        for kind in kinds
        for f in fields(kind)
    }
    for name, parameter in inspect.signature(Buffer.__init__).parameters.items():
        # Ray adds a parameter of its own to classes that were made into actors.
        if parameter.default is not parameter.empty and not name.startswith("_ray"):
            defaults[name] = parameter.default
    del defaults["metrics_window"]  # metrics_num_episodes_for_smoothing in RLlib
    table = re.findall(r"^\| `(\w+)` \| `([^`]+)` \|", README, re.MULTILINE)
    assert {name: ast.literal_eval(default) for name, default in table} == defaults


def test_there_are_examples():
    assert EXAMPLES
