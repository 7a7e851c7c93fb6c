"""Runs of main to a baseline: the first ones, and one more after each merge."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ragbench.core.case_table import Cells
from ragbench.core.history import MainRun
from ragbench.core.metric import Direction
from ragbench.core.outcome import Cell, Repeats
from ragbench.core.record import Record
from ragbench.core.run_scores import MetricColumn, RunScores, unchanged, under_ids_of
from ragbench.errors import ConfigError, RunMismatchError
from ragbench.gate.baseline_file import Baseline, runs_kept, with_runs
from ragbench.gate.comparable import check_one_system, scale_of
from ragbench.gate.config import GateConfig
from ragbench.gate.demands import comparable_columns
from ragbench.gate.drift import followed
from ragbench.gate.drops import paired
from ragbench.gate.figures import figures_of, with_both_figures
from ragbench.gate.labels import corrections
from ragbench.safe_text import counted
from ragbench.stats.decide import ChangeKind, RegressionQuestion, decide_family
from ragbench.stats.paired import pair

KEPT = 5
"""How many runs a run is compared with, if nobody says otherwise."""
MOST_KEPT = 20
"""A baseline of more runs would hardly be nearer to the truth, and is a larger file."""
_TOLERATED = GateConfig().max_drop
"""Share of a metric's scale that it may move, as in the gate."""
REMEMBERED = 100
"""Of how many runs the means are kept."""


class MainChange(Record):
    """A metric of main that is shown to be another one than in the runs before."""

    metric: str
    before: float
    """Mean over the cases that both measured; likewise ``after``."""
    after: float
    p_value: float
    """Corrected for all metrics and both directions."""
    is_loss: bool = False
    """Whether it went to the metric's worse side."""


class Added(Record):
    """What became of a run that was to be added."""

    baseline: Baseline
    is_known: bool = False
    """The run is in it already; nothing was changed but what people say of it."""
    other: str = ""
    """What differs so that scores do not compare; empty where they do."""
    changes: tuple[MainChange, ...] = ()
    """What is shown to have changed. Where it is for the better, and the run before was better,
    too, later runs are compared with these two; where something does not compare, with this run
    alone."""
    is_first: bool = False
    """The run is the first that is shown to be better: it is averaged with the others."""
    is_held: bool = False
    """The run is shown to be lower: later runs are compared with those before it, as they were."""
    dropped: int = 0
    """Cases that the baseline had and the run has not: later runs are not compared on them."""


def baseline_of(runs: Sequence[RunScores]) -> Baseline:
    """The baseline made of runs of one unchanged system, oldest first.

    The mean of several runs is nearer to the system's level than one run, which may be lucky.

    Raises:
        ConfigError: there are none or too many.
        RunMismatchError: the runs differ in system, cases or metrics, or a run is given twice.
    """
    if not 1 <= len(runs) <= MOST_KEPT:
        raise ConfigError(f"{counted(len(runs), 'run')}: a baseline is made of 1 to {MOST_KEPT}")
    if len(runs) > 1:
        check_one_system(runs)
    oldest = runs[0]
    # The oldest run alone makes the first baseline, which the others join.
    baseline = _with_run_joined(None, oldest, 1)
    drift = followed(None, oldest)
    # Each run is added as later runs of main are, but no change is tested: the user says that all
    # are of one system. With `MOST_KEPT`, each run given here stays in the mean.
    for run in runs[1:]:
        _check_names(baseline, run)
        reason = _incomparable(baseline, run) or _difference_of_runs(oldest, run)
        if reason:
            raise RunMismatchError(f"{run.source} does not compare with {oldest.source}: {reason}")
        # After the other checks: a run of another system has a clearer message.
        if _is_known(baseline, run):
            raise RunMismatchError(f"{run.source} is one of the other runs: give each run once")
        baseline = _with_run_joined(baseline, run, MOST_KEPT)
        drift = followed(drift, run, run.table.ids)
    return replace(baseline, drift=drift)


