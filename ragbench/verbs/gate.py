"""Stored runs to a gate's result; the run to compare one with, where nobody names it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from ragbench.core.case_table import Cells
from ragbench.core.gate_result import GateResult
from ragbench.core.outcome import Cell
from ragbench.core.report import Report
from ragbench.core.run_scores import MetricColumn, RunScores
from ragbench.core.unfulfilled import EXPECTATIONS, unfulfilled
from ragbench.errors import ConfigError, MissingExtraError, RunMismatchError
from ragbench.gate.comparable import compare_inputs
from ragbench.gate.config import AUTO, GateConfig
from ragbench.gate.gate import gate
from ragbench.gate.labels import corrections, notes_of, words_notes
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
from ragbench.ledger.journal import Journal
from ragbench.metrics.matching import Matching
from ragbench.metrics.summary import SummaryBuilder
from ragbench.stages.stored import StoredTraces
from ragbench.verbs.label import with_labels
from ragbench.verbs.report import report_of
from ragbench.views.answers import answer_counts_text, corrected_share
from ragbench.views.history import span_text

Reask = Callable[[RunScores, RunScores], RunScores]
"""A run and its baseline to that baseline with the scores of all cases of the run."""


def gate_run(
    path: str | Path,
    config: GateConfig,
    *,
    folders: Sequence[Path] = (Path("reports"),),
    reask: Reask | None = None,
) -> GateResult:
    """Judges a stored run: by its figures alone, or beside a baseline.

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

    baseline_path: Path | None = None
    if config.baseline == AUTO:
        # Absolute, so that a path such as "run" has a folder around it.
        home = run_around(path).absolute().parent
        baseline_path = find_baseline(path, run, (home, *folders))
        if baseline_path is None:
            folder_names = ", ".join(map(str, folders))
            notes.append(
                f"There is no earlier run of {run.rag} on the same dataset with the same metrics "
                f"beside {path}, nor in {folder_names}."
            )
    elif config.baseline is not None:
        baseline_path = Path(config.baseline)
    # Also where two paths lead to one run, as by a link or a baseline file inside of it.
    if baseline_path is not None and is_one_run((path, baseline_path)):
        raise ConfigError(
            f"{path} is its own baseline, so that nothing can differ. Name an earlier run or a "
            "baseline file with --baseline; --baseline auto looks for one"
        )

    baseline: RunScores | None = None
    dataset_change = None
    if baseline_path is not None:
        baseline = _read_baseline(baseline_path, run, notes)
        # Before the baseline is asked again: what a reader wants to know is how the files differ.
        # The dataset's change is of the stored runs; asking again would hide it.
        dataset_change = compare_inputs(run, baseline, ()).dataset
        if reask is not None:
            baseline = reask(run, baseline)
            notes.append("The baseline's system was asked the cases that are new or edited.")

    book = None
    if config.labels:
        book = LabelBook.read(config.labels)
    # Labels are read once, and hold for both runs.
    run = with_labels(run, book)
    runs = [run]
    if baseline is not None:
        baseline = with_labels(baseline, book)
        runs.append(baseline)
    notes += notes_of(book, runs)
    # Without an answer there is nothing to count.
    if run.answers is not None and run.answers.answers:
        figures = tuple(corrections([("", run)]))
        share = corrected_share(figures)
        notes.append(answer_counts_text(run.answers, judge=run.judge, share=share))
    notes += words_notes(runs)

    verdict = gate(run, baseline, config, notes=notes)
    verdict = replace(verdict, dataset=dataset_change)
    return _with_unfulfilled(verdict, path, baseline_path)


_CASES = 50
"""Of how many cases the expectations that do not hold are named."""


