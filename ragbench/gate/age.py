"""How old a baseline is, seen from the run that is held against it."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from ragbench.core.run_scores import RunScores
from ragbench.gate.find_baseline import commits_between

OLD_DAYS = 90
"""A baseline that is older is warned of; likewise by commits."""
OLD_COMMITS = 200


def age_note(run: RunScores, baseline: RunScores, folder: Path) -> str | None:
    """What the baseline is made of, and by how much its newest run is older than this one.

    Seen from the run and not from today, so that the same files give the same verdict.

    None where nothing is known.
    """
    count = len(baseline.made_of)
    days, commits = _days(baseline.date, run.date), None
    if baseline.commit is not None and run.commit is not None:
        commits = commits_between(baseline.commit, run.commit, folder)
    ages: list[str] = []
    if days:
        ages.append("1 day" if days == 1 else f"{days:,} days")
    if commits:
        ages.append("1 commit" if commits == 1 else f"{commits:,} commits")
    if count < 2 and not days and not commits:
        return None
    made = f"the mean of {count} runs" if count > 1 else "one run"
    dates = [made_of.date[:10] for made_of in baseline.made_of if made_of.date is not None]
    if dates:
        made += f", {dates[0]}" + (f" to {dates[-1]}" if dates[-1] != dates[0] else "")
    told = f"The baseline is {made}."
    if ages:
        newest = " the newest is" if count > 1 else " it is"
        told = f"{told[:-1]};{newest} {' and '.join(ages)} older than this run."
    if (days or 0) > OLD_DAYS or (commits or 0) > OLD_COMMITS:
        told += " That is old: add today's main with: ragbench baseline add RUN"
    return told


def _days(earlier: str | None, later: str | None) -> int | None:
    if earlier is None or later is None:
        return None
    try:
        first, last = (datetime.fromisoformat(text).astimezone() for text in (earlier, later))
    except ValueError:  # a date that somebody wrote by hand
        return None
    return (last - first).days if last >= first else None
