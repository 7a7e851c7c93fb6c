"""What holds for every test."""

from __future__ import annotations

import os
import re
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from packaging.requirements import Requirement

# Examples are the same in every run, and a busy machine is not a failure.
settings.register_profile(
    "ragbench",
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("ragbench")
os.environ["RAGBENCH_READINGS"] = "off"  # a test reads anew, and leaves nothing behind


@pytest.fixture
def own_modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The current folder, an empty one; what is imported from it is forgotten."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [*sys.path])
    yield tmp_path
    for name, module in list(sys.modules.items()):
        if (getattr(module, "__file__", None) or "").startswith(str(tmp_path)):
            del sys.modules[name]


# --- the mark `extra(name)`: on a test, a parameter, or as the line `pytestmark = ...` of a module,
# which is then not even imported where the extra is missing, so that it may import at its top.

PROJECT = Path(__file__).parents[1] / "pyproject.toml"
MARK_OF_MODULE = re.compile(
    r'^pytestmark = (?:\[\s*)?pytest\.mark\.extra\("(\w+)"(?:, package="([^"]+)")?\)', re.MULTILINE
)


@cache
def missing(extra: str, package: str | None = None) -> str | None:
    """Why the tests of an extra, or of one package of it, cannot run here; None if they can."""
    extras = tomllib.loads(PROJECT.read_text("utf-8"))["project"]["optional-dependencies"]
    for requirement in map(Requirement, extras[extra]):
        if requirement.name == "ragbench":
            for included in sorted(requirement.extras):
                if reason := missing(included):
                    return reason
        elif package in (None, requirement.name) and not installed(requirement):
            return f"needs {requirement.name}: pip install 'ragbench[{extra}]'"
    return None


def installed(requirement: Requirement) -> bool:
    """Whether the package is here in a fitting version, or is not for this machine."""
    if requirement.marker is not None and not requirement.marker.evaluate():
        return True
    try:
        return requirement.specifier.contains(version(requirement.name), prereleases=True)
    except PackageNotFoundError:
        return False


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if any(mark.args == ("ragas",) for mark in item.iter_markers("extra")):
            # ragas leaves a file of its own open.
            for warning in ("ResourceWarning", "pytest.PytestUnraisableExceptionWarning"):
                item.add_marker(pytest.mark.filterwarnings(f"ignore::{warning}"))


def pytest_runtest_setup(item: pytest.Item) -> None:
    for mark in item.iter_markers("extra"):
        if reason := missing(*mark.args, **mark.kwargs):
            pytest.skip(reason)


class WithoutItsExtra(pytest.Module):
    """A test module whose imports cannot succeed here."""

    reason: str

    def collect(self) -> list[pytest.Item]:
        pytest.skip(self.reason)


def pytest_pycollect_makemodule(
    module_path: Path, parent: pytest.Collector
) -> pytest.Module | None:
    mark = MARK_OF_MODULE.search(module_path.read_text("utf-8"))
    if mark is None:
        return None
    extra, package = mark.groups()
    reason = missing(extra, package)
    if reason is None:
        return None
    module: WithoutItsExtra = WithoutItsExtra.from_parent(parent, path=module_path)
    module.reason = reason
    return module