def _with_unfulfilled(verdict: GateResult, path: Path, baseline: Path | None) -> GateResult:
    """The result of a gate with the names of the expectations that do not hold.

    Only if a check of the gate is about expectations: their share alone does not show what to mend.
    """
    # Checks that passed name no expectation.
    has_failed = any(check.subject == EXPECTATIONS for check in verdict.against)
    if not has_failed:
        return verdict
    run_folder = run_around(path)
    if not run_folder.is_dir():  # a baseline file holds no answers
        return verdict
    before: Report | None = None
    if baseline is not None and run_around(baseline).is_dir():
        before = report_of(run_around(baseline))
    # Lost ones first: of many cases only the first are named.
    lost = [case.id for case in verdict.lost_cases if case.metric == EXPECTATIONS]
    report = report_of(run_folder)
    cases = unfulfilled(report, most=_CASES, first=lost, baseline=before)
    return replace(verdict, unfulfilled=cases)


def _read_baseline(path: Path, run: RunScores, notes: list[str]) -> RunScores:
    """Reads the stored run that another run is compared with, its lacking metrics computed.

    Args:
        path: a run's folder or a baseline file; one that does not exist is an error.
        run: the run that is judged.
        notes: gets what a reader must know of the baseline, such as its age.
    """
    if not path.exists():
        raise RunMismatchError(
            f"the baseline {path} does not exist. Keep a run as one with: "
            f"ragbench baseline set RUN -o {path}"
        )
    baseline = read_run(path)
    names = _computable_metrics(run, baseline, path)
    if names:
        # Added before the comparison, so that the new metric is compared like any other.
        baseline = _with_computed_metrics(baseline, run_around(path), names)
        notes.append(f"Computed on the baseline's stored answers: {', '.join(names)}.")
    age = age_note(run, baseline)
    if age is not None:
        notes.append(age)
    return baseline


def _computable_metrics(run: RunScores, baseline: RunScores, path: Path) -> list[str]:
    """The run's metrics that the baseline lacks, and that its stored answers are enough for.

    Computed for the baseline as well, they let two runs be compared by a metric that is newer than
    the baseline. Judged metrics are left out, as they would cost.
    """
    measured = {column.name for column in baseline.metrics}
    lacking = [column.name for column in run.metrics if column.name not in measured]
    # Metrics are loaded only where some are to be computed.
    if not lacking or not run_around(path).is_dir():  # a baseline file holds no answers
        return []
    from ragbench.metrics.registry import parse_metrics

    computable: list[str] = []
    for name in lacking:
        with suppress(ConfigError, MissingExtraError):  # a formula of the user's, or not at hand
            # One at a time: a name that cannot be loaded must not keep the others out.
            (metric,) = parse_metrics(name)
            if metric.definition.deterministic and not metric.is_judged:
                computable.append(name)
    return computable


def _with_computed_metrics(baseline: RunScores, path: Path, names: Sequence[str]) -> RunScores:
    """The baseline with more metrics, scored on its stored answers; the scores it has are kept.

    Args:
        path: the baseline's run folder.
        names: the names of the metrics to add.
    """
    from ragbench.metrics.plan import Plan
    from ragbench.metrics.registry import parse_metrics

    metrics = parse_metrics(",".join(names))
    # By the baseline's own matching: its other scores rest on it.
    plan = Plan(metrics, matching=Matching(baseline.matching))
    folder = RunFolder(path=path)
    summaries = SummaryBuilder(metrics)
    rows: list[tuple[Cell, ...]] = []
    # The journal that the run's scores were read from, also of a run that goes on.
    with Journal(folder.kept_journal) as journal:
        manifest = read_manifest(folder.manifest)
        # Without metrics: stored cells are not needed, only cases with their outcomes.
        stored = StoredTraces(journal=journal, manifest=manifest, metrics=(), with_texts=True)
        for window in journal.cases():
            cases = stored.rows(window)
            scored = plan.score([case.trace for case in cases])
            for case, cells in zip(cases, scored, strict=True):
                summaries.add(case.case, cells)
            rows += scored

    columns: list[MetricColumn] = []
    cells_of = dict(baseline.table.cells)
    for position, summary in enumerate(summaries.summaries()):
        metric = metrics[position]
        columns.append(MetricColumn.of(metric, summary.score))
        # By position: the cells and the baseline's table both have the dataset's order of cases.
        column_cells = [cells[position] for cells in rows]
        cells_of[metric.name] = Cells.of(column_cells, {})
    table = replace(baseline.table, cells=cells_of)
    return replace(baseline, metrics=(*baseline.metrics, *columns), cases=table)


