"""Runs of main to a baseline: the first ones, and one more after each merge."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from ragbench.core.case_table import Cells
from ragbench.core.history import MainRun
from ragbench.core.metric import Direction
from ragbench.core.outcome import Cell, Repeats
from ragbench.core.record import Record
from ragbench.core.run_scores import MetricColumn, RunScores, unchanged, under_ids_of
from ragbench.errors import ConfigError, RunMismatchError
from ragbench.gate.baseline_file import Baseline, facts_of
from ragbench.gate.comparable import check_one_system, scale_of
from ragbench.gate.config import GateConfig
from ragbench.gate.demands import comparable_columns
from ragbench.gate.drift import followed
from ragbench.gate.drops import paired
from ragbench.gate.figures import figures_of, with_both_figures
from ragbench.gate.labels import corrections
from ragbench.stats.decide import ChangeKind, RegressionQuestion, decide_family
from ragbench.stats.paired import pair

KEPT = 5
"""How many runs a run is compared with, if nobody says otherwise."""
MOST_KEPT = 20
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
    """The baseline made of runs of one unchanged system, oldest first."""
    if not 1 <= len(runs) <= MOST_KEPT:
        raise ConfigError(f"{len(runs)} runs: a baseline is made of 1 to {MOST_KEPT}")
    if len(runs) > 1:
        check_one_system(runs)
    found = _joined(None, runs[0], 1)
    drift = followed(None, runs[0])
    for run in runs[1:]:
        _check_names(found, run)
        other = _incomparable(found, run) or _not_the_same(runs[0], run)
        if other:
            raise RunMismatchError(f"{run.source} does not compare with {runs[0].source}: {other}")
        if _is_known(found, run):
            raise RunMismatchError(f"{run.source} is one of the other runs: give each run once")
        found = _joined(found, run, MOST_KEPT)
        drift = followed(drift, run, run.table.ids)
    return replace(found, drift=drift)


def with_run(
    baseline: Baseline,
    run: RunScores,
    *,
    keep: int = KEPT,
    accept: bool = False,
    alpha: float = 0.05,
) -> Added:
    """Adds a run of main, and drops the oldest one above ``keep``.

    The mean of several runs describes main only while they are of one system. So where the run is
    shown to be better than those before, by more than the gate tolerates as a loss, in a figure
    that the gate holds, and worse in none, it is noted. Where the next run shows it as well, later
    runs are compared with these two: one lucky run would be a baseline that unchanged ones do not
    reach. Where the run is shown to be worse it is remembered, and the baseline stays: nothing
    lowers its level but somebody who accepts it. What chance can explain is averaged.

    Args:
        accept: later runs are compared with this run alone, whatever it lost.
    """
    if not 1 <= keep <= MOST_KEPT:
        raise ConfigError(f"keep is {keep}: give 1 to {MOST_KEPT}")
    _check_names(baseline, run)
    if accept:
        held = (run.date, run.commit)
        others = (one for one in baseline.runs if not one.aside or (one.date, one.commit) != held)
        baseline = replace(baseline, runs=tuple(others))
    if _is_known(baseline, run):
        return Added(baseline=_with_people(baseline, _main_run(run)), is_known=True)
    baseline, _ = under_ids_of(run, baseline)
    dropped = int((run.table.places(baseline.table.ids) < 0).sum())
    other, same = _incomparable(baseline, run), unchanged(run, baseline)
    changes = () if other else _changes(baseline, run, same, alpha)
    links = dict(_links(baseline, run, same))
    better = tuple(change.metric for change in changes if not change.is_loss)
    is_lower = len(better) < len(changes)
    if not (accept or other or is_lower):
        again = {*better}.intersection(baseline.made_of[-1].better)
        is_new = bool(again) and baseline.kept > 1
        joined = _joined(baseline, run, min(2, keep) if is_new else keep, links, better)
        anew = again if is_new else ()
        drift = followed(baseline.drift, run, same, anew=anew)
        return Added(
            baseline=replace(joined, drift=drift),
            changes=changes,
            dropped=dropped,
            is_first=bool(changes) and not is_new,
        )
    if not accept and is_lower:
        aside = (*baseline.runs, replace(_main_run(run), aside=True, linked=links))
        drift = followed(baseline.drift, run, same, is_aside=True)
        lower = replace(baseline, runs=_remembered(aside, baseline.kept), drift=drift)
        return Added(baseline=lower, changes=changes, is_held=True)
    alone = _joined(baseline, run, 1, links)
    known = None if accept or other else baseline.drift
    drift = followed(known, run, same, anew={change.metric for change in changes})
    return Added(
        baseline=replace(alone, drift=drift), other=other, changes=changes, dropped=dropped
    )


def _with_people(baseline: Baseline, run: MainRun) -> Baseline:
    """With what people say by now of a run that is in it."""
    if not run.people:
        return baseline
    at = [one.date for one in baseline.runs].index(run.date)
    runs = [*baseline.runs]
    runs[at] = replace(runs[at], people=run.people)
    return replace(baseline, **facts_of(runs, baseline.kept, len(baseline.cases)))


def _links(baseline: Baseline, run: RunScores, same: set[str]) -> Iterator[tuple[str, float]]:
    """How far a run lies from the newest one on the cases of both; nothing where they are alike."""
    if baseline.runs[-1].cases == run.fingerprints.get("dataset"):
        return
    asked, ids = baseline.made_of[-1].repeats, [*same]
    places, now = baseline.table.places(ids).tolist(), run.on(same)
    for column in run.metrics:
        if column.no_mean or not baseline.measures(column):
            continue
        known = _asked(baseline.cells(column.name), places, asked)
        then = {id_: Repeats(cells=each).mean.value for id_, each in zip(ids, known, strict=True)}
        found = pair(then, now.values(column.name))
        if count := len(found.differences):
            yield column.name, math.fsum(found.differences) / count


def _remembered(runs: Sequence[MainRun], kept: int) -> tuple[MainRun, ...]:
    """The newest, and those that the scores of the cases are from, however old."""
    scored = [place for place, run in enumerate(runs) if not run.aside][-kept:]
    most = len(runs) - REMEMBERED
    return tuple(run for place, run in enumerate(runs) if place >= most or place in scored)


_NAMED_BY_FILE = ". Recorded answers are of the system that their file is named for"


def _check_names(baseline: Baseline, run: RunScores) -> None:
    for what, theirs, mine in (
        ("dataset", baseline.dataset, run.dataset),
        ("system", baseline.rag, run.rag),
    ):
        if theirs != mine:
            raise RunMismatchError(
                f"{run.source} is a run of the {what} {mine}, and the baseline of {theirs}: start "
                f"a baseline of its own with: ragbench baseline set {run.source} -o FILE"
                + ("" if run.origins or what == "dataset" else _NAMED_BY_FILE)
            )


def _is_known(baseline: Baseline, run: RunScores) -> bool:
    """Whether the baseline holds a run; in older files two may share a date, to the second."""
    if run.date is None:
        return False
    mine = _main_run(run)
    facts = (mine.date, mine.commit, mine.cases, mine.judge)
    return any(
        (known.date, known.commit, known.cases, known.judge) == facts
        and all(mine.scores.get(name, score) == score for name, score in known.scores.items())
        for known in baseline.runs
    )


def _incomparable(baseline: Baseline, run: RunScores) -> str:
    if scale_of(baseline.matching) != scale_of(run.matching):
        return f"relevant chunks are recognised by {run.matching}, before by {baseline.matching}"
    if baseline.fingerprints.get("judge") != run.fingerprints.get("judge"):
        return "another judge graded it"
    if not unchanged(run, baseline):
        return "no case is the same"
    return ""


def _not_the_same(first: RunScores, run: RunScores) -> str:
    """What runs that are given as one system's do not share, though later runs of main need not."""
    if not len(first.cases) == len(run.cases) == len(unchanged(first, run)):
        return f"it has {len(run.cases):,} cases, there are {len(first.cases):,}, not all the same"
    metrics = [{c.identity for c in one.metrics if c.has_cells} for one in (first, run)]
    return "" if metrics[0] == metrics[1] else "it has other metrics"


