"""Python, the packages that ragbench needs, and its extras."""

from __future__ import annotations

import os
import platform
import re
from importlib.metadata import PackageNotFoundError, requires, version

from ragbench_cli.checks.check import Check, State

__all__ = ["check_installation"]

_REQUIREMENT = re.compile(r"^(?P<name>[\w.-]+)(?P<rest>.*?)(;(?P<marker>.*))?$")
_EXTRA = re.compile(r"""extra\s*==\s*['"](?P<extra>[\w-]+)['"]""")
_NOT_TOLD = ("all", "dev")
"""Extras that bring no feature of their own."""


def check_installation() -> list[Check]:
    """Looks at versions alone: nothing is imported, so it takes no time."""
    try:
        checks = [_ok("ragbench", version("ragbench"))]
        requirements = requires("ragbench") or []
    except PackageNotFoundError:
        checks = [_ok("ragbench", "run from its source: without its metadata no more is known")]
        requirements = []
    checks.append(_ok("python", f"{platform.python_version()} on {platform.system()}"))
    core = _names(requirements, None)
    if core:
        checks.append(_packages("core", core, "pip install --force-reinstall ragbench", "failed"))
    for extra in _extras(requirements):
        remedy = f"pip install 'ragbench[{extra}]'"
        checks.append(_packages(f"extra {extra}", _names(requirements, extra), remedy, "absent"))
    checks.append(_ok("ragas telemetry", _telemetry()))
    return checks


def _ok(name: str, detail: str) -> Check:
    return Check(name=name, state="ok", detail=detail)


def _extras(requirements: list[str]) -> list[str]:
    """The extras, in alphabetical order."""
    found = {match["extra"] for text in requirements if (match := _EXTRA.search(text))}
    return sorted(found.difference(_NOT_TOLD))


def _names(requirements: list[str], extra: str | None) -> list[str]:
    """The packages that an extra, or with None the core, asks for."""
    found: dict[str, None] = {}
    for requirement in requirements:
        match = _REQUIREMENT.match(requirement)
        if match is not None:
            marked = _EXTRA.search(match["marker"] or "")
            if (marked["extra"] if marked else None) == extra and match["name"] != "ragbench":
                found[match["name"]] = None
    return list(found)


def _packages(name: str, packages: list[str], remedy: str, without: State) -> Check:
    """One check of several packages, and its state when one of them is missing."""
    there: list[str] = []
    missing: list[str] = []
    for package in packages:
        try:
            there.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            missing.append(package)
    if not missing:
        return _ok(name, ", ".join(there))
    detail = f"without {', '.join(missing)}: {remedy}"
    return Check(name=name, state=without, detail=detail)


def _telemetry() -> str:
    set_to = os.environ.get("RAGAS_DO_NOT_TRACK")
    if set_to is None or set_to.lower() == "true":
        return "off"
    return f"on: RAGAS_DO_NOT_TRACK={set_to}"