OLD_DAYS = 90
"""A baseline that is older is warned of."""


def find_baseline(path: Path, run: RunScores, folders: Iterable[Path]) -> Path | None:
    """The folder of the latest earlier run of the same system on the same dataset; or None.

    A run with all of the judged run's metrics is preferred to a later one that lacks some. The
    dataset may have gained or lost cases since: those in common are compared.

    Args:
        path: the judged run, whose folder is no candidate.
        folders: where to look.
    """
    home = run_around(path)
    manifest_file = RunFolder(path=home).manifest
    if not manifest_file.is_file():
        return None
    written = manifest_file.stat().st_mtime  # what was written later is no earlier run
    candidates: list[tuple[bool, float, str, Path]] = []
    for folder, manifest, time in _other_runs(home, folders):
        is_same_dataset = manifest.dataset.name == run.dataset
        is_same_system = manifest.rag.name == run.rag
        if time >= written or not is_same_dataset or not is_same_system:
            continue
        versions = {metric.name: metric.version for metric in manifest.metrics}
        # By name: a metric that the candidate lacks does not exclude it, one of another version
        # does.
        shared = [column for column in run.metrics if column.name in versions]
        # A metric of another version is another formula, though it has the same name.
        is_alike = all(versions[column.name] == column.version for column in shared)
        if shared and is_alike and is_finished(folder):
            has_all = len(shared) == len(run.metrics)
            candidates.append((has_all, time, folder.name, folder))
    if not candidates:
        return None
    # Tuples compare from the left: a run with all metrics is preferred, then the latest one, and
    # the name decides a tie. The last element is the folder.
    *_, latest = max(candidates)
    return latest


def _other_runs(home: Path, folders: Iterable[Path]) -> Iterator[tuple[Path, Manifest, float]]:
    """The runs in some folders but for one: each with its manifest and when that was written.

    Folders that hold no readable run of ours are passed over: they can be no baseline.

    Args:
        home: the folder of the run that is left out.
    """
    # By resolved paths; the judged run is in it from the start.
    seen = {home.resolve()}  # a run may be reached by several folders, or by a link
    for folder in folders:
        if not folder.is_dir():
            continue
        for entry in sorted(folder.iterdir()):
            run_folder = RunFolder(path=entry)
            if entry.resolve() in seen or not run_folder.exists:
                continue
            seen.add(entry.resolve())
            try:
                manifest = read_manifest(run_folder.manifest)
            except RunMismatchError:  # not ours, or of another version: no candidate
                continue
            yield entry, manifest, run_folder.manifest.stat().st_mtime


def age_note(run: RunScores, baseline: RunScores) -> str | None:
    """The note on how many runs the baseline is made of, and how much older it is than the run.

    Seen from the run and not from today, so that the same files give the same verdict. None where
    there is nothing to note.
    """
    count = len(baseline.made_of)
    # None and 0 are both no age to speak of.
    days = _days_between(baseline.date, run.date)
    if count < 2 and not days:
        return None
    if count > 1:
        made = f"the mean of {count} runs"
        newest = "the newest"
    else:
        made = "one run"
        newest = "it"
    dates = [run.date for run in baseline.made_of]
    text = f"The baseline is {made}{span_text(dates)}"
    if days:
        length = "1 day" if days == 1 else f"{days:,} days"
        text += f"; {newest} is {length} older than this run"
    if days is not None and days > OLD_DAYS:
        return f"{text}. That is old: add today's main with: ragbench baseline add RUN"
    return f"{text}."


def _days_between(earlier: str | None, later: str | None) -> int | None:
    """Whole days between two dates in ISO form, for a note on a baseline's age.

    None where one date is unknown or no date, or the earlier one is later: clocks may differ.
    """
    if earlier is None or later is None:
        return None
    # With a time zone each: dates without one are of this machine's.
    try:
        start = datetime.fromisoformat(earlier).astimezone()
        end = datetime.fromisoformat(later).astimezone()
    except ValueError:  # a date that somebody wrote by hand
        return None
    if end < start:
        return None
    return (end - start).days