def _main_run(run: RunScores) -> MainRun:
    asked = [len(r.cells) for one in run.table.cells.values() for r in one.repeats.values()]
    return MainRun(
        date=run.date,
        commit=run.commit,
        dirty=run.dirty,
        cases=run.fingerprints.get("dataset"),
        judge=run.fingerprints.get("judge"),
        matching=scale_of(run.matching),
        repeats=max(asked, default=1),
        seconds={one.stage: one.mean for one in run.latencies if one.sharing == 1},
        scores={c.name: c.score for c in run.metrics if c.has_cells and c.score is not None},
        people={
            one.metric: [round(one.corrected, 6), round(at.low, 6), round(at.high, 6), one.labels]
            for one in corrections([("", run)])
            if (at := one.interval) is not None
        },
    )


def _without_old_formulas(baseline: Baseline, run: RunScores) -> list[MainRun]:
    """The runs so far, less the figures of metrics that are computed in another way now."""
    changed = {column.name for column in run.metrics if not baseline.measures(column)}
    return [
        replace(each, scores={n: score for n, score in each.scores.items() if n not in changed})
        for each in baseline.runs
    ]


def _joined(
    baseline: Baseline | None,
    run: RunScores,
    keep: int,
    links: Mapping[str, float] | None = None,
    better: tuple[str, ...] = (),
) -> Baseline:
    """A run after those of a baseline, of which the oldest above ``keep`` are dropped."""
    if run.made_of:
        raise ConfigError(f"{run.source} is a baseline file: give the folder of a run")
    columns = [column for column in run.metrics if column.has_cells]
    runs, kept = [replace(_main_run(run), linked=links or {}, better=better)], 1
    every = range(len(run.cases))
    asked = {c.name: _asked(run.cells(c.name), every, runs[0].repeats) for c in columns}
    if baseline is not None:
        runs, kept = [*_without_old_formulas(baseline, run), *runs], min(keep, baseline.kept + 1)
        times = sum(one.repeats for one in baseline.made_of[baseline.kept - kept + 1 :])
        same = unchanged(run, baseline) if times else ()
        there = zip(run.table.ids, baseline.table.places(run.table.ids).tolist(), strict=True)
        places = [at if id_ in same else -1 for id_, at in there]
        for column in columns:
            at = places if baseline.measures(column) else [-1] * len(places)
            before = _asked(baseline.cells(column.name), at, times)
            both = zip(before, asked[column.name], strict=True)
            asked[column.name] = [(*then, *now) for then, now in both]
    facts = facts_of(runs[-REMEMBERED:], kept, len(run.cases))
    labels = {n: run.table.fact(n) for n in ("cluster", "tags", "language") if run.table.fact(n)}
    cells = {name: Cells.repeated(each) for name, each in asked.items()}
    return Baseline(
        source=run.source,
        dataset=run.dataset,
        rag=run.rag,
        matching=run.matching,
        fingerprints=run.fingerprints,
        metrics=tuple(_averaged(column, facts["made_of"]) for column in columns),
        stages=run.stages,
        origins=run.origins,
        judge=run.judge,
        cases=replace(run.table, facts=labels, cells=cells, texts=None),
        **facts,
    )


