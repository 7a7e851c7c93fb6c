"""Lint, and the tests of what changed against a branch: `make quick` (BASE=main LIMIT=45).

A test belongs to a changed module if it reaches it by imports, however many lie between; names that
are looked up count too (the face, registries, commands). The nearest tests of each changed module
run first; after LIMIT seconds no further one is started, and how many were left is shown. A changed
module that no test reaches fails.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TESTS = ROOT / "tests"
FACE = "ragbench"
COMMANDS = "ragbench_cli"
CODE = {"ragbench": ROOT, "ragbench_cli": ROOT / "cli"}
IMPORT = re.compile(r"\b((?:ragbench(?:_cli)?|tests)(?:\.\w+)*)(?: import (\([^)]*\)|.*))?")
NEAREST = 30
"""How many test files are collected: all of them would take longer than the tests have."""


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


def tests_of(files: Iterable[Path]) -> tuple[list[Path], list[str]]:
    """The test files for changed files, nearest first, and the modules that no test reaches."""
    place: dict[Path, int] = {}
    untested: list[str] = []
    for path in files:
        nearest = _nearest(path)
        if not nearest and module_name(path).partition(".")[0] in CODE:
            untested.append(module_name(path))
        for position, test in enumerate(nearest):
            place[test] = min(position, place.get(test, position))
    return sorted(place, key=lambda test: (place[test], _cost(test), test)), untested


def _nearest(path: Path) -> list[Path]:
    """The tests of one changed file: those of its name, then by the imports between."""
    if path.name.startswith("test_"):
        return [path]
    name = module_name(path)
    far: dict[Path, int] = {}
    for module in [name] if name else _readers(path):
        for test, steps in _tests_by_distance(module):
            far[test] = min(steps, far.get(test, steps))
    far |= {test: 0 for test in far if test.stem == f"test_{path.stem}"}
    return sorted(far, key=lambda test: (far[test], _cost(test), test))


def _readers(path: Path) -> list[str]:
    """The modules that name a file: of the tests, and of the product where it lies in it."""
    inside = path.relative_to(ROOT).parts[0] in ("ragbench", "cli")
    readable = sources() if inside else _tests()
    return [name for name in readable if path.name in sources()[name]]


def _cost(test: Path) -> tuple[bool, int]:
    """What a test may take: those that start programs come last."""
    name = module_name(test)
    return "subprocess" in sources()[name], len(imports()[name])


@cache
def _tests() -> dict[str, Path]:
    return {module_name(path): path for path in sorted(TESTS.rglob("test_*.py"))}


def module_name(path: Path) -> str:
    """The dotted name of a module of ragbench or of its tests; empty for any other file."""
    for folder in (*CODE.values(), ROOT):
        if path.suffix == ".py" and path.is_relative_to(folder) and "templates" not in path.parts:
            parts = path.relative_to(folder).with_suffix("").parts
            if parts[0] in (*CODE, TESTS.name):
                return ".".join(parts).removesuffix(".__init__")
    return ""


def _tests_by_distance(module: str) -> Iterator[tuple[Path, int]]:
    """The test files that reach a module, with the number of imports between."""
    reached, edge, steps = {module}, {module}, 0
    while edge:
        yield from ((_tests()[name], steps) for name in edge if name in _tests())
        edge = {user for name in edge for user in _users()[name]} - reached
        reached |= edge
        steps += 1


@cache
def _users() -> dict[str, set[str]]:
    users: dict[str, set[str]] = defaultdict(set)
    for name, imported in imports().items():
        for other in imported:
            users[other].add(name)
    return users


@cache
def imports() -> dict[str, set[str]]:
    """What each module of the product and each file of the tests imports or looks up by name."""
    found = {name: set(_named(text)) & {*sources()} for name, text in sources().items()}
    found[FACE] = set()  # each of its names counts for its own module
    found[f"{COMMANDS}.main"] |= {name for name in found if name.startswith(f"{COMMANDS}.commands")}
    for name in _tests():
        found[name] |= {f"{package}.conftest" for package in _packages(name)} & {*found}
    parts = ROOT / "ragbench" / "parts.toml"
    kinds = tomllib.loads(parts.read_text("utf-8")) if parts.is_file() else {}
    for name, text in sources().items():  # EXPORTS = Registry(kind="exports")
        for kind in re.findall(r'Registry\(kind="(\w+)"', text):
            targets = kinds.get(kind, {}).values()
            found[name] |= {target.partition(":")[0] for target in targets} & {*found}
    for table in (ROOT / "ragbench").rglob("*.toml"):
        package = ".".join(table.parent.relative_to(ROOT).parts)
        rows = re.findall(
            r'"(\w+):\w', table.read_text("utf-8")
        )  # reader = "eval_tools:read_ragas"
        for name in found:
            if name.startswith(f"{package}.") and table.name in sources()[name]:
                found[name] |= {f"{package}.{row}" for row in rows} & {*found}
    return found


@cache
def sources() -> dict[str, str]:
    """The text of every module of the product and the tests."""
    folders = (ROOT / "ragbench", ROOT / "cli" / "ragbench_cli", TESTS)
    paths = (path for folder in folders for path in folder.rglob("*.py"))
    return {name: path.read_text("utf-8") for path in paths if (name := module_name(path))}


def _named(text: str) -> Iterator[str]:
    """The modules that a text imports, or names as in ``"ragbench.post.filter:TopK"``."""
    for match in IMPORT.finditer(text):
        module, names = match.groups(default="")
        for name in (module, *(f"{module}.{name}" for name in re.findall(r"\w+", names))):
            yield from (name, *_packages(name), f"{name}.__main__")
            if name in face():
                yield face()[name]


def _packages(name: str) -> list[str]:
    return [name.rsplit(".", depth)[0] for depth in range(1, name.count(".") + 1)]


@cache
def face() -> dict[str, str]:
    """Where what `ragbench` exports is defined."""
    stub = (ROOT / "ragbench" / "__init__.pyi").read_text("utf-8")
    return {
        f"{FACE}.{name}": module
        for module, names in IMPORT.findall(stub)
        for name in re.findall(r"\w+", names)
    }


class Deadline:
    """Starts no further test after a number of seconds."""

    def __init__(self, seconds: float) -> None:
        self.end = time.monotonic() + seconds
        self.left = 0

    def pytest_runtest_protocol(self, item: object) -> bool | None:
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
    deadline = Deadline(float(os.environ.get("LIMIT") or 45))
    tests, untested = tests_of(changed(os.environ.get("BASE") or "main"))
    if untested:
        print(f"make quick: no test reaches {', '.join(untested)}: add one, or remove the module")
        return 1
    if not tests:
        print("make quick: lint is clean; nothing changed that a test reads")
        return 0
    import pytest

    names = [str(path.relative_to(ROOT)) for path in tests[:NEAREST]]
    status = pytest.main(["-q", "--no-header", "-p", "no:cov", *names], plugins=[deadline])
    if deadline.left or tests[NEAREST:]:
        left = f"{deadline.left} tests of these files and {len(tests[NEAREST:])} files further off"
        print(f"make quick: {left} were not run; make test runs all")
    return 0 if status == pytest.ExitCode.NO_TESTS_COLLECTED else int(status)


if __name__ == "__main__":
    sys.exit(main())
