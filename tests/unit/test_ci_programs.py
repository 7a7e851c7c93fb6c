"""The programs behind `make quick` and `make release`."""

from __future__ import annotations

import os
import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
QUICK: dict[str, Any] = runpy.run_path(str(ROOT / ".ci" / "quick.py"))
RELEASE: dict[str, Any] = runpy.run_path(str(ROOT / ".ci" / "release.py"))

CHANGES = """# Changelog

## [Unreleased]

### Added

- A thing.

## [0.1.0] - 2026-01-02

- The first.
"""


def test_every_module_of_the_product_is_reached_by_a_test() -> None:
    imports: dict[str, set[str]] = QUICK["imports"]()
    edge = {name for name in imports if name.rpartition(".")[2].startswith("test_")}
    reached: set[str] = set()
    while edge:
        reached |= edge
        imported_by_edge = {name for module in edge for name in imports[module]}
        edge = imported_by_edge - reached

    product = {name for name in imports if name.startswith("ragbench")}
    assert product - reached == set()


SMALL_PROJECT = {
    "ragbench/__init__.py": "",
    "ragbench/__init__.pyi": "from ragbench.gate.gate import decide as decide\n",
    "ragbench/gate/gate.py": "from ragbench.gate.drops import drop\nNAMES = 'names.toml'\n",
    "ragbench/gate/drops.py": "",
    "ragbench/gate/names.toml": 'reader = "listed:read"',
    "ragbench/gate/listed.py": "",
    "ragbench/gate/late.py": "",
    "ragbench/gate/registry.py": "LATE = {'late': 'ragbench.gate.late:Late'}",
    "ragbench/gate/lonely.py": "",
    "cli/ragbench_cli/main.py": "",
    "cli/ragbench_cli/commands/gate.py": "",
    "tests/cli/conftest.py": "from ragbench_cli.main import main",
    "tests/cli/test_gate.py": "",
    "tests/cli/test_other.py": "",
    "tests/unit/helper.py": "from ragbench.gate.registry import LATE",
    "tests/unit/test_drops.py": "from ragbench.gate.gate import decide",
    "tests/unit/test_face.py": "from ragbench import decide",
    "tests/unit/test_late.py": "from tests.unit.helper import LATE",
    "tests/unit/test_page.py": "PAGE = ROOT / 'docs' / 'page.md'",
    "docs/page.md": "",
}


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The names of the program quick.py, in a small project."""
    root = tmp_path_factory.mktemp("small")
    program = (ROOT / ".ci" / "quick.py").read_text("utf-8")
    for name, text in {**SMALL_PROJECT, ".ci/quick.py": program}.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    return runpy.run_path(str(root / ".ci" / "quick.py"))


@pytest.mark.parametrize(
    ("changed", "nearest"),
    [
        ("ragbench/gate/drops.py", ["test_drops", "test_face"]),  # its name first
        ("ragbench/gate/gate.py", ["test_drops", "test_face"]),  # imported, and through the face
        ("ragbench/gate/late.py", ["test_late"]),  # through a helper, looked up by name
        ("ragbench/gate/names.toml", ["test_drops", "test_face"]),  # read by a module
        ("ragbench/gate/listed.py", ["test_drops", "test_face"]),  # in a table that is read
        ("cli/ragbench_cli/commands/gate.py", ["test_gate", "test_other"]),  # through a fixture
        ("tests/unit/helper.py", ["test_late"]),
        ("tests/unit/test_late.py", ["test_late"]),
        ("docs/page.md", ["test_page"]),
        ("LICENSE", []),
    ],
)
def test_a_change_brings_its_tests_the_nearest_first(
    small: Any, changed: str, nearest: list[str]
) -> None:
    tests, untested = small["tests_of"]([small["ROOT"] / changed])

    assert [path.stem for path in tests] == nearest
    assert untested == []


def test_a_module_that_no_test_reaches_is_named(small: Any) -> None:
    root = small["ROOT"]
    changed = [root / "ragbench/gate/lonely.py", root / "docs/page.md"]

    tests, untested = small["tests_of"](changed)

    assert [path.stem for path in tests] == ["test_page"]
    assert untested == ["ragbench.gate.lonely"]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of this project, with all its files in one commit."""
    for name in _git(ROOT, "ls-files").splitlines():
        if (ROOT / name).is_file():
            copy = tmp_path / name
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, copy)
    _git(tmp_path, "init", "--quiet", "--initial-branch=work")
    _git(tmp_path, "add", "--all")
    author = ("-c", "user.name=a", "-c", "user.email=a@b.example")
    _git(tmp_path, *author, "commit", "--quiet", "--message=all")
    return tmp_path


def _git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", *arguments], cwd=folder, capture_output=True, text=True, check=True
    )
    return done.stdout


def quick(checkout: Path) -> subprocess.CompletedProcess[str]:
    """Runs ``make quick`` in a checkout."""
    python_path = f"{checkout}{os.pathsep}{checkout / 'cli'}"
    return subprocess.run(
        [sys.executable, ".ci/quick.py"],
        cwd=checkout,
        env={**os.environ, "PYTHONPATH": python_path, "BASE": "work", "LIMIT": "45"},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.nightly
def test_a_reversed_gate_is_red(checkout: Path) -> None:
    drops = checkout / "ragbench" / "gate" / "drops.py"
    code = drops.read_text("utf-8")
    fails, passes = "outcome = GateOutcome.FAILED", "outcome = GateOutcome.PASSED"
    assert code.count(fails) == code.count(passes) == 1
    swapped = {fails: passes, passes: fails}
    drops.write_text(re.sub(f"{fails}|{passes}", lambda match: swapped[match[0]], code))

    done = quick(checkout)

    assert done.returncode == 1, done.stdout
    assert "test_gate.py::" in done.stdout


@pytest.mark.nightly
def test_a_module_that_no_test_reaches_is_red(checkout: Path) -> None:
    name = "hermit"  # a test that spelled out the dotted name would count as one that reaches it
    (checkout / "ragbench" / "gate" / f"{name}.py").write_text("NUMBER = 1\n", "utf-8")

    done = quick(checkout)

    assert done.returncode == 1
    assert f"no test reaches ragbench.gate.{name}" in done.stdout


def test_a_release_dates_what_is_unreleased() -> None:
    text = RELEASE["with_section"](CHANGES, "0.2.0", "2026-03-04")

    assert "## [Unreleased]\n\n## [0.2.0] - 2026-03-04\n\n### Added\n\n- A thing.\n" in text
    assert text.count("## [") == 3
    assert RELEASE["with_version"]('[project]\nversion = "0.1.0"\n', "0.2.0") == (
        '[project]\nversion = "0.2.0"\n'
    )


@pytest.mark.parametrize("version", ["0.0.9", "v1.0.0", "1.0.0.", "latest"])
def test_a_version_that_cannot_be_is_refused(version: str) -> None:
    with pytest.raises(RELEASE["Refused"]):
        RELEASE["with_version"]('version = "0.1.0"\n', version)


def test_nothing_unreleased_or_released_twice_is_refused() -> None:
    nothing_unreleased = CHANGES.replace("- A thing.\n", "")

    with pytest.raises(RELEASE["Refused"]):
        RELEASE["with_section"](CHANGES, "0.1.0", "2026-03-04")
    with pytest.raises(RELEASE["Refused"]):
        RELEASE["with_section"](nothing_unreleased, "0.2.0", "2026-03-04")
    with pytest.raises(RELEASE["Refused"]):
        RELEASE["with_section"]("# Changelog\n", "0.2.0", "2026-03-04")
