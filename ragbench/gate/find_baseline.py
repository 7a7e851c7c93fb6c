"""The run to hold a run against."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from ragbench.core.run_scores import RunScores
from ragbench.errors import RunMismatchError
from ragbench.ledger.folder import RunFolder
from ragbench.ledger.manifest import Manifest, read_manifest


def commits_between(earlier: str, later: str, folder: Path) -> int | None:
    """The number of commits that ``later`` has and ``earlier`` lacks.

    None when ``earlier`` is not an ancestor of ``later``, or git does not know one of them (as in a
    shallow clone), or there is no git.
    """
    if earlier == later:
        return 0
    if _git(folder, "merge-base", "--is-ancestor", earlier, later) is None:
        return None
    count = _git(folder, "rev-list", "--count", f"{earlier}..{later}")
    return None if count is None else int(count)


def _git(folder: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *arguments],
            capture_output=True,
            text=True,
            check=True,
            timeout=10,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


@dataclass(frozen=True, kw_only=True, slots=True)
class _Candidate:
    path: Path
    manifest: Manifest
    written: float
    """When its manifest was written, in seconds."""


def find_baseline(path: Path, run: RunScores, folders: Iterable[Path]) -> Path | None:
    """Finds the latest earlier run of the same system on the same dataset with the same metrics.

    The dataset may have gained or lost cases since: those in common are compared.

    Where commits are known, the run whose commit lies nearest behind this run's goes first; runs of
    other branches do not count then. Where none is known to lie behind it, and among runs of one
    commit, the one that was written last before this run is taken.

    None when there is none.
    """
    home = path if path.is_dir() else path.parent
    manifest_file = RunFolder(path=home).manifest
    if not manifest_file.is_file():
        return None
    written = manifest_file.stat().st_mtime
    candidates = [
        candidate for candidate in _candidates(home, folders) if _is_alike(candidate.manifest, run)
    ]
    distances = {candidate.path: _distance(candidate, run, home) for candidate in candidates}
    behind = [c for c in candidates if (distances[c.path] or 0) > 0 or _is_earlier(c, written)]
    known = [candidate for candidate in behind if distances[candidate.path] is not None]
    if known:
        nearest = min(known, key=lambda c: (distances[c.path] or 0, -c.written, c.path.name))
        return nearest.path
    earlier = [candidate for candidate in behind if _is_earlier(candidate, written)]
    latest = max(earlier, key=lambda c: (c.written, c.path.name), default=None)
    return None if latest is None else latest.path


def _candidates(home: Path, folders: Iterable[Path]) -> Iterator[_Candidate]:
    seen = {home.resolve()}
    for folder in folders:
        for entry in sorted(folder.iterdir()) if folder.is_dir() else ():
            place = RunFolder(path=entry)
            if entry.resolve() in seen or not place.report.is_file():
                continue
            seen.add(entry.resolve())
            try:
                manifest = read_manifest(place.manifest)
            except RunMismatchError:  # not ours, or of another version: no candidate
                continue
            written = place.manifest.stat().st_mtime
            yield _Candidate(path=entry, manifest=manifest, written=written)


def _is_alike(manifest: Manifest, run: RunScores) -> bool:
    if manifest.dataset.name != run.dataset:
        return False
    theirs = {(metric.name, metric.version) for metric in manifest.metrics}
    mine = {(column.name, column.version) for column in run.metrics}
    return manifest.rag.name == run.rag and mine <= theirs


def _distance(candidate: _Candidate, run: RunScores, folder: Path) -> int | None:
    commit = (candidate.manifest.git or {}).get("commit")
    if run.commit is None or not isinstance(commit, str):
        return None
    return commits_between(commit, run.commit, folder)


def _is_earlier(candidate: _Candidate, written: float) -> bool:
    return candidate.written < written
