"""The layers of ARCHITECTURE.md point one way: read in the sources, and seen in a fresh process."""

import ast
import pathlib
import subprocess
import sys

import pytest

PACKAGE = pathlib.Path(__file__).parents[1] / "rllib_per_acc"

# From the bottom up. A module imports from its own layer and from those before it.
LAYERS = (
    ("_version",),
    ("_core", "_core_acc"),
    # What a store is made of: arrays and options, no tree.
    (
        "activity",
        "array_files",
        "changes",
        "columns",
        "copies",
        "descriptions",
        "episode_chunk",
        "episode_table",
        "frame_column",
        "json_values",
        "local_folder",
        "memory_estimate",
        "recent_values",
        "replay_files",
        "replay_folder",
        "replay_options",
        "ray_versions",
        "row_pool",
        "row_ring",
        "save_journal",
        "saved_parts",
        "saved_rows",
        "step_columns",
        "structures",
        "threads",
    ),
    ("cuda_driver", "devices"),
    ("segment_tree",),
    ("sampling", "transitions"),
    ("transition_store",),
    ("draws", "joined_columns", "sequences"),
    ("resumable", "ring_client"),
    ("prioritized_ring",),
    ("parts_on_file", "replay", "replay_batch", "transition_replay"),
    ("replay_checkpoint",),
    ("shards",),
    ("rllib",),
    ("__main__", "bench", "doctor"),
)
RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names}
FROM_LAYER = {
    "ray": RANK["shards"],
    "ray.rllib": RANK["rllib"],
    "torch": RANK["rllib"],
    "gymnasium": RANK["rllib"],
}
MODULES = sorted(path for path in PACKAGE.rglob("*.py") if path != PACKAGE / "__init__.py")


def layer_of(dotted):
    """The name in LAYERS that a dotted name below the package belongs to: the longest prefix."""
    head = dotted.split(".")[0]
    for name in sorted(RANK, key=len, reverse=True):
        if head == name or head.lstrip("_").startswith(name.lstrip("_") + "_"):
            return name
    return head


def imports_of(path):
    """Every dotted name that the file imports, inside functions too, relative ones resolved."""
    package = path.relative_to(PACKAGE.parent).with_suffix("").parts[:-1]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            stem = [*base, *(node.module or "").split(".")] if node.module else [*base]
            yield from (".".join([*stem, alias.name]) for alias in node.names)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_module_imports_only_from_the_layers_before_it(path):
    own = layer_of(path.relative_to(PACKAGE).with_suffix("").parts[0])
    assert own in RANK, f"{path.name} stands in no layer: name it in LAYERS"
    for name in imports_of(path):
        top, _, below = name.partition(".")
        if top == "rllib_per_acc":
            imported = layer_of(below)
            # "from rllib_per_acc import PriorityTree" goes through the lazy names of __init__.
            if imported in RANK:
                assert RANK[imported] <= RANK[own], f"{own} imports {name}, a layer above it"
        for other, rank in FROM_LAYER.items():
            if f"{name}.".startswith(f"{other}."):
                assert RANK[own] >= rank, f"{own} imports {name}"


def modules_after(statement):
    """The modules of a fresh interpreter after the statement."""
    code = f"import sys\n{statement}\nprint(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


@pytest.mark.parametrize(
    ("statement", "absent"),
    [
        ("import rllib_per_acc", {"ray", "torch", "gymnasium", "rllib_per_acc._core_acc"}),
        ("import rllib_per_acc.segment_tree", {"ray", "torch", "gymnasium"}),
        ("import rllib_per_acc; rllib_per_acc.PriorityTree(3, 'cpu')", {"ray", "torch"}),
        ("import rllib_per_acc.replay", {"ray", "torch", "gymnasium"}),
        ("import rllib_per_acc.shards", {"ray.rllib", "torch"}),
    ],
)
def test_an_import_brings_no_more_than_its_layer(statement, absent):
    loaded = modules_after(statement)
    assert "rllib_per_acc" in loaded
    assert not loaded & absent


def test_every_public_name_is_listed_and_resolves():
    import rllib_per_acc

    assert rllib_per_acc.__all__
    from rllib_per_acc.rllib.compat import HAS_TQC

    missing = set() if HAS_TQC else {"AccTQC", "AccTQCConfig"}
    for name in rllib_per_acc.__all__:
        assert name in dir(rllib_per_acc)
        if name in missing:
            continue
        assert getattr(rllib_per_acc, name) is not None
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = rllib_per_acc.no_such_name


TESTS = pathlib.Path(__file__).parent


@pytest.mark.parametrize("path", sorted(TESTS.rglob("*.py")), ids=lambda path: path.stem)
def test_no_test_imports_from_another(path):
    """What they share is in files of its own: a test can be read, moved and run alone."""
    imports = [
        name
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in [getattr(node, "module", None), *(alias.name for alias in node.names)]
    ]
    shared = {path.stem for path in TESTS.rglob("test_*.py")}
    assert not shared & set(imports)
