"""The run to compare a run with, and how old it is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path

from ragbench.core.run_scores import RunScores
from ragbench.errors import RunMismatchError
from ragbench.gate.runs import is_finished
from ragbench.ledger.folder import Manifest, RunFolder, read_manifest, run_around

OLD_DAYS = 90
"""A baseline that is older is warned of."""


def find_baseline(path: Path, run: RunScores, folders: Iterable[Path]) -> Path | None:
    """Finds the latest earlier run of the same system on the same dataset.

    One with all of the run's metrics is preferred to a later one that lacks some. The dataset may
    have gained or lost cases since: those in common are compared.
    """
    home = run_around(path)
    manifest_file = RunFolder(path=home).manifest
    if not manifest_file.is_file():
        return None
    written = manifest_file.stat().st_mtime
    found: list[tuple[bool, float, str, Path]] = []
    for entry, manifest, time in _candidates(home, folders):
        theirs = {metric.name: metric.version for metric in manifest.metrics}
        both = [column for column in run.metrics if column.name in theirs]
        is_alike = (manifest.dataset.name, manifest.rag.name) == (run.dataset, run.rag) and all(
            theirs[column.name] == column.version for column in both
        )
        if both and is_alike and time < written and is_finished(entry):
            found.append((len(both) == len(run.metrics), time, entry.name, entry))
    return max(found)[3] if found else None


def _candidates(home: Path, folders: Iterable[Path]) -> Iterator[tuple[Path, Manifest, float]]:
    seen = {home.resolve()}
    for folder in folders:
        for entry in sorted(folder.iterdir()) if folder.is_dir() else ():
            place = RunFolder(path=entry)
            if entry.resolve() in seen or not place.exists:
                continue
            seen.add(entry.resolve())
            try:
                manifest = read_manifest(place.manifest)
            except RunMismatchError:  # not ours, or of another version: no candidate
                continue
            yield entry, manifest, place.manifest.stat().st_mtime


def age_note(run: RunScores, baseline: RunScores) -> str | None:
    """What the baseline is made of, and how much older than this run its newest run is.

    Seen from the run and not from today, so that the same files give the same verdict.
    """
    count, days = len(baseline.made_of), _days(baseline.date, run.date)
    if count < 2 and not days:
        return None
    made = f"the mean of {count} runs" if count > 1 else "one run"
    dates = [made_of.date[:10] for made_of in baseline.made_of if made_of.date is not None]
    if dates:
        made += f", {dates[0]}" + (f" to {dates[-1]}" if dates[-1] != dates[0] else "")
    text = f"The baseline is {made}"
    if days:
        newest = "the newest" if count > 1 else "it"
        text += f"; {newest} is {'1 day' if days == 1 else f'{days:,} days'} older than this run"
    old = " That is old: add today's main with: ragbench baseline add RUN"
    return f"{text}.{old if (days or 0) > OLD_DAYS else ''}"


def _days(earlier: str | None, later: str | None) -> int | None:
    if earlier is None or later is None:
        return None
    try:
        first, last = (datetime.fromisoformat(text).astimezone() for text in (earlier, later))
    except ValueError:  # a date that somebody wrote by hand
        return None
    return (last - first).days if last >= first else None
