"""Stored runs to a gate's result; the run to compare one with, where nobody names it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from ragbench.core.gate_result import GateResult
from ragbench.core.report import Report
from ragbench.core.run_scores import RunScores
from ragbench.core.unfulfilled import EXPECTATIONS, unfulfilled
from ragbench.errors import ConfigError, MissingExtraError, RunMismatchError
from ragbench.gate.comparable import compare_inputs
from ragbench.gate.config import AUTO, GateConfig
from ragbench.gate.gate import gate
from ragbench.gate.labels import notes_of
from ragbench.gate.runs import is_finished, read_run
from ragbench.io.people import LabelBook
from ragbench.ledger.folder import (
    Manifest,
    RunFolder,
    is_one_run,
    path_of,
    read_manifest,
    run_around,
)
from ragbench.metrics.matching import Matching
from ragbench.verbs.label import with_labels
from ragbench.verbs.report import report_of
from ragbench.views.history import span_text
from ragbench.views.run_document import right_text

Reask = Callable[[RunScores, RunScores], RunScores]
"""A run and its baseline to that baseline with the scores of all cases of the run."""


def gate_run(
    path: str | Path,
    config: GateConfig,
    *,
    folders: Sequence[Path] = (Path("reports"),),
    reask: Reask | None = None,
) -> GateResult:
    """Judges a stored run.

    Args:
        path: the run's folder, or a baseline file.
        config: what is demanded. Its ``baseline`` is a path, `AUTO`, or None.
        folders: where `AUTO` looks for runs, besides the folder that the run lies in.
        reask: asks the baseline's system the cases of the run that it does not know.

    Raises:
        RunMismatchError: a path holds no run.
        ConfigError: what is demanded cannot be judged on this run.
    """
    path = path_of(path)
    run = read_run(path)
    notes: list[str] = []
    if config.baseline == AUTO:
        found = find_baseline(path, run, (run_around(path).absolute().parent, *folders))
        if found is None:
            notes.append(
                f"There is no earlier run of {run.rag} on the same dataset with the same metrics "
                f"beside {path}, nor in {', '.join(map(str, folders))}."
            )
    else:
        found = None if config.baseline is None else Path(config.baseline)
    if found is not None and is_one_run((path, found)):
        raise ConfigError(
            f"{path} is its own baseline, so that nothing can differ. Name an earlier run or a "
            "baseline file with --baseline; --baseline auto looks for one"
        )
    baseline = None if found is None else _baseline(found, run, notes)
    changed = None if baseline is None else compare_inputs(run, baseline, ()).dataset
    if reask is not None and baseline is not None:
        baseline = reask(run, baseline)
        notes.append("The baseline's system was asked the cases that are new or edited.")
    book = LabelBook.read(config.labels) if config.labels else None
    run, baseline = with_labels(run, book), baseline and with_labels(baseline, book)
    notes += notes_of(book, [run] if baseline is None else [run, baseline])
    if run.right is not None and run.right.by_words:
        notes.append(right_text(run.right))
    verdict = replace(gate(run, baseline, config, notes=notes), dataset=changed)
    return _with_unfulfilled(verdict, path, found)


def _with_unfulfilled(verdict: GateResult, path: Path, baseline: Path | None) -> GateResult:
    """The result with the names of the expectations that do not hold, if a check is about them."""
    if not any(check.subject == EXPECTATIONS for check in verdict.against):
        return verdict
    if not run_around(path).is_dir():  # a baseline file holds no answers
        return verdict
    before: Report | None = None
    if baseline is not None and run_around(baseline).is_dir():
        before = report_of(run_around(baseline))
    lost = [case.id for case in verdict.lost_cases if case.metric == EXPECTATIONS]
    cases = unfulfilled(report_of(run_around(path)), most=_CASES, first=lost, baseline=before)
    return replace(verdict, unfulfilled=cases)


_CASES = 50
"""Of how many cases the expectations that do not hold are named."""


def _baseline(path: Path, run: RunScores, notes: list[str]) -> RunScores:
    """A stored run to compare with, and what a reader must know of it."""
    if not path.exists():
        raise RunMismatchError(
            f"the baseline {path} does not exist. Keep a run as one with: "
            f"ragbench baseline set RUN -o {path}"
        )
    baseline = read_run(path)
    if lacking := _lacking(run, baseline, path):
        baseline = _measured(baseline, path, lacking)
        notes.append(f"Computed on the baseline's stored answers: {', '.join(lacking)}.")
    if (age := age_note(run, baseline)) is not None:
        notes.append(age)
    return baseline


def _lacking(run: RunScores, baseline: RunScores, path: Path) -> list[str]:
    """The run's metrics that the baseline lacks and that can be computed without asking anybody."""
    there = {column.name for column in baseline.metrics}
    names = [column.name for column in run.metrics if column.name not in there]
    if not names or not run_around(path).is_dir():  # a baseline file holds no answers
        return []
    from ragbench.metrics.registry import parse_metrics

    found: list[str] = []
    for name in names:
        with suppress(ConfigError, MissingExtraError):  # a formula of the user's, or not at hand
            (metric,) = parse_metrics(name)
            if metric.definition.deterministic and not metric.is_judged:
                found.append(name)
    return found


def _measured(baseline: RunScores, path: Path, names: Sequence[str]) -> RunScores:
    """The baseline with more metrics, of its stored answers; its own scores stay."""
    from ragbench.stages.system import EvalSettings
    from ragbench.verbs.evaluate import evaluate

    with TemporaryDirectory() as folder:
        settings = EvalSettings(matching=Matching(baseline.matching))
        evaluate(
            run_around(path), out=Path(folder, "run"), metrics=",".join(names), settings=settings
        )
        more = read_run(Path(folder, "run"))
    cells = {**baseline.table.cells, **more.beside(baseline).table.cells}
    cases = replace(baseline.table, cells=cells)
    return replace(baseline, metrics=(*baseline.metrics, *more.metrics), cases=cases)


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
    text = f"The baseline is {made}{span_text([run.date for run in baseline.made_of])}"
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