def check_kept(keep: int) -> None:
    """Refuses a number of runs that no baseline can be the mean of.

    More runs make the file larger, and the mean hardly better.

    Raises:
        ConfigError: it is out of range.
    """
    if not 1 <= keep <= MOST_KEPT:
        raise ConfigError(f"keep is {keep}: give 1 to {MOST_KEPT}")


def with_run(
    baseline: Baseline,
    run: RunScores,
    *,
    keep: int = KEPT,
    accept: bool = False,
    alpha: float = 0.05,
) -> Added:
    """Adds a run of main to a baseline, whose mean then leaves out the oldest above ``keep``.

    The mean of several runs describes main only while they are of one system. So where the run is
    shown to be better than those before, by more than the gate tolerates as a loss, in a figure
    that the gate holds, and worse in none, this gain is noted. Where the next run shows the gain as
    well, later runs are compared with these two: one lucky run would be a baseline that unchanged
    ones do not reach. A run that is shown to be worse is remembered, and the baseline stays: only a
    user who accepts the run lowers the baseline's level. Changes that chance can explain are
    averaged.

    Args:
        accept: later runs are compared with this run alone, whatever it lost.
    """
    check_kept(keep)
    _check_names(baseline, run)
    if accept:
        # The run may have been held aside before: it is accepted now, and not remembered twice.
        # Taken out before `_is_known` looks for the run, which would find the one that lay aside.
        baseline = _without_run_aside(baseline, run)
    if _is_known(baseline, run):
        # Only labels may be new of a run that is in already.
        return Added(baseline=_with_labels(baseline, _main_run(run)), is_known=True)

    baseline, _ = under_ids_of(run, baseline)  # a case may have another id now
    unchanged_ids = unchanged(run, baseline)
    # Cases of the baseline that this run does not have.
    dropped = int((run.table.places(baseline.table.ids) < 0).sum())
    links = _distances(baseline, run, unchanged_ids)
    reason = _incomparable(baseline, run)
    changes: tuple[MainChange, ...] = ()
    if not reason:
        changes = _shown_changes(baseline, run, unchanged_ids, alpha)
    gains = tuple(change.metric for change in changes if not change.is_loss)
    has_lost = len(gains) < len(changes)

    # The run alone makes the baseline: the user accepts whatever it lost, or the earlier runs do
    # not compare with it (`reason`).
    if accept or reason:
        alone = _with_run_joined(baseline, run, 1, links)
        return Added(
            # The record of drift begins anew as well.
            baseline=replace(alone, drift=followed(None, run)),
            other=reason,
            changes=changes,
            dropped=dropped,
        )

    if has_lost:
        # Remembered for the history of main, and not averaged: the level stays.
        # The run keeps its links, how far it lies from the run before: by them the history of main
        # can place it.
        run_aside = replace(_main_run(run), aside=True, linked=links)
        runs = _without_oldest((*baseline.runs, run_aside), baseline.kept)
        drift = followed(baseline.drift, run, unchanged_ids, is_aside=True)
        same_level = replace(baseline, runs=runs, drift=drift)
        return Added(baseline=same_level, changes=changes, is_held=True)

    newest = baseline.made_of[-1]
    # Better in the same metric as the run before it was.
    gained_twice = set(gains).intersection(newest.better)
    # With one run kept there is no level before that the second could confirm.
    is_new_level = bool(gained_twice) and baseline.kept > 1
    if is_new_level:
        keep = min(2, keep)  # the two runs that are better
        # Drift of these metrics begins anew: the step up must not hide a later fall.
        drift = followed(baseline.drift, run, unchanged_ids, anew=gained_twice)
    else:
        drift = followed(baseline.drift, run, unchanged_ids)
    joined = _with_run_joined(baseline, run, keep, links, gains)
    return Added(
        baseline=replace(joined, drift=drift),
        changes=changes,
        dropped=dropped,
        # Shown once: a lucky run, until the next confirms it.
        is_first=bool(changes) and not is_new_level,
    )


