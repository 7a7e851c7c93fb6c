"""A run folder, a report.json or a baseline file, read as the scores of a run."""

from __future__ import annotations

from pathlib import Path

from ragbench.errors import RunMismatchError
from ragbench.gate.baseline_file import is_baseline, run_of_baseline
from ragbench.gate.stored_report import Json, cut_short, read_json, run_of_report, understood
from ragbench.records.run_scores import RunScores
from ragbench.runs.folder import RunFolder

__all__ = ["read_run"]

_TIMINGS = "timings.json"


def read_run(path: Path) -> RunScores:
    """Reads a run from what ragbench wrote of it.

    Args:
        path: a run folder, its ``report.json``, or a baseline file. ``timings.json`` is read too
            when it stands beside the report.

    Raises:
        RunMismatchError: it is none of these, or another version of ragbench wrote it.
    """
    if path.is_dir():
        return _from_folder(path)
    content = read_json(path)
    if is_baseline(content):
        return understood(path, lambda: run_of_baseline(content, str(path)))
    if "manifest" not in content or "cases" not in content:
        raise RunMismatchError(
            f"{path} is neither a report.json nor a baseline file of ragbench. Give a run folder, "
            "its report.json, or what ragbench baseline set wrote"
        )
    return _from_report(path, content, str(path))


def _from_folder(path: Path) -> RunScores:
    folder = RunFolder(path=path)
    if folder.report.is_file():
        return _from_report(folder.report, read_json(folder.report), str(path))
    if folder.exists:
        raise cut_short(path)
    raise RunMismatchError(f"{path} is no run folder: it has no {folder.report.name}")


def _from_report(path: Path, content: Json, source: str) -> RunScores:
    beside = path.with_name(_TIMINGS)
    timings = read_json(beside) if path.name == "report.json" and beside.is_file() else None
    return understood(path, lambda: run_of_report(content, timings, source))
