"""`python -m rllib_per_acc`: small runs of everything it prints and writes."""

import json
import pathlib
import re
import subprocess
import sys
from typing import Any

import pytest

from rllib_per_acc import doctor
from rllib_per_acc.bench import DEFAULT_SECTIONS, peers, tree, tree_algorithms
from rllib_per_acc.ray_versions import TESTED_RAY

typer = pytest.importorskip("typer")
from typer.testing import CliRunner  # noqa: E402

from rllib_per_acc.__main__ import app  # noqa: E402


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tree, "LEAVES", 1 << 8)
    monkeypatch.setattr(tree, "BATCHES", (8, 512))
    monkeypatch.setattr(tree, "_POST_UPDATE", {8: tree._POST_UPDATE[8]})
    monkeypatch.setattr(tree_algorithms, "QUICK_TREES", (3, 8))
    monkeypatch.setattr(tree_algorithms, "QUICK_DESCENT_TREES", (3, 8))
    # Others are slow to import; test_tree_baselines.py has them.
    monkeypatch.setattr(peers, "PEERS", {"RLlib": peers.RLlibTree})


@pytest.mark.usefixtures("small")
def test_bench_tree_prints_writes_and_draws(tmp_path: pathlib.Path) -> None:
    pytest.importorskip("matplotlib")
    report, picture = tmp_path / "report.json", tmp_path / "picture.png"
    arguments = ["bench", "tree", "--quick", "--json", str(report), "--plot", str(picture)]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    written = json.loads(report.read_text())
    assert written["machine"]["cores"] >= 1
    assert written["build"]["descents"]
    names = [table["name"] for table in written["tables"]]
    assert names == [
        "tree.plain_c", "tree.peers", "tree.calls", "tree.post_find", "tree.post_update",
        "tree.crossover", "tree.dispatch", "tree.descents",
    ]  # fmt: skip
    for table in written["tables"]:
        assert table["title"] in " ".join(result.output.split())
        assert all(len(row) == len(table["columns"]) for row in table["rows"])
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_the_section_ray_takes_minutes_and_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[str] = []
    monkeypatch.setattr("rllib_per_acc.__main__.run", lambda section, _: ran.append(section) or [])
    for arguments, expected in (([], DEFAULT_SECTIONS), (["--ray"], ["ray"])):
        ran.clear()
        assert CliRunner().invoke(app, ["bench", *arguments]).exit_code == 0
        assert ran == list(expected)


def test_an_unknown_section_is_refused() -> None:
    result = CliRunner().invoke(app, ["bench", "trees"])
    assert result.exit_code == 2
    assert "'trees': expected some of tree" in " ".join(result.output.split())


def test_a_plot_without_the_tree_is_refused(tmp_path: pathlib.Path) -> None:
    result = CliRunner().invoke(app, ["bench", "buffer", "--plot", str(tmp_path / "a.png")])
    assert result.exit_code == 2


def test_the_doctor_finds_a_working_tree() -> None:
    result = CliRunner().invoke(app, ["doctor"])
    assert result.exit_code == 0, result.output
    assert "works  tree on the CPU" in result.output


def test_the_doctor_fails_where_something_is_broken(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = doctor.Finding("Ray", "broken", "1.0", "Install another.")
    monkeypatch.setattr(doctor, "examine", lambda: [broken])
    assert doctor.main() == 1
    assert capsys.readouterr().out == "broken  Ray: 1.0\n        -> Install another.\n"


@pytest.mark.parametrize(
    "code", ["raise ImportError('no libfoo.so')", "import os; os._exit(7)", "import no_such_module"]
)
@pytest.mark.parametrize("module", ["ray", "torch"])
def test_the_doctor_imports_what_it_calls_working(
    module: str, code: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / f"{module}.py").write_text(code)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    found = {finding.what.lower(): finding for finding in [*doctor._ray(), *doctor._torch()]}
    assert found[module].state == "broken"
    assert re.search("no libfoo.so|status 7|no_such_module", found[module].detail)
    monkeypatch.setattr(doctor, "examine", lambda: list(found.values()))
    assert doctor.main() == 1


def test_the_doctor_says_what_rllib_lacks(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "gymnasium.py").write_text("raise ImportError('half installed')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert [(f.what, f.state) for f in doctor._ray()] == [("Ray", "works"), ("RLlib", "broken")]


def test_a_comparison_that_does_not_import_is_no_error(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "matplotlib.py").write_text("raise ImportError('no font')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    found = next(f for f in doctor._optional() if f.what == "matplotlib")
    assert found.state == "absent"
    assert "no font" in found.detail


def test_the_doctor_knows_which_rays_were_tested(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_import_problem", lambda _: "")

    def found(version: str) -> doctor.Finding:
        monkeypatch.setattr(doctor, "_version", lambda _: version)
        return next(doctor._ray())

    assert (found("2.46.0").state, found("2.9.3").state) == ("broken", "broken")
    for version in (*TESTED_RAY, "2.47.0", "2.50.0", "2.60.9"):
        assert (found(version).state, found(version).detail) == ("works", version)
    for version in ("2.61.0", "3.0.0", "3.0.0.dev0", "2.100.0rc1"):
        assert found(version).state == "works"
        assert f"newer than the newest tested version {TESTED_RAY[-1]}" in found(version).detail


def test_the_doctor_needs_no_optional_package() -> None:
    hide = "import sys; sys.modules['typer'] = None; sys.argv = ['rllib_per_acc', {}]"
    run = "import runpy; runpy.run_module('rllib_per_acc', run_name='__main__', alter_sys=False)"

    def python(argument: str) -> Any:
        code = f"{hide.format(repr(argument))}; {run}"
        return subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False
        )

    assert "works  tree on the CPU" in python("doctor").stdout
    without = python("bench")
    assert without.returncode == 1
    assert "pip install 'rllib-per-acc[bench]'" in without.stderr
