"""Changes the package one operator or number at a time, and says which changes no test notices.

    python tools/mutants.py [--jobs N] [--every N] [--only LINE] [MODULE ...]

A mutant is compiled in memory, in a process of its own, and put in place of the module: no source
changes, and shards in other processes keep the real one. The tests of each module are those named
in `TESTS`. A mutant that they do not notice is printed; one that makes them run long is noticed.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import copy
import importlib
import importlib.abc
import importlib.util
import os
import pathlib
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

ROOT = pathlib.Path(__file__).parents[1]
STORE = ("tests/replay/test_store_*.py", "tests/replay/test_frame_stack.py")
REPLAY = ("tests/replay/test_replay_*.py", "tests/replay/test_sequences*.py")
AGENTS = ("tests/rllib/test_multi_agent_counts.py", "tests/rllib/test_multi_agent_[dsm]*.py")
TESTS = {
    "transition_store": STORE,
    "transitions": STORE,
    "replay": REPLAY,
    "sampling": REPLAY,
    "draws": REPLAY,
    "rllib.send_record": ("tests/rllib/test_rllib_updates.py", "tests/rllib/test_rllib_dealing.py"),
    "rllib.multi_agent_ledger": AGENTS,
    "shards.episode_routes": ("tests/shards/test_episode_routes.py",),
}
PATIENCE = 4.0  # times as long as without a mutant, and no less than so many seconds:
SECONDS = 20.0

OTHERS: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.Pow: ast.Mult,
    ast.FloorDiv: ast.Mult, ast.Mod: ast.Mult, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd,
    ast.And: ast.Or, ast.Or: ast.And, ast.USub: ast.UAdd,
}  # fmt: skip


def changes(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """Each way to change `node` itself: what is done, and the node in its place."""
    changed = copy.deepcopy(node)
    if isinstance(node, ast.Compare):
        for number, op in enumerate(node.ops):
            other = copy.deepcopy(changed)
            other.ops[number] = OTHERS[type(op)]()
            yield type(other.ops[number]).__name__, other
    elif isinstance(node, ast.BinOp | ast.AugAssign | ast.BoolOp) and type(node.op) in OTHERS:
        changed.op = OTHERS[type(node.op)]()
        yield type(changed.op).__name__, changed
    elif isinstance(node, ast.UnaryOp):
        yield f"without {type(node.op).__name__}", changed.operand
    elif isinstance(node, ast.Constant) and type(node.value) in (bool, int, float):
        changed.value = not node.value if isinstance(node.value, bool) else node.value + 1
        yield f"{node.value} -> {changed.value}", changed
    elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        yield "call left out", ast.copy_location(ast.Pass(), node)


class Mutation(ast.NodeTransformer):
    """Applies change number `wanted` of all; -1 only counts and describes them."""

    def __init__(self, wanted: int = -1) -> None:
        self.wanted = wanted
        self.found: list[tuple[int, str]] = []

    def visit(self, node: ast.AST) -> ast.AST:
        """The node in place of `node`."""
        # What is not run, or only says something, is left as it is.
        if isinstance(node, ast.Raise | ast.JoinedStr | ast.AnnAssign | ast.arguments):
            return node
        for what, changed in changes(node):
            self.found.append((getattr(node, "lineno", 0), what))
            if len(self.found) - 1 == self.wanted:
                return ast.copy_location(changed, node)
        return self.generic_visit(node)


class Instead(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports `name` as `code`."""

    def __init__(self, name: str, path: pathlib.Path, tree: ast.AST) -> None:
        self.name, self.path = name, path
        self.code = compile(ast.fix_missing_locations(tree), path, "exec")

    def find_spec(self, fullname, path=None, target=None):
        """As the import system asks for it."""
        if fullname == self.name:
            return importlib.util.spec_from_file_location(fullname, self.path, loader=self)
        return None

    def exec_module(self, module) -> None:
        """Runs the mutant."""
        exec(self.code, module.__dict__)


def import_what_tests_need(modules: Sequence[str]) -> None:
    """Imports once, before the first fork, what all mutants share."""
    sys.dont_write_bytecode = False  # compiled tests are kept too
    names = ["numpy", "pytest", "_pytest.assertion.rewrite", "hypothesis", "scipy.stats"]
    if any("." in module for module in modules):
        names.append("ray")
    if any(module.startswith("rllib.") for module in modules):
        names += ["torch", "ray.rllib.algorithms.dqn"]
    for name in names:
        importlib.import_module(name)


def notices(module: str, number: int, patience: float) -> bool:
    """Whether the tests of `module` fail with mutant `number` (-1: none)."""
    child = os.fork()
    if child == 0:
        os.setpgid(0, 0)
        with open(os.devnull, "w") as nothing, contextlib.suppress(BaseException):
            os.dup2(nothing.fileno(), 1)
            os.dup2(nothing.fileno(), 2)
            path = ROOT / "rllib_per_acc" / (module.replace(".", "/") + ".py")
            tree = Mutation(number).visit(ast.parse(path.read_text()))
            sys.meta_path.insert(0, Instead(f"rllib_per_acc.{module}", path, tree))
            import pytest

            files = [str(file) for test in TESTS[module] for file in sorted(ROOT.glob(test))]
            os._exit(int(pytest.main(["-x", "-q", "-p", "no:cacheprovider", "-m",
                                      "not slow and not gpu", *files]) != 0))  # fmt: skip
        os._exit(1)
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return status != 0
        time.sleep(0.05)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return True


def main() -> int:
    """The number of mutants that no test notices, at most 1."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("modules", nargs="*", metavar="MODULE", help=", ".join(TESTS))
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--every", type=int, default=1, help="only each N-th mutant")
    parser.add_argument("--only", type=int, help="only those of this line")
    args = parser.parse_args()
    unknown = set(args.modules) - set(TESTS)
    if unknown:
        parser.error(f"MODULE: got {', '.join(sorted(unknown))}, expected of {', '.join(TESTS)}")
    import_what_tests_need(args.modules or list(TESTS))
    survived = 0
    with ThreadPoolExecutor(args.jobs) as pool:
        for module in args.modules or TESTS:
            path = ROOT / "rllib_per_acc" / (module.replace(".", "/") + ".py")
            mutation = Mutation()
            mutation.visit(ast.parse(path.read_text()))
            numbers = [
                number
                for number, (line, _) in enumerate(mutation.found)
                if number % args.every == 0 and args.only in (None, line)
            ]
            started = time.monotonic()
            if notices(module, -1, 600.0):
                print(f"{module}: its tests fail without a mutant", flush=True)
                survived += 1
                continue
            patience = max(SECONDS, PATIENCE * (time.monotonic() - started))
            noticed = pool.map(lambda n: notices(module, n, patience), numbers)  # noqa: B023
            lines = path.read_text().splitlines()
            alive = 0
            for number, seen in zip(numbers, noticed, strict=True):
                if not seen:
                    line, what = mutation.found[number]
                    print(f"{module}:{line}: {what}: {lines[line - 1].strip()}", flush=True)
                    alive += 1
            print(f"{module}: {alive} of {len(numbers)} mutants survived", flush=True)
            survived += alive
    return int(survived > 0)


if __name__ == "__main__":
    sys.exit(main())
