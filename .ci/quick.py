"""Lint, and the tests of what changed against a branch: `make quick` (BASE=main LIMIT=45).

A test belongs to a changed module if it imports it, by itself or through the face (`from ragbench
import ...`), or if it is named after it. Tests that reach a module through others are not run:
that is what `make test` is for. Tests that look cheap run first; after LIMIT seconds no further
one is started, and how many were left is shown.
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FACE = ROOT / "ragbench" / "__init__.py"
CODE = {"ragbench": ROOT, "ragbench_cli": ROOT / "cli"}


def changed(base: str) -> list[Path]:
    """Files of the checkout that differ from where the branch left its base, committed or not."""
    fork = _git("merge-base", base, "HEAD")[0]
    names = [
        *_git("diff", "--name-only", "--diff-filter=d", fork),
        *_git("ls-files", "--others", "--exclude-standard"),
    ]
    return sorted({ROOT / name for name in names})


def _git(*arguments: str) -> list[str]:
    call = ["git", *arguments]
    done = subprocess.run(call, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"make quick: git {' '.join(arguments)}: {done.stderr.strip()}; set BASE=branch")
    return done.stdout.splitlines()


def tests_of(files: Iterable[Path]) -> list[Path]:
    """The test files to run for changed files.

    Changed ones come first, then those with the fewest imports; those that start programs last.
    """
    given = list(files)
    modules = {name for path in given if (name := module_name(path))}
    tests = sorted((ROOT / "tests").rglob("test_*.py"))
    own = [path for path in tests if path in given]
    pages = {path.stem for path in given if path.suffix == ".md"}
    others = [
        path
        for path in tests
        if path not in own
        and (
            not modules.isdisjoint(imports(path))
            or any(path.stem == f"test_{name.rpartition('.')[2]}" for name in modules)
            or any(path.stem == f"test_docs_{page}" for page in pages)
        )
    ]

    def cost(path: Path) -> tuple[bool, bool, int, Path]:
        return "subprocess" in imports(path), path not in own, len(imports(path)), path

    return sorted([*own, *others], key=cost)


def module_name(path: Path) -> str | None:
    """The dotted name of a module of ragbench, or of a helper of its tests."""
    for folder in (*CODE.values(), ROOT):
        if path.suffix != ".py" or not path.is_relative_to(folder):
            continue
        parts = path.relative_to(folder).with_suffix("").parts
        if parts[0] in CODE or parts[0] == "tests":
            return ".".join(parts).removesuffix(".__init__")
    return None


@cache
def imports(test: Path) -> frozenset[str]:
    """The modules that a test names in an import; names of the face count as their modules."""
    tree = ast.parse(test.read_text("utf-8"))
    return frozenset(_imported(tree))


def _imported(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [alias.name for alias in node.names]
            yield from (f"{node.module}.{name}" for name in names)
            if node.module == "ragbench":
                yield from (face()[name] for name in names if name in face())
            else:
                yield node.module


@cache
def face() -> dict[str, str]:
    """Where what `ragbench` exports is defined."""
    tree = ast.parse(FACE.read_text("utf-8"))
    return {
        alias.name: node.module
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module
        for alias in node.names
    }


class Deadline:
    """Starts no further test after a number of seconds."""

    def __init__(self, seconds: float) -> None:
        """The clock runs from now."""
        self.end = time.monotonic() + seconds
        self.left = 0

    def pytest_runtest_protocol(self, item: object) -> bool | None:
        """Passes over a test when time is up."""
        if time.monotonic() < self.end:
            return None
        self.left += 1
        return True


def main() -> int:
    """Runs ruff, then pytest; the exit status of the first that fails."""
    os.chdir(ROOT)
    for command in (["check", "--quiet"], ["format", "--check", "--quiet"]):
        status = subprocess.run([Path(sys.executable).with_name("ruff"), *command], check=False)
        if status.returncode:
            return status.returncode
    tests = tests_of(changed(os.environ.get("BASE") or "main"))
    if not tests:
        print("make quick: lint is clean; no test imports what changed")
        return 0
    import pytest

    deadline = Deadline(float(os.environ.get("LIMIT") or 45))
    names = [str(path.relative_to(ROOT)) for path in tests]
    status = pytest.main(["-q", "--no-header", "-p", "no:cov", *names], plugins=[deadline])
    if deadline.left:
        print(f"make quick: time is up, {deadline.left} tests were not run; make test runs all")
    return 0 if status == pytest.ExitCode.NO_TESTS_COLLECTED else int(status)


if __name__ == "__main__":
    sys.exit(main())