def _without_run_aside(baseline: Baseline, run: RunScores) -> Baseline:
    """The baseline without a run that lay aside because it was worse.

    When a user accepts that run, it is added anew and must not be remembered twice.
    """
    runs: list[MainRun] = []
    for earlier in baseline.runs:
        is_this = (earlier.date, earlier.commit) == (run.date, run.commit)
        if not (earlier.aside and is_this):
            runs.append(earlier)
    return replace(baseline, runs=tuple(runs))


def _with_labels(baseline: Baseline, run: MainRun) -> Baseline:
    """The baseline with the labels of people that one of its runs has by now.

    People label a run after it was added: the history of main then shows their figure.
    """
    if not run.people:
        return baseline
    # `_is_known` has found a run with this date.
    place = [earlier.date for earlier in baseline.runs].index(run.date)
    runs = [*baseline.runs]
    runs[place] = replace(runs[place], people=run.people)
    # Made of the runs again, since the facts of the baseline follow from them.
    return with_runs(baseline, runs, baseline.kept)


def _distances(baseline: Baseline, run: RunScores, unchanged_ids: set[str]) -> dict[str, float]:
    """By metric, how far a run lies from main's newest one, on the cases that both have.

    The history of main links its runs by these distances across a change of the cases. Empty where
    the cases are the same: then the means of the runs compare directly.
    """
    # The same fingerprint of the dataset: no case came, went or was edited.
    if baseline.runs[-1].cases == run.fingerprints.get("dataset"):
        return {}
    newest = baseline.made_of[-1]
    ids = [*unchanged_ids]
    places = baseline.table.places(ids).tolist()
    now = run.on(unchanged_ids)
    distances: dict[str, float] = {}
    for column in run.metrics:
        if column.no_mean or not baseline.measures(column):
            continue
        # Of the newest run alone, though the baseline's cells hold those of several.
        cells_of_cases = _newest_cells(baseline.cells(column.name), places, newest.repeats)
        before: dict[str, float | None] = {}
        for id_, cells in zip(ids, cells_of_cases, strict=True):
            # The mean of the times that the newest run asked the case.
            before[id_] = Repeats(cells=cells).mean.value
        differences = pair(before, now.values(column.name)).differences
        if len(differences):
            distances[column.name] = math.fsum(differences) / len(differences)
    return distances


def _without_oldest(runs: Sequence[MainRun], kept: int) -> tuple[MainRun, ...]:
    """The runs that a baseline remembers: the newest ones, and those of its mean, however old.

    A file that keeps every run would grow with each merge for ever.

    Args:
        kept: of how many runs the baseline has the scores.
    """
    places_not_aside = [place for place, run in enumerate(runs) if not run.aside]
    # The runs whose cells the baseline holds must stay in the list.
    places_with_scores = places_not_aside[-kept:]
    oldest_place = len(runs) - REMEMBERED
    remembered: list[MainRun] = []
    for place, run in enumerate(runs):
        if place >= oldest_place or place in places_with_scores:
            remembered.append(run)
    return tuple(remembered)


def _check_names(baseline: Baseline, run: RunScores) -> None:
    """Refuses a run of another dataset or system than the baseline's.

    The mean of two systems, or of two datasets, would mean nothing.

    Raises:
        RunMismatchError: with the command that starts a baseline of the run's own.
    """
    for kind, baseline_name, run_name in (
        ("dataset", baseline.dataset, run.dataset),
        ("system", baseline.rag, run.rag),
    ):
        if baseline_name == run_name:
            continue
        message = (
            f"{run.source} is a run of the {kind} {run_name}, and the baseline of "
            f"{baseline_name}: start a baseline of its own with: "
            f"ragbench baseline set {run.source} -o FILE"
        )
        # Without origins the run scored recorded answers: its system is called by their file.
        if kind == "system" and not run.origins:
            message += ". Recorded answers are of the system that their file is named for"
        raise RunMismatchError(message)


