"""The programs behind `make quick` and `make release`."""

from __future__ import annotations

import os
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


def chosen(*names: str) -> list[str]:
    nearest, _ = QUICK["tests_of"]([ROOT / name for name in names])
    return [path.relative_to(ROOT).as_posix() for path in nearest]


def test_every_module_of_the_product_is_reached_by_a_test() -> None:
    modules = [*(ROOT / "ragbench").rglob("*.py"), *(ROOT / "cli" / "ragbench_cli").rglob("*.py")]
    _, untested = QUICK["tests_of"](modules)
    assert untested == []


@pytest.mark.parametrize(
    ("changed", "test"),
    [
        ("ragbench/core/fusion.py", "tests/unit/pipeline/test_fusion.py"),  # imported
        ("ragbench/gate/drops.py", "tests/unit/gate/test_gate.py"),  # through another module
        ("ragbench/post/filter.py", "tests/unit/post/operators/test_filters.py"),  # by its name
        ("cli/ragbench_cli/commands/gate.py", "tests/cli/test_gate.py"),  # through a fixture
        ("ragbench/text/declining.toml", "tests/unit/text/test_declining.py"),  # read by a module
        ("docs/advanced_example.md", "tests/unit/rag/test_docs_advanced_example.py"),
        ("tests/unit/io/traces.py", "tests/unit/io/export/test_csv_table.py"),
    ],
)
def test_a_change_brings_its_nearest_tests(changed: str, test: str) -> None:
    assert test in chosen(changed)[:10]


def test_a_changed_test_runs_itself_and_what_nothing_reads_runs_none() -> None:
    assert chosen("tests/unit/io/test_trec.py") == ["tests/unit/io/test_trec.py"]
    assert chosen(f"{__name__}.unread") == []  # spelled out here, a test would name it


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of the files under version control, as the only commit of its branch `work`."""
    names = _git(ROOT, "ls-files").splitlines()
    for name in filter(lambda name: (ROOT / name).is_file(), names):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
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
    """The program as `make quick` calls it."""
    paths = os.pathsep.join(map(str, (checkout, checkout / "cli")))
    return subprocess.run(
        [sys.executable, ".ci/quick.py"],
        cwd=checkout,
        env={**os.environ, "PYTHONPATH": paths, "BASE": "work", "LIMIT": "45"},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.nightly
def test_a_reversed_gate_is_red(checkout: Path) -> None:
    drops = checkout / "ragbench" / "gate" / "drops.py"
    right = "return GateOutcome.FAILED"
    assert right in drops.read_text("utf-8")
    drops.write_text(drops.read_text("utf-8").replace(right, "return GateOutcome.PASSED", 1))
    done = quick(checkout)
    assert done.returncode == 1, done.stdout
    assert "test_gate.py::" in done.stdout


def test_a_module_that_no_test_reaches_is_red_and_named(checkout: Path) -> None:
    name = "lonely"  # a test that spelled out the dotted name would count as one that reaches it
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
    for changelog, version in (
        (CHANGES, "0.1.0"),
        (CHANGES.replace("- A thing.\n", ""), "0.2.0"),
        ("# Changelog\n", "0.2.0"),
    ):
        with pytest.raises(RELEASE["Refused"]):
            RELEASE["with_section"](changelog, version, "2026-03-04")