def _asked(cells: Cells, places: Iterable[int], times: int) -> list[tuple[Cell | None, ...]]:
    """What a metric gave the last times; as often None of cases that were asked less often."""
    known = (cells.asked(at).cells[-times:] if times and at >= 0 else () for at in places)
    return [(*each, *[None] * (times - len(each))) for each in known]


def _without_newest(before: RunScores, metric: str, times: int) -> RunScores:
    """A baseline with a metric's scores less those of its newest run, which asked so often."""
    cells = before.cells(metric)
    asked = [cells.asked(place).cells[:-times] for place in range(len(before.cases))]
    table = before.cases
    known = {**table.cells, metric: Cells.repeated(asked)}
    return replace(before, cases=replace(table, cells=known))


def _averaged(column: MetricColumn, runs: Sequence[MainRun]) -> MetricColumn:
    known = [run.scores[column.name] for run in runs if column.name in run.scores]
    if not known:
        return column
    is_same = min(known) == max(known)
    return replace(column, score=known[0] if is_same else math.fsum(known) / len(known))


def _changes(
    baseline: Baseline, run: RunScores, same: set[str], alpha: float
) -> tuple[MainChange, ...]:
    """What the gate holds, in both directions as one family; see `ragbench.stats.decide`.

    A gain is looked for against the runs before the newest one where that was better already.
    """
    now, before = with_both_figures(run.on(same), baseline.beside(run.on(same)))
    held = [*figures_of(now, before, [])] or [*comparable_columns(now, before)]
    times, known = baseline.made_of[-1].repeats, baseline.made_of[-1].better
    asked: list[tuple[str, bool, RegressionQuestion]] = []
    for column in filter(before.measures, held):
        for way in (Direction.HIGHER, Direction.LOWER):
            is_loss, then = column.direction is way, before
            if not is_loss and column.name in known and baseline.kept > 1:
                then = _without_newest(before, column.name, times)
            question = RegressionQuestion(
                sample=paired(replace(column, direction=way), now, then),
                tolerance=_TOLERATED * (column.scale or 0.0),
                largest_drop=column.scale,
            )
            asked.append((column.name, is_loss, question))
    if not asked:
        return ()
    decisions = decide_family([question for *_, question in asked], alpha=alpha)
    return tuple(
        MainChange(
            metric=name,
            before=question.sample.before or 0.0,
            after=question.sample.after or 0.0,
            p_value=decision.p_worse,
            is_loss=is_loss,
        )
        for (name, is_loss, question), decision in zip(asked, decisions, strict=True)
        if decision.change is ChangeKind.WORSE
    )
