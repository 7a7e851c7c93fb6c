"""Makes a release ready to be tagged: `make release VERSION=0.2.0`.

It writes the version into pyproject.toml and the date over what is [Unreleased] in CHANGELOG.md,
builds sdist and wheel, installs the wheel with the pinned versions into a fresh environment, and
runs a project of `ragbench init` with it. If anything fails, both files are as they were. Nothing
is committed, tagged or uploaded: the commands for that are printed.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
import venv
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from packaging.version import InvalidVersion, Version

ROOT = Path(__file__).resolve().parents[1]
PROJECT = ROOT / "pyproject.toml"
CHANGELOG = ROOT / "CHANGELOG.md"
VERSION = re.compile(r'^version = "([^"]+)"$', re.MULTILINE)
UNRELEASED = re.compile(r"^## \[Unreleased\]\n(.*?)(?=^## \[|\Z)", re.MULTILINE | re.DOTALL)


class Refused(Exception):
    """The release cannot be made; the message says why."""


def with_version(project: str, version: str) -> str:
    """The text of pyproject.toml with a version above its present one.

    Raises:
        Refused: it is not a version, or not above the present one.
    """
    found = VERSION.search(project)
    present = found[1] if found else "0"
    try:
        wanted = Version(version)
    except InvalidVersion:
        raise Refused(f"'{version}' is not a version such as 0.2.0 (PEP 440)") from None
    if wanted < Version(present) or str(wanted) != version:
        raise Refused(f"{version} is below the present version {present}, or not written as usual")
    return VERSION.sub(f'version = "{version}"', project, count=1)


def with_section(changelog: str, version: str, day: str) -> str:
    """The text of CHANGELOG.md with what is unreleased under the version, and [Unreleased] empty.

    Raises:
        Refused: the version has a section, or nothing is unreleased.
    """
    if f"## [{version}]" in changelog:
        raise Refused(f"CHANGELOG.md has a section for {version}")
    found = UNRELEASED.search(changelog)
    if found is None or not re.search(r"^- ", found[1], re.MULTILINE):
        raise Refused("CHANGELOG.md lists nothing under [Unreleased]")
    head = f"## [Unreleased]\n\n## [{version}] - {day}\n"
    return changelog[: found.start()] + head + found[1] + changelog[found.end() :]


def run(call: Sequence[str | Path], folder: Path) -> str:
    """What a command prints.

    Raises:
        Refused: it failed; holds the end of what it said.
    """
    done = subprocess.run(call, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        said = (done.stdout + done.stderr).strip()[-2000:]
        raise Refused(f"{' '.join(map(str, call))}\n{said}")
    return done.stdout


def build(target: Path) -> Path:
    """Builds sdist and wheel with the setuptools that is installed; returns the wheel."""
    for left in ("build/lib", "build/bdist*"):  # a module that was deleted would still be packed
        for folder in ROOT.glob(left):
            shutil.rmtree(folder)
    for kind in ("sdist", "wheel"):
        call = f"import setuptools.build_meta as b; print(b.build_{kind}({str(target)!r}))"
        printed = run([sys.executable, "-W", "ignore", "-c", call], ROOT)
    return target / printed.splitlines()[-1]


def try_out(wheel: Path, version: str) -> None:
    """Installs the wheel into a fresh environment and works with it in an empty folder."""
    with tempfile.TemporaryDirectory(prefix="ragbench-release-") as name:
        folder = Path(name)
        venv.create(folder / "venv", with_pip=True)
        tools = folder / "venv" / ("Scripts" if sys.platform == "win32" else "bin")
        pinned = ["--constraint", ROOT / ".ci" / "constraints.txt"]
        run([tools / "python", "-m", "pip", "install", "--quiet", *pinned, wheel], folder)
        ragbench = tools / "ragbench"
        if version not in run([ragbench, "--version"], folder).split():
            raise Refused(f"the wheel's ragbench --version is not {version}")
        run([ragbench, "init", "tried"], folder)
        project = folder / "tried"
        run([ragbench, "doctor"], project)
        run([ragbench, "eval", "data", "--rag", "my_rag.py:MyRAG", "--out", "run"], project)
        run([ragbench, "report", "run", "--json"], project)


def main(version: str) -> None:
    """Makes the release.

    Raises:
        Refused: the checkout has changes, a text cannot be written, or what was built fails.
    """
    if run(["git", "status", "--porcelain"], ROOT):
        raise Refused("the checkout has changes: commit or remove them first")
    before = {path: path.read_text("utf-8") for path in (PROJECT, CHANGELOG)}
    day = datetime.now(UTC).date().isoformat()
    PROJECT.write_text(with_version(before[PROJECT], version), "utf-8")
    try:
        CHANGELOG.write_text(with_section(before[CHANGELOG], version, day), "utf-8")
        wheel = build(ROOT / "dist")
        try_out(wheel, version)
    except BaseException:
        for path, text in before.items():
            path.write_text(text, "utf-8")
        raise
    print(f"built and tried {wheel.relative_to(ROOT)}. What is left to do:\n")
    print(f"  git commit -am 'Version {version}' && git tag v{version} && git push --follow-tags")
    print(f"  twine upload dist/ragbench-{version}*")


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except Refused as error:
        sys.exit(f"make release: {error}")