def _is_known(baseline: Baseline, run: RunScores) -> bool:
    """Whether a baseline already holds a run, so that adding it again changes nothing.

    Date and commit alone do not tell: in older files two runs may share a date, to the second.
    """
    # Without a date a run cannot be recognised.
    if run.date is None:
        return False
    new = _main_run(run)
    for earlier in baseline.runs:
        if (earlier.date, earlier.commit) != (new.date, new.commit):
            continue
        if (earlier.cases, earlier.judge) != (new.cases, new.judge):
            # The scores decide between runs of the same second.
            continue
        # A metric that only one of the two has says nothing of whether they are one run.
        common_names = earlier.scores.keys() & new.scores.keys()
        if all(earlier.scores[name] == new.scores[name] for name in common_names):
            return True
    return False


def _incomparable(baseline: Baseline, run: RunScores) -> str:
    """The reason why scores of a run and a baseline do not compare; empty where they do.

    A run that does not compare begins the baseline anew: a mean over both would mean nothing.
    """
    if scale_of(baseline.matching) != scale_of(run.matching):
        return f"relevant chunks are recognised by {run.matching}, before by {baseline.matching}"
    if baseline.fingerprints.get("judge") != run.fingerprints.get("judge"):
        return "another judge graded it"
    if not unchanged(run, baseline):
        return "no case is the same"
    return ""


def _difference_of_runs(oldest: RunScores, run: RunScores) -> str:
    """The reason why two runs do not show one system's noise; empty where they do.

    Runs that a user gives as one system's must have the same cases and formulas: other cases would
    be taken for noise. Later runs of main need not.
    """
    # As many cases, and all of them the same.
    has_same_cases = len(oldest.cases) == len(run.cases) == len(unchanged(oldest, run))
    if not has_same_cases:
        cases = counted(len(run.cases), "case")
        return f"it has {cases}, the oldest has {len(oldest.cases):,}, not all the same"
    if _formulas(oldest) != _formulas(run):
        return "it has other metrics"
    return ""


def _formulas(run: RunScores) -> set[str]:
    """The formulas of a run's metrics, each as name and version.

    Metrics without values of single cases are left out: a baseline does not hold them.
    """
    return {column.identity for column in run.metrics if column.has_cells}


def _main_run(run: RunScores) -> MainRun:
    """The entry of a run in the history of main: date, system, means and times, without its cases.

    People's figures are kept with their interval and number of labels. The entry is stored in
    baseline files: its fields are those of `MainRun`.
    """
    repeats = 1
    # The most that any cell was asked: a case may lack some times.
    for cells in run.table.cells.values():
        for cell_repeats in cells.repeats.values():
            repeats = max(repeats, len(cell_repeats.cells))
    people: dict[str, Sequence[float]] = {}
    for correction in corrections([("", run)]):
        interval = correction.interval
        # Only what is enough for an interval is kept for the history.
        if interval is not None:
            people[correction.metric] = [
                round(correction.corrected, 6),
                round(interval.low, 6),
                round(interval.high, 6),
                correction.labels,
            ]
    scores: dict[str, float] = {}
    for column in run.metrics:
        if column.has_cells and column.score is not None:
            scores[column.name] = column.score
    # Of cases that shared a call the time of a single one is not known.
    seconds = {latency.stage: latency.mean for latency in run.latencies if latency.sharing == 1}
    concurrency = run.latencies[0].concurrency if run.latencies else "1"
    return MainRun(
        date=run.date,
        commit=run.commit,
        dirty=run.dirty,
        cases=run.fingerprints.get("dataset"),
        judge=run.fingerprints.get("judge"),
        matching=scale_of(run.matching),
        repeats=repeats,
        seconds=seconds,
        concurrency=concurrency,
        scores=scores,
        people=people,
    )


def _without_old_formulas(baseline: Baseline, run: RunScores) -> list[MainRun]:
    """A baseline's earlier runs without the figures of metrics whose formula has changed since.

    The history of main would else show a new formula as a change of the system.
    """
    # A metric that the baseline lacks has no figure there, and loses none.
    changed_metrics = {column.name for column in run.metrics if not baseline.measures(column)}
    runs: list[MainRun] = []
    for earlier in baseline.runs:
        scores = dict(earlier.scores)
        for name in changed_metrics:
            scores.pop(name, None)
        runs.append(replace(earlier, scores=scores))
    return runs


def _with_run_joined(
    baseline: Baseline | None,
    run: RunScores,
    keep: int,
    links: Mapping[str, float] | None = None,
    better: tuple[str, ...] = (),
) -> Baseline:
    """The baseline with one more run of main; above ``keep`` runs, the oldest leave its mean.

    Cases that the run changed begin with it: their earlier scores are of another question.

    Args:
        baseline: None for a baseline of this run alone.
        links: how far the run lies from the one before, by metric.
        better: metrics in which the run is shown to be better.
    """
    if run.made_of:
        raise ConfigError(f"{run.source} is a baseline file: give the folder of a run")
    columns = [column for column in run.metrics if column.has_cells]
    newest = replace(_main_run(run), linked=links or {}, better=better)
    runs = [newest]
    kept = 1
    # Of the earlier runs that stay in the mean: how often they asked each case in all, and where
    # the baseline has each case of the new run.
    times_before = 0
    places_before: list[int] = []
    if baseline is not None:
        runs = [*_without_old_formulas(baseline, run), newest]
        kept = min(keep, baseline.kept + 1)
        # The new run takes one of the kept places: of the mean's runs, the newest `kept - 1` stay.
        kept_before = baseline.made_of[baseline.kept - kept + 1 :]
        times_before = sum(earlier.repeats for earlier in kept_before)
        places_before = _unchanged_places(baseline, run)
    # Runs of the mean are among them: `MOST_KEPT` is far below `REMEMBERED`.
    runs = runs[-REMEMBERED:]
    made_of = runs_kept(runs, kept)

    every_place = range(len(run.cases))
    cells: dict[str, Cells] = {}
    for column in columns:
        cells_of_cases = _newest_cells(run.cells(column.name), every_place, newest.repeats)
        if baseline is not None and kept > 1:
            places = places_before
            if not baseline.measures(column):
                # The scores of another formula are no scores of this metric.
                # -1 for every case: as if the earlier runs had not asked them.
                places = [-1] * len(places_before)
            earlier_cells = _newest_cells(baseline.cells(column.name), places, times_before)
            for place, earlier_cells_of_case in enumerate(earlier_cells):
                # Older times first, as in the file.
                cells_of_cases[place] = earlier_cells_of_case + cells_of_cases[place]
        cells[column.name] = Cells.repeated(cells_of_cases)
    # Labels of people and causes are facts of a run, and not of a mean of runs.
    facts: dict[str, Sequence[Any]] = {}
    for name in ("cluster", "tags", "language"):
        if run.table.fact(name):
            facts[name] = run.table.fact(name)
    joined = Baseline(
        source=run.source,
        dataset=run.dataset,
        rag=run.rag,
        commit=run.commit,
        dirty=run.dirty,
        matching=run.matching,
        fingerprints=run.fingerprints,
        metrics=tuple(_averaged(column, made_of) for column in columns),
        stages=run.stages,
        origins=run.origins,
        judge=run.judge,
        # Without texts: a baseline answers no question about single answers.
        cases=replace(run.table, facts=facts, cells=cells, texts=None),
        runs=(),  # `with_runs` adds them
    )
    return with_runs(joined, runs, kept)


def _unchanged_places(baseline: Baseline, run: RunScores) -> list[int]:
    """The position in a baseline of each case of a later run; -1 where it is missing or changed.

    The scores that the baseline has there are put before the run's, to be averaged with them.
    """
    unchanged_ids = unchanged(run, baseline)
    ids = run.table.ids
    places: list[int] = baseline.table.places(ids).tolist()
    for position, id_ in enumerate(ids):
        if id_ not in unchanged_ids:
            places[position] = -1
    return places


def _newest_cells(cells: Cells, places: Iterable[int], times: int) -> list[tuple[Cell | None, ...]]:
    """The newest cells of each case by a metric, padded with None to the same number.

    Every case has as many cells, so that those of several runs can be put one after the other.

    A cell is a metric's result for a case.

    Args:
        places: of the cases; -1 for one that is not there.
        times: how many of the last times.
    """
    cells_of_cases: list[tuple[Cell | None, ...]] = []
    for place in places:
        newest: tuple[Cell | None, ...] = ()
        if times and place >= 0:  # [-0:] would be all of them
            newest = cells.asked(place).cells[-times:]
        missing = [None] * (times - len(newest))
        cells_of_cases.append((*newest, *missing))
    return cells_of_cases


def _without_newest(before: RunScores, metric: str, times: int) -> RunScores:
    """A baseline whose scores of one metric lack those of its newest run.

    A second better run is compared with the level before the first one: against a mean that holds
    the first, its gain would look smaller.

    Args:
        times: how often the newest run asked each case.
    """
    table = before.cases
    cells = before.cells(metric)
    earlier_cells = [cells.asked(place).cells[:-times] for place in range(len(table))]
    cells_by_metric = {**table.cells, metric: Cells.repeated(earlier_cells)}
    earlier_table = replace(table, cells=cells_by_metric)
    return replace(before, cases=earlier_table)


def _averaged(column: MetricColumn, runs: Sequence[MainRun]) -> MetricColumn:
    """A metric whose figure is the mean of its figures in several runs.

    Reports then show one figure for the baseline, as for a run.
    """
    scores = [run.scores[column.name] for run in runs if column.name in run.scores]
    if not scores:
        return column
    if min(scores) == max(scores):  # a mean of equal numbers can differ in the last digit
        return replace(column, score=scores[0])
    return replace(column, score=math.fsum(scores) / len(scores))


def _shown_changes(
    baseline: Baseline, run: RunScores, unchanged_ids: set[str], alpha: float
) -> tuple[MainChange, ...]:
    """The metrics that a run is shown to have lost or gained in, of those that a gate holds.

    By these a baseline decides whether a run is averaged, held aside, or begins a new level. Both
    directions are tested as one family, so that a chance find is as rare as in a gate (see
    `ragbench.stats.decide`). A gain is looked for against the runs before the newest one where that
    was better already.
    """
    now = run.on(unchanged_ids)
    now, before = with_both_figures(now, baseline.beside(now))
    columns = list(figures_of(now, before, []))
    if not columns:
        columns = list(comparable_columns(now, before))
    newest = baseline.made_of[-1]
    questions: list[RegressionQuestion] = []
    subjects: list[tuple[str, bool]] = []
    for column in columns:
        if not before.measures(column):
            continue
        for direction in (Direction.HIGHER, Direction.LOWER):
            # Of a metric where more is better, the turn to LOWER asks for a gain.
            is_loss = column.direction is direction
            # A gain after a gain is measured from the level before both.
            earlier = before
            if not is_loss and column.name in newest.better and baseline.kept > 1:
                earlier = _without_newest(before, column.name, newest.repeats)
            # Turned around, a gain is a loss, which the same test shows.
            turned_column = replace(column, direction=direction)
            subjects.append((column.name, is_loss))
            questions.append(
                RegressionQuestion(
                    sample=paired(turned_column, now, earlier),
                    # A metric without a scale has no share of it that is tolerated.
                    tolerance=_TOLERATED * (column.scale or 0.0),
                    largest_drop=column.scale,
                )
            )
    if not questions:
        return ()
    decisions = decide_family(questions, alpha=alpha)
    changes: list[MainChange] = []
    # Questions, subjects and decisions pair by position.
    for (metric, is_loss), question, decision in zip(subjects, questions, decisions, strict=True):
        if decision.change is ChangeKind.WORSE:
            changes.append(
                MainChange(
                    metric=metric,
                    before=question.sample.before or 0.0,
                    after=question.sample.after or 0.0,
                    p_value=decision.p_worse,
                    is_loss=is_loss,
                )
            )
    return tuple(changes)
